"""Models of the nodes of trees, from the rows that the trees send there."""

from __future__ import annotations

import dataclasses
from functools import partial

import chex
import jax.numpy as jnp
import numpy as np
import pytest
from configurations import STRUCTURE_FIELDS
from handmade import CHAIN, tree_on_numbers

from secret_jax import Constant, LeastSquares, Ridge, SecretRegressor
from secret_jax.data.rows import Rows, Table, join
from secret_jax.losses.numbers import Quantile
from secret_jax.models import fitting
from secret_jax.models.fitting import (
    fit_models,
    fit_to_statistics,
    node_errors,
    node_statistics,
    row_errors,
    total_error,
)
from secret_jax.models.interface import LeafModel, Models
from secret_jax.tree.routing import paths_of, values
from secret_jax.tree.structure import ARRAY_FIELDS, Tree
from secret_jax.tree.totals import way_to

P = 3
NUMBERS = (
    *("coefficient", "lower", "upper", "weight", "train_error", "degrees"),
    *("mean", "deviation", "center", "spread", "standard_error", "n_rows"),
)


def assert_numbers(found: Tree, expected: Tree, names=NUMBERS, **close):
    pair = ({name: getattr(tree, name) for name in names} for tree in (found, expected))
    chex.assert_trees_all_close(*pair, **close)


def tree_of(shape: str, seed: int, n_outputs: int = 1) -> Tree:
    return tree_on_numbers(shape, seed, P, n_outputs)


def rows_of(seed: int, n_rows: int, n_outputs: int = 1) -> Rows:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, P)).astype(np.float32)
    targets = np.stack(
        [np.abs(x @ rng.normal(size=P)) + x[:, 0] for _ in range(n_outputs)], axis=1
    )
    targets += 0.1 * rng.normal(size=targets.shape)
    table = Table(x, np.zeros((n_rows, 0), np.int32))
    return Rows(table, targets, rng.uniform(0.5, 2.0, n_rows))


@pytest.fixture(params=["together", "one by one"])
def tolerance(request, monkeypatch) -> float:
    """Trees of few rows are looked at together."""
    if request.param == "one by one":
        monkeypatch.setattr(fitting, "_FEW_ROWS", 5)
    return 1e-9


@pytest.mark.parametrize(("shape", "n_outputs"), [("bushy", 2), ("chain", 1)])
def test_every_node_has_the_model_of_the_rows_that_reach_it(
    tolerance, shape, n_outputs
):
    rows = rows_of(1, 700, n_outputs)
    (x, _), targets, weight, *_ = rows
    leaf, trees = LeastSquares(clip_margin=None), [tree_of(shape, 0, n_outputs)]
    tree, close = fit_models(trees, [rows], leaf)[0], {"rtol": tolerance}
    path = paths_of(tree, rows.table)
    for node in range(tree.n_nodes):
        inside = (path == node).any(axis=0)
        assert inside.sum() > 2 * P
        own, y, z = weight[inside], targets[inside], x[inside].astype(float)
        root, design = np.sqrt(own)[:, None], np.column_stack([np.ones(len(y)), z])
        model, *_ = np.linalg.lstsq(root * design, root * y)
        means = [np.average(of_rows, axis=0, weights=own) for of_rows in (y, z)]
        squares = [
            np.average((of_rows - mean) ** 2, axis=0, weights=own)
            for of_rows, mean in zip((y, z), means, strict=True)
        ]
        expected = {
            "coefficient": model.T,
            "train_error": np.average((y - design @ model) ** 2, axis=0, weights=own),
            **{"weight": own.sum(), "mean": means[0], "center": means[1]},
            **{"deviation": np.sqrt(squares[0]), "spread": np.sqrt(squares[1])},
            "degrees": 1 + P,
        }
        for name, number in expected.items():
            found = getattr(tree, name)[node]
            np.testing.assert_allclose(found, number, atol=tolerance, **close)
    leaf_error = tree.train_error[tree.is_leaf].sum(axis=1) @ tree.weight[tree.is_leaf]
    assert total_error(tree, rows) == pytest.approx(leaf_error, rel=1e-4)


@pytest.mark.parametrize("seed", range(2))
def test_of_many_dependent_columns_the_model_is_that_of_least_norm(seed):
    """Columns of float32 numbers blur the directions that do not vary."""
    rows = rows_of(seed, 40_000)
    x = rows.table.x.astype(np.float64)
    x[:, 2] = x[:, 0] + x[:, 1]
    rows = rows._replace(table=rows.table._replace(x=x.astype(np.float32)))
    tree = fit_models([tree_of("root", 0)], [rows], LeastSquares(clip_margin=None))[0]
    root = np.sqrt(rows.weight)[:, None]
    deviation = np.sqrt(np.average(x**2, axis=0, weights=rows.weight))
    design = np.column_stack([np.ones(len(x)), x / deviation])
    expected = np.linalg.lstsq(root * design, root * rows.targets, rcond=1e-6)[0].T
    expected[:, 1:] /= deviation
    np.testing.assert_allclose(tree.coefficient[0], expected, atol=1e-3)


