"""Rows that all grow a tree stay on their accelerator, in the order of the host.

Processors stand for the accelerator: the programs are the same.
"""

from contextlib import nullcontext
from functools import partial
from unittest import mock

import jax
import numpy as np
import pytest

from benchmarks.device.counting import as_on_accelerator, counted
from secret_jax import Ridge, SecretRegressor, SoftGates
from secret_jax.data import rows, shards
from secret_jax.data.encoding import encode
from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.datasets import make_fried
from secret_jax.fit import alternatives
from secret_jax.fit import prepare as preparing
from secret_jax.fit.grow import on_device
from secret_jax.fit.prune.rules import CrossValidation, HoldOut
from secret_jax.runtime.shapes import room_for
from secret_jax.splits.rss import RssSplits
from secret_jax.tree.routing import predict

N_ROWS = 3000


@pytest.fixture(autouse=True)
def resident(monkeypatch):
    """Arrays of JAX count as lying on an accelerator, and few rows as many."""
    for module in ("data.encoding", "data.validation"):
        target = f"secret_jax.{module}.is_resident"
        monkeypatch.setattr(target, lambda X: isinstance(X, jax.Array))
    monkeypatch.setattr(preparing, "_MANY_ROWS", 1000)
    monkeypatch.setattr(on_device, "_FEWEST_ROWS", 1 << 10)
    for module in (rows, shards):
        monkeypatch.setattr(module, "room_for", partial(room_for, fewest=1 << 10))


class Stop(Exception):
    """What was asked for has been seen."""


def there(values):
    with jax.enable_x64(values.dtype == np.float64):
        return jax.device_put(values)


def prepared(X, y, weight=None, **changes):
    """What `paper` learns of rows before it grows a tree."""
    found = []

    def prepare(*arguments):
        found.append(preparing.prepare(*arguments))
        raise Stop

    model = SecretRegressor.paper(random_state=0).set_params(**changes)
    with (
        mock.patch.object(alternatives, "prepare", prepare),
        as_on_accelerator(),
        pytest.raises(Stop),
    ):
        model.fit(X, y, sample_weight=weight)
    return found[0]


def assert_alike(tree, expected):
    for name in ("left", "kind", "attribute"):
        np.testing.assert_array_equal(getattr(tree, name), getattr(expected, name))
    for name in ("threshold", "weight", "coefficient", "lower", "upper"):
        found, own = (getattr(each, name) for each in (tree, expected))
        np.testing.assert_allclose(found, own, rtol=1e-3, atol=1e-4, err_msg=name)


def assert_same_rows(found: Rows, expected: Rows):
    assert isinstance(found.table.x, jax.Array)
    assert len(found.table.x) >= found.n_rows == expected.n_rows
    pairs = zip(*map(jax.tree.leaves, (found.on_host(), expected)), strict=True)
    for own, other in pairs:
        assert own.dtype == other.dtype
        np.testing.assert_allclose(own, other, rtol=1e-6, atol=1e-6)


def numbers(rng, kind):
    X, y = make_fried(N_ROWS, random_state=0)
    X = X.astype(np.float32)
    if kind == "constant":
        X[:, 3] = 7.0
    elif kind == "several outputs":
        y = np.stack([y, X[:, 0] - y], axis=1)
    elif kind == "whole":
        X = rng.integers(-3, 4, (N_ROWS, 2)).astype(np.int32)
    elif kind == "far tails":  # most rows are within a step of others
        X = np.exp(4 * rng.normal(size=(N_ROWS, 2))).astype(np.float32)
        y = np.exp(5 * rng.normal(size=N_ROWS))
    elif kind == "float64":
        X = X + np.linspace(0, 1e-9, N_ROWS)[:, None]
    return X, y


