"""Random attributes for every node, as random forests draw them."""

import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.fit.grow.execution import Execution, Found
from secret_jax.fit.grow.frontier import Frontier
from secret_jax.runtime.hashing import mix, random_numbers
from secret_jax.splits.interface import write_nodes
from secret_jax.tree.structure import SplitKind

# Other random numbers than those of the finder, from the same key.
_OWN = np.uint64(0x61747472)


class AttributeDraw:
    """Searches every node on a few attributes, drawn at random for it alone.

    A node in which none of them gives a split is searched on all others: an attribute
    that is constant in a node should not make it a leaf.

    ``max_features``: attributes of a draw, of those that the root allows; None: all of
    them.
    """

    def __init__(self, rows: Execution, schema: TableSchema, max_features: int | None):
        self._rows, self._most = rows, max_features
        # A column goes along with the indicators of its missing values or categories.
        inputs = np.array([*schema.input_columns, *schema.discrete], int)
        self._input = np.unique(inputs, return_inverse=True)[1]
        self._n_inputs = n_inputs(schema)

    def find(self, level: Frontier) -> Found:
        """Splits of the nodes of a level; see `Execution.find`."""
        if self._most is None or self._most >= self._n_inputs or not len(level.node):
            return self._rows.find(level)
        member = self._input[:, None] == np.arange(self._n_inputs)
        number = random_numbers(mix(level.key ^ _OWN), self._n_inputs)
        number = np.where(level.allowed @ member, number, np.inf)
        order = np.argsort(number, axis=1, kind="stable")
        drawn = (np.argsort(order, axis=1) < self._most)[:, self._input]
        found = self._rows.find(level._replace(allowed=level.allowed & drawn))
        others = level.allowed & ~drawn
        without = (found.splits.kind == SplitKind.LEAF) & ~found.splits.pure
        without &= others.any(axis=1)
        if without.any():
            again = self._rows.find(level._replace(allowed=others).take(without))
            write_nodes(found.splits, without, again.splits)
        return found


def n_inputs(schema: TableSchema) -> int:
    """Input columns that trees may split on; a date is as many as it has parts."""
    return len({*schema.input_columns, *schema.discrete})
