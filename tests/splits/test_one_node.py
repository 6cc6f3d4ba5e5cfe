"""Finders of one node: a level comes to them padded, node by node."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from level_batches import NodeRows, find, level_of

from secret_jax.splits.interface import Split
from secret_jax.splits.one_node import Node, OneNodeFinder
from secret_jax.tree.structure import SplitKind


@dataclass(frozen=True, kw_only=True)
class AtTheMean(OneNodeFinder):
    """Cuts the first column at its mean; rows without weight do not count."""

    def __call__(self, node: Node) -> Split:
        weight, x = node.weight, node.x[:, 0]
        return Split(
            kind=jnp.int32(SplitKind.AXIS),
            attribute=jnp.int32(0),
            direction=jnp.eye(1, node.x.shape[1])[0],
            threshold=jnp.sum(weight * x) / jnp.sum(weight),
            goes_left=jnp.zeros(node.n_categories, bool),
            gain=jnp.sum(weight),
            chance_gain=jnp.float32(0.0),
            pure=jnp.all(node.targets == 0),
        )


def test_every_node_is_searched_by_its_own_rows(rng):
    length = [3, 700, 40, 1, 513]
    nodes = [NodeRows(rng.normal(size=(n, 2)), np.full(n, n != 3)) for n in length]
    found = find(level_of(AtTheMean(), nodes), AtTheMean())
    means = [node.x[:, 0].mean() for node in nodes]
    np.testing.assert_allclose(found.threshold, means, atol=1e-6)
    np.testing.assert_array_equal(found.gain, length)
    np.testing.assert_array_equal(found.pure, np.array(length) == 3)
    assert found.direction.shape == (5, 2)
