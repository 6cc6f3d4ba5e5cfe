"""Columns padded to a few widths: nothing but the rounding changes."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pandas as pd
import pytest
from node_batches import FEW_HINGES, N_CATEGORIES, N_NODES, N_ROWS, mixed_nodes
from schemas import learn_schema

from secret_jax import SecretRegressor, SecretSplits
from secret_jax.data.columns import read_columns
from secret_jax.data.roles import ColumnOptions
from secret_jax.grow.padding import Padding, width_of
from secret_jax.grow.program import find_splits
from secret_jax.learners import CartSplits, GuideSplits
from secret_jax.splits.interface import Columns, Roles

POSITION = np.array([0, 1, 3])
PADDING = Padding(
    columns=Columns(n_regressors=5, n_categories=2 * N_CATEGORIES),
    roles=Roles(
        np.array([0, 1, 3, -1], np.int32),
        np.full((2, 2), -1, np.int32),
        np.array([True, True, False, True, False]),
    ),
    position=POSITION,
    n_columns=5,
    n_discrete=4,
)
FINDERS = [FEW_HINGES, SecretSplits(n_starts=2), CartSplits()]
FINDERS.append(GuideSplits())


def test_widths_cost_little():
    widths = np.array([width_of(n) for n in range(4, 300)])
    assert (widths >= np.arange(4, 300)).all()
    assert (widths <= 1.6 * np.arange(4, 300) + 3).all()
    assert len(np.unique(widths)) <= 14


@pytest.mark.parametrize("finder", FINDERS, ids=lambda f: type(f).__name__)
def test_a_search_of_padded_columns_finds_the_same(finder):
    nodes = mixed_nodes(finder)
    size = (N_NODES, N_ROWS, 2)
    wide = replace(
        nodes,
        x=PADDING.wider(nodes.x),
        codes=PADDING.wider_codes(nodes.codes),
        coefficient=np.zeros((N_NODES, 1, 6), np.float32),
        allowed=PADDING.wider_allowed(nodes.allowed),
        random=np.full((N_NODES, finder.n_random(5)), 0.5, np.float32),
        roles=jax.tree.map(
            lambda a: np.broadcast_to(a, (N_NODES, *a.shape)), PADDING.roles
        ),
        columns=replace(PADDING.columns, oblique=nodes.columns.oblique),
    )
    if finder.n_random(5) == finder.n_random(3):
        wide = replace(wide, random=nodes.random)
    assert wide.codes[..., 2:].shape == size
    plain, padded = (
        jax.tree.map(
            np.asarray, find_splits(each, N_NODES, finder=finder, together=False)
        )
        for each in (nodes, wide)
    )
    found = PADDING.narrower(padded, 3)
    assert found.kind.tolist() == plain.kind.tolist()
    assert found.attribute.tolist() == plain.attribute.tolist()
    np.testing.assert_array_equal(found.goes_left[:, :N_CATEGORIES], plain.goes_left)
    np.testing.assert_allclose(found.gain, plain.gain, rtol=1e-3)
    np.testing.assert_allclose(found.direction, plain.direction, atol=2e-3)
    np.testing.assert_allclose(found.threshold, plain.threshold, atol=2e-3)
    # Nothing of a direction is lost on the way back.
    assert not np.delete(padded.direction, POSITION, axis=1).any()


def test_every_column_keeps_its_role(rng):
    n = 200
    table = pd.DataFrame({name: rng.normal(size=n) for name in "abcde"})
    table.loc[::7, "b"] = np.nan
    table.loc[::5, "e"] = np.nan
    table["text"] = rng.choice(["x", "y", "z"], n)
    columns = read_columns(table)
    y = rng.normal(size=(n, 1))
    options = ColumnOptions(split_features=("d", "e"), missing="learn")
    schema = learn_schema(columns, y, np.ones(n), options)
    padding = Padding.of(schema, oblique=True)
    of_column = {padding.position[i]: i for i in range(schema.n_columns)}

    def name(position):
        return schema.names[schema.input_columns[of_column[position]]]

    roles = padding.roles
    gaps = [pair for pair in roles.missing.tolist() if pair != [-1, -1]]
    assert sorted(name(column) for column, _ in gaps) == ["b", "e"]
    assert all(name(column) == name(gap) for column, gap in gaps)
    thresholded = [i for i in roles.thresholded.tolist() if i >= 0]
    # Values without gaps, and where there are gaps whether there is one.
    assert sorted(map(name, thresholded)) == ["a", "b", "c", "d", "e"]
    assert not set(thresholded) & {column for column, _ in gaps}
    combined = sorted(name(i) for i in np.flatnonzero(roles.combined))
    assert set(combined) >= set("abcde")
    assert "text" not in combined
    allowed = padding.wider_allowed(np.ones((1, schema.n_columns + 1), bool))
    assert allowed.sum() == schema.n_columns + 1


def test_tables_of_like_width_share_programs(rng):
    x = rng.normal(size=(300, 11))
    y = x[:, 0] * (x[:, 1] > 0) + 0.1 * rng.normal(size=300)
    model = SecretRegressor(splits="cart", prune=None, max_depth=2)
    model.fit(x, y)
    before = find_splits.n_compiled
    model.fit(x[:, :9], y)
    model.fit(x[:, :10], y)
    assert find_splits.n_compiled == before
    gaps = np.where(rng.random(x.shape) < 0.1, np.nan, x)
    model.fit(np.where(np.arange(11) < 2, gaps, x)[:, :10], y)
    before = find_splits.n_compiled
    model.fit(np.where(np.arange(11) < 4, gaps, x)[:, :9], y)
    assert find_splits.n_compiled == before
