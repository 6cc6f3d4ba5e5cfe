"""Tree alternating optimisation: optimise every split for its present subtrees.

With all else fixed, a row that reaches an inner node only asks which child's subtree
predicts it better; so the best split of the node is a weighted classification of its
rows. Nodes of one depth do not share rows: a level is optimised at once.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.fit.grow.frontier import ROUNDING
from secret_jax.fit.grow.trees import Recipe
from secret_jax.fit.interface import Fitted, Refined, Refinement
from secret_jax.fit.prepare import without_share
from secret_jax.fit.prune.path import training_errors
from secret_jax.fit.refine.distillation import measured_on, with_gains
from secret_jax.models.fitting import fit_models, row_errors, weighted_errors
from secret_jax.models.interface import LeafModel
from secret_jax.runtime.linalg import unit_vectors
from secret_jax.runtime.values import at_least, real
from secret_jax.tree.structure import SplitKind, Tree
from secret_jax.tree.totals import leaf_totals, model_degrees, split_degrees
from secret_jax.tree.walk import descend, values_at

# How often a degree of freedom counts, and the least share of a leaf's to be left.
_GCV_FACTOR, _LEAST_LEFT = 1.2, 0.1
# Shares of the objective: a smaller drop is rounding, or too little for another pass.
_LEAST_DROP, _SETTLED = 1e-6, 1e-3
# Passes without improvement on held-out rows after which to stop, and their share.
_PATIENCE, _CHECKED_SHARE = 2, 0.25
# Rows of a node in the search for its split, and rows for accepting splits; all rows
# judge the result.
_NODE_ROWS, MOST_ROWS = 2048, 1 << 15
# Shares of a discriminant that turn the present direction.
_TURNS = 0.3, 1.0


@dataclass(frozen=True, kw_only=True)
class Tao(Refinement):
    """Tree alternating optimisation: refit splits level by level from the bottom.

    After every change the models below it are fitted again by the tree's own rule, and
    the change is kept only where the *objective* of its subtree drops: the sum over
    the leaves of the squared errors of their (unclipped) models on the training rows,
    each divided by ``(1 - 1.2 * degrees / weight) ** 2``, as in generalised
    cross-validation. It never rises, and it must drop by ``penalty`` noise variances
    for every number in the split.

    Splits on a discrete attribute stay as they are, splits on one attribute stay splits
    on one, oblique splits keep to the attributes that they have, and no leaf gets less
    than the least weight. Held-out rows determine the number of passes.

    Attributes
    ----------
    max_sweeps : int, default=10
        Maximum number of passes over all levels.
    penalty : float, default=1.0
        Least drop of the objective for every number in a new split, in noise variances.
    margin : float, default=2.0
        Minimum improvement on held-out rows, in standard errors: with less, chance
        gets in.

    References
    ----------
    M. Á. Carreira-Perpiñán and P. Tavallali. Alternating Optimization of Decision
    Trees, with Application to Learning Sparse Oblique Trees. NeurIPS 2018.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.fit.refine.tao import Tao
    >>> SecretRegressor(refine=Tao(max_sweeps=3)).get_params()["refine__max_sweeps"]
    3
    """

    max_sweeps: Annotated[int, at_least(1)] = 10
    penalty: Annotated[float, real(0.0)] = 1.0
    margin: Annotated[float, real(0.0)] = 2.0

    def __call__(self, fitted: Fitted, recipe: Recipe) -> Refined:
        """Optimise the splits, and return the tree with the number of passes."""
        rows, learned = fitted.all_rows(shuffle=True), fitted.student_rows
        if learned is None:
            check = None if fitted.refit else fitted.held_out
            return improve(fitted.tree, rows, check, recipe, self)
        # Points between rows depend on each other: the rows have the last word.
        least = recipe.min_leaf_weight * (learned.weight.sum() / rows.weight.sum())
        recipe = replace(recipe, min_leaf_weight=least)
        found = improve(fitted.tree, learned, rows, recipe, self)
        if not found.n_steps:
            return found
        return found._replace(tree=measured_on(found.tree, rows, recipe.leaf, 0.0))


def improve(
    tree: Tree, rows: Rows, check: Rows | None, recipe: Recipe, options: Tao
) -> Refined:
    """Alternate for as many passes as ``check`` finds worthwhile, by default a part.

    ``rows`` are shuffled: a prefix finds, all judge.
    """
    trained, leaf = rows, recipe.leaf
    if check is None:
        trained, check = without_share(rows, _CHECKED_SHARE)
    if check is None:
        return Refined(tree)
    trained, check = (part.take(slice(MOST_ROWS)) for part in (trained, check))
    least = recipe.min_leaf_weight * trained.weight.sum() / rows.weight.sum()
    current = fit_models([tree], [trained], leaf)[0]
    first = least_errors = row_errors(current, check)
    best, n_sweeps = tree, 0
    stage = recipe.stage("choosing the splits again")
    for sweep in range(1, options.max_sweeps + 1):
        before = subtree_costs(current)[0]
        for level in range(current.max_depth - 1, -1, -1):
            current = _improve_level(current, level, trained, leaf, least, options)
        stage.at(sweep, options.max_sweeps)
        errors = row_errors(current, check)
        if errors.sum() < least_errors.sum():
            best, least_errors, n_sweeps = current, errors, sweep
        settled = subtree_costs(current)[0] >= before * (1 - _SETTLED)
        if settled or sweep - n_sweeps >= _PATIENCE:
            break
    gained, n = first - least_errors, len(first)
    error = np.std(gained) * n / np.sqrt(max(n - 1, 1))
    if not n_sweeps or gained.sum() <= options.margin * error:
        return Refined(tree)
    best = with_gains(fit_models([best], [rows], leaf)[0])
    worse = subtree_costs(best)[0] > subtree_costs(tree)[0]
    return Refined(tree) if worse else Refined(best, n_sweeps)


def subtree_costs(tree: Tree) -> np.ndarray:
    """Objective of the subtree below every node, shape (n_nodes,), float64."""
    weight = np.where(tree.weight > 0, tree.weight, 1.0)
    spare = 1.0 - _GCV_FACTOR * model_degrees(tree) / weight
    cost = training_errors(tree) / np.maximum(spare, _LEAST_LEFT) ** 2
    return leaf_totals(tree, cost)


def _improve_level(
    tree: Tree, level: int, rows: Rows, leaf: LeafModel, least: float, options: Tao
) -> Tree:
    """Take the splits of one depth that lower the objective of what is below them."""
    cuts = np.isin(tree.kind[: tree.n_nodes], (SplitKind.AXIS, SplitKind.OBLIQUE))
    cuts[tree.further] = False
    nodes = np.flatnonzero(cuts & (tree.depth == level))
    splits = _proposed(tree, nodes, rows, least)
    tried = fit_models([replace(tree, **splits)], [rows], leaf)[0]
    costs, new = map(subtree_costs, (tree, tried))
    noise = np.sum(training_errors(tree)[tree.is_leaf]) / tree.weight[0]
    price = options.penalty * noise * np.maximum(split_degrees(tree), 1.0)
    accepted = new < costs - np.maximum(price, _LEAST_DROP * costs[0])
    light = (tried.weight < least * (1 - ROUNDING)).astype(int)
    accepted &= np.isin(np.arange(tree.n_nodes), nodes)
    accepted &= leaf_totals(tried, light) == 0
    if not accepted.any():
        return tree
    rejected = np.flatnonzero(~accepted)
    for name, values in splits.items():
        values[rejected] = getattr(tree, name)[rejected]
    return fit_models([replace(tree, **splits)], [rows], leaf)[0]


def _proposed(
    tree: Tree, nodes: np.ndarray, rows: Rows, least: float
) -> dict[str, np.ndarray]:
    """Fields of a tree's splits, with better ones in nodes of one depth."""
    names = ("left", "right", "attribute", "direction", "threshold")
    splits = {name: getattr(tree, name).copy() for name in names}
    depth = tree.depth[nodes].max(initial=0)
    reached = descend(tree, rows.table, np.zeros(rows.n_rows, int), depth)

    def error_below(side: int, part: Rows) -> np.ndarray:
        start = np.full(part.n_rows, side)
        leaf = descend(tree, part.table, start, tree.max_depth)
        return weighted_errors(values_at(tree, part.table, leaf), part, tree.loss)

    for node in nodes:
        part = rows.take(np.flatnonzero(reached == node)[:_NODE_ROWS])
        sides = int(tree.left[node]), int(tree.right[node])
        to_left, to_right = (error_below(side, part) for side in sides)
        share = part.weight.sum() / tree.weight[node]
        found = _best_cut(tree, node, part, to_right - to_left, least * share)
        if found is None:
            continue
        direction, threshold = found
        if tree.kind[node] == SplitKind.AXIS:
            splits["attribute"][node] = np.abs(direction).argmax()
            if direction.sum() < 0:  # what lies above goes left
                direction, threshold, sides = -direction, -threshold, sides[::-1]
        splits["direction"][node], splits["threshold"][node] = direction, threshold
        splits["left"][node], splits["right"][node] = sides
    return splits


