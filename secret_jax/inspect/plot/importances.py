"""What the columns explain, as bars."""

from typing import Any

import numpy as np

from secret_jax.inspect.arguments import MOST_BARS
from secret_jax.inspect.plot import picture
from secret_jax.inspect.printing import number

_WIDTH, _BAR, _REST = 6.0, 0.28, 0.9  # inches


def plot_importances(model: Any, *, ax: Any = None) -> picture.Picture:
    """Draw ``feature_importances_`` as bars, the largest twelve first.

    Parameters
    ----------
    ax : matplotlib Axes, optional
        By default a new figure is made.
    """
    shares, names = model.feature_importances_, model._schema.input_names
    order = np.argsort(-shares, kind="stable")[: np.count_nonzero(shares)]
    shown = order[:MOST_BARS]
    axes = picture.new_axes(ax, (_WIDTH, _REST + _BAR * max(len(shown), 2)))
    percent = 100 * shares[shown]
    labels = [f"{number(float(one), digits=2)} %" for one in percent]
    words, color = [str(names[column]) for column in shown], picture.MIDDLE_COLOR
    picture.draw_bars(axes, words, percent, labels, color=color)
    axes.margins(x=0.12)
    hidden = len(order) - len(shown)
    more = f" ({hidden} smaller ones not shown)" if hidden else ""
    axes.set_xlabel(f"% of what the tree explains{more}", fontsize=picture.FONT_SIZE)
    return picture.Picture(axes)
