"""Small drawings as paths of SVG: points, bars, ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from secret_jax.inspect.class_errors import Bin
from secret_jax.inspect.printing import number, short_number


class Tick(NamedTuple):
    """A mark of an axis: its place in the drawing, and what is written there."""

    place: float
    label: str


class Scatter(NamedTuple):
    """Points in a square of which both axes have the same range.

    Attributes
    ----------
    size : int
        Of the square, in pixels.
    points : str
        Of an SVG path.
    ticks : list of Tick
        From the left, or from the lower end.
    """

    size: int
    points: str
    ticks: list[Tick]
    n_points: int


class Bar(NamedTuple):
    """A bar of a histogram, in pixels."""

    x: float
    y: float
    width: float
    height: float


class Histogram(NamedTuple):
    """Counts in bins; ``zero`` is where the value zero stands, in pixels."""

    width: int
    height: int
    bars: list[Bar]
    ticks: list[Tick]
    zero: float


def ticks(low: float, high: float, length: float, most: int = 4) -> list[Tick]:
    """Round numbers between two ends, at their places along a length.

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


def scatter(x: np.ndarray, y: np.ndarray, size: int, most: int) -> Scatter:
    """At most so many points, evenly chosen along the rows.

    Parameters
    ----------
    x, y : ndarray of shape (n_rows,)
    """
    chosen = np.unique(np.linspace(0, len(x) - 1, min(len(x), most)).astype(int))
    x, y = x[chosen], y[chosen]
    low, high = float(min(x.min(), y.min())), float(max(x.max(), y.max()))
    margin = 0.03 * (high - low) or 1.0
    low, high = low - margin, high + margin
    across = np.round(size * (x - low) / (high - low), 1)
    up = np.round(size * (1 - (y - low) / (high - low)), 1)
    # A line of no length with round ends is a point.
    points = "".join(
        f"M{number(a)} {number(b)}h0" for a, b in zip(across, up, strict=True)
    )
    return Scatter(size, points, ticks(low, high, size), len(chosen))


def histogram(values: np.ndarray, width: int, height: int, bins: int) -> Histogram:
    """Counts of values in bins of one width; the outermost also hold what is beyond.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
    """
    # As far to either side of zero; a few outliers would make all others one bar.
    end = 1.25 * float(np.quantile(np.abs(values), 0.98)) or 1.0
    counts, _ = np.histogram(np.clip(values, -end, end), bins, (-end, end))
    tall = height / max(int(counts.max()), 1)
    wide = width / bins
    bars = [
        Bar(
            round(i * wide, 2),
            round(height - n * tall, 2),
            wide - 1,
            round(n * tall, 2),
        )
        for i, n in enumerate(counts.tolist())
        if n
    ]
    return Histogram(width, height, bars, ticks(-end, end, width, 6), width / 2)


class Dot(NamedTuple):
    """A point with the ends of a vertical bar through it, in pixels."""

    x: float
    y: float
    low: float
    high: float


class Chart(NamedTuple):
    """A line from (0, 0) to (1, 1) at most, in a square, and what its axes are.

    Attributes
    ----------
    size : int
        Of the square, in pixels.
    line : str
        Of an SVG path.
    across, up : str
        Names of the axes.
    ticks : list of Tick
        Of both.
    """

    size: int
    line: str
    dots: list[Dot]
    across: str
    up: str
    ticks: list[Tick]


def calibration_chart(bins: Sequence[Bin], size: int, name: str) -> Chart:
    """Shares by bins of the probability, with two standard errors to either side."""
    dots = [
        Dot(
            _pixel(size, one.predicted),
            _pixel(size, 1 - one.observed),
            _pixel(size, 1 - max(one.observed - 2 * one.error, 0.0)),
            _pixel(size, 1 - min(one.observed + 2 * one.error, 1.0)),
        )
        for one in bins
    ]
    line = "L".join(f"{number(dot.x)} {number(dot.y)}" for dot in dots)
    marks = ticks(0.0, 1.0, size)
    return Chart(
        size, f"M{line}", dots, f"probability of {name}", "share of the rows", marks
    )


def roc_chart(points: np.ndarray, size: int, name: str) -> Chart:
    """The receiver operating characteristic, at most at so many points as pixels."""
    chosen = np.unique(np.linspace(0, len(points) - 1, min(len(points), size)))
    line = "L".join(
        f"{number(_pixel(size, false))} {number(_pixel(size, 1 - true))}"
        for false, true in points[chosen.astype(int)].tolist()
    )
    across = "share of the others above a threshold"
    marks = ticks(0.0, 1.0, size)
    return Chart(size, f"M{line}", [], across, f"share of {name} above it", marks)


def _pixel(size: int, share: float) -> float:
    return round(size * share, 1)