def _best_cut(
    tree: Tree, node: int, rows: Rows, saving: np.ndarray, least: float
) -> tuple[np.ndarray, float] | None:
    """Direction and threshold that save most, if more than the present ones.

    ``saving`` (n_rows,): what a row's loss drops by if it goes left.
    """
    x, present = rows.table.on_host().x, tree.direction[node]
    if tree.kind[node] == SplitKind.OBLIQUE:
        directions = _directions(x, saving, present)
    else:
        one = np.eye(x.shape[1], dtype=x.dtype)[tree.schema.continuous_positions]
        directions = np.concatenate([one, -one])
    values = x @ directions.T
    order = np.argsort(values, axis=0, kind="stable")
    ranked = np.take_along_axis(values, order, axis=0)
    weight, saved = (each[order].cumsum(axis=0) for each in (rows.weight, saving))
    lighter = np.minimum(weight[:-1], weight[-1] - weight[:-1])
    allowed = (ranked[1:] > ranked[:-1]) & (lighter >= least)
    saved = np.where(allowed, saved[:-1], -np.inf)
    if saved.max(initial=-np.inf) <= saving[x @ present <= tree.threshold[node]].sum():
        return None
    place, which = np.unravel_index(np.argmax(saved), saved.shape)
    low, high = ranked[place : place + 2, which]
    middle = low + (high - low) / 2
    return directions[which], middle if middle < high else low


def _directions(x: np.ndarray, saving: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Present direction, the discriminant of those who save left, and turns to it."""
    deviation, root = x.std(axis=0), np.sqrt(np.abs(saving))[:, None]
    used = (present != 0) & (deviation > 0)
    scale = np.where(used, deviation, 1.0)
    z = np.where(used, (x - x.mean(axis=0)) / scale, 0.0)
    design = np.insert(z, 0, 1.0, axis=1)
    slopes = np.linalg.lstsq(root * design, -root[:, 0] * np.sign(saving))[0][1:]
    old, new = unit_vectors(np.stack([present * scale * used, slopes]))
    directions = np.stack([old, new, *(old + share * new for share in _TURNS)])
    return unit_vectors(directions / scale).astype(x.dtype)
