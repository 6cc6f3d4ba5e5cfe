"""Trees that are grown again on what the trees of a cross-validation say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from schemas import learn_schema

from secret_jax import Distillation, Ridge, SecretRegressor
from secret_jax.data.columns import read_columns
from secret_jax.data.encoding import encode
from secret_jax.data.learning import ColumnOptions
from secret_jax.datasets import make_fried
from secret_jax.fit.refine.distillation import between


def fitted_pair(X, y, **parameters):
    """The tree without and with a second growth."""
    return [
        SecretRegressor(random_state=0, distill=again, **parameters).fit(X, y)
        for again in (False, True)
    ]


def test_it_errs_less_with_no_more_leaves():
    ratios = []
    for seed in range(2):
        X, y = make_fried(600 + 2000, random_state=seed)
        models = fitted_pair(X[:600], y[:600])
        once, again = (np.mean((m.predict(X[600:]) - y[600:]) ** 2) for m in models)
        ratios.append(again / once)
        assert models[1].n_leaves_ <= models[0].n_leaves_
    assert np.exp(np.mean(np.log(ratios))) < 0.95


def test_weights_and_errors_are_those_of_the_rows():
    X, y = make_fried(300, random_state=1)
    leaf = Ridge(clip_margin=None)
    model = SecretRegressor(random_state=0, leaf=leaf).fit(X, y)
    tree, reached = model.tree_, model.apply(X)
    plain = SecretRegressor(random_state=0, leaf=leaf, distill=False)
    assert not np.array_equal(plain.fit(X, y).predict(X), model.predict(X))
    np.testing.assert_allclose(
        tree.weight[tree.is_leaf],
        np.bincount(reached, minlength=tree.n_nodes)[tree.is_leaf],
    )
    squared = ((model.predict(X) - y) / tree.schema.target_scale) ** 2
    large = SecretRegressor(min_samples_leaf=0.1).fit(X, y)
    assert np.bincount(large.apply(X))[large.tree_.is_leaf].min() >= 30
    for node in np.flatnonzero(tree.is_leaf):
        expected = squared[reached == node].mean()
        assert tree.train_error[node, 0] == pytest.approx(expected, rel=1e-3)


def test_nothing_changes_where_rows_are_held_out_or_the_rows_fitted_too_badly():
    X, y = make_fried(600, random_state=3)
    once, again = fitted_pair(X, y, prune="holdout")
    np.testing.assert_array_equal(once.predict(X), again.predict(X))
    X, y = make_fried(300, random_state=6)
    once, again = fitted_pair(X, y, pruning_tolerance=0.1)
    own = Distillation(most_rise=0.0)
    strict = SecretRegressor(**again.get_params(deep=False) | {"distill": own})
    np.testing.assert_array_equal(once.predict(X), strict.fit(X, y).predict(X))
    assert not np.array_equal(once.predict(X), again.predict(X))


@pytest.mark.parametrize("modelled", [False, True])
def test_points_between_keep_categories_and_missing_values(rng, modelled):
    number = rng.normal(size=200)
    number[::3] = np.nan
    X = pd.DataFrame({"a": rng.normal(size=200), "b": number, "c": list("xy") * 100})
    schema = learn_schema(
        read_columns(X),
        rng.normal(size=(200, 1)),
        np.ones(200),
        ColumnOptions(
            category_indicators=True, missing_indicators=modelled, missing="learn"
        ),
    )
    assert bool(schema.missing_modelled) == modelled
    table = encode(schema, X)
    first, second = rng.integers(0, 200, (2, 500))
    share = rng.uniform(0, 0.5, 500)
    share[:50] = 0
    points = between(table, schema, first, second, share)
    np.testing.assert_array_equal(points.codes, table.codes[first])
    np.testing.assert_array_equal(points.x[:50], table.x[first[:50]])
    assert len(schema.missing_columns) == 1
    for column, indicator in schema.missing_columns:
        np.testing.assert_array_equal(points.x[:, indicator], table.x[first, indicator])
        missing = table.x[first, indicator] > 0
        np.testing.assert_array_equal(
            points.x[missing, column], table.x[first, column][missing]
        )
    a = (1 - share) * table.x[first, 0] + share * table.x[second, 0]
    np.testing.assert_allclose(points.x[:, 0], a, atol=1e-6)


def test_a_tree_of_several_outputs_learns_all_of_them():
    X, y = make_fried(500 + 2000, random_state=0)
    noise = 0.1 * np.random.default_rng(0).normal(size=len(X))
    targets = np.stack([y, np.abs(X[:, 0] - X[:, 1]) + noise], axis=1)
    once, again = fitted_pair(X[:500], targets[:500], pruning_tolerance=0.0)
    assert again.n_leaves_ <= once.n_leaves_
    errors = [
        np.mean((model.predict(X[500:]) - targets[500:]) ** 2, axis=0)
        for model in (once, again)
    ]
    assert np.exp(np.mean(np.log(errors[1] / errors[0]))) < 0.97
