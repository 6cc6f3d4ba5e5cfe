"""Leaf models of few regressors: the one that is best, and M5's elimination."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from configurations import crease, shop
from handmade import load_tree, save_tree
from statistics_by_hand import statistics_of

from secret_jax import SecretRegressor
from secret_jax.data.encoding import encode
from secret_jax.data.rows import Rows
from secret_jax.learners import M5Linear
from secret_jax.models.fitting import fit_models
from secret_jax.models.linear import SimpleLinear
from secret_jax.tree.reshape import compact
from secret_jax.tree.routing import apply
from secret_jax.tree.structure import SplitKind
from secret_jax.tree.totals import model_degrees, way_to


def fitted(leaf, parts, weight=None):
    """Models of several nodes, each with its regressors and outputs."""
    x, targets = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    node = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
    statistics = statistics_of(x, targets, weight, node, len(parts))
    return leaf.fit(
        statistics, np.zeros((len(parts), targets.shape[1], 1 + x.shape[1]))
    )


def least_squares(x, y, terms, weight=None):
    """Coefficients on some columns, and the sum of weighted squared errors."""
    root = np.sqrt(np.ones(len(y)) if weight is None else weight)
    design = np.column_stack([np.ones(len(y)), x[:, terms]])
    found = np.linalg.lstsq(root[:, None] * design, root * y, rcond=None)[0]
    return found, np.sum((root * (y - design @ found)) ** 2)


def as_model(n_columns, terms, found):
    model = np.zeros(1 + n_columns)
    model[[0, *(1 + t for t in terms)]] = found
    return model


def random_nodes(seed, sizes=(9, 30, 80), n_columns=5, n_outputs=2):
    rng = np.random.default_rng(seed)
    nodes = []
    for n in sizes:
        x = rng.normal(size=(n, n_columns)) @ rng.normal(size=(n_columns, n_columns))
        slopes = rng.normal(size=(n_columns, n_outputs))
        slopes *= rng.random(slopes.shape) < 0.6
        nodes.append((x, x @ slopes + 2.0 * rng.normal(size=(n, n_outputs)) + 3.0))
    return nodes


@pytest.mark.parametrize("seed", range(2))
def test_the_single_regressor_is_the_best_of_all_lines(seed):
    nodes = random_nodes(seed)
    weight = np.random.default_rng(seed).uniform(1, 3, sum(len(x) for x, _ in nodes))
    model, degrees, _ = fitted(SimpleLinear(), nodes, weight)
    parts = np.split(weight, np.cumsum([len(x) for x, _ in nodes])[:-1])
    for node, ((x, targets), own) in enumerate(zip(nodes, parts, strict=True)):
        for output, y in enumerate(targets.T):
            lines = [least_squares(x, y, [j], own) for j in range(x.shape[1])]
            best = int(np.argmin([error for _, error in lines]))
            expected = as_model(x.shape[1], [best], lines[best][0])
            np.testing.assert_allclose(model[node, output], expected, atol=1e-8)
    np.testing.assert_array_equal(degrees, 2.0)


def eliminated_by_hand(x, y):
    """Every greedy step's model by least squares anew; the one of least (n+v)/(n-v)."""
    n, terms, best = len(y), list(range(x.shape[1])), (np.inf, None, None)
    while True:
        found, error = least_squares(x, y, terms)
        spent = 1 + len(terms)
        value = (n + spent) / (n - spent) * np.sqrt(error / n) if n > spent else np.inf
        if value <= best[0]:
            best = (value, list(terms), found)
        if not terms:
            return best
        worth = [least_squares(x, y, [t for t in terms if t != out]) for out in terms]
        terms.pop(int(np.argmin([error for _, error in worth])))


@pytest.mark.parametrize("seed", range(4))
def test_terms_are_eliminated_by_the_corrected_error(seed):
    nodes = random_nodes(seed)
    model, degrees, _ = fitted(M5Linear(), nodes)
    for node, (x, targets) in enumerate(nodes):
        by_hand = [eliminated_by_hand(x, y) for y in targets.T]
        expected = [as_model(x.shape[1], *found[1:]) for found in by_hand]
        np.testing.assert_allclose(model[node], expected, atol=1e-7)
        assert degrees[node] == np.mean([1 + len(terms) for _, terms, _ in by_hand])


