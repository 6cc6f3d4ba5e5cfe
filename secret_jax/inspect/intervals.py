"""Standard deviations of predictions, and factors of conformal intervals."""

import math
from typing import Any

import numpy as np

from secret_jax.tree.degrees import model_degrees, noise_variance
from secret_jax.tree.structure import Tree

# Ranks and sums of weights may be rounding errors away from a whole number.
_SLACK = 1e-9


def node_deviations(tree: Tree) -> np.ndarray:
    """Standard deviation of a new output about the prediction of each node.

    In units of the target (of logarithms, as a share of the prediction), shape
    (n_nodes,). The square of it is ``noise * (1 + degrees
    / weight)``: the variance of the outputs about the true mean
    (`secret_jax.tree.degrees.noise_variance`), and the model's own variance, on average
    over the node's training rows. Since splits are chosen, it is usually too small: for
    intervals with a promise see `conformal_factor`.
    """
    degrees = np.minimum(model_degrees(tree), tree.weight)
    noise = noise_variance(tree)[:, 0]
    variance = noise * (1.0 + degrees / np.maximum(tree.weight, 1.0))
    scale = 1.0 if tree.loss.link == "exponential" else tree.schema.target_scale
    return np.sqrt(variance) * scale


def conformal_factor(scores: np.ndarray, weight: np.ndarray, coverage: float) -> float:
    """Find the number of deviations that an interval reaches to either side.

    Split-conformal prediction: with n calibration rows it is their score of rank
    ``ceil((n + 1) * coverage)``. If they and a new row are exchangeable, the new output
    lies in its interval with at least that probability, whatever the tree is like (Lei,
    G'Sell, Rinaldo, Tibshirani & Wasserman, Distribution-Free Predictive Inference for
    Regression, JASA 113, 2018, sections 2.2 and 5.2). A row of weight two is two rows.

    Examples
    --------
    >>> conformal_factor(np.arange(1.0, 10.0), np.ones(9), coverage=0.8)
    8.0
    """
    total = float(np.sum(weight))
    rank = math.ceil((total + 1.0) * coverage - _SLACK)
    if rank > total + _SLACK:
        needed = math.ceil(coverage / (1.0 - coverage) - _SLACK)
        raise ValueError(
            f"coverage={coverage!r} needs at least {needed} calibration rows, but "
            f"conformalize saw {total:g}. Calibrate on more rows, or ask for a "
            f"coverage of at most {total / (total + 1.0):.3g}."
        )
    place = int(np.searchsorted(np.cumsum(weight), rank - _SLACK))
    return float(scores[min(place, len(scores) - 1)])


def forget_calibration(model: Any) -> None:
    """Drop the scores of a calibration, which belong to one fitted model."""
    for name in ("conformity_scores_", "conformity_weight_"):
        vars(model).pop(name, None)
