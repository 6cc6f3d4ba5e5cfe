"""How often resamples split on columns and where, as a picture."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from secret_jax.inspect.plot.picture import (
    DARK_COLOR,
    FONT_SIZE,
    MIDDLE_COLOR,
    TICK_SIZE,
    Picture,
    import_pyplot,
    open_frame,
)

_MOST_COLUMNS = 6  # whose thresholds are drawn
_BINS = 24
_DIGITS = 6  # of thresholds; what is beyond is the rounding of float32
_WIDTH, _ROW_HEIGHT, _LEAST_HEIGHT = 7.5, 0.28, 1.6


def plot_stability(stability: Any) -> Picture:
    """Draw how often columns are split on, and where.

    First the frequencies; a bar is dark as far as the root is split on the column, and
    the name of a column that the fitted tree splits on is bold. Then a histogram of
    thresholds for each column of numbers, of the most frequent six; lines are the
    thresholds of the fitted tree.
    """
    pyplot = import_pyplot()
    order = stability.order()
    names = [stability.names[column] for column in order]
    numeric = [name for name in names if len(stability.thresholds(name))][
        :_MOST_COLUMNS
    ]
    heights = [max(_LEAST_HEIGHT, 0.8 + _ROW_HEIGHT * len(order))]
    heights += [_LEAST_HEIGHT] * len(numeric)
    _, axes = pyplot.subplots(
        len(heights),
        figsize=(_WIDTH, sum(heights)),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    ax: Any = axes[0, 0]
    place = np.arange(len(order))
    ax.barh(place, stability.used[order], color=MIDDLE_COLOR, label="anywhere")
    ax.barh(place, stability.at_root[order], color=DARK_COLOR, label="at the root")
    ax.set_yticks(place, names)
    for label, column in zip(ax.get_yticklabels(), order, strict=True):
        label.set_fontweight("bold" if stability.in_original[column] else "normal")
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    ax.set_xlabel(
        f"share of {len(stability.resamples)} resamples that split on the column "
        "(bold: the tree does)",
        fontsize=FONT_SIZE,
    )
    if names:
        ax.legend(fontsize=TICK_SIZE, frameon=False, loc="lower right")
    for ax, name in zip(axes[1:, 0], numeric, strict=True):
        ax.hist(_rounded(stability.thresholds(name)), bins=_BINS, color=MIDDLE_COLOR)
        for threshold in _rounded(stability.original.thresholds.get(name, [])):
            ax.axvline(threshold, color=DARK_COLOR, linewidth=1.5)
        ax.set_xlabel(f"thresholds of {name} (lines: the tree's)", fontsize=FONT_SIZE)
        ax.set_ylabel("splits", fontsize=FONT_SIZE)
        ax.locator_params(axis="y", integer=True)
    for ax in axes[:, 0]:
        open_frame(ax)
    return Picture.of(axes[:, 0])


def _rounded(thresholds: Sequence[float] | np.ndarray) -> np.ndarray:
    """To the digits that are meant: splits between the same values are one place."""
    values = np.asarray(thresholds, float)
    largest = np.abs(values).max(initial=0.0)
    magnitude = np.floor(np.log10(largest)) if largest > 0 else 0
    return np.round(values, int(_DIGITS - 1 - magnitude))
