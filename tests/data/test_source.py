"""Of many rows a sample grows the tree: which rows, and what they stand for."""

from dataclasses import replace

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from schemas import learn_schema

from secret_jax import LeastSquares, SecretRegressor
from secret_jax.data.columns import read_columns
from secret_jax.data.encoding import TableSource, matched
from secret_jax.data.learning import ColumnOptions
from secret_jax.data.rows import Rows, shuffled
from secret_jax.data.shards import as_they_lie
from secret_jax.datasets import make_fried
from secret_jax.splits.rss import RssSplits

SMALL = {
    "splits": RssSplits(max_samples=64),
    "min_samples_split": 0.1,
    "random_state": 0,
}


def host_rows(x, y, weight=None) -> TableSource:
    """Rows of regressors with one target, or with a column for each."""
    targets = np.asarray(y, np.float64).reshape(len(x), -1)
    weight = np.ones(len(x)) if weight is None else weight
    names = tuple(f"y{i}" for i in range(targets.shape[1]))
    schema = learn_schema(read_columns(x), targets, weight, ColumnOptions(), names)
    return TableSource(schema, matched(schema, read_columns(x)), targets, weight)


def device_rows(x, y, weight=None) -> TableSource:
    """The same rows as an array of JAX."""
    host = host_rows(x, y, weight)
    shards = as_they_lie(jnp.asarray(x))
    return TableSource(host.schema, shards, host.targets, host.weight)


def assert_same(found: Rows, expected: Rows):
    chex.assert_trees_all_equal(found, expected, strict=True)


# A sample


def test_a_sample_is_read_once_and_kept_by_its_source(rng):
    source = device_rows(rng.normal(size=(5000, 2)).astype("f4"), rng.normal(size=5000))
    index, kept = source.below(700), dict(vars(source.columns))
    first = source.on_host(index)
    assert replace(source, schema=source.schema).on_host(index).columns is first.columns
    assert source.on_host(index - 1).columns is not first.columns
    assert vars(source.columns).keys() == kept.keys()


