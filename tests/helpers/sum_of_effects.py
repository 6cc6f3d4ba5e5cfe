"""A table with columns of all kinds, and a sum of their effects."""

from __future__ import annotations

import numpy as np
import pandas as pd


def sum_of_effects(n, seed):
    """The table, the sum, and the generator that they came from."""
    random = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "number": random.normal(size=n),
            "few": random.integers(0, 5, n).astype(float),
            "gaps": np.where(random.random(n) < 0.2, np.nan, random.random(n)),
            "kind": random.choice(["a", "b", "c"], n),
            "day": pd.date_range("2020-01-01", periods=n),
        }
    )
    effect = np.abs(X["number"]) + np.where(X["few"] == 2, 1.5, 0.0)
    effect += np.where(X["gaps"].isna(), 2.0, np.sin(6 * X["gaps"].fillna(0)))
    effect += X["kind"].map({"a": 0.0, "b": 1.0, "c": -1.0}).to_numpy(float)
    effect += np.where(X["day"].dt.day_of_week >= 5, -2.0, 0.0)
    return X, effect, random
