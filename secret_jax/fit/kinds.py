"""Race between kinds of trees: those with axis-parallel and those with any splits.

Growth stops early where pruning would remove any further split, or a kind has lost.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from secret_jax.fit.prune.cross_validation import CrossValidation, parts_of
from secret_jax.fit.prune.interface import Evidence, Pruned, PruningRule
from secret_jax.fit.prune.path import TIE
from secret_jax.grow.frontier import Root
from secret_jax.grow.grower import Grown
from secret_jax.grow.trees import Recipe
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.tree.structure import Tree

# Growth ends this number of levels below the pruned tree: a split without gain of its
# own may pay for the splits below it. Three levels err as two do, and take a fifth more
# time; one level errs more, by 1.4 %.
LEVELS_BELOW = 2
# Kinds are compared when so many levels were searched, not before: trees of splits on
# one attribute need more of them.
_FIRST_LOOK = 4
# A kind whose value is so many times that of another one has lost. Growth has never
# made good more than a twentieth.
_LOST = 1.1


class Kind(NamedTuple):
    """Trees that are grown alike, and what pruning keeps of the first one."""

    # That of all training rows, then those of the folds, with models.
    trees: tuple[Tree, ...]
    pruned: Pruned
    oblique: bool  # whether they may split obliquely


class Watch:
    """Monitor that tells which growing trees are deep enough.

    Trees come in kinds, each pruned by itself. A kind is deep enough when the tree that
    pruning keeps of it ends at least `LEVELS_BELOW` levels above its frontier, or when
    another kind errs far less.

    ``judge``: fits models to the trees of a kind, by its index, and prunes them;
    ``n_kinds``: trees come from each kind in turn. ``judged``: last result for every
    kind that was deep enough.
    """

    def __init__(self, judge: Callable[[int, Sequence[Grown]], Kind], n_kinds: int):
        self._judge = judge
        self._next_look = [_FIRST_LOOK] * n_kinds
        self._values = [np.inf] * n_kinds
        self.judged: dict[int, Kind] = {}

    def __call__(
        self, depth: int, so_far: Callable[[], Sequence[Grown]]
    ) -> Sequence[int]:
        """Positions of the trees that need not grow further.

        ``depth``: levels that were searched; ``so_far``: gives the trees as they are.
        """
        done: list[int] = []
        n_kinds = len(self._next_look)
        looked = np.flatnonzero(np.equal(self._next_look, depth)).tolist()
        if not looked:
            return done
        trees = so_far()
        found = [self._judge(kind, trees[kind::n_kinds]) for kind in looked]
        for kind, result in zip(looked, found, strict=True):
            self._values[kind] = result.pruned.value
        least = min(self._values)
        for kind, result in zip(looked, found, strict=True):
            # A loss of one's own may be negative.
            has_lost = result.pruned.value - least > (_LOST - 1.0) * abs(least)
            deepest = result.pruned.tree.max_depth + LEVELS_BELOW
            self._next_look[kind] = 0 if has_lost else deepest
            if self._next_look[kind] <= depth:
                self.judged[kind] = result
                done += range(kind, len(trees), n_kinds)
        return done


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
