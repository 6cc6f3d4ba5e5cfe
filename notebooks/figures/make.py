"""Draws the pictures of the README: python notebooks/figures/make.py

The tree of real data needs the folder named by SECRET_JAX_DATA, with the table
Bikeshare of the R package ISLR2 as bikeshare.csv; its text is printed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split

from secret_jax import SecretRegressor
from secret_jax.datasets import make_3dsin

FOLDER = Path(__file__).parent


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
    figure.savefig(path, dpi=100)
    plt.close(figure)


def bike_hours(folder: str | Path) -> tuple[pd.DataFrame, pd.Series]:
    """Bikes hired in each hour of a year, and four columns that people understand."""
    table = pd.read_csv(Path(folder) / "bikeshare.csv")
    wet = table["weathersit"].str.contains("rain")
    X = pd.DataFrame(
        {
            "hour": table["hr"],
            "day": table["workingday"].map({0: "free", 1: "working"}),
            "temperature": 47 * table["temp"] - 8,  # of -8 to 39 °C
            "weather": table["weathersit"].mask(wet, "wet"),
        }
    )
    return X, table["bikers"]


def bike_tree(folder: str | Path) -> tuple[SecretRegressor, float, float]:
    """A small tree of the hours, and R² on a quarter of them, its own and a line's."""
    X, y = bike_hours(folder)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = SecretRegressor(oblique=False, max_leaf_nodes=6, equation_tolerance=0.1)
    score = model.fit(X_train, y_train).score(X_test, y_test)
    plain = LinearRegression().fit(pd.get_dummies(X_train), y_train)
    return model, score, plain.score(pd.get_dummies(X_test), y_test)


def pictures_of(notebook: str) -> list[Figure]:
    """The figures that a notebook shows, in their order."""
    path = FOLDER.parent / f"{notebook}.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    shown: list[Figure] = []

    def show() -> None:
        shown.extend(plt.figure(number) for number in plt.get_fignums())
        plt.close("all")

    before, plt.show = plt.show, show
    try:
        with plt.rc_context():
            scope: dict = {}
            for source in code[1:]:  # the first installs
                exec(source, scope)
    finally:
        plt.show = before
    return shown


if __name__ == "__main__":
    surfaces(FOLDER / "splits.png")
    pictures = pictures_of("method")
    pictures[1].savefig(FOLDER / "em.png", dpi=85)
    pictures[4].savefig(FOLDER / "direction.png", dpi=75)
    if folder := os.environ.get("SECRET_JAX_DATA"):
        model, score, line = bike_tree(folder)
        model.plot_tree().figure.savefig(FOLDER / "tree.png", dpi=80)
        print(f"R² {score:.3f}, least squares {line:.3f}\n\n{model.export_text()}")
    else:
        print("SECRET_JAX_DATA is not set: tree.png stays as it is.")
