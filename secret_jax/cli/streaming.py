"""The commands for folders of Parquet that need not fit into memory.

Types are those of the files: what text means is not learned, as it is of a table.
"""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from secret_jax.cli.messages import (
    PROGRAM,
    CommandError,
    check_output,
    flags_for_parameters,
    say,
)

if TYPE_CHECKING:
    from secret_jax.estimators.regressor import SecretRegressor
    from secret_jax.stream.sources import BatchSource

# Options of fit that need all rows in memory, or cells of text.
_OF_TABLES = ("text", "number", "dates", "id", "na", "calibrate", "report")
_OF_TABLES += ("refit_all", "thousands", "decimal", "ignore_case", "distinct")
_OF_TABLES += ("sheet", "skip")


def fit_streamed(arguments: argparse.Namespace, model: SecretRegressor) -> None:
    """Grow a tree on a folder of Parquet, and measure it on rows held out by a hash."""
    for name in _OF_TABLES:
        if getattr(arguments, name, None):
            flag = "--" + name.replace("_", "-")
            raise CommandError(f"{flag} does not go with --stream")
    if arguments.out is not None:
        check_output(arguments.out)
    from secret_jax.stream.batches import Wanted
    from secret_jax.stream.sources import PartOfRows, opened

    source = opened(arguments.file, Wanted((arguments.target,)))
    names = _features(source, arguments)
    source = opened(arguments.file, Wanted((arguments.target,), None, names))
    say(f"{source.n_rows:,} rows, {len(names)} columns in {arguments.file}")
    share, training = arguments.test_fraction, source
    if share:
        training = PartOfRows(source, share, inside=False, seed=arguments.seed)
    begun = perf_counter()
    with flags_for_parameters():
        model.fit_stream(
            training, target=arguments.target, checkpoint=arguments.checkpoint
        )
    seconds = perf_counter() - begun
    model.set_params(verbose=0)
    print(model.export_text().rstrip("\n"))
    if share:
        test = PartOfRows(source, share, inside=True, seed=arguments.seed)
        print(f"\n{_measured(model, test).text()}")
    say(f"fitted in {seconds:.1f} s")
    if arguments.out is None:
        say("nothing was saved; --out MODEL keeps the tree")
        return
    model.save(arguments.out)
    say(
        f"wrote {arguments.out}; use it: {PROGRAM} predict {arguments.out} DIR "
        "--stream --out FILE"
    )


def predict_streamed(arguments: argparse.Namespace, model: SecretRegressor) -> None:
    """Write predictions for a folder of Parquet."""
    if arguments.out is None:
        raise CommandError("--stream writes Parquet; name the file with --out FILE")
    if arguments.interval is not None or arguments.leaf:
        raise CommandError("--interval and --leaf do not go with --stream")
    model.set_params(verbose=not arguments.quiet)
    n_rows = model.predict_stream(arguments.file, arguments.out, keep=arguments.keep)
    say(f"wrote {n_rows:,} predictions to {arguments.out}")


def _features(source: BatchSource, arguments: argparse.Namespace) -> tuple[str, ...]:
    from secret_jax.cli.reading.problems import known_column

    first = next(source.batches(0, targets=False), None)
    if first is None:
        raise CommandError(f"{arguments.file!r} has no rows")
    columns = [*first.columns, arguments.target]
    for flag in ("discrete", "split_only", "drop"):
        for name in getattr(arguments, flag):
            known_column(name, columns, f"--{flag.replace('_', '-')} names")
            if name == arguments.target:
                raise CommandError(f"{name!r} is the target; name it in no other role")
    names = tuple(name for name in first.columns if name not in arguments.drop)
    if not names:
        raise CommandError(f"no columns are left to predict {arguments.target!r} from")
    return names


class _Measured(NamedTuple):
    """Errors on rows that were held out."""

    n_rows: int
    tree: float
    linear: float
    variance: float

    def text(self) -> str:
        """A small table."""
        lines = [f"Errors on {self.n_rows:,} rows held out by a hash of their content"]
        lines.append(f"{'':<24}{'RMSE':>12}{'R²':>9}")
        for name, error in (
            ("SECRET tree", self.tree),
            ("one equation for all", self.linear),
        ):
            r2 = 1.0 - error / self.variance if self.variance else float("nan")
            lines.append(f"{name:<24}{np.sqrt(error):>12.5g}{r2:>9.4f}")
        return "\n".join(lines)


def _measured(model: SecretRegressor, source: BatchSource) -> _Measured:
    """Mean squared errors of the tree and of the equation of its root."""
    from secret_jax.data.encoding import encoded, matched
    from secret_jax.stream.chunks import chunks_of
    from secret_jax.tree import routing
    from secret_jax.tree.walk import values_at

    tree = model.tree_
    schema = tree.schema
    n_rows, sums, center = 0, np.zeros(4), schema.target_center
    for chunk in chunks_of(source):
        with chunk.placing():
            found = matched(schema, chunk.columns, asked=tree.asked_attributes)
        table, y = encoded(schema, found), chunk.targets[:, 0]
        root = values_at(tree, table, np.zeros(len(y), int))
        alone = schema.restore_targets(root)
        off = y - center
        sums += [
            np.sum((routing.predict(tree, table) - y) ** 2),
            np.sum((alone - y) ** 2),
            np.sum(off),
            np.sum(off**2),
        ]
        n_rows = chunk.stop
    if not n_rows:
        raise CommandError("no row was held out; give another --test-fraction")
    mean = sums[2] / n_rows
    variance = sums[3] / n_rows - mean**2
    return _Measured(n_rows, sums[0] / n_rows, sums[1] / n_rows, variance)
