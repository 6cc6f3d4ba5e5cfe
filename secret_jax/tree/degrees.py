"""Degrees of freedom of a tree's models and splits."""

import numpy as np

from secret_jax.tree.structure import SplitKind, Tree

_COMPARED = (SplitKind.AXIS, SplitKind.OBLIQUE, SplitKind.DISCRETE)


def model_degrees(tree: Tree) -> np.ndarray:
    """Effective degrees of freedom of every node's model, with its ancestors' share.

    A node's own correction spends ``tree.degrees``; what it corrects, its parent's
    model, was fitted on the parent's rows and brings along their share of its degrees,
    as far as the correction leaves it in place. Exact for least squares (one degree a
    coefficient) and for ridge without any shrinkage. Models that correct none, but may
    leave regressors out, spend their own.

    Returns (n_nodes,), float64.
    """
    most = 1.0 + tree.schema.n_regressors
    degrees = np.minimum(tree.degrees, most).astype(np.float64)
    if not tree.corrects_parent:
        return degrees
    for node in range(1, tree.n_nodes):  # parents come before children
        above = tree.parent[node]
        share = tree.weight[node] / tree.weight[above] if tree.weight[above] else 0.0
        left_in_place = 1.0 - tree.degrees[node] / most
        degrees[node] += max(left_in_place, 0.0) * share * degrees[above]
    return np.minimum(degrees, most)


def split_degrees(tree: Tree) -> np.ndarray:
    """Number of parameters of every node's split, zero in leaves, float64.

    A threshold is one; an oblique split is a direction up to its length, and a
    threshold; a set of categories is one yes or no per category up to its complement.
    Those of the conditions of a conjunction add up.
    """
    degrees = np.zeros(tree.n_nodes)
    oblique = tree.kind == SplitKind.OBLIQUE
    degrees[oblique] = np.count_nonzero(tree.direction[oblique], axis=1)
    categories = np.array([len(c) for c in tree.schema.categories] or [0])
    for part in tree.comparisons:
        degrees[part.kind == SplitKind.AXIS] += 1.0
        discrete = part.kind == SplitKind.DISCRETE
        degrees[discrete] += np.maximum(categories[part.attribute[discrete]] - 1, 1)
    return degrees


def split_numbers(tree: Tree) -> np.ndarray:
    """Count the numbers in every node's split as it is read, zero in leaves, float64.

    One for a threshold or a set of categories, and one for each column of a sum.
    """
    oblique = tree.kind == SplitKind.OBLIQUE
    numbers = np.zeros(tree.n_nodes)
    for part in tree.comparisons:
        numbers += np.isin(part.kind, _COMPARED)
    numbers[oblique] += np.count_nonzero(tree.direction[oblique], axis=1)
    return numbers
