"""Curves of columns and pairs that interact, drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from secret_jax.boost.effects import Effect, Interaction

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ACROSS = 3
_WIDTH, _HEIGHT = 3.6, 2.8


def drawn_effects(curves: list[Effect], pairs: list[Interaction]) -> Figure:
    """A panel for each curve, all on one scale, and one of bars for the pairs."""
    from matplotlib.figure import Figure

    n_panels = len(curves) + bool(pairs)
    across = min(max(n_panels, 1), _ACROSS)
    down = -(-max(n_panels, 1) // across)
    figure = Figure(figsize=(_WIDTH * across, _HEIGHT * down), layout="constrained")
    panels = np.atleast_1d(figure.subplots(down, across)).ravel()
    for panel in panels[n_panels:]:
        panel.set_axis_off()
    every = [curve.mean for curve in curves]
    low = min((mean.min() for mean in every), default=0.0)
    high = max((mean.max() for mean in every), default=1.0)
    room = 0.05 * (high - low) or 1.0
    for panel, curve in zip(panels, curves, strict=False):
        if curve.is_category:
            names = ["missing" if v is None else str(v) for v in curve.values]
            panel.plot(range(len(names)), curve.mean, "o")
            panel.set_xticks(range(len(names)), names, rotation=45, ha="right")
        else:
            panel.plot(curve.values, curve.mean)
        panel.set_ylim(low - room, high + room)
        panel.set_xlabel(curve.name)
        panel.set_ylabel(f"mean of {target}")
    if pairs:
        panel = panels[len(curves)]
        names = [f"{pair.first} and {pair.second}" for pair in pairs]
        panel.barh(names[::-1], [100 * pair.share for pair in pairs][::-1])
        panel.set_xlabel("% of the variance, beyond the sum")
    return figure
