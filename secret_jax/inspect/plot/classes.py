"""What pictures show of classes: a table of equations, probabilities and shares."""

from typing import Any

import numpy as np

from secret_jax.inspect.class_errors import calibration, class_errors, shares_beside
from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.coefficients import ClassTable
from secret_jax.inspect.colors import ink_on
from secret_jax.inspect.plot import picture
from secret_jax.inspect.printing import counted, number, quoted

_SIGNS = "PuOr"  # colours of effects, from below zero to above it
_MOST_NUMBERS = 12  # classes beside each other whose coefficients are written out
_MOST_CLASSES = 16  # of which bars are drawn


def draw_class_table(ax: Any, table: ClassTable) -> None:
    """Coefficients in cells, coloured by what they move."""
    from matplotlib.colors import to_hex

    n_classes = len(table.classes)
    effect = np.concatenate([np.zeros((1, n_classes)), table.effect])
    factor = np.concatenate([table.constant[None], table.factor])
    most = float(np.abs(effect).max()) or 1.0
    image = ax.imshow(effect, cmap=_SIGNS, vmin=-most, vmax=most, aspect="auto")
    for line, column in np.argwhere(factor):
        if n_classes > _MOST_NUMBERS:
            break
        fill = to_hex(image.to_rgba(effect[line, column]))
        words = number(float(factor[line, column]))
        style = {"ha": "center", "va": "center", "fontsize": 0.8 * picture.FONT_SIZE}
        ax.text(column, line, words, color=ink_on(fill), **style)
    names = ["constant", *(picture.in_short(name) for name in table.names)]
    ax.set_yticks(range(len(names)), names, **picture.TEXT)
    turned = sum(map(len, table.classes)) > 8 * n_classes
    angle = picture.TURNED if turned else {}
    ax.set_xticks(range(n_classes), table.classes, **picture.TEXT, **angle)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    hidden = f"; {table.n_hidden} smaller terms not shown" if table.n_hidden else ""
    ax.set_xlabel(
        "coefficients; colour: what one standard deviation of the\ncolumn moves the "
        f"class's score (orange: down, purple: up){hidden}",
        fontsize=picture.FONT_SIZE,
    )


def draw_classes(
    ax: Any, view: ClassView, probability: np.ndarray, actual: np.ndarray
) -> None:
    """Probabilities of rows against the shares of the classes among them."""
    if view.of_two:
        name = quoted(view.names[1])
        draw_calibration(ax, probability[:, 1], actual == 1, name)
    else:
        _draw_shares(ax, view, probability, actual)
    errors = class_errors(probability, view.chosen(probability), actual)
    ax.set_title(
        f"{counted(len(actual), 'row', 'rows')}, {100 * errors.accuracy:.3g} % right, "
        f"log-loss {number(errors.log_loss, digits=3)}",
        **picture.TITLE,
    )
    picture.open_frame(ax)


def draw_calibration(
    ax: Any, probability: np.ndarray, came_true: np.ndarray, name: str
) -> None:
    """Shares that came true by bins of the probability, with standard errors."""
    bins = calibration(probability, came_true)
    predicted, observed, error, _ = np.array(bins).T
    ax.plot([0, 1], [0, 1], color="0.65", lw=1, zorder=0)
    style: dict[str, Any] = {
        "color": picture.MIDDLE_COLOR,
        "markersize": 5,
        "linewidth": 1,
    }
    ax.errorbar(predicted, observed, yerr=error, fmt="o-", **style)
    # Every row as a tick, above if it came true.
    for those, height in ((came_true, 1.03), (~came_true, -0.03)):
        place = probability[those]
        ax.plot(
            place, np.full(len(place), height), "|", color=picture.DARK_COLOR, alpha=0.3
        )
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.07, 1.07))
    ax.set_xlabel(f"predicted probability of {name}", **picture.TEXT)
    words = f"share of {name} in {counted(len(bins), 'bin', 'bins')}, ± standard error"
    ax.set_ylabel(words, **picture.TEXT)


def _draw_shares(
    ax: Any, view: ClassView, probability: np.ndarray, actual: np.ndarray
) -> None:
    """For every class its mean probability and its share, as bars."""
    order, mean, share = shares_beside(probability, actual)
    order = order[:_MOST_CLASSES]
    place = picture.name_bars(ax, [view.names[i] for i in order])
    ax.barh(place - 0.2, share[order], 0.38, color=picture.DARK_COLOR, label="rows")
    ax.barh(
        place + 0.2, mean[order], 0.38, color=picture.MIDDLE_COLOR, label="predicted"
    )
    ax.set_xlabel("share of the rows, and mean probability", fontsize=picture.FONT_SIZE)
    ax.legend(fontsize=picture.TICK_SIZE, frameon=False, loc="lower right")
