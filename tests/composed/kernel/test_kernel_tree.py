"""Kernel regression over the leaves of a tree, against sums by hand."""

from __future__ import annotations

import tracemalloc

import chex
import numpy as np
import pytest
from configurations import shop

from secret_jax import KernelTreeRegressor, SecretRegressor
from secret_jax.composed.base import Given
from secret_jax.composed.kernel import (
    GaussianProcess,
    RadialBasis,
    Smoothing,
    kernels,
    smoothing,
)
from secret_jax.composed.kernel.interface import Regions
from secret_jax.composed.kernel.kernels import SMOOTHERS
from secret_jax.data.encoding import encode
from secret_jax.data.validation import validated
from secret_jax.runtime.parallel import one_thread_for_products
from secret_jax.tree.file import ModelFileError

STUMP = SecretRegressor(splits="cart", oblique=False, prune=None, max_depth=1)
HEADS = ["kernel", "local"]
KINDS = [*HEADS, "rbf", "gp"]
GRID = 2.0 ** np.arange(2.0, -5.5, -0.5)


def waves(seed, n=150, n_outputs=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 2))
    y = np.sin(X[:, [0]]) * np.sin(X[:, [1]]) + np.arange(n_outputs) * X[:, [0]]
    return X, (y + 0.1 * rng.normal(size=y.shape)).squeeze(1 if n_outputs == 1 else ())


def by_hand(head, x, y, weight, query, bandwidth, spread):
    """One prediction: a weighted mean, or penalised least squares about the row."""
    share = weight * np.exp(-np.sum((x - query) ** 2, axis=1) / (2 * bandwidth**2))
    share /= share.sum()
    if head == "kernel":
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


@pytest.fixture(scope="module", params=HEADS)
def case(request):
    X, y = waves(0, n_outputs=2)
    weight = np.random.default_rng(1).integers(0, 4, len(y)).astype(float)
    return (
        KernelTreeRegressor(STUMP, head=request.param).fit(X, y, weight),
        X,
        y,
        weight,
    )


def leaf_rows(model, X, y, weight, leaf):
    """Standardised rows of a leaf, what the tree leaves of them, and a spread."""
    here = (model.tree_.apply(X) == leaf) & (weight > 0)
    x = encode(model.tree_.tree_.schema, X[here]).x.astype(float)
    rest, weight = y[here] - model.tree_.predict(X[here]), weight[here]
    mean = np.average(x, axis=0, weights=weight)
    return x, rest, weight, np.average((x - mean) ** 2, axis=0, weights=weight)


def test_predictions_are_the_trees_and_of_the_rows_of_the_leaf(case):
    model, X, y, weight = case
    new, _ = waves(2, 40)
    tree = model.tree_
    assert tree.n_leaves_ == len(model.fitted_head_.leaves) == 2
    x, expected = encode(tree.tree_.schema, new).x.astype(float), tree.predict(new)
    for i, leaf in enumerate(tree.apply(new)):
        *rows, variance = leaf_rows(model, X, y, weight, leaf)
        width = model.fitted_head_.leaves[leaf].bandwidth
        rest = by_hand(model.head, *rows, x[i], width, variance.mean())
        expected[i] += np.clip(rest, rows[1].min(axis=0), rows[1].max(axis=0))
    np.testing.assert_allclose(model.predict(new), expected, rtol=0, atol=2e-6)
    far = model.predict(50 * new) - tree.predict(50 * new)
    assert np.abs(far).max() <= np.abs(y - tree.predict(X)).max() + 1e-9


def test_the_bandwidth_is_that_of_least_error_of_rows_left_out(case):
    model, X, y, weight = case
    for leaf, kept in model.fitted_head_.leaves.items():
        x, rest, w, variance = leaf_rows(model, X, y, weight, leaf)
        errors = []
        for width in GRID * np.sqrt(2 * variance.sum()):
            off = []
            for i in range(len(x)):
                others = (np.delete(array, i, axis=0) for array in (x, rest, w))
                said = by_hand(model.head, *others, x[i], width, variance.mean())
                off.append(rest[i] - said)
            errors.append(np.average(np.square(off), axis=0, weights=w))
        best = int(np.argmin(np.sum(errors, axis=1)))
        width = GRID[best] * np.sqrt(2 * variance.sum())
        np.testing.assert_allclose(kept.bandwidth, width, 1e-6)
        np.testing.assert_allclose(kept.deviation**2, errors[best], rtol=1e-4)
        _, deviation = model.predict(X, return_std=True)
        here = model.tree_.apply(X) == leaf
        assert (deviation[here] == kept.deviation).all()


