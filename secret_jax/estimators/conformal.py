"""Standard deviations of predictions, and conformal intervals by them."""

import math
from typing import Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.foreign import of_kind_of_x
from secret_jax.data.seen import hashes_of, unseen
from secret_jax.data.validation import (
    ArrayLike,
    TableLike,
    checked_weight,
    scaled_weight,
    validated_targets,
)
from secret_jax.inspect.tables import check_coverage
from secret_jax.runtime.environment import warn
from secret_jax.tree.structure import Tree
from secret_jax.tree.totals import model_degrees, noise_variance

# Ranks and sums of weights may be rounding errors away from a whole number.
_SLACK = 1e-9


def node_deviations(tree: Tree) -> np.ndarray:
    """Standard deviation of a new output about the prediction of each node, (n_nodes,).

    In units of the target (of logarithms, as a share of the prediction). Its square is
    ``noise * (1 + degrees / weight)``: the variance of the outputs about the true mean
    (`secret_jax.tree.totals.noise_variance`), and the model's own, on average over the
    node's training rows. Since splits are chosen, it is usually too small.
    """
    degrees = np.minimum(model_degrees(tree), tree.weight)
    noise = noise_variance(tree)[:, 0]
    variance = noise * (1.0 + degrees / np.maximum(tree.weight, 1.0))
    scale = 1.0 if tree.loss.link == "exponential" else tree.schema.target_scale
    return np.sqrt(variance) * scale


def conformal_factor(scores: np.ndarray, weight: np.ndarray, coverage: float) -> float:
    """Number of deviations that an interval reaches to either side.

    Split-conformal prediction: with n calibration rows it is their score of rank
    ``ceil((n + 1) * coverage)``. If they and a new row are exchangeable, the new output
    lies in its interval with at least that probability, whatever the tree is like (Lei,
    G'Sell, Rinaldo, Tibshirani & Wasserman, Distribution-Free Predictive Inference for
    Regression, JASA 113, 2018, sections 2.2 and 5.2). A row of weight two is two rows.

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
    position = int(np.searchsorted(np.cumsum(weight), rank - _SLACK))
    return float(scores[min(position, len(scores) - 1)])


class ConformalMixin:
    """Intervals around ``predict`` by its deviations; see `conformalize`."""

    conformity_scores_: np.ndarray
    conformity_weight_: np.ndarray
    predict: Any
    tree_: Any
    _lowest: Any = -np.inf  # least value of any target

    def conformalize(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Calibrate `predict_interval` on rows that were not used in `fit`.

        Rows that a single tree knows from its fit are left out, with a warning; if it
        knows all, or cannot tell which, that is a ValueError.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        self
            Another `fit` forgets the calibration.
        """
        found = self.predict(X, return_std=True)
        prediction, deviation = (np.asarray(part, np.float64) for part in found)
        if prediction.ndim > 1:
            raise ValueError(
                f"conformalize knows a single output, and the model has "
                f"{prediction.shape[1]}. Fit a model for each of them."
            )
        residual = validated_targets(y, X, type(self).__name__)[:, 0] - prediction
        weight = scaled_weight(checked_weight(sample_weight, X))
        rows = getattr(self, "training_rows_", None)
        if rows is not None:
            new = unseen(rows, hashes_of(self.tree_.schema, X, y))
            if not new.all():
                n_seen = len(new) - np.count_nonzero(new)
                warn(
                    f"{n_seen:,} of the {len(new):,} rows of X were used in fit, and "
                    "are left out: with them intervals would be too narrow."
                )
                residual, deviation, weight = residual[new], deviation[new], weight[new]
        self._calibrate(residual, deviation, weight)
        return self

    @of_kind_of_x
    def predict_interval(
        self, X: TableLike, coverage: float = 0.9
    ) -> tuple[np.ndarray, np.ndarray]:
        """Predict intervals that cover new outputs with a given probability.

        The prediction plus and minus a number of standard deviations (those of
        ``predict(X, return_std=True)``) that `conformalize` found on rows of its own,
        or, until then, the fit of a booster on rows that it left out (as the jackknife
        and cross-validation do; Barber et al. 2021). The probability is over new rows
        and calibration rows together, not one for every place in X, and exact only
        after `conformalize` (Lei et al. 2018).

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        coverage : float, default=0.9
            In (0, 1).

        Returns
        -------
        lower, upper : ndarray of shape (n_rows,), float64

        Examples
        --------
        >>> from secret_jax import SecretRegressor
        >>> from secret_jax.datasets import make_fried
        >>> X, y = make_fried(1500, random_state=0)
        >>> model = SecretRegressor(random_state=0).fit(X[:1000], y[:1000])
        >>> model = model.conformalize(X[1000:1300], y[1000:1300])
        >>> lower, upper = model.predict_interval(X[1300:], coverage=0.8)
        >>> bool(0.7 < ((lower <= y[1300:]) & (y[1300:] <= upper)).mean() < 0.9)
        True
        """
        check_is_fitted(self)  # pyright: ignore[reportArgumentType]
        if not hasattr(self, "conformity_scores_"):
            raise NotFittedError(
                "predict_interval needs calibration rows: the last fit left none out, "
                "and conformalize has seen none since. Call conformalize(X, y) with "
                "rows that fit did not see."
            )
        check_coverage(coverage)
        scores, weight = self.conformity_scores_, self.conformity_weight_
        factor = conformal_factor(scores, weight, float(coverage))
        found = self.predict(X, return_std=True)
        prediction, deviation = (np.asarray(part, np.float64) for part in found)
        width = factor * _unit(deviation)
        return np.maximum(prediction - width, self._lowest), prediction + width

    def _calibrate(
        self, residual: np.ndarray, deviation: np.ndarray, weight: np.ndarray
    ) -> None:
        """Store residuals of rows not used for their predictions, in deviations."""
        score = np.abs(residual) / _unit(deviation)
        order = np.argsort(score, kind="stable")
        order = order[weight[order] > 0]
        self.conformity_scores_, self.conformity_weight_ = score[order], weight[order]


def _unit(deviation: np.ndarray) -> np.ndarray:
    """Units of scores: deviations, or 1 where predictions have no error."""
    return np.where(deviation > np.finfo(float).tiny, deviation, 1.0)
