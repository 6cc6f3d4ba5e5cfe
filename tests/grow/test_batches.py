"""The driver of the finders: order, padding and neighbours change nothing."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from node_batches import FEW_HINGES, N_NODES, N_ROWS, mixed_nodes, with_targets
from secret_jax.grow.program import find_splits

from secret_jax import RssSplits, SecretSplits
from secret_jax.learners import CartSplits, GuideSplits
from secret_jax.tree.structure import SplitKind

FINDERS = {
    "rss": FEW_HINGES,
    "secret": SecretSplits(n_starts=2),
    "cart": CartSplits(),
    "guide": GuideSplits(),
}
# Every finder in compiled programs, and in NumPy what needs none.
every_way = pytest.mark.parametrize(
    ("finder", "together"),
    [
        *((finder, together) for finder in FINDERS.values() for together in (0, 1)),
        (RssSplits(), None),
    ],
    ids=lambda value: getattr(type(value), "__name__", value),
)


def find(nodes, finder, n_nodes=N_NODES, together=False):
    if together is None:
        with np.errstate(all="ignore"):
            return finder(nodes)
    found = find_splits(nodes, n_nodes, finder=finder, together=bool(together))
    return jax.tree.map(np.asarray, found)


def two_outputs(nodes):
    return with_targets(
        nodes, np.concatenate([nodes.targets, nodes.x[:, :, :1] ** 2 / 2], axis=2)
    )


@pytest.mark.parametrize(
    ("finder", "more"),
    [*((finder, False) for finder in FINDERS.values()), (FINDERS["cart"], True)],
    ids=[*FINDERS, "cart of two outputs"],
)
def test_side_by_side_or_one_after_the_other(finder, more):
    nodes = mixed_nodes(finder)
    nodes = two_outputs(nodes) if more else nodes
    apart, beside = find(nodes, finder), find(nodes, finder, together=True)
    assert np.array_equal(apart.kind, beside.kind)
    assert np.array_equal(apart.attribute, beside.attribute)
    assert np.array_equal(apart.goes_left, beside.goes_left)
    assert np.array_equal(apart.pure, beside.pure)
    np.testing.assert_allclose(apart.chance_gain, beside.chance_gain, rtol=1e-4)
    np.testing.assert_allclose(apart.gain, beside.gain, rtol=1e-3)
    np.testing.assert_allclose(apart.direction, beside.direction, atol=1e-2)
    np.testing.assert_allclose(apart.threshold, beside.threshold, atol=1e-2)
    if apart.child_models is not None:
        pair = (apart.child_models, beside.child_models)
        np.testing.assert_allclose(*pair, rtol=1e-2, atol=1e-2)


@every_way
def test_padding_of_rows_is_not_looked_at(finder, together):
    nodes = mixed_nodes(finder)
    real = np.arange(N_ROWS) < N_ROWS - 30
    weight = np.where(real, nodes.weight, 0).astype(np.float32)

    def padded_with(number, code):
        return replace(
            nodes,
            weight=weight,
            x=np.where(real[:, None], nodes.x, np.float32(number)),
            codes=np.where(real[:, None], nodes.codes, np.int32(code)),
            targets=np.where(real[:, None], nodes.targets, np.float32(0)),
        )

    found, other = (
        find(padded_with(*padding), finder, together=together)
        for padding in ((0.0, 0), (77.0, 3))
    )
    assert (found.kind != SplitKind.LEAF).all()
    for one, another in zip(
        jax.tree.leaves(found), jax.tree.leaves(other), strict=True
    ):
        assert one.tobytes() == another.tobytes()


@pytest.mark.parametrize("finder", FINDERS.values(), ids=FINDERS)
def test_more_padding_of_rows_only_rounds(finder):
    nodes = mixed_nodes(finder)

    def wider(array):
        return np.pad(array, [(0, 0), (0, 256)] + [(0, 0)] * (array.ndim - 2))

    names = ("x", "codes", "targets", "weight")
    more = replace(nodes, **{name: wider(getattr(nodes, name)) for name in names})
    found, other = find(nodes, finder), find(more, finder)
    assert np.array_equal(found.kind, other.kind)
    assert np.array_equal(found.attribute, other.attribute)
    assert np.array_equal(found.goes_left, other.goes_left)
    np.testing.assert_allclose(found.gain, other.gain, rtol=1e-3)
    np.testing.assert_allclose(found.threshold, other.threshold, atol=1e-2)


@every_way
def test_padding_nodes_and_neighbours_do_not_matter(finder, together):
    nodes = mixed_nodes(finder)
    empty = jax.tree.map(np.copy, nodes)
    for array in jax.tree.leaves(empty):
        array[1:] = 0
    empty.min_weight[1:] = np.inf
    found = find(nodes, finder, together=together)
    first = find(empty, finder, n_nodes=1, together=together)
    assert (first.kind[1:] == SplitKind.LEAF).all()
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(first), strict=True):
        assert one[0].tobytes() == other[0].tobytes()