def test_copies_are_left_out_together_and_weights_are_copies():
    X, y = waves(4, 60)
    weight = np.random.default_rng(5).integers(1, 4, len(y))
    one = KernelTreeRegressor(STUMP).fit(X, y, weight.astype(float))
    other = KernelTreeRegressor(STUMP).fit(
        np.repeat(X, weight, 0), np.repeat(y, weight)
    )
    for leaf, kept in one.fitted_head_.leaves.items():
        bandwidth = other.fitted_head_.leaves[leaf].bandwidth
        assert kept.bandwidth == pytest.approx(bandwidth, rel=1e-12)
    np.testing.assert_allclose(one.predict(X), other.predict(X), atol=1e-6)


def test_the_order_of_the_rows_does_not_matter():
    rng = np.random.default_rng(0)
    half = rng.normal(size=(40, 2)).round(3)
    # A row at the means, which are rounded by the order, and rows without a value.
    X = (
        np.concatenate([half, -half, np.zeros((1, 2)), rng.normal(size=(20, 2))])
        + 0.217
    )
    X[-20:, 0] = np.nan
    y = np.abs(np.nan_to_num(X[:, 0])) + X[:, 1] + 0.1 * rng.normal(size=101)
    tree = SecretRegressor(missing_values="mean", max_depth=0)
    value = KernelTreeRegressor(tree, head="gp").fit(X, y).predict(X)
    for _ in range(4):
        order = rng.permutation(101)
        model = KernelTreeRegressor(tree, head="gp").fit(X[order], y[order])
        np.testing.assert_allclose(model.predict(X), value, atol=1e-9)


@pytest.mark.parametrize("head", ["rbf", "gp"])
def test_weights_that_are_no_counts_have_no_scale(head):
    X, y = waves(4, 60)
    weight = np.random.default_rng(5).uniform(0.5, 1.5, len(y))
    one = KernelTreeRegressor(STUMP, head=head).fit(X, y, weight).predict(X)
    other = KernelTreeRegressor(STUMP, head=head).fit(X, y, 0.01 * weight).predict(X)
    np.testing.assert_allclose(other, one, atol=1e-6)


def test_many_rows_choose_by_some_and_go_through_in_blocks(monkeypatch):
    X, y = waves(6, 1500)
    new, truth = waves(7, 400)
    model = KernelTreeRegressor(SecretRegressor(max_depth=0), head="local").fit(X, y)
    found, deviation = model.predict(new, return_std=True)
    assert np.mean((found - truth) ** 2) < 0.013  # of which noise: .01
    assert np.sqrt(np.mean((found - truth) ** 2)) < 1.15 * deviation[0]
    model.conformalize(new[:200], truth[:200])
    low, high = model.predict_interval(new[200:], coverage=0.8)
    assert 0.7 < np.mean((low <= truth[200:]) & (truth[200:] <= high)) < 0.9
    monkeypatch.setattr(kernels, "BLOCK_NUMBERS", 1 << 14)
    np.testing.assert_allclose(model.predict(new), found, atol=1e-9)


def over(tree, X, y, heads):
    """Estimators with each of some heads over one fitted tree."""
    for head in heads:
        model = KernelTreeRegressor(head=head)
        validated(model, X, reset=True)
        fitted, *_ = model._with_head(tree, Given(X, y, None, None), y[:, None])
        vars(model).update(fitted)
        yield model


