"""Pruning by a penalty for parameters in noise variances."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from handmade import BUSHY, build_tree

from secret_jax.fit.prune.path import penalised


def best_subtree_cost(tree, node, noise, penalty):
    own = (
        tree.weight[node] * tree.train_error[node].sum()
        + penalty * noise * tree.degrees[node]
    )
    if tree.left[node] < 0:
        return own
    below = sum(
        best_subtree_cost(tree, int(side[node]), noise, penalty)
        for side in (tree.left, tree.right)
    )
    return min(own, below + penalty * noise)


@pytest.mark.parametrize("penalty", [0.0, 0.5, 2.0, 1e6])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_the_penalised_tree_is_the_cheapest_subtree(penalty, n_outputs):
    random = np.random.default_rng(3)
    tree = build_tree(BUSHY, seed=0, n_outputs=n_outputs)
    weight = np.zeros(tree.n_nodes)
    weight[tree.is_leaf] = 20.0
    for node in range(tree.n_nodes - 1, 0, -1):
        weight[tree.parent[node]] += weight[node]
    tree = dataclasses.replace(
        tree,
        weight=weight,
        degrees=random.uniform(1, 2, tree.n_nodes),
        train_error=random.uniform(0.9, 1.1, (tree.n_nodes, n_outputs))
        + 0.1 / (1 + tree.depth[:, None]),
    )
    leaf = tree.is_leaf
    spent = tree.degrees[leaf].sum() + tree.n_leaves - 1
    noise = (weight[:, None] * tree.train_error)[leaf].sum() / (weight[0] - spent)
    cut = penalised(tree, penalty)
    left = cut.is_leaf
    cost = (cut.weight[:, None] * cut.train_error)[left].sum()
    cost += penalty * noise * cut.degrees[left].sum()
    cost += penalty * noise * (cut.n_leaves - 1)
    assert cost == pytest.approx(best_subtree_cost(tree, 0, noise, penalty))
    assert penalty < 1e6 or cut.n_leaves == 1
