"""Draws the pictures of the README: python notebooks/figures/make.py"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from secret_jax import SecretRegressor
from secret_jax.datasets import make_3dsin


def surfaces(path: Path) -> None:
    """A surface, and trees of two sizes that approximate it by planes."""
    X, y = make_3dsin(8000, random_state=0)
    X_test, y_test = make_3dsin(4000, random_state=1)
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.5), layout="constrained")
    grid = np.linspace(-3, 3, 240)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    surface = 3 * np.sin(points[:, 0]) * np.sin(points[:, 1])
    pictures = [("the data: $3\\,\\sin x_0\\,\\sin x_1$", surface, None)]
    for leaves in (8, 32):
        model = SecretRegressor(oblique=True, max_leaf_nodes=leaves, random_state=0)
        model.fit(X, y)
        title = f"{model.n_leaves_} leaves, R² {model.score(X_test, y_test):.3f}"
        pictures.append((title, model.predict(points), model.apply(points)))
    for ax, (title, values, leaf) in zip(axes, pictures, strict=True):
        shape = (len(grid), len(grid))
        drawn = ax.pcolormesh(grid, grid, values.reshape(shape), vmin=-3, vmax=3)
        drawn.set_rasterized(True)
        if leaf is not None:
            for node in np.unique(leaf):
                inside = (leaf == node).reshape(shape).astype(float)
                ax.contour(grid, grid, inside, [0.5], colors="white", linewidths=0.7)
        ax.set(title=title, xlabel="$x_0$", aspect="equal")
    axes[0].set_ylabel("$x_1$")
    figure.colorbar(drawn, ax=axes, label="y", shrink=0.9)
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    surfaces(Path(__file__).with_name("splits.png"))
