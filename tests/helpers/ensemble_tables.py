"""Tables that single trees of a few leaves do not learn, for tests of ensembles."""

from __future__ import annotations

import numpy as np
from configurations import shop

# A booster of few rounds.
SMALL = {"max_leaf_nodes": 4, "max_iter": 4, "early_stopping": False, "n_folds": 2}
NAMES = np.array(["low", "middle", "top"])


def wave(n_rows=300, seed=0, n_columns=3, noise=0.1):
    """A sine, and a slope on one side; further columns say nothing."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_rows, n_columns))
    y = np.sin(4 * X[:, 0]) + X[:, 1] * (X[:, 2] > 0)
    return X, y + noise * rng.normal(size=n_rows)


def gaps(n_rows=300, seed=0):
    """The shop with holes in it."""
    frame, price = shop(n_rows, seed)
    frame.loc[::7, "width"] = np.nan
    frame.loc[::11, "colour"] = None
    return frame, price


def rings(n_rows=300, seed=0, n_classes=3):
    """Classes by the distance from the middle: no line tells them apart."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    radius = np.hypot(X[:, 0], X[:, 1]) + 0.1 * rng.normal(size=n_rows)
    return X, NAMES[np.digitize(radius, [0.8, 1.5][: n_classes - 1])]
