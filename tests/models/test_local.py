"""Leaves that keep their rows: kernel regression and local linear models."""

from __future__ import annotations

import pickle
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from configurations import crease, shop
from sklearn.base import clone

from secret_jax import HoldOut, KernelMean, LocalLinear, SecretRegressor
from secret_jax.data.encoding import encode
from secret_jax.tree.file import ModelFileError, load_tree, save_tree
from secret_jax.tree.kept import NoEquationsError
from secret_jax.tree.structure import compact, joined

SMALL = {"splits": "cart", "oblique": False, "prune": None, "max_depth": 1}
LEAVES = [KernelMean(clip_margin=None), LocalLinear(clip_margin=None)]
GRID = 2.0 ** np.arange(2.0, -5.5, -0.5)


def waves(seed, n=150, n_outputs=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 2))
    y = np.sin(X[:, [0]]) * np.sin(X[:, [1]]) + np.arange(n_outputs) * X[:, [0]]
    return X, (y + 0.1 * rng.normal(size=y.shape)).squeeze(1 if n_outputs == 1 else ())


def by_hand(degree, x, y, weight, query, bandwidth, spread):
    """One prediction: a weighted mean, or penalised least squares about the row."""
    share = weight * np.exp(-np.sum((x - query) ** 2, axis=1) / (2 * bandwidth**2))
    share /= share.sum()
    if degree == 0:
        return share @ y
    # As rows of their own, the penalty does not touch the level.
    n = x.shape[1]
    penalty = np.sqrt(0.01 * min(bandwidth**2, spread) + 1e-12)
    design = np.column_stack([np.ones(len(x)), x - share @ x])
    design = np.sqrt(share)[:, None] * design
    design = np.concatenate([design, penalty * np.eye(n, n + 1, 1)])
    target = np.concatenate([np.sqrt(share)[:, None] * y, np.zeros((n, y.shape[1]))])
    level, *slope = np.linalg.lstsq(design, target, rcond=None)[0]
    return level + (query - share @ x) @ np.array(slope)


def leaf_rows(model, X, y, weight, leaf):
    """Standardised rows of a leaf, what its equation leaves of them, and a spread."""
    tree = model.tree_
    here = model.apply(X) == leaf
    x = encode(tree.schema, X[here]).x.astype(float)
    targets = tree.schema.scale_targets(y.reshape(len(y), -1)[here])
    equation = tree.coefficient[leaf]
    rest = targets - equation[:, 0] - x @ equation[:, 1:].T
    weight = weight[here]
    mean = np.average(x, axis=0, weights=weight)
    variance = np.average((x - mean) ** 2, axis=0, weights=weight)
    return x, rest, weight, variance


@pytest.fixture(scope="module", params=LEAVES, ids=["kernel", "local"])
def case(request):
    X, y = waves(0, n_outputs=2)
    weight = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    model = SecretRegressor(leaf=request.param, **SMALL).fit(X, y, weight)
    assert model.n_leaves_ == 2
    return model, X, y, weight


def test_predictions_are_those_of_the_rows_of_the_leaf(case):
    model, X, y, weight = case
    new, _ = waves(2, 40)
    new[:3] *= 50  # far from all rows, where every weight is nearly zero
    tree, leaf = model.tree_, model.apply(new)
    x = encode(tree.schema, new).x.astype(float)
    expected = np.empty((len(new), 2))
    for i, own in enumerate(leaf):
        rows = leaf_rows(model, X, y, weight, own)
        width = tree.kept.bandwidth[own]
        at = x[i]
        if i < 3:
            continue
        rest = by_hand(model.leaf.degree, *rows[:3], at, width, rows[3].mean())
        equation = tree.coefficient[own]
        expected[i] = tree.schema.restore_targets(
            (equation[:, 0] + equation[:, 1:] @ at + rest)[None]
        )[0]
    found = model.predict(new)
    np.testing.assert_allclose(found[3:], expected[3:], rtol=0, atol=2e-6)
    assert np.isfinite(found).all()
    for i in range(2):
        one = model.predict(new[i : i + 1])
        np.testing.assert_allclose(one[0], found[i], atol=1e-9 * abs(found[i]).max())


