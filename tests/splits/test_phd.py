"""Principal Hessian directions beside their definition in NumPy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from secret_jax import LeastSquares, SecretRegressor
from secret_jax.learners import PhdSplits
from secret_jax.tree.structure import SplitKind


def rows(seed=0, n=500):
    """Correlated attributes, and a target that bends along a sum of two of them."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4)) @ random.normal(size=(4, 4))
    X = X * [1.0, 10.0, 0.1, 1.0]
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    y = np.abs(z[:, 0] - z[:, 2] + 0.3) + z[:, 1]
    return X, y + random.uniform(-0.2, 0.2, n)


def fitted(X, y, oblique=True, **fields):
    model = SecretRegressor(
        oblique=oblique,
        splits=PhdSplits(max_samples=None, **fields),
        leaf=LeastSquares(clip_margin=None),
        prune=None,
        max_depth=1,
    )
    return model.fit(X, y).tree_


def hessian_direction(X, y):
    """Of the residuals of least squares, those beyond three deviations bounded."""
    z = X - X.mean(axis=0)
    design = np.column_stack([np.ones(len(y)), z])
    residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    bounded = np.clip(residual, -3 * residual.std(), 3 * residual.std())
    bounded -= bounded.mean()
    root = np.linalg.inv(np.linalg.cholesky(np.cov(z.T, bias=True)))
    white = z @ root.T
    value, vector = np.linalg.eigh((white * bounded[:, None]).T @ white)
    return vector[:, np.argmax(np.abs(value))] @ root


@pytest.mark.parametrize("seed", range(3))
def test_the_direction_is_the_leading_one_and_the_cut_the_best_along_it(seed):
    X, y = rows(seed)
    assert fitted(X, y, oblique=False).kind[0] == SplitKind.AXIS
    tree = fitted(X, y, thresholds="all")
    assert tree.kind[0] == SplitKind.OBLIQUE
    direction = hessian_direction(X, y)
    found = tree.direction[0] / tree.schema.scale
    alike = np.corrcoef(X @ found, X @ direction)[0, 1]
    assert abs(alike) > 0.9999
    # Least squares on both sides of every threshold.
    projection = X @ found
    design = np.column_stack([np.ones(len(y)), X / X.std(axis=0)])

    def rss(some):
        return np.linalg.lstsq(design[some], y[some], rcond=None)[1].item()

    values = np.sort(projection)
    totals = [rss(projection <= cut) + rss(projection > cut) for cut in values[9:-10]]
    best = values[9:-10][np.argmin(totals)]
    limit = tree.threshold[0] + tree.direction[0] @ (
        tree.schema.center / tree.schema.scale
    )
    assert ((projection <= limit) != (projection <= best)).sum() <= 1


def test_a_table_of_categories_alone_has_no_directions():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 120)
    frame = pd.DataFrame({"kind": pd.Categorical(np.array([*"abc"])[kind])})
    y = kind + 0.1 * rng.normal(size=120)
    model = SecretRegressor(splits="phd", leaf="linear", oblique=True).fit(frame, y)
    assert model.score(frame, y) > 0.9
