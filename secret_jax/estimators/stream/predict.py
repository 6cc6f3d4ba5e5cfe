"""Predict rows that are read in batches, and write them as Parquet."""

import itertools
import os
from collections.abc import Iterator
from typing import Any

from secret_jax.data.encoding import Unencoded, matched
from secret_jax.estimators.stream.sources import BatchSource
from secret_jax.runtime.optional import imported
from secret_jax.runtime.progress import Progress
from secret_jax.tree import routing
from secret_jax.tree.file import replacing
from secret_jax.tree.structure import Tree

_NAME = "prediction"


def predict_stream(
    tree: Tree,
    source: BatchSource,
    out: str | os.PathLike[str],
    keep: tuple[str, ...],
    progress: Progress,
) -> int:
    """Write the predictions of a tree for all rows of a source."""
    pa, parquet = (
        imported(module, "Parquet files", "data")
        for module in ("pyarrow", "pyarrow.parquet")
    )
    names = [_NAME]
    if tree.n_outputs > 1:
        names = [f"{_NAME} of {name}" for name in tree.schema.target_names]

    def tables() -> Iterator[Any]:
        for batch in source.read("predicting", progress, targets=False):
            with batch.with_row_context():
                predicted = _predicted(tree, batch.columns, keep)
            columns = {name: pa.array(batch.columns[name]) for name in keep}
            yield pa.table(columns | dict(zip(names, predicted, strict=True)))

    others, n_rows = tables(), 0
    with replacing(out) as file:
        nothing = pa.table({name: pa.array([], pa.float64()) for name in names})
        first = next(others, nothing)
        with parquet.ParquetWriter(file, first.schema) as writer:
            for table in itertools.chain([first], others):
                writer.write_table(table.cast(first.schema))
                n_rows += table.num_rows
    return n_rows


def _predicted(tree: Tree, columns: dict[str, Any], keep: tuple[str, ...]) -> list[Any]:
    """Predict a batch: one array per output."""
    schema = tree.schema
    its = schema.input_names
    chosen = {
        name: column
        for name, column in columns.items()
        if name in its or (not schema.named and name not in keep)
    }
    given: Any = chosen if schema.named else list(chosen.values())
    found = matched(schema, given, asked=tree.asked_attributes)
    value = routing.predict(tree, Unencoded(schema, found))
    return [value] if value.ndim == 1 else list(value.T)
