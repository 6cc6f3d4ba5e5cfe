"""Tree alternating optimisation: optimise every split for its present subtrees.

Carreira-Perpiñán & Tavallali 2018. With all else fixed, a row that reaches an inner
node only asks which child's subtree predicts it better; so the best split of the node
is a weighted classification of its rows. Nodes of one depth do not share rows: a level
is one batch.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.fit.prune.cross_validation import without_share
from secret_jax.fit.prune.path import training_errors
from secret_jax.fit.refine.distillation import mean_error, measured_on
from secret_jax.fit.refine.hyperplanes import proposed
from secret_jax.fit.refine.interface import Fitted, Refined, Refinement
from secret_jax.grow.grower import ROUNDING
from secret_jax.grow.trees import Recipe
from secret_jax.models.errors import row_errors
from secret_jax.models.fitting import fit_models
from secret_jax.models.monotone import with_final_thresholds
from secret_jax.runtime.values import at_least, real
from secret_jax.tree.degrees import model_degrees, split_degrees
from secret_jax.tree.structure import SplitKind, Tree
from secret_jax.tree.totals import leaf_totals

# A drop of the objective below this share of it is rounding.
_LEAST_DROP = 1e-6
# Minimum share of spare degrees assumed for a leaf that spent nearly all its rows.
_LEAST_LEFT = 0.1
# Passes without improvement on held-out rows after which to stop, and the share of the
# rows that is held out.
_PATIENCE, _CHECKED_SHARE = 2, 0.25
# Rows of a node in the search for its split, and rows for accepting splits; all rows
# judge the result.
_NODE_ROWS, MOST_ROWS = 2048, 1 << 15
_MODEL_FIELDS = (
    *("coefficient", "lower", "upper", "weight", "train_error", "degrees"),
    *("mean", "deviation", "center", "spread", "standard_error"),
)
_SPLIT_FIELDS = ("left", "right", "attribute", "direction", "threshold")


@dataclass(frozen=True, kw_only=True)
class Tao(Refinement):
    """Tree alternating optimisation: refit splits level by level from the bottom.

    After every change the models below it are fitted again by the tree's own rule, and
    the change is kept only where the *objective* of its subtree drops: the sum over
    the leaves of the squared errors of their (unclipped) models on the training rows,
    each divided by ``(1 - gcv_factor * degrees / weight) ** 2``. That is generalised
    cross-validation with the degrees of freedom of
    `secret_jax.tree.degrees.model_degrees`. It never rises, and it must drop by
    ``penalty`` noise variances for every number in the split.

    Splits on a discrete attribute stay as they are, splits on one attribute stay splits
    on one, oblique splits keep to the attributes that they have, and no leaf gets less
    than the least weight. Held-out rows determine the number of passes.

    Attributes
    ----------
    max_sweeps : int, default=10
        Maximum number of passes over all levels.
    tol : float, default=1e-3
        Passes end when one lowers the objective by a smaller share.
    penalty : float, default=1.0
        Least drop of the objective for every number in a new split, in noise variances.
    gcv_factor : float, default=1.2
        How often a degree of freedom counts in the objective; see `secret_jax.Ridge`.
    margin : float, default=2.0
        Minimum improvement on held-out rows, in standard errors. With less, chance gets
        in: over real tables most of what passed one was worth nothing.

    References
    ----------
    M. Á. Carreira-Perpiñán and P. Tavallali. Alternating Optimization of Decision
    Trees, with Application to Learning Sparse Oblique Trees. NeurIPS 2018.

    Examples
    --------
    >>> from secret_jax import SecretRegressor, Tao
    >>> SecretRegressor(refine=Tao(max_sweeps=3)).get_params()["refine__max_sweeps"]
    3
    """

    max_sweeps: Annotated[int, at_least(1)] = 10
    tol: Annotated[float, real(0.0)] = 1e-3
    penalty: Annotated[float, real(0.0)] = 1.0
    gcv_factor: Annotated[float, real(0.0)] = 1.2
    margin: Annotated[float, real(0.0)] = 2.0

    def __call__(self, fitted: Fitted, recipe: Recipe) -> Refined:
        """Optimise the splits, and return the tree with the number of passes."""
        rows = fitted.all_rows(shuffle=True)
        check = None if fitted.refit else fitted.held_out
        if fitted.student_rows is not None:
            # Points between rows depend on each other: the rows have the last word.
            ratio = fitted.student_rows.weight.sum() / fitted.training.weight.sum()
            rows, check = fitted.student_rows, None
            recipe = replace(recipe, min_leaf_weight=ratio * recipe.min_leaf_weight)
        tree, n_sweeps, *_ = improve(fitted.tree, rows, check, recipe, self)
        if fitted.student_rows is not None and n_sweeps:
            own = fitted.training
            tree = measured_on(tree, own, recipe.leaf, 0.0)
            if mean_error([tree], [own]) > mean_error([fitted.tree], [own]):
                return Refined(fitted.tree)
        return Refined(tree, n_sweeps)


def improve(
    tree: Tree, rows: Rows, check: Rows | None, recipe: Recipe, options: Tao
) -> Refined:
    """Alternate for as many passes as held-out rows find worthwhile.

    ``tree``: with models from ``rows``; ``rows``: in shuffled order; ``check``: rows
    that determine the number of passes. None: part of ``rows`` is held out for that,
    and the passes are then made again on all of them. Where nothing pays, the tree
    that was given comes back.
    """
    if check is not None:
        return alternate(tree, rows, check, recipe, options)
    trained, check = without_share(rows, _CHECKED_SHARE)
    if check is None:
        return Refined(tree, 0)
    trained, check = (part.take(slice(MOST_ROWS)) for part in (trained, check))
    smaller = recipe.min_leaf_weight * trained.weight.sum() / rows.weight.sum()
    start = fit_models([tree], [trained], recipe.leaf)[0]
    on_part = replace(recipe, min_leaf_weight=smaller)
    trial = alternate(start, trained, check, on_part, options)
    if trial.n_steps == 0:
        return trial._replace(tree=tree)
    options = replace(options, max_sweeps=trial.n_steps)
    return alternate(tree, rows, None, recipe, options)


def alternate(
    tree: Tree, rows: Rows, check: Rows | None, recipe: Recipe, options: Tao
) -> Refined:
    """Run passes over all levels; see `Tao` for the criterion of acceptance.

    ``tree``: with models from ``rows``; ``rows``: in shuffled order. Of more than
    `MOST_ROWS` a prefix is used; the objective on all of them decides in the
    end. ``check``: choose the pass whose tree errs least on them, and the tree that was
    given if the others are not better by a margin. None: the last pass.
    """
    used = rows.take(slice(MOST_ROWS))
    sampled = used.n_rows < rows.n_rows
    current = fit_models([tree], [used], recipe.leaf)[0]
    least = recipe.min_leaf_weight * used.weight.sum() / rows.weight.sum()
    costs = subtree_costs(current, options.gcv_factor)
    first = objective = float(costs[0])
    first_errors = best_errors = _errors(current, check)
    best, n_sweeps = current, 0
    active = np.ones(tree.n_nodes, bool)
    stage = recipe.stage("choosing the splits again")
    for sweep in range(1, options.max_sweeps + 1):
        before = objective
        for level in range(current.max_depth - 1, -1, -1):
            current, costs = _improve_level(
                current, costs, level, active, used, recipe, least, options
            )
            done = sweep - level / current.max_depth
            detail = f"pass {sweep} of at most {options.max_sweeps}"
            stage.at(done, options.max_sweeps, detail)
        objective, errors = float(costs[0]), _errors(current, check)
        if check is None or errors.sum() < best_errors.sum():
            best, best_errors, n_sweeps = current, errors, sweep
        if objective > before * (1 - options.tol):
            break
        if sweep - n_sweeps >= _PATIENCE:
            break
    if objective == first or (
        check is not None
        and not _clearly_positive(first_errors - best_errors, options.margin)
    ):
        best, n_sweeps = tree, 0
    else:
        factor = options.gcv_factor
        best = with_final_thresholds(best, rows.table)
        best = fit_models([best], [rows], recipe.leaf)[0]
        if sampled and subtree_costs(best, factor)[0] > subtree_costs(tree, factor)[0]:
            best, n_sweeps = tree, 0
    return Refined(best, n_sweeps)


def _errors(tree: Tree, rows: Rows | None) -> np.ndarray:
    """Weighted error of each row's (clipped) prediction."""
    return np.zeros(1) if rows is None else row_errors(tree, rows)


