"""Accumulation of weighted moments, shared by the whole package."""

from typing import NamedTuple

import numpy as np


class Moments(NamedTuple):
    """Weight, mean and scatter (sum of weighted products about the mean) of parts.

    With a weight for each column, (n_parts, n_columns), the scatter is of squares only.
    """

    weight: np.ndarray
    mean: np.ndarray
    scatter: np.ndarray


def added_up(parts: Moments, first: np.ndarray) -> Moments:
    """Combine the moments of runs of parts (Chan, Golub & LeVeque 1983).

    ``first`` says where each run begins, rising; the last one goes on to the end. Means
    are compared with that of their run, so that no large numbers cancel.

    Examples
    --------
    >>> means = np.array([[0.0], [4.0]])
    >>> parts = Moments(np.array([1.0, 3.0]), means, np.zeros((2, 1)))
    >>> [array.tolist() for array in added_up(parts, np.array([0]))]
    [[4.0], [[3.0]], [[12.0]]]
    """
    weight, mean, scatter = parts
    run = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(weight))))
    total = np.add.reduceat(weight, first, axis=0)
    share, each = weight / np.where(total > 0, total, 1.0)[run], weight
    if weight.ndim < mean.ndim:
        share, each = share[:, None], weight[:, None]
    whole = np.add.reduceat(share * mean, first, axis=0)
    offset = mean - whole[run]
    if scatter.ndim > mean.ndim:
        between = (each * offset)[:, :, None] * offset[:, None, :]
    else:
        between = each * offset**2
    return Moments(total, whole, np.add.reduceat(scatter + between, first, axis=0))


def grouped(parts: Moments, group: np.ndarray) -> tuple[np.ndarray, Moments]:
    """Combine moments by group; return the sorted groups and their moments."""
    order = np.argsort(group, kind="stable")
    ranked = group[order]
    first = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    in_order = Moments(*(array[order] for array in parts))
    return ranked[first], added_up(in_order, first)
