"""A schema of one table."""

import numpy as np

from secret_jax.data.columns import ReadTable
from secret_jax.data.learning import ColumnOptions, Learner
from secret_jax.data.schema import TableSchema


def learn_schema(
    table: ReadTable,
    targets: np.ndarray,
    weight: np.ndarray,
    options: ColumnOptions,
    target_names: tuple[str, ...] = ("y",),
) -> TableSchema:
    """Learn a schema from rows given at once; arguments as of `Learner.add`."""
    learner = Learner(options, target_names)
    learner.add(table, targets, weight)
    return learner.schema()
