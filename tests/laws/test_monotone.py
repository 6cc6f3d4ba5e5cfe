"""Predictions rise and fall with constrained columns, wherever two rows may be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from secret_jax import (
    KernelTreeClassifier,
    KernelTreeRegressor,
    LeastSquares,
    SecretBoostingClassifier,
    SecretBoostingRegressor,
    SecretClassifier,
    SecretForestRegressor,
    SecretRegressor,
)
from secret_jax.data.encoding import encode
from secret_jax.data.rows import Rows
from secret_jax.models.fitting import fit_models, node_errors
from secret_jax.models.ridge import Ridge
from secret_jax.splits.classes import ClassSplits
from secret_jax.tree.structure import SplitKind

DIRECTIONS = {"age": 1, "dose": -1, "stage": 1}
SMALL = {"max_leaf_nodes": 12, "prune": None, "equation_tolerance": 0}


def patients(n_rows=600, seed=0):
    """A table with gaps, a category and an ordered one, and a target that bends."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": random.uniform(20, 90, n_rows),
            "dose": random.exponential(1.0, n_rows),
            "weight": random.normal(70, 12, n_rows),
            "ward": random.choice(["a", "b", "c"], n_rows),
            "stage": pd.Categorical(
                random.choice(["I", "II", "III"], n_rows), ordered=True
            ),
        }
    )
    age, weight = table["age"].to_numpy(), table["weight"].to_numpy()
    target = (age / 30) ** 2 - 2 * np.sqrt(table["dose"]) + table["stage"].cat.codes
    # Interactions, and noise that violates the constraints.
    target += (table["ward"] == "b") * 0.05 * age + 2 * np.sin(weight / 6)
    target += random.normal(0, 1.0, n_rows)
    table.loc[random.random(n_rows) < 0.1, "weight"] = np.nan
    table.loc[random.random(n_rows) < 0.1, "dose"] = np.nan
    return table, target.to_numpy()


def greatest_violation(predict, table, n_pairs=4000, seed=1):
    """Most that a prediction falls against a constraint, in pairs of rows."""
    random = np.random.default_rng(seed)
    worst = 0.0
    for column, direction in DIRECTIONS.items():
        rows = table.sample(n_pairs, replace=True, random_state=seed)
        first, second = rows.copy(), rows.copy()
        if column == "stage":
            levels = table["stage"].cat.categories
            places = np.sort(random.integers(0, 3, (n_pairs, 2)), axis=1)
            for part, place in zip((first, second), places.T, strict=True):
                part["stage"] = pd.Categorical(levels[place], levels, ordered=True)
        else:
            low, high = table[column].min(), table[column].max()
            wide = 0.2 * (high - low)
            ends = np.sort(random.uniform(low - wide, high + wide, (n_pairs, 2)))
            first[column], second[column] = ends.T
        rise = direction * (predict(second) - predict(first))
        worst = max(worst, float(-rise.min()))
    return worst


