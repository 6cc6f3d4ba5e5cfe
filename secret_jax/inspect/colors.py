"""Colours of means and of classes, without a library that draws."""

import colorsys
import math
from collections.abc import Iterable

import numpy as np

# Of viridis, evenly spaced: dark for the lowest, bright for the highest.
_SHADES = (
    *("#440154", "#482878", "#3e4a89", "#31688e", "#26828e"),
    *("#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"),
)
# Of the "muted" scheme of P. Tol, Colour Schemes, 2021, the darkest one last.
_CLASSES = (
    *("#88ccee", "#cc6677", "#ddcc77", "#117733", "#aa4499"),
    *("#44aa99", "#999933", "#882255", "#332288"),
)
_BRIGHTNESS = 0.299, 0.587, 0.114  # of red, green and blue (ITU-R BT.601)


class Scale:
    """Colour scale from the lowest to the highest of some values."""

    def __init__(self, values: Iterable[float]):
        known = [value for value in values if math.isfinite(value)]
        self.low, self.high = min(known, default=0.0), max(known, default=0.0)

    def color(self, value: float) -> str:
        """Choose the colour of a value; that of the middle if all are the same."""
        share = 0.5
        if self.high > self.low and math.isfinite(value):
            share = min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)
        steps = np.linspace(0.0, 1.0, len(_SHADES))
        return _hex(np.interp(share, steps, side) for side in channels(_SHADES).T)


def class_colors(n_classes: int) -> list[str]:
    """Choose a colour for each class; of two the first one is a grey."""
    if n_classes == 2:
        return ["#c3c8d4", _SHADES[3]]
    if n_classes <= len(_CLASSES):
        return list(_CLASSES[:n_classes])
    hues = ((i / n_classes, (0.72, 0.45)[i % 2]) for i in range(n_classes))
    return [_hex(colorsys.hls_to_rgb(hue, light, 0.55)) for hue, light in hues]


def paler(color: str, strength: float) -> str:
    """Mix a colour with white; of strength 0 it is white."""
    return _hex(1.0 + strength * (channels([color])[0] - 1.0))


def ink_on(color: str) -> str:
    return "black" if channels([color])[0] @ _BRIGHTNESS > 0.5 else "white"


def channels(colors: Iterable[str]) -> np.ndarray:
    """Red, green and blue of "#rrggbb" from 0 to 1, shape (n_colors, 3)."""
    pairs = [[color[i : i + 2] for i in (1, 3, 5)] for color in colors]
    return np.array([[int(part, 16) / 255 for part in parts] for parts in pairs])


def _hex(color: Iterable[float]) -> str:
    return "#" + "".join(f"{round(255 * float(part)):02x}" for part in color)
