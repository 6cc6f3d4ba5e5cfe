"""Our trees beside those of scikit-learn, node for node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from secret_jax.tree.structure import SplitKind


def nodes_beside(ours, reference, X) -> Iterator[tuple[int, int]]:
    """Pairs of nodes, ours and theirs, that the same splits lead to.

    Weights are the same shares, and thresholds lie between the same two values of the
    rows that reach the node.
    """
    tree, schema, theirs = ours.tree_, ours.tree_.schema, reference.tree_
    reached = reference.decision_path(X).toarray().T > 0
    share = theirs.weighted_n_node_samples / theirs.weighted_n_node_samples[0]
    pairs = [(0, 0)]
    while pairs:
        node, other = pairs.pop()
        weight = tree.weight[node] / tree.weight[0]
        assert weight == pytest.approx(share[other])
        yield node, other
        if theirs.children_left[other] < 0:
            assert tree.left[node] < 0
            continue
        assert tree.kind[node] == SplitKind.AXIS
        column = int(tree.attribute[node])
        assert schema.continuous[column] == theirs.feature[other]
        threshold = tree.threshold[node] * schema.scale[column] + schema.center[column]
        inside = X[reached[other], theirs.feature[other]]
        spread = 1e-6 * inside.std()
        low, high = sorted([threshold, theirs.threshold[other]])
        assert not ((inside > low + spread) & (inside < high - spread)).any()
        pairs.append((int(tree.left[node]), theirs.children_left[other]))
        pairs.append((int(tree.right[node]), theirs.children_right[other]))
