"""Curves as a picture."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from secret_jax.composed.additive.words import CurveView
from secret_jax.inspect.plot import picture
from secret_jax.inspect.printing import number

_WIDTH, _HEIGHT = 3.2, 2.5  # inches
_MOST_TICKS = 12
_LONGEST = 14  # characters of a category


def plot_curves(views: Sequence[CurveView], title: str) -> picture.Picture:
    """Draw curves with a common scale, each on axes of its own.

    Numbers have a line with a mark where its slope changes, categories a bar each. A
    dashed line is what is added where the value is missing.
    """
    panels = picture.new_panels(len(views), _WIDTH, _HEIGHT, sharey=True)
    for ax, view in zip(panels, views, strict=True):
        _draw(ax, view)
    panels[0].figure.suptitle(title, fontsize=picture.FONT_SIZE)
    return picture.Picture.of(panels)


def _draw(ax: Any, view: CurveView) -> None:
    picture.open_frame(ax)
    ax.axhline(0.0, color=picture.MIDDLE_COLOR, linewidth=0.6)
    place = np.arange(len(view.label)) if view.place is None else view.place
    if view.place is None:
        ax.bar(place, view.value, width=0.7, color=picture.MIDDLE_COLOR)
    else:
        ax.plot(place, view.value, color=picture.DARK_COLOR, marker="o", markersize=3)
    if view.missing is not None:
        ax.axhline(
            view.missing, color=picture.DARK_COLOR, linestyle="--", linewidth=0.8
        )
    # Numbers mark themselves; categories, weekdays and dates have words.
    worded = view.place is None or view.label != [*map(number, view.place)]
    picture.round_marks(ax.yaxis)
    if not worded:
        picture.round_marks(ax.xaxis)
    else:
        shown = np.linspace(0, len(place) - 1, min(len(place), _MOST_TICKS))
        shown = np.unique(shown.round().astype(int))
        labels = [view.label[i] for i in shown]
        labels = [t if len(t) <= _LONGEST else t[: _LONGEST - 1] + "…" for t in labels]
        turned = sum(map(len, labels)) > 30
        ax.set_xticks(place[shown], labels, rotation=90 if turned else 0)
    ax.set_title(
        f"{view.name}  ± {number(view.deviation, digits=2)}", fontsize=picture.FONT_SIZE
    )