@pytest.mark.parametrize("leaf", [SimpleLinear(), M5Linear()], ids=repr)
def test_strange_nodes_have_sound_models(leaf):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 4))
    x[:, 1], x[:, 3] = 2.0 * x[:, 0], 5.0  # a copy and a constant
    y = 3.0 * x[:, :1] - 1.0
    parts = [(x, y), (x[:2], y[:2]), (x[:3], y[:3]), (x[:0], y[:0]), (x, 0 * y + 7)]
    model, degrees, _ = fitted(leaf, parts)
    assert np.isfinite(model).all()
    said = model[0, 0, 0] + x @ model[0, 0, 1:]
    np.testing.assert_allclose(said, y[:, 0], atol=1e-6)
    assert np.count_nonzero(model[0, 0, 1:]) == 1  # one of the copies is enough
    np.testing.assert_allclose(model[1, 0], [y[:2].mean(), 0, 0, 0, 0], atol=1e-9)
    np.testing.assert_allclose(model[4, 0], [7, 0, 0, 0, 0], atol=1e-9)
    assert list(degrees[[1, 3]]) == [1, 0]


@pytest.fixture(scope="module")
def smoothed():
    X, y = crease()
    model = SecretRegressor(
        leaf="m5", oblique=False, prune=None, equation_tolerance=0, min_samples_split=10
    )
    return model.set_params(leaf__clip_margin=None).fit(X, y), X, y


def test_smoothing_averages_what_the_models_of_the_path_say(smoothed):
    model, X, y = smoothed
    tree, table = model.tree_, encode(model.tree_.schema, X)
    assert tree.n_leaves > 4
    assert tree.max_depth >= 2
    x = np.asarray(table.x)[:, : tree.schema.n_regressors].astype(float)
    target = tree.schema.scale_targets(y[:, None])[:, 0]
    paths, own = [_path(tree, node) for node in apply(tree, table)], {}
    for node in range(tree.n_nodes):
        rows = [node in path for path in paths]
        _, terms, found = eliminated_by_hand(x[rows], target[rows])
        own[node] = (found[0] + x[:, terms] @ found[1:], sum(rows))
    said = np.zeros(len(X))
    for row, path in enumerate(paths):
        said[row] = own[path[0]][0][row]
        for below, node in itertools.pairwise(path):
            n_rows = own[below][1]
            said[row] = (n_rows * said[row] + 15 * own[node][0][row]) / (n_rows + 15)
    predicted = tree.schema.scale_targets(model.predict(X)[:, None])[:, 0]
    np.testing.assert_allclose(predicted, said, atol=1e-5)


def test_models_have_what_is_asked_for_below_them():
    frame, price = shop()
    leaf = M5Linear(attributes="tested", smoothing=0.0, clip_margin=None)
    model = SecretRegressor(
        leaf=leaf, oblique=False, splits="cart", prune=None, equation_tolerance=0
    )
    tree = model.set_params(min_samples_split=30).fit(frame, price).tree_
    rows = Rows(
        encode(tree.schema, frame),
        tree.schema.scale_targets(np.asarray(price)[:, None]),
        np.ones(len(frame)),
    )
    column = np.array(tree.schema.input_columns)[: tree.schema.n_regressors]
    used = tree.coefficient[:, 0, 1:] != 0
    assert not used[tree.is_leaf].any()
    everything = fit_models([tree], [rows], replace(leaf, attributes="all"))[0]
    fewer = 0
    inner = np.flatnonzero(~tree.is_leaf)
    for node in inner:
        asked = {_column(tree, n) for n in inner if node in _path(tree, n)}
        assert set(column[used[node]]) <= asked
        if set(column) <= asked:
            found = everything.coefficient[node]
            np.testing.assert_allclose(tree.coefficient[node], found)
        fewer += asked < set(column)
    assert fewer > 1
    assert SplitKind.DISCRETE in tree.kind
    # What pruning made a leaf keeps its model, though what was asked below is gone.
    pruned = compact(tree, tree.depth < 2)
    assert (pruned.coefficient[pruned.is_leaf, :, 1:] != 0).any()
    again = fit_models([pruned], [rows], leaf)[0]
    np.testing.assert_allclose(
        again.coefficient[pruned.is_leaf], pruned.coefficient[pruned.is_leaf], atol=1e-9
    )


def _column(tree, node):
    """Input column that a split asks for."""
    is_discrete = tree.kind[node] == SplitKind.DISCRETE
    of_kind = tree.schema.discrete if is_discrete else tree.schema.input_columns
    return of_kind[tree.attribute[node]]


def _path(tree, node):
    return [int(node), *(above for above, _ in way_to(tree, node)[::-1])]


def test_degrees_are_the_parameters_of_the_node_itself(smoothed, tmp_path):
    tree = smoothed[0].tree_
    np.testing.assert_array_equal(model_degrees(tree), tree.degrees)
    save_tree(tree, tmp_path / "tree.npz")
    assert not load_tree(tmp_path / "tree.npz").corrects_parent
    # Corrections bring along what their parents spent.
    corrected = replace(tree, corrects_parent=True)
    assert (model_degrees(corrected) >= tree.degrees).all()
    assert model_degrees(corrected).sum() > tree.degrees.sum()