@pytest.mark.parametrize("n_rows", [400, 4000])  # the second is sampled
def test_frames_without_arrays_behind_their_columns(rng, n_rows):
    X = np.tile(rng.normal(size=(n_rows // 2, 2)), (2, 1))  # every row is a copy
    frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    known = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    model = SecretRegressor(**SMALL, distill=False, oblique=False)
    found, expected = (model.fit(x, X.sum(axis=1)).predict(x) for x in (frame, known))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("kind", "n_wanted", "n_outputs"),
    [
        ("float32", 1500, 1),
        ("int32", 1500, 2),
        ("float32", 7000, 2),
        ("copies", 1500, 1),
        ("copies", 100_000, 2),
    ],
)
def test_one_sample_in_any_place_and_order(rng, kind, n_wanted, n_outputs):
    n_rows = 6000
    x = rng.normal([0, 1e4, -3], [1, 1, 1e-3], (n_rows, 3)).astype(np.float32)
    x[::7, 0] = -0.0
    x[1::7, 0] = 0.0
    if kind == "int32":
        x = rng.integers(-(2**30), 2**30, (n_rows, 3)).astype(np.int32)
    targets, weight = rng.normal(size=(n_rows, n_outputs)), rng.uniform(1, 2, n_rows)
    if kind == "copies":
        x, targets = (np.repeat(a[:600], 10, axis=0) for a in (x, targets))
    expected = host_rows(x, targets, weight).sample(n_wanted)
    found = device_rows(x, targets, weight).sample(n_wanted)
    assert all(isinstance(array, np.ndarray) for array in jax.tree.leaves(found))
    assert_same(found, expected)
    other = rng.permutation(n_rows)
    again = host_rows(x[other], targets[other], weight[other]).sample(n_wanted)
    np.testing.assert_allclose(again.table.x, found.table.x, atol=1e-6)  # of centers
    assert found.targets.shape == (found.n_rows, n_outputs)
    if kind != "copies":
        assert_same(found, shuffled(found))  # in the order of their hashes
    if kind == "copies":
        assert len(np.unique(found.targets, axis=0)) == 600
        assert found.n_rows == min(n_wanted, 6000, 600 * max(n_wanted // 600, 5))
    elif n_wanted > n_rows:
        assert found.n_rows == n_rows
    else:
        share = n_wanted / n_rows
        assert abs(found.n_rows - n_wanted) < 5 * np.sqrt(n_wanted * (1 - share)) + 1


def test_rows_with_missing_values_and_categories_are_chosen_without_slant(rng):
    x = np.column_stack([rng.normal(size=5000), rng.integers(0, 3, 5000)])
    x[rng.uniform(size=5000) < 1 / 3, 0] = np.nan
    targets, weight = rng.normal(size=(5000, 1)), np.ones(5000)
    options = ColumnOptions(categorical_features=[1], missing="learn")
    schema = learn_schema(read_columns(x), targets, weight, options)
    source = TableSource(schema, matched(schema, read_columns(x)), targets, weight)
    found = source.sample(1000)
    # Five standard deviations of a binomial count.
    assert abs(found.n_rows - 1000) < 5 * np.sqrt(5000 * 0.2 * 0.8)
    most = 5 * np.sqrt(2 / 9 / found.n_rows)
    missing = found.table.x[:, schema.missing_columns[0][1]]
    assert abs(missing.mean() - np.isnan(x[:, 0]).mean()) < most
    for colour in range(3):
        share = np.mean(found.table.codes == colour)
        assert abs(share - np.mean(x[:, 1] == colour)) < most
    everything = set(map(tuple, np.column_stack(jax.tree.leaves(source.take(None)))))
    assert everything.issuperset(map(tuple, np.column_stack(jax.tree.leaves(found))))


# All rows in blocks


def joined_blocks(source, size: int) -> tuple[np.ndarray, ...]:
    found = list(source.blocks(lambda rows: rows.take(rows.weight > 0), size))
    assert all(rows.n_rows <= max(size, 1024) for rows in found)
    arrays = (
        np.concatenate([np.asarray(array) for array in arrays])
        for arrays in zip(*(jax.tree.leaves(rows) for rows in found), strict=True)
    )
    return tuple(arrays)


@pytest.mark.parametrize("size", [64, 1000, 4096])
def test_blocks_are_all_rows_encoded_in_their_order(rng, size):
    x = rng.normal([0, 1e4, -3], [1, 1, 1e-3], (1000, 3)).astype(np.float32)
    targets, weight = rng.normal(size=(1000, 2)), rng.uniform(1, 2, 1000)
    sources = [rows_of(x, targets, weight) for rows_of in (host_rows, device_rows)]
    schema = replace(sources[0].schema, tails=((1, 9999.5, 10000.5),))
    source, there = (replace(each, schema=schema) for each in sources)
    everything = source.take(None)
    assert everything.table.x[:, 1].max() < 0.6  # flat beyond the bounds
    for other in (source, everything, there):
        assert other.n_rows == 1000
        assert_same(joined_blocks(other, size), tuple(jax.tree.leaves(everything)))


# What a sample stands for


def test_all_rows_give_the_models_of_a_tree_that_a_sample_grew():
    X, y = make_fried(6000, random_state=0)
    leaf = LeastSquares(clip_margin=None)
    model = SecretRegressor(prune=None, leaf=leaf, equation_tolerance=0, **SMALL)
    tree = model.fit(X, y).tree_
    assert tree.weight[0] == 6000
    limits = {"min_samples_split": 1500, "min_samples_leaf": 700}  # of all rows
    large = SecretRegressor(prune=None, **SMALL | limits).fit(X, y)
    assert 1 < large.n_leaves_ <= 8
    assert np.bincount(large.apply(X))[np.unique(large.apply(X))].min() > 500
    leaf = model.apply(X)
    for node in np.unique(leaf)[:4]:
        inside = leaf == node
        design = np.column_stack([np.ones(inside.sum()), X[inside]])
        fitted = design @ np.linalg.lstsq(design, y[inside], rcond=None)[0]
        np.testing.assert_allclose(model.predict(X[inside]), fitted, atol=2e-3)
