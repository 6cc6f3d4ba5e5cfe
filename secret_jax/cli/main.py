"""The command line ``secret-jax``: its options, how it runs, and what it tells.

Results go to standard output, progress and notes to standard error. A failure is one
line that says what to do, and a non-zero exit code. Everything slow is imported by the
command that needs it.
"""

import argparse
import ast
import csv
import functools
import os
import re
import sys
import warnings
from collections.abc import Sequence
from pkgutil import resolve_name
from typing import Any

from secret_jax.cli.messages import PROGRAM, QUIET, CommandError
from secret_jax.runtime.environment import VERSION, PackageError, imported

# Parameters whose options have other names; the others are named like them.
_FLAGS = {"categorical_features": "--categorical", "split_features": "--split-only"}
_FLAGS |= {"monotonic_cst": "--monotone", "random_state": "--seed"}
_WORDS = {
    "FILE": "a CSV (.csv.gz), Excel, Parquet or JSON file, or - for standard input",
    "TARGET": "the column to predict",
    "MODEL": "a file of fit --out",
    "LANGUAGE": "python, sql, onnx or dot",
}
_QUIET = "--quiet  print results, warnings and errors, but no progress and no notes"
# Options of a file: where the table is in it, and which cells are missing.
_READING = """
--sheet NAME  the sheet of an Excel file to read (default: the first)
--skip N  lines above the header, as of a title
--na CELL...  a cell that stands for nothing, beside the usual ones (empty, ?, -, NA)
"""
_COLUMNS = """
--drop A,B  columns to leave out
--id A,B  columns that only name the rows: they are left out
--text A,B  columns of categories, in which only empty cells are missing
--categorical A,B  columns of numbers that are categories
--ignore-case A,B  columns of categories in which case and blanks mean nothing
--number A,B  columns of numbers, even if they look like names of rows
--dates COLUMN:FORM...  a column of dates, and how they are written: sold:%%d.%%m.%%Y
--thousands MARK  what groups digits where that is not plain: , . ' or a blank
--decimal MARK  the decimal mark, likewise: , or .
--split-only A,B  columns to split on, but not in the models
--monotone A:+,B:-  columns with which predictions may only rise or fall: price:+,age:-
"""
_ROWS = """
--classes  the target is a class, although it is written as a number
--distinct  of rows that are the same in every column use one
--weight COLUMN  weights of the rows: how much each counts, in any unit
--group COLUMN  what a row belongs to, as a person: held out together, not split on
--time COLUMN  dates or numbers: the latest rows are held out
--test-fraction SHARE=0.2  share of the rows to measure the errors on
--calibrate SHARE=0.0  share of the rows that only say how wide intervals are; without,
 the rows that the errors are measured on do, unless --refit-all uses them up
--refit-all  after measuring grow the tree again, on all rows
--seed N=0  of all that is random
--out MODEL  save the model in this file
--report DIR  write report.html, tree.png and errors.json to this folder
"""
_MODEL = """
--model KIND=tree  tree or booster: one readable tree, or a sum of many
--preset NAME  start from the settings of a learner: accurate, paper, cart, guide, m5,
 retis or support
"""
# Parameters of the estimators: what is not given stays as it is there.
_PARAMETERS = """
--max-leaf-nodes VALUE  most leaves in growth, by the best splits; pruning leaves fewer
--max-depth VALUE  most splits on the path from the root to a leaf
--min-samples-leaf VALUE  fewest rows of a leaf: auto, a number, or a share as 0.1
--min-samples-split VALUE  fewest rows that are split, likewise: auto, 20 or 0.1
--leaf VALUE  models of the leaves: ridge (default), auto, simple, linear,
 constant, implied, m5, logistic
--oblique VALUE  whether splits may be inequalities in several columns: auto, yes, no
--splits VALUE  how splits are found: rss (default), secret, cart, guide, m5, phd,
 retis, support, conjunctive
--prune VALUE  how a subtree is chosen: auto, cross-validation, holdout, cart, m5,
 guide, icomp, aic, caic, bic or none
--pruning-tolerance VALUE  increase of the error allowed for half the numbers to read
--equation-tolerance VALUE  how far short equations may be from full ones
--refine VALUE  of the whole tree, after pruning: soft, blend or tao (default: none)
--distill VALUE  grow the tree again on what the trees of the folds say: yes or no
--loss VALUE  of leaf models: squared (default), absolute, poisson, gamma or auto
--missing-values VALUE  what missing numbers are: learn (default), mean or error
--class-weight VALUE  balanced, or a factor for each class, as in scikit-learn
--device VALUE  where to compute
"""
_PREDICT = f"""{_READING}
--keep A,B  columns of the file to write beside the predictions
--interval SHARE  also write lower and upper, between which such a share of rows lies
--leaf  also write the number of the leaf
--out FILE  a CSV file (default: standard output)
"""
_SHOW = f"""{_READING}
--rows N=5  how many rows of FILE to explain
--out CSV  write what each column adds to all rows of FILE
--plot PICTURE  also draw the model (PNG, PDF, SVG)
--max-depth N  deepest level to print
--precision N  significant digits
--max-terms N  most terms of an equation
--categories  print all categories of a split
"""
_DEMO = "--out PICTURE=secret_jax_demo.png  where the picture goes"
_EXPORT = """
--name NAME  of the function, or of the column of a query
--table TABLE  only with sql: a query on this table
--out FILE  a file (default: standard output)
"""
_ABOUT_COLUMNS = """Numbers with separators, units or signs of currencies, dates and
columns that only name the rows are found out, and what was found is said. Text is split
on, and in the equations as 0 or 1; dates are split on by year, month and weekday."""
_ABOUT_MODELS = """The parameters of secret_jax.SecretRegressor and SecretClassifier.
Names stand for values with options, as in Python: --splits
"RssSplits(max_split_features=2)", --prune "CostComplexity(alpha=3.5)"."""

