"""Splits between given classes, against exhaustive search in float64."""

from __future__ import annotations

import numpy as np
import pytest
from level_batches import NodeRows, candidates, find, goes_left, level_of, node_rows

from secret_jax.splits.classes import ClassSplits
from secret_jax.tree.structure import SplitKind

N_CATEGORIES = 3


def level_of_classes(rng, n_classes, *, oblique=False, soft=False):
    """Nodes of unequal length whose classes differ in their means and a category."""
    nodes = []
    for node, n in enumerate((150, 90, 260)):
        code = rng.integers(0, n_classes, n)
        x = rng.normal(size=(n, 3))
        x[:, node] += 1.5 * code
        codes = rng.integers(0, N_CATEGORIES, (n, 1))
        moved = rng.random(n) < 0.3
        codes[moved, 0] = code[moved] % N_CATEGORIES
        share = np.eye(n_classes)[code]
        if soft:
            share = 0.8 * share + 0.2 / n_classes
        targets = share if n_classes > 2 else share[:, 1]
        nodes.append(NodeRows(x, targets, codes, rng.uniform(0.5, 2.0, n)))
    return level_of(ClassSplits(), nodes, n_categories=N_CATEGORIES, oblique=oblique)


def shares_of(rows):
    if rows.targets.shape[1] > 1:
        return rows.targets
    return np.column_stack([1 - rows.targets, rows.targets])


def groups_of(rows, share):
    """Which classes stand together against the rest."""
    n_classes = share.shape[1]
    if n_classes == 2:
        return [np.array([True, False])]
    weight = rows.weight
    x = rows.x - np.average(rows.x, axis=0, weights=weight)
    x /= np.sqrt(np.average(x**2, axis=0, weights=weight))
    count = weight @ share
    mean = (share * weight[:, None]).T @ x / count[:, None]
    _, vectors = np.linalg.eigh((count[:, None] * mean).T @ mean)
    order = np.argsort(mean @ vectors[:, -1])
    middle = np.cumsum(count[order]) - 0.5 * count[order]
    half = np.zeros(n_classes, bool)
    half[order[middle < 0.5 * count.sum()]] = True
    return [*np.eye(n_classes, dtype=bool), half]


def impurity_drop(share, weight, left):
    """Of the Gini impurity of all classes, times the weight."""

    def impurity(mask):
        count = (weight * mask) @ share
        return count.sum() * (1 - np.sum((count / count.sum()) ** 2))

    return impurity(left | True) - impurity(left) - impurity(~left)


@pytest.mark.parametrize("soft", [False, True], ids=["classes", "shares"])
@pytest.mark.parametrize("gain", ["normal", "counted"])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_splits_follow_the_reference(rng, n_classes, gain, soft):
    level = level_of_classes(rng, n_classes, soft=soft)
    found = find(level, ClassSplits(gain=gain))
    for node in range(level.n_nodes):
        rows = node_rows(level, node)
        share = shares_of(rows)
        best = []
        for group in groups_of(rows, share):
            first = rows.weight * share[:, group].sum(axis=1)
            gains = candidates(
                rows, first, N_CATEGORIES, oblique=False, counted=gain == "counted"
            )
            _, kind, attribute, left = max(gains, key=lambda each: each[0])
            drop = impurity_drop(share, rows.weight, left)
            best.append((drop, kind, attribute, left))
        drop, kind, attribute, left = max(best, key=lambda each: each[0])
        assert (found.kind[node], found.attribute[node]) == (kind, attribute)
        assert found.gain[node] == pytest.approx(drop, rel=1e-3)
        got = goes_left(rows, found, node)
        assert np.array_equal(got, left) or np.array_equal(got, ~left)


def test_pure_nodes_are_leaves(rng):
    level = level_of_classes(rng, 3)
    level.targets[:, :150] = np.array([[0], [1], [0]])
    found = find(level, ClassSplits())
    assert found.pure.tolist() == [True, False, False]
    assert (found.kind == SplitKind.LEAF).tolist() == [True, False, False]


def test_an_oblique_split_is_better_than_those_along_axes(rng):
    nodes = []
    for n in (200, 120):
        x = rng.normal(size=(n, 3))
        nodes.append(NodeRows(x, (x[:, 0] - x[:, 1] > 0.2) * 1.0))
    found = find(level_of(ClassSplits(), nodes), ClassSplits())
    assert (found.kind == SplitKind.OBLIQUE).all()
    direction = found.direction / found.direction[:, :1]
    np.testing.assert_allclose(direction, [[1, -1, 0]] * 2, atol=0.35)
