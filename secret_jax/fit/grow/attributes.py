"""Random attributes for every node, as random forests draw them."""

import jax
import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.fit.grow.frontier import Frontier
from secret_jax.fit.grow.search import Execution, Found
from secret_jax.runtime.hashing import mix, random_numbers
from secret_jax.tree.structure import SplitKind

# Other random numbers than those of the finder, from the same key.
_OWN = np.uint64(0x61747472)


class AttributeDraw:
    """Searches every node on a few attributes, drawn at random for it alone.

    A node in which none of them gives a split is searched on the next ones, until there
    are none left, as in scikit-learn: an attribute that is constant in a node should
    not make it a leaf.

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
        place, n_allowed = self._order(level)
        found: Found | None = None
        todo = np.arange(len(level.node))
        first = 0
        while len(todo):
            drawn = (place[todo] >= first) & (place[todo] < first + self._most)
            part = level.take(todo)
            allowed = part.allowed & drawn[:, self._input]
            part = part._replace(allowed=allowed)
            searched = self._rows.find(part)
            again = searched.splits
            if found is None:
                found = searched
            else:
                for every, some in zip(
                    jax.tree.leaves(found.splits), jax.tree.leaves(again), strict=True
                ):
                    every[todo] = some
            first += self._most
            without = (again.kind == SplitKind.LEAF) & ~again.pure
            todo = todo[without & (n_allowed[todo] > first)]
        assert found is not None
        return found

    def _order(self, level: Frontier) -> tuple[np.ndarray, np.ndarray]:
        """Place of every input in a node's random order, and how many are allowed."""
        member = self._input[:, None] == np.arange(self._n_inputs)
        allowed = level.allowed @ member
        number = random_numbers(mix(level.key ^ _OWN), self._n_inputs)
        order = np.argsort(np.where(allowed, number, np.inf), axis=1, kind="stable")
        return np.argsort(order, axis=1), allowed.sum(axis=1)


def n_inputs(schema: TableSchema) -> int:
    """Input columns that trees may split on; a date is as many as it has parts."""
    return len({*schema.input_columns, *schema.discrete})
