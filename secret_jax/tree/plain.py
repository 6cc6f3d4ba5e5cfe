"""Round split thresholds to few digits without moving any training row.

A search finds a threshold somewhere between two rows. All numbers between them are as
good for the rows that grew the tree, so the split takes the one with the fewest digits,
and text, code and prediction agree on it.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.data.schema import TableSchema
from secret_jax.runtime.parallel import one_thread_for_products
from secret_jax.tree.routing import apply
from secret_jax.tree.structure import SplitKind, Tree
from secret_jax.tree.totals import in_slices
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
# Rows of few columns that NumPy reads as one.
_WIDE = 64
# Relative errors of a sum of float32, and of float64 numbers, for each of its terms:
# eight roundings, of two projections and two checks, and slack. A device adds up in
# another order: it may send a row within a float32 step of a threshold the other way,
# while statistics are those of before. Errors of terms rather cancel than add up there,
# so gaps that are narrower than what is lost in one term are left alone.
_LOST_32, _LOST_64, _MORE_TERMS = 8 * 2.0**-24, 8 * 2.0**-53, 4
_Rounded = tuple[np.ndarray, np.float32]  # direction and threshold


def with_plain_splits(tree: Tree, table: Table) -> Tree:
    """Round thresholds and directions of a tree as far as the rows that grew it allow.

    Each keeps its way (of more than 65,536 the first ones do), and a gate stays between
    them. The new schema knows which columns hold whole numbers only.
    """
    table = table.take(slice(ROWS_LOOKED_AT)).on_host()
    # By the tree as it came: what sends its rows may be made already (`once`).
    leaf = apply(tree, table) if tree.n_leaves > 1 else None
    reach = _reach(table.x)
    whole = _whole_columns(tree.schema, table.x, reach)
    tree = replace(tree, schema=replace(tree.schema, whole=whole))
    if leaf is None:
        return tree
    order, start, stop = in_slices(tree, leaf)
    table = table.take(order)
    threshold, direction = tree.threshold.copy(), tree.direction.copy()
    free = ~tree.is_leaf & np.isfinite(tree.gain)  # others were fixed
    # Lanes that a product leaves empty may be anything.
    with one_thread_for_products(), np.errstate(invalid="ignore"):
        for node in np.flatnonzero(free).tolist():
            rows = table.take(slice(start[node], stop[node]))
            n_left = stop[tree.left[node]] - start[node]
            for one, rounded in _plain_node(tree, node, rows, n_left, reach):
                direction[one], threshold[one] = rounded
    return replace(tree, threshold=threshold, direction=direction)


def _plain_node(
    tree: Tree, node: int, rows: Table, n_left: int, reach: np.ndarray
) -> Iterator[tuple[int, _Rounded]]:
    """Round the comparisons of a node, several one after the other."""
    several = tree.comparisons_at(node)
    if len(several) == 1:
        rounded = _plain(tree, node, rows.x, n_left, reach)
        if rounded is not None:
            yield node, rounded
        return
    at, larger = np.full(len(rows.x), 0), tree.larger_left[tree.node_of]
    holds = np.array([left_of(tree, larger, rows, at + one) for one in several])
    for place, one in enumerate(several):
        # No row that fails one comparison may come to meet all of them.
        others = np.delete(holds, place, axis=0).all(axis=0)
        left = np.flatnonzero(others & holds[place])
        right = np.flatnonzero(others & ~holds[place])
        x = rows.x.take(np.append(left, right), axis=0)
        rounded = _plain(tree, one, x, len(left), reach)
        if rounded is not None:
            yield one, rounded
            holds[place] = rows.x @ rounded[0] <= rounded[1]


def _plain(
    tree: Tree, one: int, x: np.ndarray, n_left: int, reach: np.ndarray
) -> _Rounded | None:
    """Round a comparison, given its rows, those on its left first; None to keep it."""
    if not 0 < n_left < len(x):
        return None
    if tree.kind[one] == SplitKind.AXIS:
        return _plain_axis(tree, one, x, n_left)
    if tree.kind[one] == SplitKind.OBLIQUE and tree.direction[one].any():
        return _plain_sum(tree, one, x, n_left, reach)
    return None


def _reach(x: np.ndarray) -> np.ndarray:
    """Largest magnitude in every column; many rows as one, as short ones are slow."""
    n_wide, n = len(x) // _WIDE, x.shape[1]
    wide = x[: n_wide * _WIDE].reshape(n_wide, _WIDE * n)
    most = np.maximum(wide.max(axis=0, initial=0.0), -wide.min(axis=0, initial=0.0))
    rest = np.abs(x[n_wide * _WIDE :])
    return np.concatenate([most.reshape(_WIDE, n), rest]).max(axis=0)


def _whole_columns(
    schema: TableSchema, x: np.ndarray, reach: np.ndarray
) -> tuple[int, ...]:
    """Input columns that hold only integers, as far as float32 can tell."""
    found = []
    for position, column in zip(
        schema.continuous_positions, schema.continuous, strict=True
    ):
        center, scale = schema.center[position], schema.scale[position]
        rounding = _ROUNDING * scale * (1.0 + reach[position])
        if not rounding < 0.1:
            continue
        for rows in (x[:_GLANCE], x):
            value = center + scale * rows[:, position].astype(np.float64)
            for counted, indicator in schema.missing_columns:
                if counted == position:
                    value = value[rows[:, indicator] == 0]
            # A missing value stands at the center, which need not be whole.
            value = value[value != center]
            fraction = np.abs(value - np.rint(value)).max(initial=0.0)
            if not fraction <= rounding:
                break
        else:
            found += [column] if len(value) else []
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


def _plain_axis(tree: Tree, one: int, x: np.ndarray, n_left: int) -> _Rounded | None:
    """Round the threshold of a comparison of one attribute; None to keep it."""
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


def _factors(
    direction: np.ndarray, center: np.ndarray, scale: np.ndarray, reach: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Factors of a sum, of one digit and of more, (n_digits, n_columns).

    Also how far from the extreme of its side, along the direction as it was, a row of
    numbers up to ``reach`` may lie and yet become one, and which gap of the sum float32
    might close, (n_digits,). Columns come in the order of their effects.
    """
    unit = abs(direction[0] / scale[0])
    exact = direction / scale / unit
    step = 10.0 ** -np.arange(1.0, _MOST_DIGITS + 1)[:, None]
    step = step * np.linalg.norm(exact * scale) / scale
    places = -np.floor(np.log10(step)).astype(int)
    plain = map(round, exact.tolist() * _MOST_DIGITS, places.ravel().tolist())
    factor = np.fromiter(plain, float).reshape(places.shape)
    factor[:, 0] = exact[0]  # one, or minus one
    # What rounding moves, and what float32 and float64 lose.
    moved = (np.abs(factor - exact) * scale * unit) @ reach
    spread = np.abs(direction) @ reach + moved
    most = (np.abs(factor) * unit) @ (np.abs(center) + scale * reach)
    lost, n_terms = _LOST_32 * spread, len(scale) + _MORE_TERMS
    return factor, 2.0 * moved + n_terms * (lost + _LOST_64 * most), lost / unit


