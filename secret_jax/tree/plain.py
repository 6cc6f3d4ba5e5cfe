"""Round split thresholds to few digits without moving any training row.

A search finds a threshold somewhere between two rows. All numbers between them are as
good for the rows that grew the tree, so the split takes the one with the fewest digits,
and text, code and prediction agree on it.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.data.schema import TableSchema
from secret_jax.runtime.parallel import one_thread_for_products
from secret_jax.tree.routing import apply
from secret_jax.tree.structure import SplitKind, Tree
from secret_jax.tree.totals import leaf_totals, levels_of_splits
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
# Digits from which on a rounding moves few rows past others.
_SOME_DIGITS = 3
# Rows that show whether a column may hold whole numbers only.
_GLANCE = 64
# Powers of ten up to this one are exact in float64; so near to a half, as a share, a
# product does not tell to which side a decimal is rounded.
_EXACT, _CLOSE = 22, 1e-12
# Rows of few columns that NumPy reads as one.
_WIDE = 64
# Relative errors of a sum of float32, and of float64 numbers, for each of its terms.
_LOST_32, _LOST_64 = 2.0**-21, 2.0**-50
_Rounded = tuple[np.ndarray, np.float32]  # direction and threshold


class _Sides(NamedTuple):
    """Rows that a comparison sends both ways, those on its left first."""

    one: int
    x: np.ndarray  # (n_rows, n_columns), float32
    n_left: int


def with_plain_splits(tree: Tree, table: Table) -> Tree:
    """Round thresholds and directions of a tree as far as the rows that grew it allow.

    Each keeps its way (of more than 65,536 the first ones do), and a gate stays between
    them. The new schema knows which columns hold whole numbers only.
    """
    table = table.take(slice(min(len(table.codes), ROWS_LOOKED_AT))).on_host()
    leaf = apply(tree, table) if tree.n_leaves > 1 else None
    reach = _reach(table.x)
    schema = tree.schema
    tree = replace(tree, schema=replace(schema, whole=_whole(schema, table.x, reach)))
    if leaf is None:
        return tree
    order, start, stop = _in_slices(tree, leaf)
    table = table.take(order)
    alone, several = list[_Sides](), list[int]()
    free = ~tree.is_leaf & np.isfinite(tree.gain)  # others were fixed
    for node in np.flatnonzero(free).tolist():
        if (tree.further == node).any():
            several.append(node)
        else:
            n_left = stop[tree.left[node]] - start[node]
            alone.append(_Sides(node, table.x[start[node] : stop[node]], n_left))
    # Lanes that a product leaves empty may be anything.
    with one_thread_for_products(), np.errstate(invalid="ignore"):
        found = _plain(tree, alone, reach)
        for node in several:
            own = table.take(slice(start[node], stop[node]))
            found |= _plain_together(tree, node, own, reach)
    threshold, direction = tree.threshold.copy(), tree.direction.copy()
    for one, rounded in found.items():
        direction[one], threshold[one] = rounded
    return replace(tree, threshold=threshold, direction=direction)


def _reach(x: np.ndarray) -> np.ndarray:
    """Largest magnitude in every column, float32, in wide rows: short ones are slow."""
    n_wide, n_columns = len(x) // _WIDE, x.shape[1]
    wide = x[: n_wide * _WIDE].reshape(n_wide, _WIDE * n_columns)
    ends = [wide.max(axis=0, initial=0.0), wide.min(axis=0, initial=0.0)]
    rows = [*(end.reshape(_WIDE, n_columns) for end in ends), x[n_wide * _WIDE :]]
    return np.abs(np.concatenate(rows)).max(axis=0)


def _in_slices(tree: Tree, leaf: np.ndarray) -> tuple[np.ndarray, list[int], list[int]]:
    """Order of rows in which those of every node are a slice, and these slices."""
    length = leaf_totals(tree, np.bincount(leaf, minlength=tree.n_nodes))
    start = np.zeros(tree.n_nodes, int)
    for node in levels_of_splits(tree):
        left = tree.left[node]
        start[left], start[tree.right[node]] = start[node], start[node] + length[left]
    rank = np.argsort(np.argsort(start, kind="stable"), kind="stable")
    # Keys of one or two bytes are sorted by counting.
    key = rank.astype(np.min_scalar_type(tree.n_nodes)).take(leaf)
    return np.argsort(key, kind="stable"), start.tolist(), (start + length).tolist()


def _plain(tree: Tree, sides: list[_Sides], reach: np.ndarray) -> dict[int, _Rounded]:
    """Directions and thresholds of the comparisons of numbers that can be rounded."""
    sides = [own for own in sides if 0 < own.n_left < len(own.x)]
    axes = [own for own in sides if tree.kind[own.one] == SplitKind.AXIS]
    sums = [own for own in sides if tree.kind[own.one] == SplitKind.OBLIQUE]
    sums = [own for own in sums if tree.direction[own.one].any()]
    found = _plain_sums(tree, sums, reach) if sums else {}
    for own in axes:
        if (rounded := _plain_axis(tree, own)) is not None:
            found[own.one] = rounded
    return found


def _plain_together(
    tree: Tree, node: int, own: Table, reach: np.ndarray
) -> dict[int, _Rounded]:
    """Round the comparisons of a node that asks several, one after the other."""
    several, found = tree.comparisons_at(node), dict[int, _Rounded]()
    at, larger = np.full(len(own.x), 0), tree.larger_left[tree.node_of]
    holds = np.array([left_of(tree, larger, own, at + one) for one in several])
    for place, one in enumerate(several):
        # No row that fails one comparison may come to meet all of them.
        others = np.delete(holds, place, axis=0).all(axis=0)
        left, right = (
            np.flatnonzero(others & s) for s in (holds[place], ~holds[place])
        )
        x = own.x.take(np.append(left, right), axis=0)
        found |= _plain(tree, [_Sides(one, x, len(left))], reach)
        if one in found:
            holds[place] = own.x @ found[one][0] <= found[one][1]
    return found


def _whole(schema: TableSchema, x: np.ndarray, reach: np.ndarray) -> tuple[int, ...]:
    """Input columns that hold only integers, as far as float32 can tell."""

    def off(position: int, rows: slice) -> np.ndarray:
        center, scale = schema.center[position], schema.scale[position]
        value = center + scale * x[rows, position].astype(np.float64)
        for counted, indicator in schema.missing_columns:
            if counted == position:
                value = value[x[rows, indicator] == 0]
        # A missing value stands at the center, which need not be whole.
        value = value[value != center]
        return np.abs(value - np.rint(value))

    found = []
    for position, column in zip(
        schema.continuous_positions, schema.continuous, strict=True
    ):
        rounding = _ROUNDING * schema.scale[position] * (1.0 + reach[position])
        if rounding >= 0.1 or (off(position, slice(_GLANCE)) > rounding).any():
            continue
        fraction = off(position, slice(None))
        if len(fraction) and fraction.max() <= rounding:
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


def _plain_axis(tree: Tree, own: _Sides) -> _Rounded | None:
    """Round the threshold of a comparison of one attribute; None to keep it."""
    one, x, n_left = own
    schema, attribute = tree.schema, int(tree.attribute[one])
    direction, width = tree.direction[one], tree.gate_width[tree.node_of[one]]
    sign = direction[attribute]  # of a condition it may be -1
    indicator = dict(schema.missing_columns).get(attribute)
    if attribute not in schema.continuous_positions or abs(sign) != 1:
        return None  # indicators are asked whether they are there
    value = sign * x[:, attribute]
    below, above = value[:n_left], value[n_left:]
    if indicator is not None:
        there = x[:, indicator] == 0
        below, above = below[there[:n_left]], above[there[n_left:]]
    if not len(below) or not len(above):
        return None
    center, scale = float(sign) * schema.center[attribute], schema.scale[attribute]
    last, first = below.max(), above.min()
    low, high = center + scale * float(last), center + scale * float(first)
    margin = _MARGIN * (high - low)
    if schema.input_columns[attribute] in schema.whole and not width:
        low, high = round(low), round(high)
        # Rows hold this very number: however it is encoded, they go left.
        plain = float(math.floor(plain_number(low, high - 1)))
        plain += rounding_of_whole(plain, float(center))
    else:
        plain = plain_number(low + margin, high - margin)
    threshold = np.float32((plain - center) / scale)
    kept = last <= threshold < first
    if indicator is not None:
        counts_as = direction[indicator]
        kept &= bool(counts_as <= threshold) == bool(counts_as <= tree.threshold[one])
    return (direction, threshold) if kept else None


class _Factors(NamedTuple):
    """Sums with factors of one digit and of more; arrays of sums, by digits."""

    exact: np.ndarray  # (n_sums, n_digits, n_columns), float64
    direction: np.ndarray  # the same of length one, float32
    size: np.ndarray  # (n_sums, n_digits), float64: length of these before
    order: np.ndarray  # (n_sums, n_columns), int: the largest effects first
    # (n_sums, n_digits), float64: how far from the extreme of its side, along the
    # direction as it was, a row may lie and yet become one.
    window: np.ndarray


def _factors(tree: Tree, ones: list[int], reach: np.ndarray) -> _Factors:
    """Round the factors of sums; ``reach`` (n_columns,): largest numbers of rows."""
    direction = tree.direction[ones].astype(np.float64)[:, None]
    center, scale = tree.schema.center, tree.schema.scale
    first = np.abs(direction).argmax(axis=2)[:, :, None]
    unit = np.abs(np.take_along_axis(direction, first, axis=2) / scale[first])
    given = direction / scale / unit
    length = np.linalg.norm(given * scale, axis=2, keepdims=True)
    step = 10.0 ** -np.arange(1.0, _MOST_DIGITS + 1)[:, None] * length / scale
    places = -np.floor(np.log10(step)).astype(int)
    factor = _rounded(np.broadcast_to(given, places.shape), places)
    # One, or minus one.
    np.copyto(factor, given, where=np.arange(len(scale)) == first)
    # What rounding moves, and what float32 and float64 lose.
    moved = (np.abs(factor - given) * scale * unit) @ reach
    spread = np.abs(direction) @ reach + moved
    most = (np.abs(factor) * unit) @ (np.abs(center) + scale * reach)
    lost = (4 + len(scale)) * (_LOST_32 * spread + _LOST_64 * most)
    size = np.linalg.norm(factor * scale, axis=2)
    plain = (factor * scale / size[:, :, None]).astype(np.float32)
    order = np.argsort(-np.abs(direction[:, 0]), axis=1, kind="stable")
    return _Factors(factor, plain, size, order, 2.0 * moved + lost)


def _rounded(number: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Round numbers, each to places of its own, as Python does, which is slower."""
    unit, up = 10.0 ** np.minimum(np.abs(places), _EXACT), places >= 0
    counted = np.where(up, number * unit, number / unit)
    whole = np.rint(counted)
    found = np.where(up, whole / unit, whole * unit)
    close = np.abs(np.abs(counted - whole) - 0.5) < _CLOSE * (1 + np.abs(counted))
    close |= np.abs(places) > _EXACT
    found[close] = list(map(round, number[close].tolist(), places[close].tolist()))
    return found


