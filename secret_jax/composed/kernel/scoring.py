"""Class probabilities from regressions of class indicators."""

from typing import NamedTuple, Self

import numpy as np
from scipy.special import softmax

from secret_jax.data.labels import from_at_least
from secret_jax.tree.file import recorded

# A score that explains less than this share of its variance is left out.
_LEAST_EXPLAINED = 1e-6
# Relative to the variance of the scores: a class may have a single row.
_LEAST_WITHIN = 1e-6


@recorded
class OptimalScores(NamedTuple):
    """Flexible discriminant analysis: normal classes in the space of optimal scores.

    A regression of class indicators, of whatever kind, is linear in them, so that the
    scores of the classes that it predicts best are eigenvectors of indicators times
    predictions (Hastie, Tibshirani & Buja 1994; Lanning 2008, section 5.1.2). With a
    linear regression it is linear discriminant analysis.

    Examples
    --------
    >>> member = np.eye(2)[[0, 0, 1, 1]]
    >>> fitted = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.4, 0.6]])
    >>> scores = OptimalScores.of(fitted, member, np.ones(4))
    >>> scores.probability(fitted).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """

    scores: np.ndarray  # (n_outputs, n_scores), float64: one deviation within a class
    centers: np.ndarray  # (n_classes, n_scores), float64
    priors: np.ndarray  # (n_classes,), float64: logarithms of the shares of the classes

    @classmethod
    def of(cls, fitted: np.ndarray, member: np.ndarray, weight: np.ndarray) -> Self:
        """Find the scores.

        ``fitted`` is what the regression predicts, best of rows that it left out, and
        ``member`` indicates the classes, both (n_rows, n_classes).
        """
        n, count = weight.sum(), weight @ member
        share = np.maximum(count / n, np.finfo(float).tiny)
        off = fitted - weight @ fitted / n
        product = member.T @ (weight[:, None] * off) / n
        root = 1.0 / np.sqrt(np.where(count > 0, share, np.inf))
        product = root[:, None] * 0.5 * (product + product.T) * root
        values, vectors = np.linalg.eigh(product)
        kept = values > max(_LEAST_EXPLAINED, _LEAST_EXPLAINED * values[-1])
        scores = (root[:, None] * vectors)[:, kept]
        score = fitted @ scores
        centers = member.T @ (weight[:, None] * score)
        centers /= np.maximum(count, 1e-300)[:, None]
        inside = score - member @ centers
        within = inside.T @ (weight[:, None] * inside) / n
        values, vectors = np.linalg.eigh(within)
        floor = _LEAST_WITHIN * (weight @ (score - weight @ score / n) ** 2 / n).sum()
        root = vectors / np.sqrt(np.maximum(values, max(floor, 1e-300)))
        return cls(scores @ root, centers @ root, np.log(share))

    def probability(self, fitted: np.ndarray) -> np.ndarray:
        """Probabilities of the classes, shape (n_rows, n_classes)."""
        score = fitted @ self.scores
        square = ((score[:, None, :] - self.centers) ** 2).sum(axis=2)
        return softmax(self.priors - 0.5 * square, axis=1)


@recorded
class CumulativeScores(NamedTuple):
    """Classes in order: one dichotomy after the other (Lanning 2008, chapter 6)."""

    # Of "this class or a later one", for each but the first.
    dichotomies: tuple[OptimalScores, ...]

    @classmethod
    def of(cls, fitted: np.ndarray, reached: np.ndarray, weight: np.ndarray) -> Self:
        """Find the scores, from regressions of `secret_jax.data.labels.at_least`."""
        pairs = zip(_dichotomies(fitted), _dichotomies(reached), strict=True)
        return cls(tuple(OptimalScores.of(*pair, weight) for pair in pairs))

    def probability(self, fitted: np.ndarray) -> np.ndarray:
        """Probabilities of the classes, shape (n_rows, n_classes)."""
        pairs = zip(self.dichotomies, _dichotomies(fitted), strict=True)
        reached = [one.probability(score)[:, 1] for one, score in pairs]
        return from_at_least(np.stack(reached, axis=1))


def _dichotomies(reached: np.ndarray) -> np.ndarray:
    """Of each later class what is below it and what is not, (n_later, n_rows, 2)."""
    return np.stack([1.0 - reached.T, reached.T], axis=2)
