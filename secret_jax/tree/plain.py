"""Round split thresholds to few digits without moving any training row.

A search finds a threshold somewhere between two rows. All numbers between them are as
good for the rows that grew the tree, so the split takes the one with the fewest digits,
and text, code and prediction agree on it.
"""

import math
from dataclasses import replace

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.data.schema import TableSchema
from secret_jax.tree.routing import paths_of
from secret_jax.tree.structure import SplitKind, Tree
from secret_jax.tree.walk import left_of

# A threshold keeps this share of the gap between the rows on its two sides from both.
_MARGIN = 0.1
# Digits of the factors of a sum, relative to the largest effect.
_MOST_DIGITS = 5
# Maximum number of rows that are checked: the first ones in hash order.
ROWS_LOOKED_AT = 1 << 16
# Relative rounding of encoded values, float32.
_ROUNDING = 1e-6
# That of a whole number on its way to an encoded value, with some slack; a split at it
# stays well before the next one.
_ROUNDING_OF_WHOLE, _MOST_BEYOND = 5e-7, 0.25
# Digits of a float64.
_ALL_DIGITS = 17
_Rounded = tuple[np.ndarray, np.float32] | None  # direction and threshold


def with_plain_splits(tree: Tree, table: Table) -> Tree:
    """Round thresholds and directions of a tree as far as the rows that grew it allow.

    Each keeps its way (of more than 65,536 the first ones do), and a gate stays between
    them. The new schema knows which columns hold whole numbers only.
    """
    table = table.take(slice(ROWS_LOOKED_AT)).on_host()
    x = table.x
    schema = replace(tree.schema, whole=_whole_columns(tree.schema, x))
    tree = replace(tree, schema=schema)
    if tree.n_leaves == 1:
        return tree
    threshold, direction = tree.threshold.copy(), tree.direction.copy()
    path = paths_of(tree, table)
    rows_of = {0: np.arange(len(x))}
    for node in np.flatnonzero(~tree.is_leaf).tolist():  # parents come first
        rows = rows_of.pop(node)
        here = x.take(rows, axis=0)
        left = path[tree.depth[node] + 1].take(rows) == tree.left[node]
        rows_of[tree.left[node]], rows_of[tree.right[node]] = rows[left], rows[~left]
        if not np.isfinite(tree.gain[node]):
            continue  # it was fixed
        several, holds = tree.comparisons_at(node), left[None]
        if len(several) > 1:
            at, own = np.full(len(rows), 0), table.take(rows)
            larger = tree.larger_left[tree.node_of]
            holds = np.array([left_of(tree, larger, own, at + i) for i in several])
        for place, one in enumerate(several):
            # No row that fails one comparison may come to meet all of them.
            others = np.delete(holds, place, axis=0).all(axis=0)
            if tree.kind[one] == SplitKind.DISCRETE:
                continue
            plain = _plain_axis if tree.kind[one] == SplitKind.AXIS else _plain_sum
            found = plain(tree, one, here[others], holds[place][others])
            if found is not None:
                direction[one], threshold[one] = found
                holds[place] = here @ found[0] <= found[1]
    return replace(tree, threshold=threshold, direction=direction)


def _whole_columns(schema: TableSchema, x: np.ndarray) -> tuple[int, ...]:
    """Input columns that hold only integers, as far as float32 can tell."""
    found = []
    for position, column in zip(
        schema.continuous_positions, schema.continuous, strict=True
    ):
        center, scale = schema.center[position], schema.scale[position]
        value = center + scale * x[:, position].astype(np.float64)
        for counted, indicator in schema.missing_columns:
            if counted == position:
                value = value[x[:, indicator] == 0]
        # A missing value stands at the center, which need not be whole.
        value = value[value != center]
        rounding = _ROUNDING * scale * (1.0 + np.abs(x[:, position]).max(initial=0.0))
        fraction = np.abs(value - np.rint(value))
        if len(value) and rounding < 0.1 and fraction.max() <= rounding:
            found.append(column)
    return tuple(found)