def test_the_bandwidth_is_that_of_least_error_of_rows_left_out(case):
    model, X, y, weight = case
    tree = model.tree_
    for leaf in np.flatnonzero(tree.is_leaf):
        x, rest, w, variance = leaf_rows(model, X, y, weight, leaf)
        bandwidths = GRID * np.sqrt(2 * variance.sum())
        errors = []
        for width in bandwidths:
            off = [
                rest[i]
                - by_hand(
                    model.leaf.degree,
                    *(np.delete(array, i, axis=0) for array in (x, rest, w)),
                    x[i],
                    width,
                    variance.mean(),
                )
                for i in range(len(x))
            ]
            errors.append(np.average(np.square(off), axis=0, weights=w))
        best = int(np.argmin(np.sum(errors, axis=1)))
        if len(x) > 100:  # neither the widest nor the narrowest
            assert 0 < best < len(GRID) - 1
        np.testing.assert_allclose(tree.kept.bandwidth[leaf], bandwidths[best], 1e-6)
        np.testing.assert_allclose(tree.train_error[leaf], errors[best], rtol=1e-4)


def test_kernel_regression_is_a_mean_of_the_targets():
    X, y = waves(3)
    model = SecretRegressor(leaf="kernel", max_depth=0).fit(X, y)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    square = ((z[:, None] - z) ** 2).sum(axis=2)
    weight = np.exp(-square / (2 * model.tree_.kept.bandwidth[0] ** 2))
    expected = weight @ y / weight.sum(axis=1)
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "n_others"),
    [
        ({"prune": "cross-validation"}, 0),
        ({"prune": HoldOut(refit=False)}, 0),
        ({"prune": "holdout"}, 60),
        ({"prune": "holdout", "max_split_samples": 16}, 60),
        ({"prune": HoldOut(refit=False), "max_split_samples": 16}, 0),
    ],
)
def test_the_rows_that_are_kept_are_those_that_train(options, n_others):
    X, y = waves(4, 700)
    weight = np.random.default_rng(5).integers(1, 3, len(y)).astype(float)
    others = None if not n_others else (X[:n_others], y[:n_others], weight[:n_others])
    model = SecretRegressor(leaf="kernel", **{**SMALL, **options})
    model.fit(X[n_others:], y[n_others:], weight[n_others:], eval_set=others)
    tree = model.tree_
    sums = np.add.reduceat(
        np.append(tree.kept.weight, 0), np.minimum(tree.kept.first, tree.kept.first[-1])
    )
    np.testing.assert_allclose(sums[:-1][tree.is_leaf], tree.weight[tree.is_leaf])
    assert np.isnan(tree.kept.bandwidth[~tree.is_leaf]).all()
    assert model.score(X, y) > 0.3


def test_deviations_are_of_rows_left_out():
    X, y = waves(8, 300)
    model = SecretRegressor(leaf="local", max_depth=0).fit(X, y)
    tree = model.tree_
    left_out = np.sqrt(tree.train_error[0, 0]) * tree.schema.target_scale
    _, deviation = model.predict(X, return_std=True)
    np.testing.assert_allclose(deviation, left_out)
    new, truth = waves(9, 1000)
    assert np.sqrt(np.mean((model.predict(new) - truth) ** 2)) < 1.15 * left_out
    model.conformalize(new[:300], truth[:300])
    lower, upper = model.predict_interval(new[300:], coverage=0.8)
    assert 0.75 < np.mean((lower <= truth[300:]) & (truth[300:] <= upper)) < 0.85


def test_many_rows_of_a_leaf_choose_by_some_of_them():
    X, y = waves(6, 1500)
    model = SecretRegressor(leaf="local", max_depth=0).fit(X, y)
    assert len(model.tree_.kept.weight) == 1500
    new, truth = waves(7, 400)
    assert np.mean((model.predict(new) - truth) ** 2) < 0.013  # of which noise: .01


