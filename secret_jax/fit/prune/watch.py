"""Early stop of growth, where pruning would remove any further split."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from secret_jax.fit.prune.interface import Pruned
from secret_jax.grow.grower import Grown
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
