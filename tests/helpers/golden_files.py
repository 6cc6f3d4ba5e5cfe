"""Writes model files of this version for `tree/test_file` to read ever after.

``python tests/helpers/golden_files.py`` makes, in ``tests/golden/v<format version>``,
what is not yet there. Run it once when the format version rises, and keep the older
folders: a file that exists is never written again.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from secret_jax import SecretRegressor
from secret_jax.tree.file import FORMAT_VERSION
from secret_jax.tree.structure import SplitKind

GOLDEN = Path(__file__).parents[1] / "golden"


def rooms(n_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Rents by two numbers and two categories; the area and the heating have gaps."""
    rng = np.random.default_rng(seed)
    area, age = rng.uniform(10, 90, n_rows), rng.uniform(0, 60, n_rows)
    city = rng.choice(["Bern", "Köln", "Łódź"], n_rows)
    heating = rng.choice(["gas", "oil"], n_rows).astype(object)
    rent = 200 + 9 * area * (city == "Bern") + 5 * area - 4 * np.maximum(age - 30, 0)
    area[rng.uniform(size=n_rows) < 0.15] = np.nan
    heating[rng.uniform(size=n_rows) < 0.1] = None
    columns = {"area": area, "age": age, "city": city, "heating": heating}
    frame = pd.DataFrame(columns).round(2)
    noise = rng.normal(size=n_rows)
    return frame, np.round(rent + 20 * noise + 60 * np.isnan(area), 2)


def numbers(n_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Two planes that meet in an oblique crease."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n_rows, 3)), 3)
    y = np.abs(4 * X[:, 0] + 3 * X[:, 1]) + X[:, 2] + 0.2 * rng.normal(size=n_rows)
    return pd.DataFrame(X, columns=["a", "b", "c"]), np.round(y, 3)


def models() -> dict[str, tuple[SecretRegressor, pd.DataFrame]]:
    """Fitted models of every kind, each with rows to predict."""
    few = {"random_state": 0, "max_leaf_nodes": 6}
    axis = SecretRegressor(oblique=False, prune=None, **few).fit(*rooms(300, 0))
    oblique = SecretRegressor.paper(random_state=0).fit(*numbers(300, 0))
    soft = SecretRegressor(refine="soft", **few).fit(*numbers(300, 1))
    soft.conformalize(*numbers(60, 2))
    assert {SplitKind.AXIS, SplitKind.DISCRETE} <= set(axis.tree_.kind)
    assert SplitKind.OBLIQUE in oblique.tree_.kind
    assert soft.tree_.is_soft
    fresh = numbers(12, 3)[0]
    return {
        "axis": (axis, rooms(12, 3)[0]),
        "oblique": (oblique, fresh),
        "soft": (soft, fresh),
    }


def write() -> None:
    folder = GOLDEN / f"v{FORMAT_VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (model, rows) in models().items():
        path = folder / f"{name}.model"
        if path.exists():
            print(f"{path} exists and stays as it is")
            continue
        model.save(path)
        rows = rows.assign(prediction=model.predict(rows))
        if hasattr(model, "conformity_scores_"):
            features = rows.drop(columns="prediction")
            rows["lower"], rows["upper"] = model.predict_interval(features, 0.8)
        rows.to_csv(folder / f"{name}.csv", index=False)
        (folder / f"{name}.txt").write_text(model.export_text(), "utf-8")
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    write()