# What each is for, what follows its name, and its options.
_COMMANDS = {
    "demo": ("grow a tree on data that is at hand", "", _DEMO),
    "fit": ("grow a tree on a table, and measure it", "FILE TARGET", _READING),
    "predict": ("predict with a saved model", "MODEL FILE", _PREDICT),
    "show": ("print a model, or explain rows", "MODEL [FILE]", _SHOW),
    "export": ("write a model as a program", "MODEL LANGUAGE", _EXPORT),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line with the arguments of the process, or others.

    Returns 0 for success, 1 for a fault of this program, 2 for something the user can
    mend, 130 after an interrupt from the keyboard.
    """
    argv = sys.argv[1:] if argv is None else argv
    try:
        parser = build_parser()
        arguments = parser.parse_args(argv)
        if arguments.command is None:
            parser.print_help(sys.stderr)
            return 2
        QUIET.set(arguments.quiet)
        with warnings.catch_warnings():  # those meant for users, as a line each
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            # The filter "once" forgets, where a library changes filters in between.
            tell = functools.cache(functools.partial(_tell, "warning"))
            warnings.showwarning = lambda message, *_, **__: tell(str(message))
            imported("pandas", "Tables", "data")
            resolve_name(f"secret_jax.cli.commands:{arguments.command}")(arguments)
            sys.stdout.flush()
        return 0
    except BrokenPipeError:  # the reader of a pipe (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        code, message = 130, "interrupted"
    except (PackageError, ValueError) as error:
        code, message = 2, str(error)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        code, message = 2, f"{where}{error.strerror or error}"
    except MemoryError:
        code, message = 2, "out of memory; fit a sample of the rows, or drop columns"
    except Exception as error:
        if os.environ.get("SECRET_JAX_DEBUG"):
            raise
        code, message = 1, f"a fault of {PROGRAM} itself: {type(error).__name__}: "
        message += f"{error}; SECRET_JAX_DEBUG=1 shows where, please report it"
    _tell("error", message)
    return code


def _tell(what: str, message: Any) -> None:
    line = " ".join(str(message).split())
    for name, flag in _FLAGS.items():
        line = re.sub(rf"\b{name}\b", flag, line)
    match = re.match(r"The '(--)?([\w-]+)' parameter of Secret\w+", line)
    if match:
        line = f"--{match[2].replace('_', '-')}{line[match.end() :]}"
    print(f"{PROGRAM}: {what}: {line}", file=sys.stderr, flush=True)


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line in one line, as every other failure."""

    def error(self, message: str):
        raise CommandError(f"{message}; see {self.prog} --help")


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    parser = _Parser(
        prog=PROGRAM,
        description="Readable regression trees with linear models in their leaves.",
        epilog=f"Start with: {PROGRAM} demo. Options: {PROGRAM} COMMAND --help",
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {VERSION}")
    _add(parser, _QUIET)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, (purpose, words, options) in _COMMANDS.items():
        about = f"{purpose.capitalize()}."
        one = commands.add_parser(name, help=purpose, description=about)
        for word in words.split():
            count: Any = {"nargs": "?"} if word == "[FILE]" else {}
            word = word.strip("[]")
            one.add_argument(word.lower(), metavar=word, help=_WORDS[word], **count)
        # Also after the command, where it takes no earlier one back.
        _add(one, _QUIET, default=argparse.SUPPRESS)
        _add(one, options)
        if name == "fit":
            _add(one.add_argument_group("columns", _ABOUT_COLUMNS), _COLUMNS)
            _add(one.add_argument_group("rows"), _ROWS)
            models = one.add_argument_group("model", _ABOUT_MODELS)
            _add(models, _MODEL)
            _add(models, _PARAMETERS, default=argparse.SUPPRESS)
    return parser


def _add(group: Any, table: str, **more: Any) -> None:
    """Add a table's options; what stands for a value says of which type it is."""
    for entry in re.split(r"\n(?=--)", table.strip()):
        option, purpose = " ".join(entry.split("\n")).split("  ", 1)
        flag, _, value = option.partition(" ")
        metavar, _, default = value.removesuffix("...").partition("=")
        kind, how = _TYPES.get(metavar, str), dict[str, Any](more)
        how |= {"metavar": metavar, "type": kind} if value else {"action": "store_true"}
        if metavar == "A,B" or value.endswith("..."):
            action = "extend" if metavar == "A,B" else "append"
            how |= {"action": action, "default": []}
        if default:
            how["default"], purpose = kind(default), f"{purpose} (default: {default})"
        group.add_argument(flag, help=purpose, **how)


def _names(text: str) -> list[str]:
    """Read names separated by commas; one with a comma stands in quotes."""
    return next(csv.reader([text], skipinitialspace=True), [])


def _directions(text: str) -> dict[str, int]:
    parts = [name.rpartition(":") for name in _names(text)]
    if all(name and sign in ("+", "-") for name, _, sign in parts):
        return {name: int(f"{sign}1") for name, _, sign in parts}
    raise argparse.ArgumentTypeError(
        "write 'price:+' where predictions may only rise with a column, 'price:-' "
        "where they may only fall"
    )


def _dates(text: str) -> tuple[str, str]:
    name, colon, form = text.partition(":%")
    if colon:
        return name, f"%{form}"
    raise argparse.ArgumentTypeError("write how dates look, as in 'sold:%d.%m.%Y'")


def _value(text: str) -> Any:
    """Read a word, a number, or a value as ``Ridge(clip_margin=0.2)``."""
    if text in _ANSWERS:
        return _ANSWERS[text]
    from secret_jax.runtime.values import value_class  # help does not wait for JAX

    try:
        node = ast.parse(text, mode="eval").body
        if not isinstance(node, ast.Call):
            return ast.literal_eval(node)
        fields = {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
        value = value_class(ast.unparse(node.func))(**fields)
        value.check()
        return value
    except ValueError as error:  # of a value that is checked, or of what is no literal
        if "parameter" in str(error):
            raise argparse.ArgumentTypeError(str(error)) from None
        return text
    except (SyntaxError, TypeError):
        return text


_ANSWERS = {"yes": True, "no": False, "none": None}
_TYPES = {
    "VALUE": _value,
    "N": int,
    "SHARE": float,
    "A,B": _names,
    "A:+,B:-": _directions,
    "COLUMN:FORM": _dates,
}
