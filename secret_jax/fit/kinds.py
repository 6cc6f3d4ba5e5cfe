"""Race between kinds of trees: those with axis-parallel and those with any splits."""

from collections.abc import Sequence

import numpy as np

from secret_jax.fit.prune.cross_validation import CrossValidation, parts_of
from secret_jax.fit.prune.interface import Evidence, PruningRule
from secret_jax.fit.prune.path import TIE
from secret_jax.fit.prune.watch import LEVELS_BELOW, Kind, Watch
from secret_jax.grow.frontier import Root
from secret_jax.grow.grower import Grown
from secret_jax.grow.trees import Recipe
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.tree.structure import Tree


def judged_kinds(
    kinds: Sequence[bool], recipe: Recipe, rule: PruningRule, evidence: Evidence
) -> list[Kind]:
    """Grow and prune trees of every kind; the best kind comes first.

    Kinds are compared on the first division of the rows into folds. Only the best one
    is grown on further divisions, if its rule asks for them; they then choose its size
    as well.

    ``kinds``: whether trees may split obliquely.
    """
    training, unseen = evidence.training, evidence.unseen
    every_row = np.arange(training.n_rows)

    def roots(rows: Sequence[np.ndarray], oblique: bool) -> list[Root]:
        return [recipe.root(some, oblique=oblique) for some in rows]

    def pruned(oblique: bool, trees: Sequence[Tree]) -> Kind:
        judges = evidence._replace(
            unseen=unseen[: len(trees) - 1], fold_trees=trees[1:]
        )
        return Kind(tuple(trees), rule(trees[0], judges), oblique)

    n_first = 0
    if rule.n_folds:
        n_first = len(parts_of(training.weight, rule.n_folds, group=training.group))
    seen = [every_row, *(every_row[~part] for part in unseen)]
    started = [roots(seen[: n_first + 1], oblique) for oblique in kinds]

    def judged(kind: int, grown: Sequence[Grown], stage: Stage = UNTOLD) -> Kind:
        trees = recipe.attach(grown, training, started[kind], stage)
        return pruned(kinds[kind], trees)

    watch = Watch(judged, len(kinds))
    # Other rules have penalties or errors of subtrees that need the whole trees.
    watched = isinstance(rule, CrossValidation)
    in_turn = [root for alike in zip(*started, strict=True) for root in alike]
    trees = recipe.grow(training, in_turn, enough=watch if watched else None)
    stage = recipe.stage("fitting models")
    found = [
        watch.judged.get(kind) or judged(kind, trees[kind :: len(kinds)], stage)
        for kind in range(len(kinds))
    ]
    least = min(kind.pruned.value for kind in found)
    # Of kinds that part the rows alike, but for rounding, the first.
    most = least + TIE * abs(least)
    best, *others = sorted(found, key=lambda kind: kind.pruned.value > most)
    settled = rule.is_settled(best.pruned.tree, training.n_rows)
    if len(seen) > n_first + 1 and not settled:
        further = roots(seen[n_first + 1 :], best.oblique)
        deepest = best.pruned.tree.max_depth + LEVELS_BELOW
        more = recipe.to_depth(deepest).grow(training, further)
        more = recipe.attach(more, training, further, stage)
        best = pruned(best.oblique, [*best.trees, *more])
    return [best, *others]