def narrow():
    """More columns than rows in leaves; one is constant, and two are equal."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 12)) * (np.arange(12) != 3)
    X[:, 5] = X[:, 4]
    return X, X[:, 0] + rng.normal(size=40)


@pytest.mark.parametrize("leaf", ["constant", "ridge"])
@pytest.mark.parametrize("table", [narrow, lambda: shop(120)])
def test_awkward_tables(leaf, table):
    """Leaves of single rows; for the columns see the tables."""
    tree = SecretRegressor(splits="cart", prune=None, oblique=False, leaf=leaf)
    tree.set_params(min_samples_leaf=1, min_samples_split=2)
    X, y = table()
    for model in over(tree.fit(X, y), X, np.asarray(y), KINDS):
        assert np.isfinite(model.predict(X, return_std=True)).all()
        if table is narrow:
            assert np.isfinite(model.predict(1e3 * X, return_std=True)).all()
    X, y = np.zeros((9, 2)), np.arange(9.0)  # in one place
    for model in over(SecretRegressor(leaf=leaf).fit(X, y), X, y, KINDS):
        np.testing.assert_allclose(model.predict(X), y.mean())


@pytest.mark.parametrize("kind", [Smoothing, RadialBasis, GaussianProcess])
def test_no_kernel_or_smoother_breaks_on_narrow_leaves(kind):
    X, y = (np.concatenate([part, part]) for part in narrow())
    y[40:] += 0.1  # copies of rows have other targets
    tree = SecretRegressor(splits="cart", prune=None, oblique=False, leaf="constant")
    heads = [
        kind(kernel=kernel, smoother=smoother)
        for place, kernel in enumerate(kind.kernels)
        for smoother in list(SMOOTHERS)[place % 2 :: 2]
    ]
    for model in over(tree.fit(X, y), X, y, heads):
        assert np.isfinite(model.predict(1e3 * X, return_std=True)).all()


@pytest.mark.parametrize(
    "head", [Smoothing(), RadialBasis(), GaussianProcess(max_centers=50)]
)
def test_a_hundred_thousand_rows_take_bounded_memory(head, monkeypatch):
    """Distances of all pairs would be 80 GB, of the rows of leaves 5 GB."""
    monkeypatch.setattr(smoothing, "_MOST_LEFT_OUT", 16)
    n = 100_000
    rng = np.random.default_rng(0)
    x, leaf = rng.normal(size=(n, 3)), np.arange(n) // (n // 16)
    target = np.sin(x[:, :1]) + 0.1 * rng.normal(size=(n, 1))
    rows = Regions(x, leaf, target, np.zeros_like(target), np.ones(n))
    tracemalloc.start()
    with one_thread_for_products():
        fit = head.fit(rows)
        said, _ = fit.model.predict(x[::100], leaf[::100], rows.base[::100])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 400e6
    assert np.mean((said - np.sin(x[::100, :1])) ** 2) < 0.1


@pytest.fixture(scope="module", params=KINDS)
def any_head(request):
    X, y = waves(8, n_outputs=2)
    return KernelTreeRegressor(STUMP, head=request.param).fit(X, y), X


def test_files_keep_the_head(any_head, tmp_path):
    model, X = any_head
    model.save(tmp_path / "kernel")
    again = KernelTreeRegressor.load(tmp_path / "kernel")
    assert again.head == model.head
    assert again.head_ == model.head_
    assert again.tree.get_params() == model.tree.get_params()
    chex.assert_trees_all_equal(
        again.predict(X, return_std=True), model.predict(X, return_std=True)
    )
    assert again.tree_.export_text(output=0) == model.tree_.export_text(output=0)
    with pytest.raises(ModelFileError, match="Read it with KernelTreeRegressor"):
        SecretRegressor.load(tmp_path / "kernel")
    model.tree_.save(tmp_path / "tree")
    with pytest.raises(ModelFileError, match="Read it with SecretRegressor"):
        KernelTreeRegressor.load(tmp_path / "tree")


def test_bad_rows_are_refused_under_its_own_name():
    X, y = waves(0)
    for wrong, name in (({"tree": "m5"}, "tree"), ({"head": "spline"}, "head")):
        with pytest.raises(ValueError, match=f"'{name}' parameter of KernelTreeReg"):
            KernelTreeRegressor(**wrong).fit(X, y)
    model = KernelTreeRegressor(STUMP)
    with pytest.raises(ValueError, match="row 3 is nan"):
        model.fit(X, np.where(np.arange(len(y)) == 3, np.nan, y))
    before = model.fit(X, y).predict(X)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X[:, :1], np.full(len(y), np.nan))
    assert np.array_equal(model.predict(X), before)
