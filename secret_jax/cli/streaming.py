"""The commands for folders of Parquet that need not fit into memory.

Types are those of the files: what text means is not learned, as it is of a table.
"""

import argparse
import copy
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

from secret_jax.cli.evaluation import TREE, Score, score_table
from secret_jax.cli.messages import PROGRAM, CommandError, flags_for_parameters, say
from secret_jax.cli.reading.problems import known_column
from secret_jax.cli.training_table import check_names
from secret_jax.fit.prune.path import of_size
from secret_jax.stream.batches import Wanted
from secret_jax.stream.sources import BatchSource, PartOfRows, opened

# Options of fit that need all rows in memory, or cells of text.
_OF_TABLES = ("text", "number", "dates", "id", "na", "calibrate", "report")
_OF_TABLES += ("refit_all", "thousands", "decimal", "ignore_case", "distinct")
_OF_TABLES += ("sheet", "skip", "weight", "group", "time")


def fit_streamed(arguments: argparse.Namespace, model: Any) -> None:
    """Grow a tree on a folder of Parquet, and measure it on rows held out by a hash."""
    for name in _OF_TABLES:
        if getattr(arguments, name):
            raise CommandError(f"--{name.replace('_', '-')} does not go with --stream")
    target, share = arguments.target, arguments.test_fraction
    source = opened(arguments.file, Wanted((target,)))
    names = _features(source, arguments)
    source = opened(arguments.file, Wanted((target,), None, names))
    say(f"{source.n_rows:,} rows, {len(names)} columns in {arguments.file}")
    training, test = (
        PartOfRows(source, share, inside=inside, seed=arguments.seed)
        for inside in (False, True)
    )
    begun = perf_counter()
    with flags_for_parameters():
        model.fit_stream(training if share else source, target=target)
    seconds = perf_counter() - begun
    model.set_params(verbose=0)
    if arguments.out is not None:
        model.save(arguments.out)  # before printing, which may end in a closed pipe
    print(model.export_text().rstrip("\n"), flush=True)
    if share:
        print(f"\n{_error_table(model, test)}")
    say(f"fitted in {seconds:.1f} s")
    if arguments.out is None:
        say("nothing was saved; --out MODEL keeps the tree")
        return
    say(
        f"wrote {arguments.out}; use it: {PROGRAM} predict {arguments.out} DIR "
        "--stream --out FILE"
    )


def predict_streamed(arguments: argparse.Namespace, model: Any) -> None:
    """Write predictions for a folder of Parquet."""
    if arguments.out is None:
        raise CommandError("--stream writes Parquet; name the file with --out FILE")
    if arguments.interval is not None or arguments.leaf:
        raise CommandError("--interval and --leaf do not go with --stream")
    model.set_params(verbose=not arguments.quiet)
    n_rows = model.predict_stream(arguments.file, arguments.out, keep=arguments.keep)
    say(f"wrote {n_rows:,} predictions to {arguments.out}")


def _features(source: BatchSource, arguments: argparse.Namespace) -> tuple[str, ...]:
    """Name the columns to learn from."""
    first = next(source.batches(targets=False), None)
    if first is None:
        raise CommandError(f"{arguments.file!r} has no rows")
    columns = [*first.columns, arguments.target]
    check_names(arguments, lambda name, what: known_column(name, columns, what))
    names = tuple(name for name in first.columns if name not in arguments.drop)
    if not names:
        raise CommandError(f"no columns are left to predict {arguments.target!r} from")
    return names


def _error_table(model: Any, source: BatchSource) -> str:
    """Measure a tree and the equation of its root on rows, a batch at a time."""
    root = copy.copy(model)
    root.tree_ = of_size(model.tree_, 1)
    methods = {TREE: model, "one equation for all": root}
    center = model.tree_.schema.target_center
    n_rows, sums, squares = 0, np.zeros(2), np.zeros(2)
    for batch in source.batches():
        X, y = pd.DataFrame(dict(batch.columns)), batch.targets[:, 0]
        squares += [np.sum((one.predict(X) - y) ** 2) for one in methods.values()]
        sums += [np.sum(y - center), np.sum((y - center) ** 2)]
        n_rows += len(y)
    if not n_rows:
        raise CommandError("no row was held out; give another --test-fraction")
    mean, square = sums / n_rows
    scores: dict[str, Score] = {
        name: {"rmse": float(np.sqrt(error)), "r2": 1.0 - error / (square - mean**2)}
        for name, error in zip(methods, squares / n_rows, strict=True)
    }
    heading = f"Errors on {n_rows:,} rows held out by a hash of their content"
    return score_table(scores, heading)