@pytest.mark.parametrize(
    "options",
    [
        {"oblique": False},
        *({"oblique": False, "max_leaf_nodes": n} for n in (2, 5)),
        {"oblique": True},
        {"oblique": True, "refine": "tao"},
        {"leaf": "constant"},
        {"leaf": LeastSquares(clip_margin=None), "oblique": False},
        {"loss": "absolute", "oblique": False},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_trees_never_violate_a_constraint(options):
    table, target = patients()
    model = SecretRegressor(monotonic_cst=DIRECTIONS, **(SMALL | options))
    model.fit(table, target)
    if "max_leaf_nodes" not in options:
        assert model.n_leaves_ > 4
        free = SecretRegressor(**(SMALL | options)).fit(table, target)
        assert greatest_violation(free.predict, table) > 0.05
    assert greatest_violation(model.predict, table) <= 2e-6 * np.std(target)


@pytest.mark.parametrize(
    "estimator",
    [
        SecretBoostingRegressor(max_iter=8, max_leaf_nodes=6),
        SecretForestRegressor(n_estimators=5),
        SecretClassifier(**SMALL),
        SecretBoostingClassifier(max_iter=6, max_leaf_nodes=6),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_sums_and_probabilities_never_violate_a_constraint(estimator):
    table, target = patients()
    of_classes = hasattr(estimator, "predict_proba")
    model = estimator.set_params(monotonic_cst=DIRECTIONS)
    model.fit(table, target > 2 if of_classes else target)

    def said(rows):
        return model.predict_proba(rows)[:, 1] if of_classes else model.predict(rows)

    allowed = 2e-6 if of_classes else 5e-6 * np.std(target)
    assert greatest_violation(said, table) <= allowed


def test_the_default_costs_nothing_where_the_constraints_hold():
    """On the mean of ten tables; one may be a fifth off either way."""
    errors = []
    for seed in range(10):
        random = np.random.default_rng(seed)
        X, new = random.uniform(size=(500, 4)), random.uniform(size=(2000, 4))
        of_rows, truth = (
            3 * Z[:, 0] - 2 * Z[:, 1] + np.sin(6 * Z[:, 2]) for Z in (X, new)
        )
        y = of_rows + random.normal(0, 0.3, 500)
        for directions in (None, [1, -1, 0, 0]):
            model = SecretRegressor(monotonic_cst=directions).fit(X, y)
            errors.append(np.mean((model.predict(new) - truth) ** 2))
    free, constrained = np.reshape(errors, (10, 2)).mean(axis=0)
    assert constrained < free


def test_sides_whose_planes_cross_far_from_all_rows_cost_little():
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 7)).clip(-3, 3)
    other = X[:, 1:].sum(axis=1)
    y = np.where(X[:, 0] > 0, 20 + other, -other) + random.normal(0, 0.5, 3000)
    free = SecretRegressor(max_leaf_nodes=2).fit(X[:1000], y[:1000])
    model = SecretRegressor(monotonic_cst=[1, *[0] * 6], max_leaf_nodes=2)
    model.fit(X[:1000], y[:1000])
    errors = [np.mean((m.predict(X[1000:]) - y[1000:]) ** 2) for m in (free, model)]
    assert errors[1] < 1.01 * errors[0]


@pytest.mark.parametrize("splits", ["rss", "secret", "phd", ClassSplits()], ids=str)
def test_sums_leave_out_columns_with_a_direction(splits):
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(600, 4))
    y = np.abs(X.sum(axis=1)) + random.normal(0, 0.05, 600)
    model = SecretRegressor(splits=splits, oblique=True, prune="bic")
    if isinstance(splits, ClassSplits):
        model, y = SecretClassifier(splits=splits, oblique=True, prune=None), y > 0.6
    tree = model.set_params(monotonic_cst=[1, -1, 0, 0]).fit(X, y).tree_
    assert (tree.kind == SplitKind.OBLIQUE).any()
    assert not tree.direction[tree.kind == SplitKind.OBLIQUE, :2].any()
    alone = model.set_params(monotonic_cst=[1, -1, 1, 1]).fit(X, y)
    assert not (alone.tree_.kind == SplitKind.OBLIQUE).any()


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_errors_in_the_text_are_those_of_clipped_predictions(loss):
    table, target = patients()
    model = SecretRegressor(loss=loss, oblique=False, monotonic_cst=DIRECTIONS)
    tree = model.fit(table, target).tree_
    told = tree.loss.reported(float(tree.leaf_error[0]), tree.schema.target_scale)
    off = np.abs(model.predict(table) - target)
    of_half = 0.5 * np.mean(off) / tree.schema.target_scale
    errors = {"squared": np.sqrt(np.mean(off**2)), "absolute": of_half}
    assert told == pytest.approx(errors[loss], rel=1e-4)


def test_one_leaf_is_bounded_least_squares():
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 3)) @ random.normal(size=(3, 3))
    y = X @ [1.0, -0.5, 0.3] + random.normal(size=200)
    model = SecretRegressor(
        monotonic_cst=[-1, 1, 0],
        max_leaf_nodes=1,
        leaf=LeastSquares(tail_share=0.0),
        equation_tolerance=0,
    ).fit(X, y)
    centered = X - X.mean(axis=0)

    def error(slopes):
        return np.sum((y - y.mean() - centered @ slopes) ** 2)

    bounds = [(None, 0), (0, None), (None, None)]
    best = minimize(error, np.zeros(3), bounds=bounds, tol=1e-12)
    found = np.sum((y - model.predict(X)) ** 2)
    assert found == pytest.approx(best.fun, rel=2e-3)


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ({"size": 1}, "'size', but there is no such column"),
        ({"ward": 1}, "'ward', whose values are categories"),
        ({"age": 2}, "2 for column 'age'; give 1 for rising"),
        ([1, 0], r"shape \(2,\); give one direction for each of the 5 columns"),
    ],
)
def test_wrong_constraints_are_refused(constraint, message):
    table, target = patients(100)
    with pytest.raises(ValueError, match=message):
        SecretRegressor(monotonic_cst=constraint).fit(table, target)


_TREE = SecretRegressor(monotonic_cst=DIRECTIONS)
_CLASSES = SecretClassifier(monotonic_cst=DIRECTIONS)


@pytest.mark.parametrize(
    ("model", "n_classes", "message"),
    [
        (SecretRegressor.accurate(monotonic_cst=DIRECTIONS), 0, "gates keep no order"),
        (_CLASSES, 3, "two classes"),
        (KernelTreeRegressor(tree=_TREE), 0, "keeps no order"),
        (KernelTreeClassifier(tree=_CLASSES), 2, "keeps no order"),
    ],
    ids=["gates", "classes", "kernel", "kernel of classes"],
)
def test_what_keeps_no_order_is_refused(model, n_classes, message):
    table, target = patients(100)
    target = np.digitize(target, [1, 4][: n_classes - 1]) if n_classes else target
    with pytest.raises(ValueError, match=message):
        model.fit(table, target)


def test_constant_columns_beside_directions_are_fitted_and_kept(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=200), "k": 1.0})
    model = SecretRegressor(monotonic_cst={"a": 1}).fit(X, 2.0 * X["a"])
    assert np.all(np.diff(model.predict(X.sort_values("a"))) >= 0)
    model.save(tmp_path / "model")
    again = SecretRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_pruning_knows_what_the_order_of_sides_costs():
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (300, 2))
    y = X[:, 1] + 5.0 * (X[:, 0] > 0) + 0.1 * random.normal(size=300)
    model = SecretRegressor(oblique=False, **SMALL).fit(X, y)
    schema = model.tree_.schema
    tree = replace(model.tree_, schema=replace(schema, monotonic=((0, -1),)))
    targets = schema.scale_targets(y[:, None])
    rows = Rows(encode(schema, X).on_host(), targets, np.ones(300))
    (tree,) = fit_models([tree], [rows], Ridge())
    expected = node_errors(tree, rows)
    np.testing.assert_allclose(tree.train_error[:, 0] * tree.weight, expected)
    assert expected[tree.is_leaf].sum() > 0.9 * expected[0]
