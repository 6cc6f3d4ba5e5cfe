"""Small drawings in squares as paths of SVG: points, lines, dots with whiskers."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from secret_jax.inspect.class_errors import Bin
from secret_jax.inspect.plot.picture import evenly_spaced
from secret_jax.inspect.printing import number, short_number

_MOST_TICKS = 4
_WHISKERS = 2.0  # standard errors to either side
_Ends = tuple[float, float]


def ticks(low: float, high: float) -> np.ndarray:
    power = 10.0 ** math.floor(math.log10((high - low) / _MOST_TICKS))
    steps = (factor * power for factor in (1, 2, 2.5, 5, 10, 20))
    step = next(step for step in steps if (high - low) / step <= _MOST_TICKS)
    return step * np.arange(math.ceil(low / step), math.floor(high / step) + 1)


def _chart(
    size: int,
    names: tuple[str, str],
    ends: tuple[_Ends, _Ends],
    reference: tuple[_Ends, _Ends],
    points: tuple[Any, Any] = ((), ()),
    line: tuple[Any, Any] = ((), ()),
    dots: Sequence[Sequence[float]] = (),
) -> dict[str, Any]:
    """Draw in a square of so many pixels; all else is in units of the axes.

    ``ends`` are those of the axis across, and of the one that goes up; ``reference`` is
    a thin line to compare with, ``points`` are dots, all by their coordinates across
    and up; ``dots`` (x, y, low, high) have a vertical whisker.
    """
    (left, right), (low, high) = ends

    def across(x: Any) -> np.ndarray:
        return np.round(size * (np.asarray(x, float) - left) / (right - left), 1)

    def down(y: Any) -> np.ndarray:
        return np.round(size * (high - np.asarray(y, float)) / (high - low), 1)

    def pairs(x: Any, y: Any) -> list[str]:
        places = zip(across(x).tolist(), down(y).tolist(), strict=True)
        return [f"{number(a)} {number(b)}" for a, b in places]

    marks = ticks(left, right), ticks(low, high)
    places = across(marks[0]).tolist(), down(marks[1]).tolist()
    return {
        "size": size,
        "names": names,
        "ticks": [
            list(zip(place, map(short_number, mark.tolist()), strict=True))
            for place, mark in zip(places, marks, strict=True)
        ],
        "reference": "M" + "L".join(pairs(*reference)),
        # A line of no length with round ends is a point.
        "points": "".join(f"M{pair}h0" for pair in pairs(*points)),
        "n_points": len(points[0]),
        "line": "M" + "L".join(pairs(*line)) if len(line[0]) else "",
        "dots": [[float(across(x)), *down(rest).tolist()] for x, *rest in dots],
    }


def fit_chart(
    predicted: np.ndarray, actual: np.ndarray, size: int, most: int
) -> dict[str, Any]:
    """Draw actual against predicted values of at most so many rows, evenly chosen."""
    chosen = evenly_spaced(len(actual), most)
    points = predicted[chosen], actual[chosen]
    ends = _ends(np.r_[points])
    names = "predicted", "actual"
    return _chart(size, names, (ends, ends), (ends, ends), points)


def residual_chart(
    predicted: np.ndarray, residual: np.ndarray, size: int, most: int
) -> dict[str, Any]:
    """Draw residuals against predicted values of at most so many rows."""
    chosen = evenly_spaced(len(residual), most)
    points = predicted[chosen], residual[chosen]
    ends = _ends(points[0]), _ends(np.r_[points[1], 0.0])
    names = "predicted", "actual minus predicted"
    return _chart(size, names, ends, (ends[0], (0.0, 0.0)), points)


def calibration_chart(bins: Sequence[Bin], size: int, name: str) -> dict[str, Any]:
    """Draw shares by bins of the probability, with two standard errors."""
    predicted, observed, error, _ = np.array(bins).T
    low, high = (observed + side * _WHISKERS * error for side in (-1.0, 1.0))
    whiskers = np.clip(low, 0.0, None), np.clip(high, None, 1.0)
    dots = np.stack([predicted, observed, *whiskers], axis=1).tolist()
    names = f"probability of {name}", "share of the rows"
    both = (0.0, 1.0), (0.0, 1.0)
    return _chart(size, names, both, both, line=(predicted, observed), dots=dots)


def roc_chart(points: np.ndarray, size: int, name: str) -> dict[str, Any]:
    """Draw the receiver operating characteristic, at most a point for each pixel."""
    x, y = points[evenly_spaced(len(points), size)].T
    names = "share of the others above a threshold", f"share of {name} above it"
    both = (0.0, 1.0), (0.0, 1.0)
    return _chart(size, names, both, both, line=(x, y))


def _ends(values: np.ndarray) -> _Ends:
    """Ends of an axis: those of the values, with a margin."""
    low, high = float(values.min()), float(values.max())
    margin = 0.03 * (high - low) or 1.0
    return low - margin, high + margin
