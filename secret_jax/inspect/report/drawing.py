"""Small drawings in squares as paths of SVG: points, lines, dots with whiskers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from secret_jax.inspect.class_errors import Bin
from secret_jax.inspect.plot.style import evenly_spaced
from secret_jax.inspect.printing import number, short_number

_WHISKERS = 2.0  # standard errors to either side


class Tick(NamedTuple):
    """A mark of an axis: its place in the drawing, and what is written there."""

    place: float
    label: str


class Chart(NamedTuple):
    """A drawing in a square.

    Attributes
    ----------
    size : int
        Of the square, in pixels.
    across, up : str
        Names of the axes.
    across_ticks, up_ticks : list of Tick
        From the left, and from the lower end.
    reference : str
        SVG path of a thin line to compare with.
    points, line : str
        SVG paths.
    dots : list of tuple of float
        Each with the ends of a vertical whisker: x, y, low, high.
    n_points : int
    """

    size: int
    across: str
    up: str
    across_ticks: list[Tick]
    up_ticks: list[Tick]
    reference: str
    points: str = ""
    line: str = ""
    dots: Sequence[tuple[float, float, float, float]] = ()
    n_points: int = 0


def ticks(low: float, high: float, length: float, most: int = 4) -> list[Tick]:
    """Place round numbers between two ends along a length.

    Examples
    --------
    >>> [tick.label for tick in ticks(0.3, 10.2, 100)]
    ['2.5', '5', '7.5', '10']
    """
    span = high - low
    if not span > 0:
        return [Tick(length / 2, short_number(low))]
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(f * power for f in (1, 2, 2.5, 5, 10, 20) if span / (f * power) <= most)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [
        Tick(round(length * (i * step - low) / span, 1), short_number(i * step))
        for i in range(first, last + 1)
    ]


def fit_chart(predicted: np.ndarray, actual: np.ndarray, size: int, most: int) -> Chart:
    """Draw actual against predicted values of at most so many rows, evenly chosen."""
    chosen = evenly_spaced(len(actual), most)
    x, y = predicted[chosen], actual[chosen]
    ends = _ends(np.r_[x, y])
    marks, diagonal = ticks(*ends, size), f"M0 {size}L{size} 0"
    return Chart(
        *(size, "predicted", "actual", marks, marks, diagonal),
        points=_points(x, y, ends, ends, size),
        n_points=len(chosen),
    )


def residual_chart(
    predicted: np.ndarray, residual: np.ndarray, size: int, most: int
) -> Chart:
    """Draw residuals against predicted values of at most so many rows."""
    chosen = evenly_spaced(len(residual), most)
    x, y = predicted[chosen], residual[chosen]
    across, up = _ends(x), _ends(np.r_[y, 0.0])
    zero = size * (1 - (0.0 - up[0]) / (up[1] - up[0]))
    return Chart(
        *(size, "predicted", "actual minus predicted"),
        *(
            ticks(*across, size),
            ticks(*up, size),
            f"M0 {number(round(zero, 1))}h{size}",
        ),
        points=_points(x, y, across, up, size),
        n_points=len(chosen),
    )


def calibration_chart(bins: Sequence[Bin], size: int, name: str) -> Chart:
    """Draw shares by bins of the probability, with two standard errors."""
    dots = [
        tuple(
            round(size * share, 1)
            for share in (
                one.predicted,
                1 - one.observed,
                1 - max(one.observed - _WHISKERS * one.error, 0.0),
                1 - min(one.observed + _WHISKERS * one.error, 1.0),
            )
        )
        for one in bins
    ]
    line = np.array([[one.predicted, one.observed] for one in bins])
    return _of_shares(f"probability of {name}", "share of the rows", line, dots, size)


def roc_chart(points: np.ndarray, size: int, name: str) -> Chart:
    """Draw the receiver operating characteristic, at most a point for each pixel."""
    line = points[evenly_spaced(len(points), size)]
    across, up = "share of the others above a threshold", f"share of {name} above it"
    return _of_shares(across, up, line, [], size)


def _of_shares(across: str, up: str, line: np.ndarray, dots: list, size: int) -> Chart:
    marks, diagonal = ticks(0.0, 1.0, size), f"M0 {size}L{size} 0"
    path = "L".join(
        f"{number(round(size * x, 1))} {number(round(size * (1 - y), 1))}"
        for x, y in line.tolist()
    )
    return Chart(size, across, up, marks, marks, diagonal, "", f"M{path}", dots)


def _ends(values: np.ndarray) -> tuple[float, float]:
    """Ends of an axis: those of the values, with a margin."""
    low, high = float(values.min()), float(values.max())
    margin = 0.03 * (high - low) or 1.0
    return low - margin, high + margin


def _points(
    x: np.ndarray,
    y: np.ndarray,
    across: tuple[float, float],
    up: tuple[float, float],
    size: int,
) -> str:
    """Write points as a path: a line of no length with round ends is a point."""
    right = np.round(size * (x - across[0]) / (across[1] - across[0]), 1)
    down = np.round(size * (up[1] - y) / (up[1] - up[0]), 1)
    pairs = zip(right.tolist(), down.tolist(), strict=True)
    return "".join(f"M{number(a)} {number(b)}h0" for a, b in pairs)
