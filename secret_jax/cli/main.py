"""The command line ``secret-jax``: its commands, and how failures are told.

Results go to standard output, progress and notes to standard error. A failure is one
line that says what to do, and a non-zero exit code. Everything slow is imported by the
command that needs it, so that ``--help`` is quick.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from secret_jax import __version__
from secret_jax.cli import commands, options
from secret_jax.cli.demo import DEMO_PICTURE, demo
from secret_jax.cli.messages import PROGRAM, CommandError, quiet
from secret_jax.cli.warmup import add_warmup


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; by default those of the process.

    Returns
    -------
    int
        Exit code: 0 for success, 1 for a fault of this program, 2 for something the
        user can mend, 130 after an interrupt from the keyboard.
    """
    try:
        parser = _parser()
        arguments = parser.parse_args(argv)
        if arguments.command is None:
            parser.print_help(sys.stderr)
            return 2
        with _warnings_as_lines(), quiet(arguments.quiet):
            _keep_programs(arguments.cache)
            arguments.run(arguments)
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _fail(130, "interrupted")
    except BrokenPipeError:  # the reader of a pipe (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (CommandError, ValueError) as error:
        return _fail(2, str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(2, f"{where}{error.strerror or error}")
    except MemoryError:
        return _fail(2, "out of memory; fit a sample of the rows, or drop columns")
    except Exception as error:
        if os.environ.get("SECRET_JAX_DEBUG"):
            raise
        return _fail(
            1,
            f"a fault of {PROGRAM} itself: {type(error).__name__}: {error}; "
            "SECRET_JAX_DEBUG=1 shows where, please report it",
        )
    return 0


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line in one line, as every other failure."""

    def error(self, message: str):
        raise CommandError(f"{message}; see {self.prog} --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=PROGRAM,
        description="Readable regression trees with linear models in their leaves.",
        epilog=f"Start with: {PROGRAM} demo. Options of a command: {PROGRAM} COMMAND "
        "--help",
    )
    parser.add_argument(
        "--version", action="version", version=f"{PROGRAM} {__version__}"
    )
    _add_common_options(parser)
    parser.set_defaults(cache=None, quiet=False)
    # They may stand before the command or after it; there they have no default, which
    # would take the place of what was said before.
    common = _Parser(add_help=False)
    _add_common_options(common)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")

    def command(name: str, **words: Any) -> argparse.ArgumentParser:
        return subparsers.add_parser(name, parents=[common], **words)

    first = command("demo", help="grow a tree on data that is at hand")
    first.set_defaults(run=demo)
    first.add_argument(
        "--out",
        metavar="PICTURE",
        default=DEMO_PICTURE,
        help="where the picture goes (default: %(default)s)",
    )
    fit = command(
        "fit",
        help="grow a tree on a table",
        description="Grow a tree on a CSV, Parquet or Excel file. Prints the "
        "tree, and its errors on held-out rows beside ordinary least squares and "
        "scikit-learn's CART.",
        epilog="Columns of text or booleans are discrete: split on, and in the "
        "equations as 0 or 1 for each category if these have rows enough (see "
        "--indicators). Columns of dates are split on by year, month and weekday. All "
        "others are numbers: split on, and in the equations.",
    )
    fit.set_defaults(run=commands.fit)
    _add_fit_options(fit)
    options.add_saved_commands(command)
    add_warmup(
        command(
            "warmup",
            help="compile before anybody waits for it",
            description="Compile what tables of some widths need, and keep it on disk.",
        )
    )
    return parser


def _add_common_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cache",
        action=argparse.BooleanOptionalAction,
        default=argparse.SUPPRESS,
        help="keep compiled programs on disk (in the folder that SECRET_JAX_CACHE "
        "names, or the user's cache folder), so that the next run starts faster; it "
        "does unless told not to",
    )
    parser.add_argument(
        "--quiet",
        action="store_true",
        default=argparse.SUPPRESS,
        help="print results, warnings and errors, but no progress and no notes",
    )


def _keep_programs(wanted: bool | None) -> None:
    """Keep programs as ever, or nowhere; a folder asked for says why it cannot be."""
    if wanted is not None:
        from secret_jax.runtime.programs import keep_programs  # help does without JAX

        keep_programs(wanted)


def _add_fit_options(fit: argparse.ArgumentParser) -> None:
    fit.add_argument("file", metavar="FILE", help=options.FILE_HELP)
    fit.add_argument(
        "positional_target", metavar="TARGET", nargs="?", help="the column to predict"
    )
    fit.add_argument("-t", "--target", metavar="COLUMN", help="the same as TARGET")
    fit.add_argument(
        "--classes",
        action="store_true",
        help="the target is a class, although it may be written as a number; a target "
        "of text is one anyhow",
    )
    options.add_reading_options(fit)
    columns = fit.add_argument_group("columns")
    for flag, purpose in (
        ("--discrete", "columns of numbers that are categories"),
        ("--split-only", "columns to split on, but not to use in the models"),
        ("--drop", "columns to leave out"),
    ):
        columns.add_argument(
            flag,
            metavar="A,B",
            type=options.names,
            action="extend",
            default=[],
            help=purpose,
        )
    tree = fit.add_argument_group("tree")
    for flag, choices, purpose in (
        (
            "--oblique",
            ("auto", "yes", "no"),
            "splits on linear combinations of columns; auto tries both and keeps the "
            "better tree (default: auto)",
        ),
        (
            "--leaf",
            (
                *("ridge", "linear", "constant", "implied", "simple", "m5"),
                "logistic",
            ),
            "models in the leaves; kernel and local keep their rows, logistic goes "
            "with classes (default: ridge)",
        ),
        (
            "--splits",
            ("rss", "secret", "cart", "guide", "m5", "retis", "support", "phd"),
            "how splits are found: by linear models of both sides, by the paper's "
            "mixture, by the variance, by chi-squared tests of residual signs, by the "
            "standard deviation, by least squares at every threshold, by t tests of "
            "residual signs, along principal Hessian directions (default: rss)",
        ),
        (
            "--prune",
            (
                *("auto", "holdout", "cross-validation", "aic", "bic", "icomp"),
                *("cart", "guide", "m5", "none"),
            ),
            "prune by cross-validation, by the error on rows held out, by a criterion, "
            "by another learner's rule, or as many rows ask for (default: auto)",
        ),
        (
            "--refine",
            ("tao", "blend", "soft"),
            "refine the whole tree: its splits chosen again, every split a gate of one "
            "width, or gates and models trained together (the least error)",
        ),
    ):
        tree.add_argument(flag, choices=choices, help=purpose)
    for flag, purpose in (
        ("--min-samples-split", "a node with fewer rows is not split (default: auto)"),
        ("--min-samples-leaf", "fewest rows of a leaf (default: auto)"),
    ):
        tree.add_argument(
            flag,
            metavar="N",
            type=options.count_or_share,
            help=f"{purpose}; 0.05 means 5 %% of the rows",
        )
    tree.add_argument(
        "--max-split-features",
        metavar="N",
        type=options.whole(1),
        help="most columns in one split",
    )
    for flag, least, purpose in (
        ("--max-leaf-nodes", 1, "most leaves"),
        ("--max-depth", 0, "most splits in a row"),
    ):
        tree.add_argument(flag, metavar="N", type=options.whole(least), help=purpose)
    options.add_search_options(tree)
    tree.add_argument(
        "--paper",
        action="store_true",
        help="start from the settings of Dobra & Gehrke (2002), section 5",
    )
    run = fit.add_argument_group("run")
    run.add_argument(
        "--seed",
        metavar="N",
        type=options.whole(0),
        default=0,
        help="of everything that is random (default: %(default)s)",
    )
    run.add_argument(
        "--test-fraction",
        metavar="SHARE",
        type=options.real(0, below=1),
        default=0.2,
        help="share of the rows to measure the errors on; 0 measures none (default: "
        "%(default)s)",
    )
    run.add_argument(
        "--calibrate",
        metavar="SHARE",
        type=options.real(0, below=1),
        default=0.0,
        help="share of the rows that only say how wide intervals are; without, the "
        "rows that the errors are measured on do, unless --refit-all uses them up",
    )
    options.add_device_options(run)
    run.add_argument(
        "--refit-all",
        action="store_true",
        help="after measuring grow the tree again, on all rows; otherwise the tree "
        "that was measured is the one that is printed and saved",
    )
    run.add_argument("--out", metavar="MODEL", help="save the model in this file")
    run.add_argument(
        "--stream",
        action="store_true",
        help="FILE is a folder of Parquet files (or one) that need not fit into "
        "memory: it is read twice, a part at a time",
    )
    run.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="with --stream: keep in this folder how far the fit is, and go on from "
        "there",
    )
    run.add_argument(
        "--report",
        metavar="DIR",
        help="write report.html, report.txt, tree.png, errors.json to this folder",
    )


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Warnings meant for users as one line each; those for developers not at all."""

    told = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        line = _one_line(str(message))
        if line not in told:  # rows may be looked at more than once
            told.add(line)
            _tell(f"{PROGRAM}: warning: {line}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def _fail(code: int, message: str) -> int:
    _tell(f"{PROGRAM}: error: {_one_line(message)}")
    return code


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _one_line(message: str) -> str:
    return " ".join(message.split())


if __name__ == "__main__":
    sys.exit(main())
