"""Tables that are streamed, and how fitted trees are compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from secret_jax import SecretRegressor
from secret_jax.splits.rss import RssSplits
from secret_jax.tree.structure import ARRAY_FIELDS

N_ROWS = 70_000
# A sample of a few thousand rows grows the tree, as it does of millions.
SMALL: dict[str, Any] = {
    "splits": RssSplits(max_samples=64),
    "max_leaf_nodes": 8,
    "oblique": False,
    "random_state": 0,
}


def mixed_table() -> pd.DataFrame:
    """Numbers of several types, some missing, categories, truth values and dates."""
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "a": rng.normal(1e4, 1.0, N_ROWS).astype(np.float32),
            "colour": rng.choice(["red", "green", "blue"], N_ROWS),
            "b": rng.normal(size=N_ROWS),
            "count": rng.integers(0, 50, N_ROWS),
            "works": rng.random(N_ROWS) < 0.3,
            "day": pd.to_datetime("2020-01-01")
            + pd.to_timedelta(rng.integers(0, 1000, N_ROWS), "D"),
        }
    )
    frame.loc[rng.random(N_ROWS) < 0.1, "b"] = np.nan
    frame.loc[rng.random(N_ROWS) < 0.1, "colour"] = None
    red = (frame["colour"] == "red").to_numpy()
    signal = (frame["a"].to_numpy() - 1e4) * np.where(red, 3.0, -1.0)
    slope = frame["count"].to_numpy() * 0.1 * frame["works"].to_numpy()
    frame["y"] = signal + slope + 0.1 * rng.normal(size=N_ROWS)
    frame["w"] = rng.integers(0, 3, N_ROWS).astype(float)
    return frame


def pieces(frame: pd.DataFrame, sizes: list[int]) -> Iterator[pd.DataFrame]:
    """A table in pieces of the given sizes, and the rest."""
    start = 0
    for size in [*sizes, len(frame)]:
        yield frame.iloc[start : start + size]
        start += size


def write_parts(folder: Path, frame: pd.DataFrame, sizes: list[int]) -> Path:
    """A folder of Parquet files, of uneven row groups."""
    folder.mkdir(exist_ok=True)
    for number, part in enumerate(pieces(frame, sizes)):
        path = folder / f"part-{number:03}.parquet"
        part.to_parquet(path, index=False, row_group_size=13_000)
    return folder


def assert_same_model(found: SecretRegressor, expected: SecretRegressor):
    """The same splits, and numbers to 1e-6: the trees, and what they know of tables."""
    for name in ARRAY_FIELDS:
        own, other = (getattr(model.tree_, name) for model in (found, expected))
        exact = {} if own.dtype.kind == "f" else {"rtol": 0, "atol": 0}
        tolerance = {"rtol": 1e-6, "atol": 1e-6} | exact
        np.testing.assert_allclose(own, other, **tolerance, err_msg=name)
    its, other = vars(found.tree_.schema), vars(expected.tree_.schema)
    for name in its:
        try:
            np.testing.assert_allclose(its[name], other[name], rtol=1e-9, atol=1e-9)
        except (TypeError, ValueError):  # these are no numbers
            assert its[name] == other[name], name
