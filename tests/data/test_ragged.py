"""What rows on processors can do beside the verbs of both kinds."""

from __future__ import annotations

import numpy as np
import pytest
from rows_of_nodes import Loops

from secret_jax.data.ragged import RaggedRows

LENGTH = np.array([5, 1, 90_000, 300, 2, 7_000])
N = int(LENGTH.sum())


@pytest.mark.parametrize("going", [None, [0, 0, 1, 0, 0, 0], [1, 0, 0, 1, 1, 0]])
def test_nodes_that_are_not_needed_may_be_left_out(rng, going):
    values = rng.normal(size=(3, N))
    seen = []

    def function(rows, node_values, row_arrays):
        seen.append(row_arrays[0].shape[-1])
        return (rows.sums(row_arrays[0] * rows.spread(node_values[0])),)

    factor = np.arange(1.0, 1 + len(LENGTH))
    going = None if going is None else np.array(going, bool)
    (found,) = RaggedRows(LENGTH).total(function, [factor], [values], going)
    loops = Loops(LENGTH)
    expected = loops.sums(values * loops.spread(factor))
    chosen = np.ones(len(LENGTH), bool) if going is None else going
    np.testing.assert_allclose(found[chosen], expected[chosen], rtol=1e-9, atol=1e-9)
    assert not found[~chosen].any()
    assert sum(seen) == LENGTH[chosen].sum()
    assert max(seen) < 60_000  # a node of many rows comes in parts
    none = RaggedRows(LENGTH).total(function, [factor], [values], ~chosen & chosen)
    assert none == () or not none[0].any()


@pytest.mark.parametrize("chosen", [[0], [4, 1, 2], [False, True, True] * 2])
def test_some_nodes(rng, chosen):
    values = rng.normal(size=(2, N))
    rows, place = RaggedRows(LENGTH).take(np.array(chosen))
    slices = Loops(LENGTH).slices
    kept = np.flatnonzero(chosen) if chosen[0] is False else chosen
    expected = np.concatenate([values[:, slices[node]] for node in kept], axis=1)
    np.testing.assert_array_equal(values[:, place], expected)
    np.testing.assert_array_equal(rows.length, LENGTH[kept])


def test_rows_in_the_order_of_attributes(rng):
    values = rng.integers(-9, 50, (3, N)).astype(np.float32)  # many ties
    values[0, :3], values[1, 7], values[1, 9] = -0.0, np.inf, -np.inf
    order = RaggedRows(LENGTH).sorted_by(values)
    for rows in Loops(LENGTH).slices:
        for attribute, own in zip(values, order[:, rows], strict=True):
            expected = rows.start + np.argsort(attribute[rows], kind="stable")
            np.testing.assert_array_equal(own, expected)


@pytest.mark.parametrize("n_values", [0, 3])
def test_nodes_of_one_length_are_summed_as_each_alone(rng, n_values):
    length = np.array([5, 5, 5, 2, 4, 4])
    rows, last = RaggedRows(length), np.cumsum(length)
    left = rng.normal(size=(2, last[-1]))
    right, matrices = rng.normal(size=(n_values, last[-1])), rng.normal(size=(6, 2, 3))
    matrices = matrices[:, :, :n_values]
    found, turned = rows.products(left, right), rows.transformed(matrices, right)
    for node, own in enumerate(map(slice, last - length, last)):
        np.testing.assert_allclose(found[node], left[:, own] @ right[:, own].T)
        np.testing.assert_allclose(turned[:, own], matrices[node] @ right[:, own])


def test_sums_of_many_rows_keep_their_digits():
    """Added one after the other, a million times a tenth in float32 is 100,958."""
    rows = RaggedRows(np.array([1_000_000, 3]))
    found = rows.sums(np.full(1_000_003, 0.1, np.float32))
    np.testing.assert_allclose(found, [1e5, 0.3], rtol=1e-6)
