"""Pruning rules: folds, held-out rows, information criteria, a penalty, or none."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from secret_jax.fit.interface import Evidence, Pruned, PruningRule
from secret_jax.fit.prune.path import (
    PruningPath,
    best_splits,
    smallest_within,
    training_errors,
    training_path,
    weakest_links,
)
from secret_jax.losses.interface import Likelihood, Loss, QuasiLikelihood
from secret_jax.models.fitting import node_errors, node_statistics, row_errors
from secret_jax.models.statistics import NodeStatistics
from secret_jax.runtime.values import at_least, real
from secret_jax.tree.reshape import compact, remaining
from secret_jax.tree.routing import values
from secret_jax.tree.structure import Tree
from secret_jax.tree.totals import model_degrees, split_degrees

# One division is enough for more rows, whose splits leave a smaller share of the error
# of the root: a fifth of the time saved, at errors 0.6 % higher. Fewer rows, or weak
# signals with wild rows, need the second one.
_MANY_ROWS, _CLEAR = 2500, 0.5
# Squared errors below this share of the target's variance are float32's rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class Unpruned(PruningRule):
    """Rule that keeps the tree as it was grown."""

    def __call__(self, tree: Tree, evidence: Evidence) -> Pruned:
        return Pruned(tree, 0.0)


@dataclass(frozen=True, kw_only=True)
class CostComplexity(PruningRule):
    """The subtree with the least mean squared training error plus a penalty per leaf.

    Breiman, Friedman, Olshen & Stone 1984, chapter 3, and scikit-learn's trees (which
    take the mean error of several targets; here it is their sum).

    Attributes
    ----------
    alpha : float, default=0.0
        Penalty of a leaf in units of the target squared; 0 cuts only splits that save
        nothing. ``cost_complexity_pruning_path`` lists the values that matter.

    Examples
    --------
    >>> from secret_jax import CostComplexity, SecretRegressor
    >>> model = SecretRegressor(prune=CostComplexity(alpha=0.01))
    >>> model.set_params(prune__alpha=0.1).prune
    CostComplexity(alpha=0.1)
    """

    alpha: Annotated[float, real(0.0)] = 0.0

    def __call__(self, tree: Tree, evidence: Evidence) -> Pruned:
        """Prune; among equally good subtrees the smallest wins."""
        path, _ = training_path(tree, evidence.training)
        return Pruned(path.subtree(tree, int(path.index_at(self.alpha))), 0.0)


@dataclass(frozen=True, kw_only=True)
class HoldOut(PruningRule):
    """Subtree with the least error on held-out rows, or on those of ``eval_set``.

    Quinlan's reduced-error pruning (section 5.2 of Dobra & Gehrke 2002): bottom-up, a
    node becomes a leaf where its own model errs no more than its subtree. What is left
    is cut along its weakest links, to the least size-penalised error.

    Attributes
    ----------
    fraction : float, default=0.25
        Share of the rows to hold out where no ``eval_set`` is given.
    refit : bool, default=True
        Grow the tree again on training and held-out rows together, and cut it to the
        size that was found. False: keep the tree of the training rows.

    Examples
    --------
    >>> from secret_jax import HoldOut, SecretRegressor
    >>> SecretRegressor(prune=HoldOut(fraction=0.3)).prune.fraction
    0.3
    """

    fraction: Annotated[float, real(0.0, 1.0, closed="neither")] = 0.25
    refit: bool = True

    def __call__(self, tree: Tree, evidence: Evidence) -> Pruned:
        if evidence.held_out is None:
            return Pruned(tree, 0.0)
        error = node_errors(tree, evidence.held_out)
        keep = best_splits(tree, error)
        found, error = compact(tree, keep), error[remaining(tree, keep)]
        path = weakest_links(found, error)
        return evidence.best_subtree(found, path, path.totals(error))[1]


@dataclass(frozen=True, kw_only=True)
class CrossValidation(PruningRule):
    """Subtree at the cross-validated penalty per degree of freedom.

    Breiman, Friedman, Olshen & Stone 1984, section 3.4.2: every part of the rows is
    predicted by a tree that was grown on the others; each subtree of the tree on all
    rows stands for the geometric mean of the penalties between which it is the best.

    Attributes
    ----------
    n_folds : int, default=5
        Three cost 4 % more error over the ten real sets, ten gain nothing.
    n_repeats : int, default=2
        Most divisions of the rows, each another one: the size then depends less on
        where a few rows fall, and more trees teach it. One is enough for more than
        2,500 rows, if the pruned tree errs less than half as much as its root alone.

    Examples
    --------
    >>> from secret_jax import CrossValidation, SecretRegressor
    >>> SecretRegressor(prune=CrossValidation(n_folds=10)).prune.n_folds
    10
    """

    n_folds: Annotated[int, at_least(2)] = 5
    n_repeats: Annotated[int, at_least(1)] = 2

    def __call__(self, tree: Tree, evidence: Evidence) -> Pruned:
        """Choose the subtree of least size-penalised error, which is the value."""
        path, error, fold_trees = _cross_validated(
            tree,
            evidence,
            lambda t: weakest_links(t, training_errors(t), 1.0 + model_degrees(t)),
        )
        best, pruned = evidence.best_subtree(tree, path, error)
        return pruned._replace(fold_trees=fold_trees(best))

    def is_settled(self, pruned: Tree, n_rows: int) -> bool:
        """Whether splits of many rows gain so much that folds hardly matter."""
        gains = pruned.leaf_error.sum() < _CLEAR * pruned.train_error[0].sum()
        return bool(n_rows > _MANY_ROWS and gains)


@dataclass(frozen=True, kw_only=True)
class StandardErrors(PruningRule):
    """Smallest subtree within some standard errors of the least CV error.

    Subtrees are those of least mean training error plus a penalty for each leaf,
    cross-validated as by `CrossValidation`; the smallest within ``factor`` standard
    errors of the least error is kept. ``prune="cart"`` has a factor of 1, "guide" of
    0.5. The tolerance of the estimator has no part in it.

    Attributes
    ----------
    factor : float, default=1.0
        Standard errors; 0: the subtree of least error.
    n_folds : int, default=10

    References
    ----------
    L. Breiman, J. H. Friedman, R. A. Olshen and C. J. Stone. Classification and
    Regression Trees. Wadsworth, 1984, sections 3.4.2, 3.4.3 and 8.5.2.
    W.-Y. Loh (2002): see `secret_jax.learners.GuideSplits`.

    Examples
    --------
    >>> from secret_jax import SecretRegressor, StandardErrors
    >>> SecretRegressor(prune=StandardErrors(factor=0.25)).prune.factor
    0.25
    """

    factor: Annotated[float, real(0.0)] = 1.0
    n_folds: Annotated[int, at_least(2)] = 10

    def __call__(self, tree: Tree, evidence: Evidence) -> Pruned:
        """Choose the subtree; return it with its cross-validated error."""
        path, error, fold_trees = _cross_validated(
            tree, evidence, lambda t: weakest_links(t, training_errors(t) / t.weight[0])
        )
        least = smallest_within(error)
        errors, weight = [np.zeros(0)], [np.zeros(0)]
        for part, subtree in zip(evidence.unseen, fold_trees(least), strict=True):
            rows = evidence.training.take(part)
            errors.append(row_errors(subtree, rows))
            weight.append(rows.weight)
        own, count = np.concatenate(errors), np.concatenate(weight)
        # The standard error of the sum, of parts of so many rows.
        loss = own / count - own.sum() / max(count.sum(), 1.0)
        most = error[least] + self.factor * np.sqrt(count @ loss**2)
        index = smallest_within(error, most)
        subtree = path.subtree(tree, index)
        return Pruned(subtree, float(error[index]), fold_trees(index))


def _cross_validated(
    tree: Tree, evidence: Evidence, path_of: Callable[[Tree], PruningPath]
) -> tuple[PruningPath, np.ndarray, Callable[[int], tuple[Tree, ...]]]:
    """Path of a tree, errors of its subtrees in unseen rows, their trees of folds."""
    path, trees = path_of(tree), evidence.fold_trees
    typical = np.append(np.sqrt(path.alphas[:-1] * path.alphas[1:]), np.inf)
    paths = [path_of(each) for each in trees]
    error = np.zeros(len(typical))
    for part, each, own in zip(evidence.unseen, trees, paths, strict=True):
        errors = node_errors(each, evidence.training.take(part))
        error += own.totals(errors)[own.index_at(typical)]

    def fold_trees(index: int) -> tuple[Tree, ...]:
        return tuple(
            own.subtree(each, int(own.index_at(typical[index])))
            for own, each in zip(paths, trees, strict=True)
        )

    return path, error, fold_trees


@dataclass(frozen=True, kw_only=True)
class InformationCriterion(PruningRule):
    """Subtree of the least information criterion on the training rows.

    The noise is taken as normal with one variance, so that twice the negative
    log-likelihood is ``n log(RSS / n)`` up to a constant; of classes it is twice their
    loss, of counts as much over the dispersion about the whole tree (Lebreton, Burnham,
    Clobert & Anderson 1992). To it

    - ``"aic"`` adds ``2 n / (n - k - 1)`` for each of k parameters: Akaike's 2 with the
      correction of Hurvich & Tsai (1989), without which large trees look too good,
    - ``"bic"`` adds ``log n`` for every parameter (Schwarz 1978),
    - ``"caic"`` adds ``log n + 1`` (Bozdogan 1987),
    - ``"icomp"`` adds ``2 C1(F⁻¹)`` (Bozdogan 1988), see `covariance_complexity`.
      Splits have no Fisher information and are charged as by AIC.

    Parameters are the effective degrees of freedom of the leaf models, the numbers in
    the splits and the variance, if there is one. A split is chosen because it saves
    much: all criteria think too well of it, the more so the more candidates there were.

    Attributes
    ----------
    criterion : {"aic", "bic", "caic", "icomp"}, default="bic"

    References
    ----------
    C. M. Hurvich and C.-L. Tsai. Regression and Time Series Model Selection in Small
    Samples. Biometrika 76, 1989.

    H. Bozdogan. Model Selection and Akaike's Information Criterion (AIC). Psychometrika
    52, 1987. ICOMP: A New Model-Selection Criterion. In H. H. Bock (ed.),
    Classification and Related Methods of Data Analysis. North-Holland, 1988.

    J. M. Lanning. Dissertation, University of Tennessee, 2008, sections 1.1.2 and 3.2.2
    (where (3.23) must divide by the rows of the node, and (3.32) by their square).

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.fit.prune.rules import InformationCriterion
    >>> SecretRegressor(prune=InformationCriterion(criterion="icomp")).prune.criterion
    'icomp'
    """

    criterion: Literal["aic", "bic", "caic", "icomp"] = "bic"

    def knows(self, loss: Loss) -> bool:
        """Whether the criterion is defined for a loss."""
        return loss.least_squares or isinstance(loss, Likelihood | QuasiLikelihood)

    def __call__(self, tree: Tree, evidence: Evidence) -> Pruned:
        """Choose from the weakest-link path, with the number of parameters as size."""
        rows, own = evidence.training, split_degrees(tree)
        splits = np.zeros(tree.n_nodes)  # shares, so that sums over leaves count all
        for node in range(1, tree.n_nodes):  # parents come before children
            splits[node] = 0.5 * (splits[tree.parent[node]] + own[tree.parent[node]])
        error, n = node_errors(tree, rows), float(np.sum(rows.weight))
        size = model_degrees(tree) * tree.loss.n_free(tree.n_outputs) + splits
        path = weakest_links(tree, error, size)
        totals, parameters = path.totals(error), path.totals(size)
        deviance, variance, dispersion = 2.0 * totals, None, np.ones(1)
        if isinstance(tree.loss, QuasiLikelihood):
            value = values(tree, rows.table).astype(np.float64)
            free = n - parameters[0] / tree.n_outputs
            own = tree.loss.dispersion(rows.targets, value, rows.weight, free)
            dispersion = np.maximum(own, _ROUNDING)
            deviance, parameters = deviance / dispersion.mean(), parameters + 1
        elif tree.loss.least_squares:  # independent normal outputs of one variance
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
                noise = dispersion / tree.loss.working(mean, np.array(value))[1]
            complexity = covariance_complexity(path, statistics, variance, noise)
            penalty = 2.0 * complexity + 2.0 * path.totals(splits)
        value = deviance + penalty
        best = len(value) - 1 - int(np.argmin(value[::-1]))  # of equals the smallest
        return Pruned(path.subtree(tree, best), float(value[best]))


def covariance_complexity(
    path: PruningPath,
    statistics: NodeStatistics,
    variance: np.ndarray | None,
    noise: np.ndarray | None = None,
) -> np.ndarray:
    """Bozdogan's C1 of the parameters' covariance matrix, for every subtree.

    ``C1(S) = q/2 log(trace(S) / q) - 1/2 log det(S)``, q the rank of S. The matrix is
    block diagonal: for each leaf with n rows and scatter S of the standardised
    regressors about their mean, and each output, ``σ²/n`` for the level at the mean and
    ``σ² (S + I)⁻¹`` for the slopes, and once ``2 σ⁴/N`` for σ². Adding I is a prior
    worth one row: a column that is constant in a leaf makes no trace infinite.

    ``variance`` (n_subtrees,): of the noise, if it is a parameter; ``noise`` (n_nodes,
    n_outputs): in units of it, by default 1.
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