@pytest.mark.parametrize(
    ("leaf", "n_outputs"),
    [(LeastSquares(), 2), (Ridge(), 1), (Constant(), 2)],
    ids=repr,
)
def test_several_trees_at_once_are_as_one_by_one(tolerance, leaf, n_outputs):
    shapes = ["bushy", "root", "chain", "stump", "bushy"]
    schema = tree_of("root", 0, n_outputs).schema
    trees = [
        dataclasses.replace(tree_of(shape, seed, n_outputs), schema=schema)
        for seed, shape in enumerate(shapes)
    ]
    # Parts of very unlike sizes, some of a few rows, some in common.
    parts = [
        rows_of(seed, n, n_outputs) for seed, n in enumerate((400, 30, 90, 7, 400))
    ]
    parts[4] = parts[0]
    together = fit_models(trees, parts, leaf)
    assert len(together) == 5
    for found, tree, part in zip(together, trees, parts, strict=True):
        alone = fit_models([tree], [part], leaf)[0]
        assert found.clip_margin == alone.clip_margin == leaf.clip_margin
        assert found.schema is alone.schema is schema
        for name in set(ARRAY_FIELDS) - set(NUMBERS):
            assert np.array_equal(getattr(found, name), getattr(tree, name)), name
        assert_numbers(found, alone, rtol=1e-10, atol=1e-12)


