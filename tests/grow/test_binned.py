"""The search on binned columns, against brute force and by its laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from configurations import assert_same_tree, encoded, tree_bytes

from secret_jax import RssSplits
from secret_jax.data.rows import Rows, Table
from secret_jax.grow.bins import Bins
from secret_jax.grow.frontier import Root
from secret_jax.grow.grower import grown
from secret_jax.grow.search import GrowOptions
from secret_jax.models.fitting import fit_models
from secret_jax.tree.structure import SplitKind

OPTIONS = GrowOptions(finder=RssSplits(n_hinge=1, sparse_terms=()), min_gain=0.0)
N_ROWS = 400


def grow(rows: Rows, schema, *roots: Root) -> list:
    bins = Bins.of(rows.table, schema)
    return [each.tree for each in grown(rows, schema, OPTIONS, roots, bins=bins)]


def root_of(n_rows=N_ROWS, **changes) -> Root:
    given = {"min_split_weight": 20.0, "min_leaf_weight": 8.0, "oblique": False}
    return Root(rows=np.arange(n_rows), **given | changes)


@pytest.fixture(scope="module")
def levels():
    """Numbers of twelve levels, a colour, and slopes that change at a level."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 12, (N_ROWS, 3)) / 4.0
    colour = rng.choice(list("rgbw"), N_ROWS)
    y = np.where(x[:, 1] > 1.4, 2 * x[:, 0], -x[:, 0]) + (colour == "r") * x[:, 2]
    X = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "colour": colour})
    return encoded(X, y + 0.1 * rng.normal(size=N_ROWS))


def penalised_gain(x, residual, left, ridge):
    """Drop of the penalised sum of squares by a ridge model on each side."""
    total, variance = 0.0, x.var(axis=0)
    for side in (left, ~left):
        own = np.column_stack([np.ones(side.sum()), (x - x.mean(axis=0))[side]])
        penalty = np.diag(np.r_[0.0, ridge * side.sum() * variance])
        moment = own.T @ residual[side]
        total += moment @ np.linalg.solve(own.T @ own + penalty, moment)
    return total


def test_the_best_cut_between_levels_is_that_of_brute_force(levels):
    rows, schema = levels
    n = schema.n_regressors
    tree = grow(rows, schema, root_of(max_leaf_nodes=2))[0]
    x = rows.table.x[:, :n].astype(float)
    targets = rows.targets[:, 0]
    # The root's model: ridge by generalised cross-validation, hardly shrunk here.
    model = fit_models([tree], [rows], OPTIONS.finder.node_model)[0].coefficient[0, 0]
    residual = targets - model[0] - x @ model[1:]
    gains = {}
    for column in range(3):
        for cut in np.unique(x[:, column])[:-1]:
            left = x[:, column] <= cut
            gains[column, cut] = penalised_gain(x, residual, left, 3e-2)
    column, cut = max(gains, key=gains.__getitem__)
    assert (tree.kind[0], tree.attribute[0]) == (SplitKind.AXIS, column)
    above = np.unique(x[:, column])
    assert cut < tree.threshold[0] < above[above > cut].min()
    assert tree.gain[0] == pytest.approx(gains[column, cut], rel=1e-3)


def test_constants_split_where_the_sum_of_squares_falls_most():
    x = np.random.default_rng(3).integers(0, 12, (N_ROWS, 3)) / 4.0
    y = np.where(x[:, 1] > 1.4, 2 * x[:, 0], -x[:, 0])
    X = pd.DataFrame(x, columns=list("abc"))
    rows, schema = encoded(X, y, use_regressors=False)
    tree = grow(rows, schema, root_of(max_leaf_nodes=2))[0]
    targets = rows.targets[:, 0]

    def drop(left):
        parts = targets[left], targets[~left]
        return targets.var() * N_ROWS - sum(p.var() * len(p) for p in parts)

    found = [drop(c <= t) for c in rows.table.x[:, :3].T for t in np.unique(c)[:-1]]
    assert tree.gain[0] == pytest.approx(max(found), rel=1e-3)


