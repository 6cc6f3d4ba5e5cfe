"""The picture of a tree as a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from secret_jax.cli.messages import CommandError, check_output, require

if TYPE_CHECKING:
    from secret_jax.estimators.classifier import SecretClassifier
    from secret_jax.estimators.regressor import SecretRegressor


def check_picture(path: str) -> None:
    """Refuse what is no name of a picture, before the work."""
    check_output(path)
    require("matplotlib", "plot", "draw a picture")
    from matplotlib.backend_bases import FigureCanvasBase

    kinds = FigureCanvasBase.get_supported_filetypes()
    if Path(path).suffix.removeprefix(".").lower() not in kinds:
        raise CommandError(
            f"{path!r} does not end like a picture; for example .png, .pdf or .svg"
        )


def draw(model: SecretRegressor | SecretClassifier, path: str | Path) -> None:
    """Draw a tree to a file."""
    import matplotlib

    matplotlib.use("Agg")  # only files are drawn to, no display is needed
    model.plot_tree().savefig(path, dpi=150)
