"""Splits that the user fixes before a fit, from the root down."""

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.columns import listed
from secret_jax.data.schema import Role, TableSchema
from secret_jax.runtime.values import is_real
from secret_jax.splits.interface import NO_COMPARISON, Comparison, Split
from secret_jax.tree.structure import SplitKind

_FORM = (
    "a split of fixed_splits is (column, threshold) or (column, [categories]), with up "
    "to two more: what is fixed on the left and on the right, or None"
)


class FixedSplits(NamedTuple):
    """Some splits, each with the positions of those below it."""

    comparison: Comparison  # with a leading axis of splits
    # (n_splits, 2), int: position of the split of the left and the right child; -1: it
    # is searched.
    below: np.ndarray

    def put(self, splits: Split, position: np.ndarray) -> Split:
        """Replace found splits; -1 keeps one. Their gain is infinite: none is cut."""
        chosen, own = position >= 0, position[position >= 0]
        changed = {name: np.array(getattr(splits, name)) for name in Split._fields[:8]}
        fields = self.comparison._asdict()
        subset = fields.pop("goes_left")
        for name, array in fields.items():
            changed[name][chosen] = array[own]
        changed["goes_left"][chosen] = False  # beyond the categories is padding
        changed["goes_left"][chosen, : subset.shape[1]] = subset[own]
        changed["gain"][chosen], changed["pure"][chosen] = np.inf, False
        further = []
        for one in splits.further:
            further.append(Comparison(*map(np.array, one)))
            for array, nothing in zip(further[-1], NO_COMPARISON, strict=True):
                array[chosen] = nothing
        return splits._replace(**changed, further=tuple(further))


def fixed_splits_of(given: Any, schema: TableSchema) -> FixedSplits | None:
    """Encode splits as the user writes them; None without any.

    Raises
    ------
    ValueError
        If one has another form, or names an unknown column or category.
    """
    if given is None:
        return None
    n_categories = max(map(len, schema.categories), default=0)
    found: list[list[Any]] = []

    def add(split: Any) -> int:
        if split is None:
            return -1
        if not isinstance(split, list | tuple) or not 2 <= len(split) <= 4:
            raise ValueError(f"{_FORM}. Got {split!r}.")
        position, one = len(found), _encoded(split[0], split[1], schema, n_categories)
        found.append(one)
        below = [add(each) for each in split[2:]]
        one.append([*below, -1, -1][:2])
        return position

    add(given)
    *arrays, below = (np.array(each) for each in zip(*found, strict=True))
    return FixedSplits(Comparison(*arrays), below)


def columns_of_fixed(given: Any) -> set[str]:
    """Names of the columns of splits as the user writes them; forms are not checked."""
    if not isinstance(given, list | tuple):
        return set()
    column, _, *below = (*given, None, None)
    own = {column} if isinstance(column, str) else set()
    return own.union(*map(columns_of_fixed, below))


def _encoded(column: Any, at: Any, schema: TableSchema, n_categories: int) -> list[Any]:
    if not isinstance(column, str) or column not in schema.names:
        raise ValueError(
            f"fixed_splits names {column!r}, but there is no such column. The columns "
            f"are {listed(schema.names)}."
        )
    position = schema.names.index(column)
    direction = np.zeros(schema.n_columns, np.float32)
    goes_left = np.zeros(n_categories, bool)
    if schema.roles[position] is Role.DISCRETE:
        attribute = schema.discrete.index(position)
        categories = schema.categories[attribute]
        chosen = at if isinstance(at, list | tuple) else [at]
        for one in chosen:
            if not isinstance(one, Hashable) or one not in categories:
                raise ValueError(
                    f"fixed_splits sends {one!r} of column {column!r} to the left, but "
                    f"its categories are {listed([*map(str, categories)])}."
                )
            goes_left[categories.index(one)] = True
        kind, threshold = SplitKind.DISCRETE, np.float32(0.0)
    else:
        levels = schema.origin(position).levels
        at = levels.index(at) if isinstance(at, str) and at in levels else at
        if not is_real(at) or not np.isfinite(at):
            raise ValueError(
                f"fixed_splits splits column {column!r} at {at!r}. Give a number"
                f"{f', or one of {listed(levels)}' if levels else ''}: rows up to it "
                "go left."
            )
        attribute = schema.position_of(position)
        center, scale = schema.center[attribute], schema.scale[attribute]
        kind, threshold = SplitKind.AXIS, np.float32((at - center) / scale)
        direction[attribute] = 1.0
    return [np.int32(kind), np.int32(attribute), direction, threshold, goes_left]