def _plain_sum(
    tree: Tree, one: int, rows: np.ndarray, n_left: int, reach: np.ndarray
) -> _Rounded | None:
    """Round direction and threshold of a comparison of a sum; None to keep it.

    Only rows near the extreme of a side can become one, or change sides.
    """
    direction = tree.direction[one]
    # Offsets may be so large that it matters in which order they add up.
    order = np.argsort(-np.abs(direction), kind="stable")
    used = order[: np.count_nonzero(direction)]
    center, scale = tree.schema.center[used], tree.schema.scale[used]
    effect = direction[used].astype(np.float64)
    factors, window, least = _factors(effect, center, scale, reach[used])
    distance = rows @ direction
    left, right = distance[:n_left], distance[n_left:]
    np.subtract(left.max(), left, out=left)
    right -= right.min()
    for fewest in (_SOME_DIGITS - 1, 0):
        near = np.flatnonzero(~(distance > window[fewest:].max()))
        x, last = rows.take(near, axis=0), near.searchsorted(n_left)
        total = (center + scale * x[:, used].astype(np.float64)) @ factors.T
        low, high = total[:last].max(axis=0), total[last:].min(axis=0)
        clear = np.flatnonzero(high - low > least).tolist()
        if not clear or clear[0] >= fewest:
            break
    for digit in clear:
        margin = _MARGIN * (high[digit] - low[digit])
        at = plain_number(low[digit] + margin, high[digit] - margin)
        factor, new = factors[digit], np.zeros_like(direction)
        size = np.linalg.norm(factor * scale)
        new[used] = factor * scale / size
        threshold = np.float32((at - factor @ center) / size)
        goes_left = x @ new <= threshold
        if goes_left[:last].all() and not goes_left[last:].any():
            return new, threshold
    return None
