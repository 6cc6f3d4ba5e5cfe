"""Forests: bags of rows, trees grown in parallel, out-of-bag predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.ensemble.copies import Copies
from secret_jax.ensemble.options import TreeRecipe, TreeSize
from secret_jax.fit.plan import features_of_node
from secret_jax.grow.attributes import n_inputs
from secret_jax.grow.frontier import Root
from secret_jax.grow.grower import GrowOptions, grown
from secret_jax.models.fitting import fit_models
from secret_jax.runtime.hashing import mix
from secret_jax.runtime.progress import Stage
from secret_jax.tree.routing import TreeSum
from secret_jax.tree.structure import Tree

# Salt for random numbers that differ from those of the bags with the same key.
_COPIES = 0x636F7079
# Maximum number of rows, over all trees that grow together.
_MOST_PLACES = 1 << 19


@dataclass(frozen=True, kw_only=True)
class ForestPlan:
    """Plan of a forest.

    Attributes
    ----------
    max_features : int, float, str or None
        As in scikit-learn.
    recipe : TreeRecipe
        How splits are found, and which models the leaves have.
    stage : Stage
        Receives the number of trees grown.
    """

    n_estimators: int
    size: TreeSize
    max_leaf_nodes: int | None
    max_features: float | str | None
    bootstrap: bool
    recipe: TreeRecipe
    stage: Stage


class Forest(NamedTuple):
    """Trees with their bags.

    Attributes
    ----------
    counts : ndarray of shape (n_trees, n_rows), int32
        How often each row is in each bag.
    keys : list of list of int
        The randomness of each bag.
    """

    trees: list[Tree]
    counts: np.ndarray
    keys: list[list[int]]


def grow_forest(plan: ForestPlan, rows: Rows, schema: TableSchema) -> Forest:
    """Grow trees on bags of rows.

    A bag holds as many rows as there are, drawn with replacement in proportion to the
    weights (Breiman 1996); without ``bootstrap`` every tree has all of them.

    Parameters
    ----------
    rows : Rows
        Distinct, in hash order.
    """
    total = float(rows.weight.sum())
    n_drawn = max(round(total), 1)
    keys = [[plan.recipe.seed, number] for number in range(plan.n_estimators)]
    counts = np.ones((plan.n_estimators, rows.n_rows), np.int32)
    if plan.bootstrap:
        share = rows.weight / total
        for key, count in zip(keys, counts, strict=True):
            count[:] = np.random.default_rng(key).multinomial(n_drawn, share)
    together = max(1, _MOST_PLACES // max(int((counts[0] > 0).sum()), 1))
    trees: list[Tree] = []
    for first in range(0, plan.n_estimators, together):
        plan.stage.at(first, plan.n_estimators)
        some = slice(first, first + together)
        trees += _grown(plan, rows, schema, keys[some], counts[some])
    return Forest(trees, counts, keys)


def _grown(
    plan: ForestPlan,
    rows: Rows,
    schema: TableSchema,
    keys: list[list[int]],
    counts: np.ndarray,
) -> list[Tree]:
    recipe = plan.recipe
    options = GrowOptions(
        finder=recipe.splits,
        sample=recipe.sample,
        min_gain=recipe.min_gain,
        max_leaf_nodes=plan.max_leaf_nodes,
        max_features=features_of_node(plan.max_features, n_inputs(schema)),
        smallest_sample=recipe.smallest_sample,
        batch_rows=recipe.batch_rows,
    )
    roots, training = [], []
    for key, count in zip(keys, counts, strict=True):
        bag = np.flatnonzero(count)
        weight = count[bag].astype(float) if plan.bootstrap else rows.weight[bag]
        least = plan.size.least_weight(float(weight.sum()))
        root = Root(
            rows=bag,
            min_split_weight=2 * least,
            min_leaf_weight=least,
            oblique=plan.size.oblique,
            key=int(mix(np.array(key, np.uint64)).sum() >> np.uint64(1)),
            weight=weight,
        )
        roots.append(root)
        training.append(rows.take(bag)._replace(weight=weight))
    found = grown(rows, schema, options, roots)
    alike = recipe.leaf == recipe.splits.node_model
    fitted = found.fitted if alike else None
    return fit_models(
        found.trees, training, recipe.leaf, leaves=found.leaves, fitted=fitted
    )


def out_of_bag(forest: Forest, rows: Rows, copies: Copies) -> np.ndarray:
    """Mean prediction for every row of the trees whose bags lack it.

    Parameters
    ----------
    rows : Rows
        Rows that it was grown on.
    copies : Copies
        The rows as they were given. One that stands for several has, of every tree,
        as many values as the bag lacks of them.

    Returns
    -------
    ndarray of shape (n_given, n_outputs), float64
        In standardised units; NaN of a row that is in every bag.
    """
    total = np.zeros((len(copies.place), rows.targets.shape[1]))
    n_trees = np.zeros((len(copies.place), 1))
    each = TreeSum(forest.trees, np.ones(len(forest.trees)))
    said = np.zeros_like(rows.targets)
    for number, (key, count) in enumerate(zip(forest.keys, forest.counts, strict=True)):
        out = copies.out_of(count, np.random.default_rng([*key, _COPIES]))[:, None]
        asked = np.unique(copies.place[out[:, 0] > 0])
        if len(asked):
            said[asked] = each.values(rows.table.take(asked), number, number + 1)
            total += out * said[copies.place]
            n_trees += out
    return np.where(n_trees > 0, total / np.maximum(n_trees, 1), np.nan)
