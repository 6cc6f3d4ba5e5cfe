"""Growth ends early where pruning would cut any further split, or a family has lost.

A family are the trees whose splits lie on one attribute, or those of oblique splits.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from secret_jax.fit.grow.grower import Grown, SoFar
from secret_jax.fit.grow.trees import PATIENCE_LEVELS
from secret_jax.fit.interface import Candidate
from secret_jax.tree.reshape import place_in

# Families are compared when so many levels were searched, not before: trees of splits
# on one attribute need more of them. Those of few rows are shown later: what is told of
# trees of four levels makes those of 500 rows and twenty columns, fifteen of them
# useless, err a sixth more than what is told of six.
_FIRST_LOOK, _OF_FEW_ROWS, _FEW_ROWS = 4, 6, 2048
# A family whose value is so many times that of another one has lost. Growth has never
# made good more than a twentieth.
_LOST = 1.1

FirstLook: TypeAlias = Callable[[Sequence[Candidate]], None]


class Overtaken(Exception):
    """Another fit errs less, and this one need not go on."""


class EarlyStopping:
    """Monitor of a growth that tells which nodes need not be split.

    A branch is deep enough when the tree that pruning keeps of its tree ends at least
    `PATIENCE_LEVELS` levels above, and a family when another one errs far less.

    ``judge``: fits and prunes the trees of a family, given its index; trees come from
    each family in turn. ``judged``: the families that have stopped. ``first_look``:
    called once, with the candidates of all families, when they are first compared.
    """

    def __init__(
        self,
        judge: Callable[[int, Sequence[Grown]], Candidate],
        n_families: int,
        n_rows: int,
        first_look: FirstLook | None = None,
    ):
        self._judge, self._first_look = judge, first_look
        self._levels_shown = _OF_FEW_ROWS if n_rows < _FEW_ROWS else _FIRST_LOOK
        self._next_look = [_FIRST_LOOK] * n_families
        self._latest: dict[int, Candidate] = {}
        self.judged: dict[int, Candidate] = {}

    def __call__(self, n_levels: int, so_far: SoFar) -> np.ndarray:
        """Nodes that need not be split, after so many levels."""
        n_families = len(self._next_look)
        looked = [i for i, look in enumerate(self._next_look) if look == n_levels]
        if not looked:
            return np.zeros(0, int)
        trees, number = so_far()
        found = {i: self._judge(i, trees[i::n_families]) for i in looked}
        self._latest |= found
        candidates = [*self._latest.values()]
        if n_levels >= self._levels_shown:
            self.show(candidates)
        least = min(candidate.pruned.value for candidate in candidates)
        done = [np.zeros(each.tree.n_nodes, bool) for each in trees]
        for i, candidate in found.items():
            # A loss of one's own may be negative.
            has_lost = candidate.pruned.value - least > (_LOST - 1.0) * abs(least)
            kept = [candidate.pruned.tree, *candidate.pruned.fold_trees]
            deepest = kept[0].max_depth + PATIENCE_LEVELS
            self._next_look[i] = 0 if has_lost else deepest
            ended = self._next_look[i] <= n_levels
            if ended:
                self.judged[i] = candidate
            for own, tree, subtree in zip(
                done[i::n_families], candidate.trees, kept, strict=True
            ):
                levels_below = tree.depth - subtree.depth[place_in(tree, subtree)]
                own[:] = ended | (levels_below >= PATIENCE_LEVELS)
        return np.flatnonzero(np.concatenate(done)[number])

    def show(self, candidates: Sequence[Candidate]) -> None:
        """Show the candidates to who wants a first look, unless there was one."""
        look, self._first_look = self._first_look, None
        if look is not None:
            look(sorted(candidates, key=lambda candidate: candidate.pruned.value))