def _clearly_positive(differences: np.ndarray, margin: float) -> bool:
    """Whether a sum exceeds zero by some of its standard errors."""
    n = len(differences)
    error = np.std(differences) * n / np.sqrt(max(n - 1, 1))
    return bool(differences.sum() > margin * error)


def subtree_costs(tree: Tree, gcv_factor: float) -> np.ndarray:
    """Objective of the subtree below every node, shape (n_nodes,), float64."""
    weight = np.where(tree.weight > 0, tree.weight, 1.0)
    spare = 1.0 - gcv_factor * model_degrees(tree) / weight
    cost = training_errors(tree) / np.maximum(spare, _LEAST_LEFT) ** 2
    return leaf_totals(tree, cost)


def _improve_level(
    tree: Tree,
    costs: np.ndarray,
    level: int,
    active: np.ndarray,
    rows: Rows,
    recipe: Recipe,
    least: float,
    options: Tao,
) -> tuple[Tree, np.ndarray]:
    """Improve the splits at one depth; return the tree and its costs.

    Nodes tried without success are marked inactive, in place: a new attempt would fail
    again until something above or below them changes.
    """
    continuous = (tree.kind == SplitKind.AXIS) | (tree.kind == SplitKind.OBLIQUE)
    nodes = np.flatnonzero(continuous & active & (tree.depth == level))
    if len(nodes) == 0:
        return tree, costs
    active[nodes] = False
    changed = proposed(tree, nodes, rows, least, _NODE_ROWS)
    if changed is tree:
        return tree, costs
    changed = fit_models([changed], [rows], recipe.leaf)[0]
    new_costs = subtree_costs(changed, options.gcv_factor)
    top = _ancestors(tree, level)
    too_light = np.zeros(tree.n_nodes, bool)
    light = tree.is_leaf & (changed.weight < least * (1 - ROUNDING))
    too_light[top[light & (top >= 0)]] = True
    noise = np.sum(training_errors(tree)[tree.is_leaf]) / tree.weight[0]
    penalty = options.penalty * noise * np.maximum(split_degrees(tree), 1.0)
    better = new_costs < costs - np.maximum(penalty, _LEAST_DROP * costs[0])
    accepted = np.zeros(tree.n_nodes, bool)
    accepted[nodes] = (better & ~too_light)[nodes]
    # What is below a node depends on it and on its ancestors only, which stay.
    taken = (top >= 0) & accepted[np.maximum(top, 0)]
    active |= taken
    for node in np.flatnonzero(accepted):
        while node >= 0:
            active[node] = True
            node = tree.parent[node]
    merged = _merge(tree, changed, taken)
    return merged, subtree_costs(merged, options.gcv_factor)


def _merge(tree: Tree, changed: Tree, taken: np.ndarray) -> Tree:
    """Take some nodes from one tree and the rest from another of the same shape."""
    fields = {}
    for name in (*_MODEL_FIELDS, *_SPLIT_FIELDS):
        old, new = getattr(tree, name), getattr(changed, name)
        fields[name] = np.where(taken.reshape((-1,) + (1,) * (old.ndim - 1)), new, old)
    weight, inner = fields["weight"], fields["left"] >= 0
    left, right = (np.where(inner, fields[side], 0) for side in ("left", "right"))
    own = weight * fields["train_error"].sum(axis=1)
    saved = np.maximum(own - own[left] - own[right], 0.0)
    return replace(
        tree,
        **fields,
        larger_left=np.where(inner, weight[left] >= weight[right], tree.larger_left),
        gain=np.where(taken & inner, saved, tree.gain).astype(np.float32),
    )


def _ancestors(tree: Tree, level: int) -> np.ndarray:
    """Ancestor of each node at a depth (itself there), -1 for nodes above it."""
    top = np.where(tree.depth == level, np.arange(tree.n_nodes), -1)
    for node in np.flatnonzero(tree.depth > level):  # parents come before children
        top[node] = top[tree.parent[node]]
    return top