def test_ends_of_many_values_are_not_cut_off_but_rare_ones_of_few_are():
    rng = np.random.default_rng(0)
    for x in (np.exp(3 * rng.normal(size=N_ROWS)), rng.integers(0, 3, N_ROWS) / 2.0):
        rare = np.argsort(x, kind="stable")[-16:]  # more than the eight of a leaf
        x[rare] += x.max()
        y = np.zeros(N_ROWS)
        y[rare] = 9.0
        rows, schema = encoded(pd.DataFrame({"a": x}), y, use_regressors=False)
        tree = grow(rows, schema, root_of(max_leaf_nodes=2))[0]
        right = (rows.table.x[:, 0] > tree.threshold[0]).sum()
        many = len(np.unique(x)) > 16
        assert (right >= N_ROWS / 16) if many else right == 16


def test_constants_split_categories_as_brute_force_does():
    rng = np.random.default_rng(0)
    colour = rng.choice(list("rgbwk"), N_ROWS)
    height = pd.Series({"r": 1.0, "g": 0.0, "b": 2.0, "w": 0.1, "k": 1.8})
    y = height[colour].to_numpy() + 0.1 * rng.normal(size=N_ROWS)
    X = pd.DataFrame({"a": rng.normal(size=N_ROWS), "colour": colour})
    rows, schema = encoded(X, y, use_regressors=False)
    tree = grow(rows, schema, root_of(max_leaf_nodes=2))[0]
    names = np.array(schema.categories[0])
    assert tree.kind[0] == SplitKind.DISCRETE
    groups = {
        frozenset(names[side]) for side in (tree.goes_left[0], ~tree.goes_left[0])
    }
    assert groups == {frozenset("gw"), frozenset("rbk")}


def test_missing_values_go_where_they_belong():
    rng = np.random.default_rng(1)
    a = rng.integers(0, 8, N_ROWS).astype(float)
    y = np.where(a > 4.5, 3.0, 0.0) + 0.1 * rng.normal(size=N_ROWS)
    gap = rng.random(N_ROWS) < 0.3
    for high in (True, False):
        own = np.where(gap, 3.0 if high else 0.0, y)
        X = pd.DataFrame({"a": np.where(gap, np.nan, a)})
        rows, schema = encoded(
            X, own, missing="learn", missing_indicators=False, use_regressors=False
        )
        tree = grow(rows, schema, root_of(max_leaf_nodes=2))[0]
        column, indicator = schema.missing_columns[0]
        left = rows.table.x @ tree.direction[0] <= tree.threshold[0]
        assert (left == (own <= 1.5)).all()
        observed = ~gap & (left != high)
        inside = rows.table.x[observed, column].mean()
        assert tree.direction[0, indicator] == pytest.approx(inside, abs=0.02)


def test_oblique_nodes_find_the_direction_of_a_crease():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(N_ROWS, 4))
    y = np.abs(x[:, 0] + 2 * x[:, 1] - 0.3) + 0.05 * rng.normal(size=N_ROWS)
    rows, schema = encoded(pd.DataFrame(x, columns=list("abcd")), y)
    axis, oblique = grow(
        rows,
        schema,
        root_of(max_leaf_nodes=2),
        root_of(max_leaf_nodes=2, oblique=True),
    )
    assert oblique.kind[0] == SplitKind.OBLIQUE
    assert oblique.gain[0] > 1.1 * axis.gain[0]
    scale = x.std(axis=0)
    wanted = scale * [1, 2, 0, 0]
    cosine = oblique.direction[0] @ wanted / np.linalg.norm(wanted)
    assert abs(cosine) > 0.995


def test_directions_do_not_depend_on_which_nodes_are_searched_together():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N_ROWS, 30))
    y = np.abs(x[:, 0] + 2 * x[:, 1] - 0.3) + x[:, 2]
    gaps = pd.DataFrame(np.where(rng.random(x.shape) < 0.05, np.nan, x))
    rows, schema = encoded(gaps.add_prefix("c"), y, missing="learn")
    parts = [rng.permutation(N_ROWS)[:n] for n in (N_ROWS, 251, 333)]
    roots = [
        replace(root_of(oblique=True, max_leaf_nodes=6), rows=part) for part in parts
    ]
    for root, tree in zip(roots, grow(rows, schema, *roots), strict=True):
        (alone,) = grow(rows, schema, root)
        # Products of matrices of other sizes may round otherwise.
        np.testing.assert_allclose(tree.direction, alone.direction, atol=1e-4)
        np.testing.assert_allclose(tree.threshold, alone.threshold, atol=1e-4)


