"""Splits of inner nodes that send rows to the subtree that predicts them better."""

from dataclasses import replace

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.fit.refine.hyperplanes import PreferenceSplits
from secret_jax.grow.compiled import CompiledSearch
from secret_jax.grow.frontier import Level, Places, Root
from secret_jax.models.errors import weighted_errors
from secret_jax.runtime.linalg import safe_divide
from secret_jax.splits.interface import Split
from secret_jax.tree.structure import SplitKind, Tree
from secret_jax.tree.walk import descend, values_at


def proposed(
    tree: Tree, nodes: np.ndarray, rows: Rows, least: float, node_rows: int
) -> Tree:
    """Replace the splits of some nodes by the best ones for their present subtrees.

    ``nodes`` (n_nodes,), int: nodes of one depth, split on continuous attributes;
    ``rows``: in shuffled order; ``least``: least weight of a side; ``node_rows``:
    maximum number of rows used of a node. Returns the very tree that was given if no
    split can be bettered; the models are those of the old splits.
    """
    level = int(tree.depth[nodes[0]])
    reached = descend(tree, rows.table, np.zeros(rows.n_rows, np.int64), level)
    slot = np.full(tree.n_nodes, -1)
    slot[nodes] = np.arange(len(nodes))
    row = np.flatnonzero(slot[reached] >= 0)
    row = row[np.argsort(slot[reached[row]], kind="stable")]
    # Only a prefix of each node's rows, which are in random order.
    count = np.bincount(slot[reached[row]], minlength=len(nodes))
    within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    row = row[within < node_rows]
    part, node = rows.take(row), reached[row]
    depth = tree.max_depth - level - 1
    by_left, by_right = (
        weighted_errors(
            values_at(tree, part.table, descend(tree, part.table, side[node], depth)),
            part,
            tree.loss,
        )
        for side in (tree.left, tree.right)
    )
    weight = np.bincount(slot[node], part.weight.astype(np.float32), len(nodes))
    least_weight = least * safe_divide(weight, tree.weight[nodes])
    oblique = tree.kind[nodes] == SplitKind.OBLIQUE
    stop = np.cumsum(np.bincount(slot[node], minlength=len(nodes)))
    roots = [
        Root(
            rows=rows,
            min_split_weight=2 * least_weight[place],
            min_leaf_weight=least_weight[place],
            oblique=bool(oblique[place]),
        )
        for place, rows in enumerate(np.split(np.arange(len(row)), stop[:-1]))
    ]
    saving = (by_right - by_left)[:, None]
    places = Places.of(part._replace(targets=saving), roots)
    search = CompiledSearch(
        PreferenceSplits(),
        places,
        tree.schema,
        oblique=bool(oblique.any()),
        sample=node_rows,
        deep=False,
    )
    frontier = Level.of(roots, places, tree.schema)
    present = {
        "direction": search.wider(tree.direction[nodes]),
        "threshold": tree.threshold[nodes],
    }
    return _with_splits(tree, nodes, search.find(frontier, present).splits)


def _with_splits(tree: Tree, nodes: np.ndarray, found: Split) -> Tree:
    """Apply the new splits that reduce the error."""
    useful = np.isfinite(found.gain) & (found.gain > 0)
    if not useful.any():
        return tree
    chosen = nodes[useful]
    left, right = tree.left.copy(), tree.right.copy()
    direction, threshold = tree.direction.copy(), tree.threshold.copy()
    attribute = tree.attribute.copy()
    axis = found.kind == SplitKind.AXIS
    direction[chosen] = np.where(
        axis[:, None], np.abs(found.direction), found.direction
    )[useful]
    threshold[chosen] = found.threshold[useful]
    attribute[chosen] = found.attribute[useful]
    exchanged = nodes[useful & axis & (found.direction.min(axis=1) < 0)]
    left[exchanged], right[exchanged] = tree.right[exchanged], tree.left[exchanged]
    return replace(
        tree,
        left=left,
        right=right,
        direction=direction,
        threshold=threshold,
        attribute=attribute,
    )
