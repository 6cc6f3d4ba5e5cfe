"""``secret-jax warmup``: compile before anybody waits for it."""

from __future__ import annotations

import argparse
import time

from secret_jax.cli.messages import CommandError, say
from secret_jax.cli.options import whole

_COLUMNS, _ROWS = (4, 8, 16), 4000


def add_warmup(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.set_defaults(run=warmup)
    parser.add_argument(
        "--columns",
        metavar="N",
        type=whole(2),
        nargs="+",
        default=list(_COLUMNS),
        help="numbers of columns of the tables to come, each is compiled for; "
        "indicators of categories count (default: 4 8 16)",
    )
    parser.add_argument(
        "--rows",
        metavar="N",
        type=whole(100),
        default=_ROWS,
        help="rows, roughly (default: %(default)s)",
    )


def warmup(arguments: argparse.Namespace) -> None:
    """Fit tables of made-up numbers, so that what they compile is kept."""
    if arguments.cache is False:
        raise CommandError("warmup without --cache keeps nothing; leave --no-cache out")
    import numpy as np

    from secret_jax.estimators.regressor import SecretRegressor
    from secret_jax.runtime.programs import keep_programs

    folder = keep_programs()
    if folder is None:
        raise CommandError("SECRET_JAX_CACHE says that no programs are kept")
    random = np.random.default_rng(0)
    for n_columns in arguments.columns:
        started = time.perf_counter()
        X = random.normal(size=(arguments.rows, n_columns))
        y = np.abs(X[:, 0] + X[:, 1]) + 0.1 * random.normal(size=arguments.rows)
        SecretRegressor(random_state=0).fit(X, y).predict(X)
        say(f"{n_columns} columns: {time.perf_counter() - started:.1f} s")
    size = sum(path.stat().st_size for path in folder.glob("*.program"))
    print(f"Programs are kept in {folder} ({size / 1e6:.1f} MB)")
