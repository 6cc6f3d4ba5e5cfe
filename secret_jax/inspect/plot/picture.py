"""What every function that draws gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Picture:
    """A drawn figure and the axes that were drawn on.

    Figures are pyplot's: scripts show them with ``pyplot.show()``, and notebooks show
    them once, at the end of their cell.

    Attributes
    ----------
    axes : tuple of matplotlib Axes
        Those that were drawn on, in the order in which they are read.
    """

    figure: Figure
    axes: tuple[Axes, ...]

    @classmethod
    def of(cls, axes: Iterable[Axes]) -> Picture:
        """The picture on some axes of one figure."""
        drawn = tuple(axes)
        figure: Any = drawn[0].figure
        return cls(getattr(figure, "figure", figure), drawn)

    @property
    def ax(self) -> Axes:
        """The first of the axes: of most pictures the only one."""
        return self.axes[0]

    def savefig(self, path: Any, **options: Any) -> None:
        """Write the figure to a file, with everything on it by default.

        Parameters
        ----------
        path : str or path-like
            Its ending says the format.
        **options
            Of `matplotlib.figure.Figure.savefig`.
        """
        self.figure.savefig(path, **{"bbox_inches": "tight", **options})