@pytest.mark.parametrize(
    "kind",
    ["plain", "constant", "several outputs", "whole", "far tails", "float64"],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_are_those_of_the_host_in_its_order(rng, kind, weighted):
    X, y = numbers(rng, kind)
    weight = rng.uniform(0.5, 2.0, N_ROWS) if weighted else None
    expected, found = (prepared(each, y, weight) for each in (X, there(X)))
    assert_same_rows(found.rows, expected.rows)
    assert found.sampled_share == expected.sampled_share == 1.0
    assert found.source is None


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_targets_that_lie_beside_the_rows_stay_there(n_outputs):
    X, y = (each.astype(np.float32) for each in make_fried(N_ROWS, random_state=0))
    y = y if n_outputs == 1 else np.stack([y, X[:, 0] - y], axis=1)
    expected, x, outputs = prepared(X, y), there(X), there(y)
    with counted() as demands:
        found = prepared(x, outputs)
    assert demands.bytes_to_device < 10_000
    assert_same_rows(found.rows, expected.rows)
    scales = found.schema.target_scales
    np.testing.assert_allclose(scales, expected.schema.target_scales, rtol=1e-12)


def test_a_sample_and_all_rows_are_read_where_their_targets_lie():
    X, y = (each.astype(np.float32) for each in make_fried(6000, random_state=0))
    few = {"splits": RssSplits(max_samples=64), "max_leaf_nodes": 6}
    model = SecretRegressor(**few, oblique=False, random_state=0)
    expected, x, outputs = model.fit(X, y).tree_, there(X), there(y)
    with mock.patch.object(TableSchema, "scale_targets", autospec=True) as scaled:
        scaled.side_effect = lambda schema, y: (
            (y - schema.target_centers) / schema.target_scales
        )
        tree = model.fit(x, outputs).tree_
    # Of the sample that grows it, and of no block of all rows.
    assert max(len(call.args[1]) for call in scaled.call_args_list) < 3000
    assert_alike(tree, expected)


@pytest.mark.parametrize(
    "kind", ["copies", "gap", "copy of y", "few", "weightless", "tails", "memory"]
)
def test_what_the_device_cannot_decide_the_host_does(rng, kind, monkeypatch):
    X, y = numbers(rng, "far tails" if kind == "tails" else "plain")
    weight, changes = None, {}
    if kind == "copies":
        X, y = np.concatenate([X, X[:99]]), np.concatenate([y, y[:99]])
    elif kind == "gap":
        X[17, 2] = np.nan
    elif kind == "copy of y":
        X[:, 4] = y
        y = X[:, 4].astype(np.float64)
    elif kind == "few":
        X, y = X[:900], y[:900]
    elif kind == "weightless":
        weight = (np.arange(N_ROWS) % 5 > 0).astype(float)
    elif kind == "tails":
        changes["leaf__tail_share"] = 0.005
    elif kind == "memory":
        full = mock.Mock(side_effect=jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED:"))
        monkeypatch.setattr(shards, "hash_order", full)
    with (
        nullcontext()
        if kind != "copy of y"
        else pytest.warns(match="equals the target")
    ):
        on_host, found = (
            prepared(each, y, weight, **changes).rows for each in (X, there(X))
        )
    pairs = zip(*map(jax.tree.leaves, (found, on_host)), strict=True)
    for own, other in pairs:
        assert isinstance(own, np.ndarray)
        np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize(
    "changes",
    [
        {"prune": HoldOut(fraction=0.3)},  # grows the tree again
        {"prune": CrossValidation(n_folds=3, n_repeats=1)},
        {"prune": None},
        {"leaf__tail_share": 0.005},  # bounds of tails are the host's
        {"loss": "auto"},
        {"refine": "tao"},
        {"refine": SoftGates(widths=(0.6,), max_steps=512)},
    ],
    ids=str,
)
def test_whatever_wants_rows_gets_them(changes):
    X, y = numbers(np.random.default_rng(0), "plain")
    leaf = Ridge(tail_share=0.0)
    model = SecretRegressor(
        leaf=leaf, splits=RssSplits(max_samples=None), max_depth=2, oblique=False
    ).set_params(min_samples_leaf=200, **changes)
    y = np.exp(0.2 * y)
    with as_on_accelerator():
        trees = [model.fit(each, y).tree_ for each in (X, there(X))]
    expected, found = (predict(tree, encode(tree.schema, X)) for tree in trees)
    assert trees[0].n_leaves > 1
    np.testing.assert_array_equal(trees[1].left, trees[0].left)
    # A search of many steps may send rows at a threshold to the other side.
    assert np.quantile(np.abs(found - expected), 0.99) < 0.01 * expected.std()


def test_the_tree_of_the_paper_is_that_of_the_host(rng):
    X, y = numbers(rng, "plain")
    model = SecretRegressor.paper(max_depth=2, random_state=0)
    with as_on_accelerator():
        expected, tree = (model.fit(each, y).tree_ for each in (X, there(X)))
    assert expected.n_leaves > 2
    assert_alike(tree, expected)


def test_slices_stay_on_the_device_and_others_come_from_it(rng):
    X, y = numbers(rng, "plain")
    own, lying = (prepared(each, y).rows for each in (X, there(X)))
    assert_same_rows(lying.take(slice(1900, None)), own.take(slice(1900, None)))
    assert_same_rows(lying.take(slice(700)), own.take(slice(700)))
    assert lying.take(slice(2900)).table.x is lying.table.x
    for some in (np.array([5, 2999, 0]), slice(1, 90, 4), slice(9, 2, -1)):
        assert isinstance(lying.take(some).table.x, np.ndarray)
        np.testing.assert_allclose(lying.take(some).table.x, own.take(some).table.x)


def test_other_numbers_of_rows_need_no_other_program(rng):
    X, y = numbers(rng, "plain")
    several = []
    for n_rows in (N_ROWS, N_ROWS - 7):
        with counted() as demands:
            prepared(there(X[:n_rows]), y[:n_rows])
        kinds = demands.starts.keys()
        several.append({kind for kind in kinds if "_order " in kind})
    assert len(several[0]) == 2
    assert several[1] == several[0]
