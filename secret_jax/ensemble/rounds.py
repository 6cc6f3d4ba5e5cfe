"""Rounds of many boosters at once: their trees grow from one frontier.

Friedman's (2002) stochastic gradient boosting, with models in the leaves. Only
the target changes from round to round: the encoded table stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.ensemble.options import TreeRecipe, TreeSize
from secret_jax.ensemble.working import started
from secret_jax.grow.frontier import Root
from secret_jax.grow.grower import GrowOptions, grown
from secret_jax.losses.classes import ClassLoss
from secret_jax.models.fitting import fit_models
from secret_jax.runtime.hashing import mix
from secret_jax.tree.routing import TreeSum
from secret_jax.tree.structure import Tree, joined
from secret_jax.tree.walk import descend, values_at

# Where no more rows than these are new to a tree they walk it on the host: those of
# folds need no program. Of more the compiled program takes all rows.
_MOST_WALKED = 1 << 15


@dataclass(eq=False, kw_only=True)
class Booster:
    """Sum of trees while it grows.

    Attributes
    ----------
    key : int
        Which rows its trees see: boosters of one key see the same.
    training : ndarray of shape (n_training,), int
        Rows of the table that train it, rising.
    prediction : ndarray of shape (n_rows, n_outputs), float64
        Predictions for all rows of the table, in standardised units.
    trees : list of Tree
        The first is a single leaf.
    """

    size: TreeSize
    key: int
    training: np.ndarray
    prediction: np.ndarray
    trees: list[Tree] = field(default_factory=list)


def new_booster(size: TreeSize, key: int, training: np.ndarray, rows: Rows) -> Booster:
    """Make a booster without trees."""
    nothing = np.zeros_like(rows.targets)
    return Booster(size=size, key=key, training=training, prediction=nothing)


def add_round(
    boosters: Sequence[Booster], rows: Rows, schema: TableSchema, recipe: TreeRecipe
) -> None:
    """Grow the next tree of every booster, those with one kind of leaves together.

    An interruption leaves all boosters unchanged.
    """
    found: list[tuple[Booster, Tree, np.ndarray]] = []
    for group in _grown_alike(boosters, recipe):
        trees = _next_trees(group, rows, schema, recipe)
        found += [(each, *new) for each, new in zip(group, trees, strict=True)]
    for each, tree, value in found:
        step = recipe.learning_rate if each.trees else 1.0
        each.prediction = each.prediction + step * value
        each.trees.append(tree)


def _grown_alike(
    boosters: Sequence[Booster], recipe: TreeRecipe
) -> list[list[Booster]]:
    """Group boosters whose next trees share finder and kind of leaves."""
    groups: dict[tuple[str, bool], list[Booster]] = {}
    for each in boosters:
        groups.setdefault((each.size.leaf, not each.trees), []).append(each)
    return list(groups.values())


def _next_trees(
    boosters: Sequence[Booster], rows: Rows, schema: TableSchema, recipe: TreeRecipe
) -> list[tuple[Tree, np.ndarray]]:
    """Grow the next tree of each booster, and predict all rows with it."""
    finder, leaf = recipe.way(boosters[0].size)
    parts = [_rows_of_tree(each, recipe) for each in boosters]
    options = GrowOptions(
        finder=finder,
        sample=recipe.sample,
        min_gain=recipe.min_gain,
        smallest_sample=recipe.smallest_sample,
        batch_rows=recipe.batch_rows,
    )
    pairs = list(zip(boosters, parts, strict=True))
    roots = [_root(each, part, rows, recipe) for each, part in pairs]
    found = grown(rows, schema, options, roots)
    if isinstance(recipe.loss, ClassLoss) and not boosters[0].trees:
        trees = started(found.trees, [rows.take(part) for part in parts])
        return list(zip(trees, _values(trees, rows, parts, found.leaves), strict=True))
    training = [
        Rows(rows.table.take(part), root.targets, root.weight)
        for root, part in zip(roots, parts, strict=True)
        if root.targets is not None and root.weight is not None
    ]
    # What the search has fitted it has fitted by the leaf model, or else anew.
    alike = leaf == finder.node_model
    fitted = found.fitted if alike else None
    trees = fit_models(found.trees, training, leaf, leaves=found.leaves, fitted=fitted)
    return list(zip(trees, _values(trees, rows, parts, found.leaves), strict=True))


def _rows_of_tree(booster: Booster, recipe: TreeRecipe) -> np.ndarray:
    """Draw rows of a booster without replacement; all rows for its first tree."""
    n_rows = len(booster.training)
    share = recipe.subsample if booster.trees else 1.0
    wanted = min(max(round(share * n_rows), 1), recipe.most_rows)
    if wanted == n_rows:
        return booster.training
    random = np.random.default_rng([recipe.seed, booster.key, len(booster.trees)])
    chosen = random.choice(n_rows, wanted, replace=False, shuffle=False)
    return booster.training[np.sort(chosen)]


def _root(booster: Booster, part: np.ndarray, rows: Rows, recipe: TreeRecipe) -> Root:
    targets, weight = recipe.loss.steps(
        rows.targets[part], booster.prediction[part], rows.weight[part]
    )
    least = booster.size.least_weight(float(rows.weight[part].sum()))
    first = not booster.trees
    key = np.array([booster.key, len(booster.trees)], np.uint64)
    return Root(
        rows=part,
        min_split_weight=2 * least,
        min_leaf_weight=least,
        oblique=booster.size.oblique,
        key=int(mix(key).sum() >> np.uint64(1)),
        weight=weight,
        targets=targets,
        max_leaf_nodes=1 if first else booster.size.max_leaf_nodes,
    )


def _values(
    trees: Sequence[Tree],
    rows: Rows,
    parts: Sequence[np.ndarray],
    leaves: Sequence[np.ndarray],
) -> list[np.ndarray]:
    """Predict all rows with trees; rows that grew a tree have a known leaf."""
    most = max(rows.n_rows - len(part) for part in parts)
    if most > _MOST_WALKED:
        return [TreeSum([tree], np.ones(1)).values(rows.table) for tree in trees]
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