def rounding_of_whole(value: float, center: float) -> float:
    """Offset added to an integer threshold to allow for float32 rounding.

    >>> 29 + rounding_of_whole(29.0, 40.0)
    29.00003...
    """
    return min(_ROUNDING_OF_WHOLE * (abs(value) + abs(center)), _MOST_BEYOND)


def plain_number(low: float, high: float) -> float:
    """Decimal of fewest digits between two numbers, in the middle if possible.

    >>> plain_number(2.31, 2.39), plain_number(990.0, 1234.5), plain_number(2.0, 3.0)
    (2.35, 1000.0, 2.0)
    """
    middle = 0.5 * (low + high)
    if not low < high:
        return middle
    size = max(abs(low), abs(high), high - low)
    places = -math.ceil(math.log10(size)) if size > 0 else 0
    for digits in range(places, places + _ALL_DIGITS):
        value = round(middle, digits)
        if low <= value <= high:
            return value + 0.0
    return middle


def _plain_axis(tree: Tree, one: int, x: np.ndarray, left: np.ndarray) -> _Rounded:
    """Round the threshold of a comparison of one attribute; None to keep it."""
    schema, attribute = tree.schema, int(tree.attribute[one])
    direction, width = tree.direction[one], tree.gate_width[tree.node_of[one]]
    sign = direction[attribute]  # of a condition it may be -1
    value, there = sign * x[:, attribute], np.ones(len(x), bool)
    indicator = dict(schema.missing_columns).get(attribute)
    if attribute not in schema.continuous_positions or abs(sign) != 1:
        return None  # indicators are asked whether they are there
    if indicator is not None:
        there = x[:, indicator] == 0
    below, above = value[left & there], value[~left & there]
    if not len(below) or not len(above):
        return None
    center, scale = float(sign) * schema.center[attribute], schema.scale[attribute]
    low = center + scale * float(below.max())
    high = center + scale * float(above.min())
    margin = _MARGIN * (high - low)
    if schema.input_columns[attribute] in schema.whole and not width:
        low, high = round(low), round(high)
        # Rows hold this very number: however it is encoded, they go left.
        plain = float(math.floor(plain_number(low, high - 1)))
        plain += rounding_of_whole(plain, float(center))
    else:
        plain = plain_number(low + margin, high - margin)
    threshold = np.float32((plain - center) / scale)
    kept = np.array_equal(value[there] <= threshold, left[there])
    if indicator is not None:
        counts_as = direction[indicator]
        kept &= bool(counts_as <= threshold) == bool(counts_as <= tree.threshold[one])
    return (direction, threshold) if kept else None


def _plain_sum(tree: Tree, one: int, x: np.ndarray, left: np.ndarray) -> _Rounded:
    """Round direction and threshold of a comparison of a sum; None to keep it."""
    schema, direction = tree.schema, tree.direction[one].astype(np.float64)
    used = np.flatnonzero(direction)
    if not len(used) or left.all() or not left.any():
        return None
    used = used[np.argsort(-np.abs(direction[used]), kind="stable")]
    center, scale = schema.center[used], schema.scale[used]
    first = direction[used[0]] / scale[0]
    factor = direction[used] / scale / abs(first)
    value = center + scale * x[:, used].astype(np.float64)
    length = np.linalg.norm(factor * scale)
    for digits in range(1, _MOST_DIGITS + 1):
        step = 10.0**-digits * length / scale
        places = -np.floor(np.log10(step)).astype(int)
        plain = np.array(list(map(round, factor.tolist(), places.tolist())))
        plain[0] = factor[0]  # one, or minus one
        total = value @ plain
        low, high = total[left].max(), total[~left].min()
        if low >= high:
            continue
        margin = _MARGIN * (high - low)
        at = plain_number(low + margin, high - margin)
        size = np.linalg.norm(plain * scale)
        new = np.zeros(len(direction))
        new[used] = plain * scale / size
        new = new.astype(np.float32)
        threshold = np.float32((at - plain @ center) / size)
        with np.errstate(invalid="ignore"):  # of lanes that a product leaves empty
            same = np.array_equal(x @ new <= threshold, left)
        if same:
            return new, threshold
    return None
