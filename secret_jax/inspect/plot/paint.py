"""Colours of what is predicted over two columns, and of the rows on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.colors import channels
from secret_jax.inspect.plot.layout import with_short_names
from secret_jax.inspect.plot.slices import Rows
from secret_jax.inspect.plot.style import (
    COLORS,
    TEXT,
    TICK_SIZE,
    import_matplotlib,
    round_marks,
)
from secret_jax.inspect.tree_view import TreeView

FAINT = 0.25  # opacity of a row that reaches another leaf
_TARGETS_COLOURED = 0.01, 0.99  # quantiles of the targets that the colours reach
_OPACITY = 0.85
_OF_TWO = ["#ffffff", "#000000"]  # rows of two classes, on colours of a probability
_PALEST = 0.25  # strength of a colour where no class is likelier than others


class Paint:
    """Colours of values and rows, and what explains them beside the picture.

    Numbers, and the probability of the second of two classes, have a scale of colours;
    several classes have a colour each, which is paler where the likeliest is less
    likely.
    """

    def __init__(
        self, view: TreeView, value: np.ndarray, rows: Rows | None, of_slice: bool
    ):
        self.view, self.with_rows = view, rows is not None
        self.several = isinstance(view, ClassView) and not view.of_two
        self.of_two = isinstance(view, ClassView) and view.of_two
        self.mapped: dict[str, Any] = {}
        if self.several:
            return
        value = value[..., 1] if self.of_two else value
        self._ends = self._limits = float(value.min()), float(value.max())
        if rows is not None and of_slice and not self.of_two:
            self._limits = tuple(np.quantile(rows.target, _TARGETS_COLOURED))
        if not self.of_two:
            lowest, highest = self._limits
            self.mapped = {"cmap": COLORS, "vmin": lowest, "vmax": highest}

    def draw_image(
        self, axes: Any, value: np.ndarray, extent: Any, *, smooth: bool
    ) -> None:
        """Draw predictions of shape (n_across, n_up) as cells with their colours."""
        value = np.swapaxes(value, 0, 1)
        if isinstance(self.view, ClassView) and self.several:
            options: dict[str, Any] = {"X": _class_image(self.view, value)}
        else:
            value = value[..., 1] if self.of_two else value
            options = {"X": value, "cmap": COLORS, "clim": self._limits}
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
        return channels(colors)[target]

    def draw_key(self, axes: Any) -> None:
        """Draw a bar of the scale, or a legend of the classes."""
        if isinstance(self.view, ClassView) and (self.several or self.with_rows):
            colors = _OF_TWO if self.of_two else None
            view = with_short_names(self.view)
            place = BESIDE if self.several else {"loc": "upper right"}
            draw_legend(axes, view, colors, **place)
        if self.several:
            return
        _, ScalarMappable = import_matplotlib()
        color = ScalarMappable(cmap=COLORS)
        color.set_clim(*self._limits)
        beyond = self._ends[0] < self._limits[0], self._ends[1] > self._limits[1]
        ends = {(True, True): "both", (True, False): "min", (False, True): "max"}
        extend = ends.get(beyond, "neither")
        bar = axes.figure.colorbar(color, ax=axes, pad=0.02, extend=extend)
        bar.set_label(self.view.target, **TEXT)
        bar.ax.tick_params(labelsize=TICK_SIZE)
        round_marks(bar.ax.yaxis, 7)


BESIDE: dict[str, Any] = {
    "loc": "upper left",
    "bbox_to_anchor": (1.0, 1.0),
    "frameon": False,
}


def draw_legend(
    axes: Any, view: ClassView, colors: list[str] | None = None, **options: Any
) -> None:
    """Say which colour is which class; options are those of ``Axes.legend``."""
    from matplotlib.patches import Patch

    patches = [
        Patch(facecolor=color, edgecolor="0.15", linewidth=0.4, label=name)
        for color, name in zip(colors or view.colors, view.names, strict=True)
    ]
    legend = axes.legend(handles=patches, **{"fontsize": TICK_SIZE, **options})
    for text in legend.get_texts():
        text.set_parse_math(False)


def _class_image(view: ClassView, probability: np.ndarray) -> np.ndarray:
    """Colours of the likeliest classes, the paler the less likely, (..., 3)."""
    n_classes = len(view.names)
    sure = (probability.max(axis=-1) - 1 / n_classes) / (1 - 1 / n_classes)
    colors = channels(view.colors)
    strength = _PALEST + (1 - _PALEST) * sure[..., None]
    return 1.0 + strength * (colors[probability.argmax(axis=-1)] - 1.0)
