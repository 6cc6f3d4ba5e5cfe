"""The command line ``secret-jax``: how it runs, and how failures are told.

Results go to standard output, progress and notes to standard error. A failure is one
line that says what to do, and a non-zero exit code. Everything slow is imported by the
command that needs it.
"""

import os
import re
import sys
import warnings
from collections.abc import Sequence
from pkgutil import resolve_name
from typing import Any

from secret_jax.cli.messages import PROGRAM, QUIET
from secret_jax.cli.parser import build_parser
from secret_jax.runtime.optional import PackageError, imported

# Parameters whose options have other names; the others are named like them.
_FLAGS = {"categorical_features": "--categorical", "split_features": "--split-only"}
_FLAGS |= {"monotonic_cst": "--monotone", "random_state": "--seed"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line with the arguments of the process, or others.

    Returns the exit code: 0 for success, 1 for a fault of this program, 2 for something
    the user can mend, 130 after an interrupt from the keyboard.
    """
    argv = sys.argv[1:] if argv is None else argv
    try:
        parser = build_parser()
        arguments = parser.parse_args(argv)
        if arguments.command is None:
            parser.print_help(sys.stderr)
            return 2
        QUIET.set(arguments.quiet)
        with warnings.catch_warnings():  # those meant for users, once, as a line each
            warnings.simplefilter("ignore")
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = lambda message, *_, **__: _tell("warning", message)
            imported("pandas", "Tables", "data")
            resolve_name(arguments.run)(arguments)
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _fail(130, "interrupted")
    except BrokenPipeError:  # the reader of a pipe (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (PackageError, ValueError) as error:
        return _fail(2, str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(2, f"{where}{error.strerror or error}")
    except MemoryError:
        return _fail(2, "out of memory; fit a sample of the rows, or drop columns")
    except Exception as error:
        if os.environ.get("SECRET_JAX_DEBUG"):
            raise
        message = f"a fault of {PROGRAM} itself: {type(error).__name__}: {error}"
        return _fail(1, f"{message}; SECRET_JAX_DEBUG=1 shows where, please report it")
    return 0


def _fail(code: int, message: str) -> int:
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