def _plain_sums(
    tree: Tree, sides: list[_Sides], reach: np.ndarray
) -> dict[int, _Rounded]:
    """Round directions and thresholds of comparisons of sums, where that is possible.

    Only rows near the extremes of a side can become extremes, or change sides.
    """
    (center, scale), found = (tree.schema.center, tree.schema.scale), {}
    factors = _factors(tree, [own.one for own in sides], reach)
    for (one, rows, n_left), *of_digits in zip(sides, *factors, strict=True):
        exact, directions, sizes, order, window = of_digits
        distance = rows @ tree.direction[one]
        left, right = distance[:n_left], distance[n_left:]
        np.subtract(left.max(), left, out=left)
        right -= right.min()
        for first in (_SOME_DIGITS - 1, 0):
            near = np.flatnonzero(~(distance > window[first:].max()))
            x, last = rows.take(near, axis=0), near.searchsorted(n_left)
            total = (center + scale * x.astype(np.float64)) @ exact.T
            low, high = total[:last].max(axis=0), total[last:].min(axis=0)
            clear = np.flatnonzero(low < high).tolist()
            if not clear or clear[0] >= first:
                break
        for digit in clear:
            margin = _MARGIN * (high[digit] - low[digit])
            at = plain_number(low[digit] + margin, high[digit] - margin)
            # Offsets may be so large that it matters in which order they add up.
            at -= exact[digit, order] @ center[order]
            threshold = np.float32(at / sizes[digit])
            goes_left = x @ directions[digit] <= threshold
            if goes_left[:last].all() and not goes_left[last:].any():
                found[one] = directions[digit], threshold
                break
    return found
