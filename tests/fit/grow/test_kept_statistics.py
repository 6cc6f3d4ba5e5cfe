"""What growth sums over rows is kept, and rows are not summed again."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from configurations import crease, encoded, planes
from traceable_finder import VarianceSplits

from benchmarks.device.counting import as_on_accelerator
from secret_jax import (
    CrossValidation,
    HoldOut,
    RssSplits,
    SecretBoostingRegressor,
    SecretForestRegressor,
    SecretRegressor,
)
from secret_jax.data.encoding import encode
from secret_jax.fit import pipeline
from secret_jax.fit.grow import on_device, trees
from secret_jax.fit.grow.execution import GrowOptions
from secret_jax.fit.grow.frontier import Root
from secret_jax.fit.grow.grower import grown
from secret_jax.models import fitting, short_models
from secret_jax.tree.routing import paths_of
from secret_jax.tree.walk import descend

N_ROWS = 500
WHERE = {
    "host": (nullcontext, RssSplits(max_samples=None)),
    "device": (as_on_accelerator, VarianceSplits()),
}


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    monkeypatch.setattr(on_device, "_FEWEST_ROWS", 1 << 10)


@pytest.fixture(scope="module")
def table():
    return encoded(*crease(N_ROWS))


def roots_of() -> list[Root]:
    """All rows; some of them, of other weights and targets; others, not measured."""
    rng = np.random.default_rng(2)
    some, limits = rng.permutation(N_ROWS)[:300], {"min_split_weight": 20.0}
    limits |= {"min_leaf_weight": 9.0, "oblique": False, "measured": True}
    weight, targets = rng.uniform(0.5, 2.0, 300), rng.normal(size=(300, 1))
    return [
        Root(rows=np.arange(N_ROWS), **limits),
        Root(rows=some, weight=weight, targets=targets, max_leaf_nodes=5, **limits),
        Root(rows=some, **(limits | {"measured": False})),
    ]


@pytest.mark.parametrize("where", WHERE)
def test_kept_statistics_are_sums_over_the_rows_of_every_node(where, table):
    computing, finder = WHERE[where]
    (rows, schema), roots = table, roots_of()
    options = GrowOptions(finder=finder, sample=None, min_gain=0.0)
    with computing():
        found = grown(rows, schema, options, roots)
    assert found[0].tree.n_leaves > found[1].tree.n_leaves == 5
    assert found[2].statistics is None
    for each, root in zip(found[:2], roots, strict=False):
        path = paths_of(each.tree, rows.table.take(root.rows))
        targets, weight = root.lesson(rows)
        x = rows.table.x[root.rows, : schema.n_regressors]
        joint = np.concatenate([x, targets], axis=1)
        assert each.statistics is not None
        for node, own in enumerate(zip(*each.statistics, strict=True)):
            here = (path == node).any(axis=0)
            mean = np.average(joint[here], axis=0, weights=weight[here])
            off = joint[here] - mean
            scatter = (weight[here, None] * off).T @ off
            ends = targets[here].min(axis=0), targets[here].max(axis=0)
            for one, other in zip(
                own[:5], (weight[here].sum(), mean, scatter, *ends), strict=True
            ):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4)


def test_leaves_of_rows_are_known_also_of_a_tree_that_has_grown_on(table):
    (rows, schema), seen = table, []

    def enough(_, so_far):
        seen.append(so_far()[0])
        return np.zeros(0, int)

    options = GrowOptions(finder=WHERE["host"][1], sample=None, min_gain=0.0)
    seen.append(grown(rows, schema, options, roots_of(), enough=enough))
    assert len(seen) > 3
    for found in seen:
        for each, root in zip(found, roots_of(), strict=True):
            part, start = rows.table.take(root.rows), np.zeros(len(root.rows), int)
            expected = descend(each.tree, part, start, each.tree.max_depth)
            np.testing.assert_array_equal(each.leaf, expected)


@pytest.mark.parametrize("name", ["booster", "forest"])
def test_ensembles_with_an_order_read_no_rows_again_on_a_device(name, monkeypatch):
    model = {
        "booster": SecretBoostingRegressor(max_iter=2, early_stopping=False),
        "forest": SecretForestRegressor(n_estimators=2),
    }[name].set_params(random_state=0, monotonic_cst=[1, 0, 0], max_leaf_nodes=4)
    monkeypatch.setattr(on_device, "_FEWEST_NODES", 4)
    X, y = crease(N_ROWS)
    with as_on_accelerator(), monkeypatch.context() as here:
        here.setattr(trees, "fit_models", lambda *a, **k: pytest.fail("read again"))
        there = model.fit(X, y).predict(X)
    assert np.mean((there - model.fit(X, y).predict(X)) ** 2) < 1e-3 * y.var()


RULES = {
    "held out, grown again": HoldOut(),
    "held out": HoldOut(refit=False),
    "folds": CrossValidation(n_folds=2),
}


@pytest.mark.parametrize("looked_at", [N_ROWS, 100])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_tree_tells_of_its_rows_after_one_reading_at_most(
    rule, looked_at, monkeypatch
):
    passes = []
    for module, name in (
        (pipeline, "counted_statistics"),
        (short_models, "node_statistics"),
        (trees, "fit_models"),
        (fitting, "group_statistics"),
    ):
        original = getattr(module, name)

        def spy(*arguments, name=name, original=original, **more):
            passes.append(name)
            return original(*arguments, **more)

        monkeypatch.setattr(module, name, spy)
    monkeypatch.setattr(pipeline, "ROWS_LOOKED_AT", looked_at)
    X, y = planes(N_ROWS)
    model = SecretRegressor(
        splits=VarianceSplits(), leaf="ridge", prune=rule, distill=False, random_state=0
    )
    with as_on_accelerator():
        tree = model.fit(X, y).tree_
    assert tree.n_leaves > 2
    # Splits that were rounded by some rows only may move others.
    expected = ["counted_statistics", "group_statistics"] if looked_at < N_ROWS else []
    assert passes == expected
    if rule == RULES["held out"]:
        return
    rows = encode(tree.schema, X)
    path, targets = paths_of(tree, rows), tree.schema.scale_targets(y[:, None])
    for node in range(tree.n_nodes):
        here = (path == node).any(axis=0)
        x, own = rows.x[here, : tree.schema.n_regressors], targets[here]
        np.testing.assert_allclose(tree.weight[node], here.sum(), rtol=1e-9)
        for found, expected in (
            (tree.mean, own.mean(axis=0)),
            (tree.deviation, own.std(axis=0)),
            (tree.center, x.mean(axis=0)),
            (tree.spread, x.std(axis=0)),
        ):
            np.testing.assert_allclose(found[node], expected, rtol=1e-4, atol=1e-5)
        model_of = tree.coefficient[node]
        error = own - model_of[:, 0] - x @ model_of[:, 1:].T
        mean = (error**2).mean(axis=0)
        np.testing.assert_allclose(tree.train_error[node], mean, rtol=1e-3, atol=1e-6)