@pytest.mark.parametrize("leaf", ["kernel", "local"])
def test_awkward_tables(leaf):
    model = SecretRegressor(leaf=leaf, min_samples_leaf=1, min_samples_split=2)
    model.set_params(splits="cart", prune=None, oblique=False)
    X, y = crease(12)
    assert np.isfinite(model.fit(X, y).predict(X)).all()
    table, target = shop(120)
    assert np.isfinite(model.fit(table, target).predict(table)).all()
    same = np.zeros((9, 2))
    target = np.arange(9.0)
    np.testing.assert_allclose(model.fit(same, target).predict(same), target.mean())


def test_files_and_pickles_keep_the_rows(case, tmp_path):
    model, X, *_ = case
    expected = model.predict(X)
    model.save(tmp_path / "model")
    for other in (
        SecretRegressor.load(tmp_path / "model"),
        pickle.loads(pickle.dumps(model)),
        model.harden(),
    ):
        assert np.array_equal(other.predict(X), expected)
    kept = model.tree_.kept
    for flaw, change in (
        ("unknown", {"degree": 2}),
        ("other nodes", {"first": kept.first[::-1]}),
        ("residual of its rows", {"residual": kept.residual[:-1]}),
        ("no weight", {"weight": -kept.weight}),
    ):
        crafted = replace(model.tree_, kept=replace(kept, **change))
        save_tree(crafted, tmp_path / "crafted")
        with pytest.raises(ModelFileError, match=flaw):
            load_tree(tmp_path / "crafted")


def test_words_and_pictures_say_what_the_leaves_do(case):
    model, X, _, _ = case
    tree = model.tree_
    leaf = int(np.flatnonzero(tree.is_leaf)[0])
    kind = ["kernel regression", "local linear regression"][model.leaf.degree]
    said = f"{kind} of {tree.kept.n_rows_of(leaf)} rows, bandwidth "
    assert said in model.export_text(output=0)
    assert "left out in turn" in model.export_text(output=0)
    assert said in model.export_dot(output=0).replace("\\n", " ")
    assert said in model.to_dataframe(output=1)["model"][leaf]
    assert kind in model._repr_html_()
    assert model.reading_cost_ > len(X)
    first = tree.output(0)
    assert first.kept.residual.shape == (len(tree.kept.weight), 1)
    plt.close(model.plot_tree(output=0).figure)
    plt.close(model.plot_partition(0, 1, output=1).figure)


def test_what_needs_equations_is_refused(case):
    model, X, y, _ = case
    one = clone(model).fit(X, y[:, 0])
    tree = one.tree_
    for asked in (
        one.coefficients,
        one.export_code,
        lambda: one.export_code("sql"),
        lambda: one.explain(X),
        lambda: one.feature_importances_,
        one.to_html,
        lambda: one.plot_leaf(int(one.apply(X)[0])),
        lambda: compact(tree, np.zeros(tree.n_nodes, bool)),
        lambda: joined([tree, tree]),
    ):
        with pytest.raises(
            NoEquationsError, match=r"have no equations: .*leaf='ridge'"
        ):
            asked()


@pytest.mark.parametrize("leaf", ["kernel", "local"])
def test_what_does_not_go_together_is_refused(leaf):
    X, y = waves(0)
    for refine in ("tao", "blend", "soft"):
        with pytest.raises(ValueError, match="leaves that keep rows"):
            SecretRegressor(leaf=leaf, refine=refine).fit(X, y)
    with pytest.raises(ValueError, match=r"'leaf' parameter .* loss="):
        SecretRegressor(leaf=leaf, loss="huber").fit(X, y)
    with pytest.raises(ValueError, match="a stream has too many"):
        SecretRegressor(leaf=leaf).fit_stream([(X, y)])
