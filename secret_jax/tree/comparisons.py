"""Which child a row goes to: splits as comparisons; conjunctions have several."""

from typing import Any, NamedTuple

import numpy as np

from secret_jax.runtime.linalg import AnyArray
from secret_jax.tree.structure import SplitKind, Tree


def goes_left(
    projection: AnyArray | float,
    threshold: AnyArray | float,
    discrete: AnyArray,
    code: AnyArray,
    listed: AnyArray,
    larger_left: AnyArray,
    xp: Any,
) -> Any:
    """Whether rows go left at splits.

    ``projection``, ``threshold``: at a split on continuous attributes a
    row goes left up to the threshold; ``discrete``: whether the split is on a discrete
    attribute; ``code`` int32: the row's category there; -1 if training never saw it;
    ``listed``: whether the category goes left; ``larger_left``: where unseen categories
    go: to the larger child. ``xp``: `numpy` or `jax.numpy`. The shapes are broadcast.
    """
    known = xp.where(code >= 0, listed, larger_left)
    return xp.where(discrete, known, projection <= threshold)


class Comparisons(NamedTuple):
    """One comparison of each split, then the conditions of the conjunctions.

    A row goes left at a conjunction if it does so at all of its conditions; what stands
    in its own place sends every row to the left. Arrays are those of `Tree`.
    """

    node: np.ndarray  # (n_comparisons,), int
    kind: np.ndarray
    attribute: np.ndarray
    direction: np.ndarray
    threshold: np.ndarray
    goes_left: np.ndarray
    larger_left: np.ndarray
    # Place of each conjunction, and the places of its conditions.
    conditions: list[tuple[int, list[int]]]

    @property
    def discrete(self) -> np.ndarray:
        """Places of comparisons of discrete attributes."""
        return np.flatnonzero(self.kind == SplitKind.DISCRETE)


def comparisons_of(tree: Tree, node: np.ndarray) -> Comparisons:
    """Collect the comparisons at some inner nodes; the splits keep their order."""
    own, *conditions = tree.comparisons
    parts = [(own, node)]
    parts += [(part, node[part.kind[node] != SplitKind.LEAF]) for part in conditions]

    def every(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name)[of] for part, of in parts])

    nodes, kind = np.concatenate([of for _, of in parts]), every("kind")
    joined = [
        (
            place,
            (len(node) + np.flatnonzero(nodes[len(node) :] == node[place])).tolist(),
        )
        for place in np.flatnonzero(kind[: len(node)] == SplitKind.CONJUNCTION).tolist()
    ]
    return Comparisons(
        node=nodes,
        kind=kind,
        attribute=every("attribute"),
        direction=every("direction"),
        threshold=every("threshold"),
        goes_left=every("goes_left"),
        larger_left=every("larger_left"),
        conditions=joined,
    )