def test_what_other_nodes_may_be_split_on_does_not_matter():
    rng = np.random.default_rng(8)
    x = rng.normal(size=(N_ROWS, 8)).round(1)
    y = np.abs(x @ rng.normal(size=8)) + 0.5 * rng.normal(size=N_ROWS)
    x[:, 4:][rng.random((N_ROWS, 4)) < 0.2] = np.nan
    rows, schema = encoded(pd.DataFrame(x).add_prefix("c"), y, missing="learn")
    columns = np.array([schema.position_of(i) for i in range(8)])
    roots = [
        root_of(allowed=np.isin(np.arange(schema.n_columns), columns[some]))
        for some in (range(8), range(4), range(4, 8), [3, 7])
    ]
    for chosen in (roots, roots[1:]):
        for tree, root in zip(grow(rows, schema, *chosen), chosen, strict=True):
            assert tree_bytes(tree) == tree_bytes(grow(rows, schema, root)[0])


def test_trees_of_all_kinds_side_by_side_are_those_that_grow_alone(levels):
    rows, schema = levels
    rng = np.random.default_rng(1)
    roots = [
        root_of(),
        root_of(max_leaf_nodes=6),
        root_of(oblique=True, max_leaf_nodes=5),
        replace(
            root_of(),
            rows=rng.permutation(N_ROWS)[:250],
            weight=rng.uniform(0.5, 2.0, 250),
            targets=rng.normal(size=(250, 1)),
        ),
    ]
    together = grow(rows, schema, *roots)
    assert min(tree.n_nodes for tree in together) > 5
    for root, tree in zip(roots, together, strict=True):
        assert tree_bytes(grow(rows, schema, root)[0]) == tree_bytes(tree)


@pytest.mark.parametrize("oblique", [False, True])
def test_a_weight_of_two_is_a_row_twice(levels, oblique):
    rows, schema = levels
    part = np.arange(120)
    heavy = replace(root_of(oblique=oblique), rows=part, weight=np.full(120, 2.0))
    twice = replace(root_of(oblique=oblique), rows=np.repeat(part, 2))
    found, expected = grow(rows, schema, heavy, twice)
    assert found.n_nodes > 3
    assert_same_tree(found, expected, tolerance=3e-4)


def test_bins_hold_the_values_up_to_their_bounds():
    rng = np.random.default_rng(4)
    y = rng.normal(size=3000)
    X = pd.DataFrame({"few": rng.integers(0, 5, 3000), "many": rng.normal(size=3000)})
    rows, schema = encoded(X, y)
    bins = Bins.of(rows.table, schema, n_bins=32)
    for code, column, edge in zip(bins.code.T, bins.column, bins.edge, strict=True):
        value = rows.table.x[:, column]
        for bound in range(32):
            assert ((value <= edge[bound]) == (code <= bound)).all() or bound == 31
    few, many = (np.bincount(code, minlength=32) for code in bins.code.T)
    assert (few > 0).sum() == 5
    assert many.min() > 0.8 * 3000 / 32
    start = np.array([[[0, 5, 32], [0, 16, 32]]])
    mean, square = bins.means(np.arange(2)[None], start)
    value = rows.table.x[:, bins.column[1]]
    low = bins.code[:, 1] < 16
    expected = [value[low].mean(), value[~low].mean()]
    np.testing.assert_allclose(mean[0, 1], expected, rtol=1e-4)
    assert square[0, 1, 0] == pytest.approx((value[low] ** 2).mean(), rel=1e-4)


def test_a_table_without_numbers_has_no_bins():
    table = Table(np.zeros((10, 0), np.float32), np.zeros((10, 1), np.int32))
    X = pd.DataFrame({"colour": list("rgrgrgrgrb")})
    _, schema = encoded(X, np.arange(10.0))
    assert Bins.of(table, schema).code.shape == (10, 0)
