"""Rounds of many boosters side by side: their trees are roots of one frontier.

Friedman's (2002) stochastic gradient boosting of squared error, with linear models in
the leaves. Only the target changes from round to round: the encoded table stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from secret_jax.boost.options import TreeRecipe, TreeSize
from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.grow.frontier import Root
from secret_jax.grow.grower import GrowOptions, grown
from secret_jax.models.attach import attach_at
from secret_jax.runtime.hashing import mix
from secret_jax.tree.routing import descend, values_at
from secret_jax.tree.structure import Tree, joined


@dataclass(eq=False, kw_only=True)
class Booster:
    """A sum of trees as it grows.

    Attributes
    ----------
    size : TreeSize
    key : int
        Which rows its trees see: boosters of one key see the same.
    training : ndarray of shape (n_training,), int
        Rows of the table that train it, rising.
    prediction : ndarray of shape (n_rows, n_outputs), float64
        Of all rows of the table, in standardised units.
    trees : list of Tree
        The first is a single leaf.
    """

    size: TreeSize
    key: int
    training: np.ndarray
    prediction: np.ndarray
    trees: list[Tree] = field(default_factory=list)

    def error(self, rows: Rows, part: np.ndarray) -> float:
        """Sum of the weighted squared errors of some rows."""
        residual = rows.targets[part] - self.prediction[part]
        return float(rows.weight[part] @ (residual**2).sum(axis=1))


def new_booster(size: TreeSize, key: int, training: np.ndarray, rows: Rows) -> Booster:
    """A booster without any trees."""
    nothing = np.zeros_like(rows.targets)
    return Booster(size=size, key=key, training=training, prediction=nothing)


def add_round(
    boosters: Sequence[Booster], rows: Rows, schema: TableSchema, recipe: TreeRecipe
) -> None:
    """Give every booster its next tree, all grown side by side.

    Nothing has changed if this is interrupted.

    Parameters
    ----------
    boosters : sequence of Booster
    rows : Rows
    schema : TableSchema
    recipe : TreeRecipe
    """
    parts = [_rows_of_tree(each, recipe) for each in boosters]
    options = GrowOptions(
        finder=recipe.splits,
        sample=recipe.sample,
        min_gain=recipe.min_gain,
        smallest_sample=recipe.smallest_sample,
        batch_rows=recipe.batch_rows,
    )
    pairs = list(zip(boosters, parts, strict=True))
    roots = [_root(each, part, rows) for each, part in pairs]
    found = grown(rows, schema, options, roots)
    training = [
        Rows(rows.table.take(part), root.targets, rows.weight[part])
        for root, part in zip(roots, parts, strict=True)
        if root.targets is not None
    ]
    # What the search has fitted it has fitted by the leaf model, or else anew.
    alike = recipe.leaf == recipe.splits.node_model
    fitted = found.fitted if alike else None
    trees = attach_at(found.trees, training, found.leaves, recipe.leaf, fitted)
    values = _values(trees, rows, parts, found.leaves)
    for each, tree, value in zip(boosters, trees, values, strict=True):
        step = recipe.learning_rate if each.trees else 1.0
        each.prediction = each.prediction + step * value
        each.trees.append(tree)


def _rows_of_tree(booster: Booster, recipe: TreeRecipe) -> np.ndarray:
    """Some of the rows that train a booster, without replacement; the first: all."""
    n_rows = len(booster.training)
    share = recipe.subsample if booster.trees else 1.0
    wanted = min(max(round(share * n_rows), 1), recipe.most_rows)
    if wanted == n_rows:
        return booster.training
    random = np.random.default_rng([recipe.seed, booster.key, len(booster.trees)])
    chosen = random.choice(n_rows, wanted, replace=False, shuffle=False)
    return booster.training[np.sort(chosen)]


def _root(booster: Booster, part: np.ndarray, rows: Rows) -> Root:
    least = booster.size.least_weight(float(rows.weight[part].sum()))
    first = not booster.trees
    key = np.array([booster.key, len(booster.trees)], np.uint64)
    return Root(
        rows=part,
        min_split_weight=2 * least,
        min_leaf_weight=least,
        oblique=booster.size.oblique,
        key=int(mix(key).sum() >> np.uint64(1)),
        targets=rows.targets[part] - booster.prediction[part],
        max_leaf_nodes=1 if first else booster.size.max_leaf_nodes,
    )


def _values(
    trees: Sequence[Tree],
    rows: Rows,
    parts: Sequence[np.ndarray],
    leaves: Sequence[np.ndarray],
) -> list[np.ndarray]:
    """What trees predict for all rows; those that grew them know their leaves."""
    forest, first = joined(trees), 0
    n_rows = rows.n_rows
    place = np.empty((len(trees), n_rows), np.int64)
    others = np.ones((len(trees), n_rows), bool)
    for which, (tree, part, leaf) in enumerate(zip(trees, parts, leaves, strict=True)):
        place[which] = first
        place[which, part] = leaf
        others[which, part] = False
        first += tree.n_nodes
    which, row = np.nonzero(others)
    place[which, row] = descend(
        forest, rows.table.take(row), place[which, row], forest.max_depth
    )
    return [values_at(forest, rows.table, own) for own in place]
