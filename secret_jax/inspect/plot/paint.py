"""Colours of what is predicted over two columns, and of the rows on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.plot.classes import (
    BESIDE,
    channels,
    class_image,
    draw_legend,
)
from secret_jax.inspect.plot.held import Rows
from secret_jax.inspect.plot.layout import with_short_names
from secret_jax.inspect.plot.style import (
    COLORS,
    FONT_SIZE,
    TICK_SIZE,
    import_matplotlib,
    round_marks,
)
from secret_jax.inspect.tree_view import TreeView

FAINT = 0.25  # opacity of a row that reaches another leaf
_TARGETS_COLOURED = 0.01, 0.99  # quantiles of the targets that the colours reach
_OPACITY = 0.85
_OF_TWO: tuple[str, str] = (
    "#ffffff",
    "#000000",
)  # rows of two classes, on colours of a probability


class Paint:
    """Colours of values and rows, and what explains them beside the picture.

    Numbers, and the probability of the second of two classes, have a scale of colours;
    several classes have a colour each, which is paler where the likeliest is less
    likely.
    """

    def __init__(
        self, view: TreeView, value: np.ndarray, rows: Rows | None, of_slice: bool
    ):
        self.view = view
        self.several = isinstance(view, ClassView) and not view.of_two
        self.of_two = isinstance(view, ClassView) and view.of_two
        self.with_rows = rows is not None
        self.mapped: dict[str, Any] = {}
        if self.several:
            return
        value = self._scalar(value)
        self._ends = lowest, highest = float(value.min()), float(value.max())
        if rows is not None and of_slice and not self.of_two:
            lowest, highest = np.quantile(rows.target, _TARGETS_COLOURED)
        self._limits = lowest, highest
        if not self.of_two:
            self.mapped = {"cmap": COLORS, "vmin": lowest, "vmax": highest}

    def _scalar(self, value: np.ndarray) -> np.ndarray:
        return value[..., 1] if self.of_two else value

    def draw_image(
        self, axes: Any, value: np.ndarray, extent: Any, *, smooth: bool = False
    ) -> None:
        """Cells with their colours."""
        if self.several:
            assert isinstance(self.view, ClassView)
            options: dict[str, Any] = {"X": class_image(self.view, value)}
        else:
            options = {"X": self._scalar(value), "cmap": COLORS, "clim": self._limits}
            options["alpha"] = _OPACITY
        axes.imshow(
            **options,
            extent=tuple(extent),
            origin="lower",
            aspect="auto",
            interpolation="bilinear" if smooth else "nearest",
        )

    def of_rows(self, target: np.ndarray) -> np.ndarray:
        """Numbers that are coloured, or the colours of classes as numbers."""
        if not isinstance(self.view, ClassView):
            return target
        # A class that training has not seen is grey.
        colors = [*(_OF_TWO if self.of_two else self.view.colors), "#808080"]
        return np.array([channels(color) for color in colors])[target]

    def draw_key(self, axes: Any) -> None:
        """A bar of the scale, or a legend of the classes."""
        if isinstance(self.view, ClassView) and (self.several or self.with_rows):
            short = with_short_names(self.view)
            colors = [*_OF_TWO] if self.of_two else short.colors
            place = BESIDE if self.several else {"loc": "upper right", "frameon": True}
            draw_legend(axes, colors, list(short.names), **place)
        if self.several:
            return
        _, ScalarMappable = import_matplotlib()
        color = ScalarMappable(cmap=COLORS)
        color.set_clim(*self._limits)
        beyond = self._ends[0] < self._limits[0], self._ends[1] > self._limits[1]
        ends = {(True, True): "both", (True, False): "min", (False, True): "max"}
        extend = ends.get(beyond, "neither")
        bar = axes.figure.colorbar(color, ax=axes, pad=0.02, extend=extend)
        bar.set_label(self.view.target, fontsize=FONT_SIZE, parse_math=False)
        bar.ax.tick_params(labelsize=TICK_SIZE)
        round_marks(bar.ax.yaxis, 7)
