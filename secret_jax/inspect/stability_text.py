"""What resamples say of a tree, in words and a table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from secret_jax.inspect.printing import counted_leaves, number, quoted
from secret_jax.losses.classes import class_in_words

if TYPE_CHECKING:
    from secret_jax.inspect.stability import Stability

_MOST_SETS = 2
_HEADER = ("column", "split on", "at the root", "in the tree", "where")


def summary(stability: Stability) -> str:
    """The leaves, roots and predictions of resamples, and a line for every column."""
    return "\n".join(_lines(stability))


def _lines(stability: Stability) -> Iterator[str]:
    leaves = stability.n_leaves
    yield f"{stability.n_resamples} resamples, each with a tree of its own"
    yield (
        f"size: {leaves.min()} to {leaves.max()} leaves, half of them up to "
        f"{number(float(np.median(leaves)))}; the tree itself has "
        f"{counted_leaves(stability.n_leaves_original)}"
    )
    same = f"{stability.equal_roots:.0%}"
    yield f"root: split on the same columns as the tree's in {same}"
    yield from _predictions(stability)
    order = stability.order()
    if not len(order):
        yield "no tree splits on any column"
        return
    rows = [_HEADER, *(_row(stability, int(column)) for column in order)]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    yield ""
    for row in rows:
        first = row[0].ljust(widths[0])
        shares = [row[i].rjust(widths[i]) for i in range(1, 4)]
        yield "  ".join([first, *shares, row[4]]).rstrip()


def _predictions(stability: Stability) -> Iterator[str]:
    """How far the trees predict apart."""
    told = zip(stability.target_names, stability.deviation.tolist(), strict=True)
    if math.isnan(stability.equal_classes):
        for name, deviation in told:
            yield (
                f"predictions of {name}: they differ between the trees by "
                f"{number(deviation, 2)} of the target's standard deviation"
            )
        return
    yield (
        f"classes: for {stability.equal_classes:.0%} of the rows a tree of a resample "
        "predicts the class that the tree predicts"
    )
    for name, deviation in told:
        yield (
            f"probability of {quoted(class_in_words(name))}: it differs between the "
            f"trees by {number(100 * deviation, 2)} percentage points"
        )


def _row(stability: Stability, column: int) -> tuple[str, ...]:
    return (
        stability.names[column],
        f"{stability.used[column]:.0%}",
        f"{stability.at_root[column]:.0%}",
        "yes" if stability.in_original[column] else "no",
        _where(stability, stability.names[column]),
    )


def _where(stability: Stability, name: str) -> str:
    """The thresholds of a column of numbers, or the most frequent sets."""
    if name in stability.sets:
        sets = list(stability.sets[name].items())
        shown = [
            f"{{{', '.join('missing' if v is None else str(v) for v in chosen)}}} {n}x"
            for chosen, n in sets[:_MOST_SETS]
        ]
        more = len(sets) - _MOST_SETS
        return ", ".join(shown) + (f", {more} others" if more > 0 else "")
    found = stability.thresholds.get(name)
    if found is None:
        return ""
    low, middle, high = (
        number(float(value), 4) for value in np.quantile(found, [0.1, 0.5, 0.9])
    )
    own = sorted(stability.original.thresholds.get(name, []))
    of_tree = ", ".join(number(value, 4) for value in own)
    place = f"{low} to {high}, median {middle}"
    return f"{place}; the tree's {of_tree}" if own else place
