"""Pruning by an information criterion on the training rows."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from secret_jax.fit.prune.interface import Evidence, Pruned, PruningRule
from secret_jax.fit.prune.path import PruningPath, weakest_links
from secret_jax.losses.interface import Likelihood, Loss
from secret_jax.models.errors import node_errors
from secret_jax.models.fitting import node_statistics
from secret_jax.models.statistics import NodeStatistics
from secret_jax.tree.degrees import model_degrees, split_degrees
from secret_jax.tree.structure import Tree

# Squared errors below this share of the target's variance are float32's rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class InformationCriterion(PruningRule):
    """Subtree of the least information criterion on the training rows.

    The noise is taken as normal with one variance, so that twice the negative
    log-likelihood is ``n log(RSS / n)`` up to a constant; of classes and counts it is
    twice their loss. To it

    - ``"aic"`` adds ``2 n / (n - k - 1)`` for each of k parameters: Akaike's 2 with the
      correction of Hurvich & Tsai (1989), without which large trees look too good,
    - ``"bic"`` adds ``log n`` for every parameter (Schwarz 1978),
    - ``"caic"`` adds ``log n + 1`` (Bozdogan 1987),
    - ``"icomp"`` adds ``2 C1(F⁻¹)`` (Bozdogan 1988), see `covariance_complexity`.
      Splits have no Fisher information and are charged as by AIC.

    Parameters are the effective degrees of freedom of the leaf models
    (`model_degrees`), the numbers in the splits (`split_degrees`) and the variance, if
    there is one. A split is chosen because it saves much, so all criteria think too
    well of it, the more so the more candidates there were.

    Attributes
    ----------
    criterion : {"aic", "bic", "caic", "icomp"}, default="bic"

    References
    ----------
    C. M. Hurvich and C.-L. Tsai. Regression and Time Series Model Selection in Small
    Samples. Biometrika 76, 1989.

    H. Bozdogan. Model Selection and Akaike's Information Criterion (AIC). Psychometrika
    52, 1987.

    H. Bozdogan. ICOMP: A New Model-Selection Criterion. In H. H. Bock (ed.),
    Classification and Related Methods of Data Analysis. North-Holland, 1988.

    J. M. Lanning. A Kernelized Genetic Algorithm Decision Tree with Information
    Criteria. Dissertation, University of Tennessee, 2008, sections 1.1.2 and 3.2.2
    (where (3.23) must divide by the rows of the node, and the last line of (3.32) by
    the squared rows).

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.fit.prune.criteria import InformationCriterion
    >>> SecretRegressor(prune=InformationCriterion(criterion="icomp")).prune.criterion
    'icomp'
    """

    criterion: Literal["aic", "bic", "caic", "icomp"] = "bic"

    def knows(self, loss: Loss) -> bool:
        """Whether the criterion is defined for a loss."""
        return loss.least_squares or isinstance(loss, Likelihood)

    def __call__(self, tree: Tree, evidence: Evidence) -> Pruned:
        """Choose from the weakest-link path, with the number of parameters as size.

        Its value is the criterion, comparable between trees of the same rows.
        """
        rows, splits = evidence.training, _splits_above(tree)
        error, n = node_errors(tree, rows), float(np.sum(rows.weight))
        size = model_degrees(tree) * tree.loss.n_free(tree.n_outputs) + splits
        path = weakest_links(tree, error, size)
        totals, parameters = path.totals(error), path.totals(size)
        deviance, variance = 2.0 * totals, None
        if tree.loss.least_squares:  # independent normal outputs of one variance
            n, parameters = n * tree.n_outputs, parameters + 1
            variance = np.maximum(totals / n, _ROUNDING)
            deviance = n * np.log(variance)
        if self.criterion == "aic":
            # With as many parameters as rows nothing is left to estimate the noise.
            spare = np.maximum(n - parameters - 1.0, 0.0)
            penalty = np.full_like(spare, np.inf)
            np.divide(2.0 * n * parameters, spare, out=penalty, where=spare > 0)
        elif self.criterion != "icomp":
            penalty = (np.log(n) + (self.criterion == "caic")) * parameters
        else:
            statistics, noise = node_statistics(tree, rows), None
            if variance is None:
                # Variance of a row's information on raw predictions at a node's mean
                # target, as weighted least squares has it: of log-odds 1 / (p (1 - p)).
                mean = statistics.mean[:, statistics.n_regressors :]
                value = [tree.loss.constant(each[None], np.ones(1)) for each in mean]
                noise = 1.0 / tree.loss.working(mean, np.array(value))[1]
            complexity = covariance_complexity(path, statistics, variance, noise)
            penalty = 2.0 * complexity + 2.0 * path.totals(splits)
        value = deviance + penalty
        best = len(value) - 1 - int(np.argmin(value[::-1]))  # of equals the smallest
        return Pruned(path.subtree(tree, best), float(value[best]))


def _splits_above(tree: Tree) -> np.ndarray:
    """Share out the split parameters so that sums over leaves count each split once."""
    own = split_degrees(tree)
    share = np.zeros(tree.n_nodes)
    for node in range(1, tree.n_nodes):  # parents come before children
        above = tree.parent[node]
        share[node] = 0.5 * (share[above] + own[above])
    return share


def covariance_complexity(
    path: PruningPath,
    statistics: NodeStatistics,
    variance: np.ndarray | None,
    noise: np.ndarray | None = None,
) -> np.ndarray:
    """Bozdogan's C1 of the parameters' covariance matrix, for every subtree.

    ``C1(S) = q/2 log(trace(S) / q) - 1/2 log det(S)``, q the rank of S: a covariance
    costs the more, the more unequal its eigenvalues are. The matrix is block diagonal:
    for each leaf with n rows and scatter S of the standardised regressors about their
    mean, and each output, ``σ²/n`` for the level at the mean and ``σ² (S + I)⁻¹`` for
    the slopes, and once ``2 σ⁴/N`` for σ². Adding I is a prior worth one row; without
    it a column that is constant in a leaf would make the trace infinite.

    ``statistics`` are those of the training rows; ``variance`` (n_subtrees,) or None:
    noise variance, as estimated by each subtree. None: the likelihood has none of its
    own, and none is a parameter. ``noise`` (n_nodes, n_outputs): noise variances of
    nodes and outputs, in units of ``variance``; by default 1. Returns (n_subtrees,),
    float64.
    """
    weight = np.where(statistics.weight > 0, statistics.weight, 1.0)
    n, n_outputs = statistics.n_regressors, statistics.n_outputs
    noise = np.ones((len(weight), n_outputs)) if noise is None else noise
    scatter = statistics.scatter[:, :n, :n]
    values = np.linalg.eigvalsh(scatter + np.eye(scatter.shape[-1]))
    values = np.maximum(values, 1.0)
    of_one = 1.0 / weight + np.sum(1.0 / values, axis=1)
    trace = path.totals(noise.sum(axis=1) * of_one)
    of_one = -np.log(weight) - np.sum(np.log(values), axis=1)
    log_noise = (1 + n) * np.log(noise).sum(axis=1)
    log_det = path.totals(log_noise + n_outputs * of_one)
    rank = n_outputs * (1 + n) * path.totals(np.ones(len(weight)))
    if variance is not None:
        # All outputs have one variance, and all of them estimate it.
        last = 2.0 * variance**2 / (n_outputs * weight[0])
        trace = variance * trace + last
        log_det = rank * np.log(variance) + log_det + np.log(last)
        rank = rank + 1
    return 0.5 * rank * np.log(trace / rank) - 0.5 * log_det