def test_sources_together_are_all_their_rows():
    tree = tree_of("bushy", 0, 2)
    parts = [rows_of(seed, 900, 2) for seed in range(3)]
    statistics = node_statistics(tree, parts)
    (found,) = fit_to_statistics([tree], statistics, lambda: parts[:1], Ridge())
    expected = fit_models([tree], [join(parts)], Ridge())[0]
    for name in STRUCTURE_FIELDS:
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    assert_numbers(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", ["root", "bushy", "chain"])
def test_statistics_of_rows_on_a_device_are_those_of_the_host(shape):
    """To the digits of float32; rows of no weight are none."""
    tree, rows = tree_of(shape, 0, 2), rows_of(1, 1500, 2)
    rows.weight[1200:] = 0.0
    found = node_statistics(tree, there(rows))
    expected = node_statistics(tree, rows.take(slice(1200)))
    for name in ("weight", "mean", "scatter", "lower", "upper"):
        pair = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(*pair, rtol=2e-6, atol=1e-4, err_msg=name)


def there(rows: Rows, n_more: int = 500) -> Rows:
    """Rows on a device, and after them others that are none of the table."""
    x = np.pad(rows.table.x, [(0, n_more), (0, 0)], constant_values=7.0)
    return rows._replace(table=Table(jnp.asarray(x), rows.table.codes))


def test_a_row_beyond_float32_on_a_device_spoils_no_other_leaf():
    (tree,) = fit_models([tree_of("bushy", 0)], [rows_of(2, 900)], LeastSquares())
    rows, wild = rows_of(1, 900), rows_of(1, 900)
    wild.targets[7] = 1e25
    hit = np.isin(np.arange(tree.n_nodes), paths_of(tree, rows.table)[:, 7])
    assert 1 < hit.sum() < tree.n_nodes
    for measure in (node_errors, lambda *own: node_statistics(*own).weight):
        found, expected = (measure(tree, there(each)) for each in (wild, rows))
        np.testing.assert_allclose(found[~hit], expected[~hit], rtol=1e-6)
    assert node_errors(tree, there(wild))[hit].min() > 1e29


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", ["root", "bushy", "chain"])
def test_errors_of_rows_on_a_device_are_those_of_every_row_alone(shape, weighted):
    tree, rows = tree_of(shape, 0, 2), rows_of(1, 3000, 2)
    (tree,) = fit_models([tree], [rows_of(2, 3000, 2)], LeastSquares(clip_margin=0.0))
    rows = rows if weighted else rows._replace(weight=np.ones(3000))
    of_output = np.array([1.0, 0.25])
    expected, (low, high) = np.zeros(tree.n_nodes), tree.clip_range()
    x = rows.table.x.astype(np.float64)
    for row, path in enumerate(paths_of(tree, rows.table).T):
        for node in set(path.tolist()):
            model = tree.coefficient[node]
            value = model[:, 0] + model[:, 1:] @ x[row]
            off = rows.targets[row] - np.clip(value, low[node], high[node])
            expected[node] += rows.weight[row] * (off**2 @ of_output)
    found = node_errors(tree, there(rows), of_output)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    for errors in (row_errors, partial(node_errors, loss=Quantile(level=0.3))):
        pair = errors(tree, there(rows)), errors(tree, rows)
        np.testing.assert_allclose(*pair, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("leaf", [LeastSquares(), Ridge()], ids=repr)
def test_two_outputs_are_two_fits(leaf):
    tree, rows, names = tree_of("bushy", 0, 2), rows_of(3, 600, 2), NUMBERS[:3]
    both, degrees = fit_models([tree], [rows], leaf)[0], []
    for which in (0, 1):
        one = rows._replace(targets=rows.targets[:, [which]])
        alone = fit_models([tree.output(which)], [one], leaf)[0]
        degrees.append(alone.degrees)
        assert_numbers(both.output(which), alone, names, rtol=1e-8, atol=1e-9)
        pair = values(both, rows.table)[:, which], values(alone, rows.table)[:, 0]
        np.testing.assert_allclose(*pair, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(both.degrees, np.mean(degrees, axis=0), rtol=1e-4)


def test_nodes_without_rows_take_after_their_nearest_ancestor(tolerance):
    tree = tree_of("chain", 1)
    rows = rows_of(0, 400)
    # What goes left at the second split on the way down is left out.
    path = paths_of(tree, rows.table)
    cut = CHAIN[2][0]
    rows = rows.take(~(path == cut).any(axis=0))
    found = fit_models([tree], [rows], LeastSquares(clip_min_samples=0))[0]
    paths = [[n for n, _ in way_to(tree, node)] + [node] for node in range(9)]
    below = [node for node, path in enumerate(paths) if cut in path]
    assert len(below) == 5
    for node in below:
        assert found.weight[node] == found.train_error[node, 0] == 0
        assert np.array_equal(found.coefficient[node], found.coefficient[2])
        assert found.lower[node] == found.lower[2]
        assert found.upper[node] == found.upper[2]


@pytest.mark.parametrize("least", [0, 60, 10**6])
def test_small_nodes_take_the_range_of_the_nearest_large_ancestor(least):
    trees = [tree_of("stump", 1, 2), tree_of("bushy", 0, 2)]
    parts = [rows_of(1, 15, 2), rows_of(0, 200, 2)]
    found = fit_models(trees, parts, LeastSquares(clip_min_samples=least))
    for tree, rows in zip(found, parts, strict=True):
        path = paths_of(tree, rows.table)
        for node in range(tree.n_nodes):
            own, large = (tree.lower[node], tree.upper[node]), node
            while tree.weight[large] < least and large > 0:
                large = tree.parent[large]
            inside = (path == large).any(axis=0)
            low, high = (f(rows.targets[inside], axis=0) for f in (np.min, np.max))
            assert np.array_equal(own, (low, high))


def test_a_leaf_model_of_ones_own_sees_the_models_of_the_parents():
    seen = []

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Counted(LeafModel):
        """A model's intercept says how deep it is."""

        def fit(self, statistics, parent):
            seen.append((statistics.weight, parent))
            return Models(parent + np.eye(1 + P)[0], np.full(len(parent), 2.5))

    trees = [tree_of("bushy", 0, 2), tree_of("chain", 0, 2)]
    parts = [rows_of(0, 300, 2), rows_of(1, 300, 2)]
    for tree in fit_models(trees, parts, Counted(clip_margin=0.5)):
        assert (tree.coefficient[:, :, 0] == tree.depth[:, None] + 1).all()
        assert not tree.coefficient[:, :, 1:].any()
        assert (tree.degrees == 2.5).all()
        assert tree.clip_margin == 0.5
    assert len(seen) == 5  # a call for each level of both
    for level, (weight, base) in enumerate(seen):
        assert len(weight) == len(base)
        assert (base[:, :, 0] == level).all()
        assert not base[:, :, 1:].any()


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda base, n: base, "Wrong.fit returned ndarray. Return Models"),
        (lambda base, n: Models(base[:, :, 0], n), r"\(\d+, 1\) and \(\d+,\). Return"),
        (lambda base, n: Models(base, n[:, None]), r"and \(\d+, 1\). Return \(\d+, 1"),
        (lambda base, n: Models(base + np.nan, n), "returned NaN or infinity"),
    ],
)
def test_what_is_no_model_is_refused_by_name(returned, message, rng):
    class Wrong(LeafModel):
        def fit(self, statistics, parent):
            return returned(parent, np.ones(len(parent)))

    X, error = rng.normal(size=(100, 2)), TypeError if "nda" in message else ValueError
    with pytest.raises(error, match=message):
        SecretRegressor(leaf=Wrong(), max_depth=0).fit(X, X[:, 0] ** 2)
