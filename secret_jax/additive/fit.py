"""Fit curves by joint ridge regression, to all rows and without each fold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from secret_jax.additive.basis import CurveTerms, curve_terms, design
from secret_jax.additive.options import Additive
from secret_jax.additive.shorten import shortened
from secret_jax.additive.stage import AdditiveStage
from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema

# Penalties that are compared, from a small part of a row to all rows ten times.
_N_PENALTIES = 50
_LEAST_PENALTY = 1e-4
_LEAST_WEIGHT = np.finfo(np.float64).tiny  # of no rows: their means are zero


class Sums(NamedTuple):
    """Weighted sums over rows of products of [1, terms, target].

    Attributes
    ----------
    gram : ndarray of shape (1 + n_terms + 1, 1 + n_terms + 1), float64
        Weighted sums of products of [1, terms, target].
    """

    gram: np.ndarray

    @classmethod
    def of(cls, terms: np.ndarray, target: np.ndarray, weight: np.ndarray) -> Sums:
        """Compute the sums over rows."""
        columns = np.concatenate(
            [np.ones((len(terms), 1)), terms, target[:, None]], axis=1
        )
        return cls(columns.T @ (weight[:, None] * columns))

    @classmethod
    def of_all(cls, parts: Iterable[Sums]) -> Sums:
        """Add the sums of several parts."""
        return cls(np.sum([part.gram for part in parts], axis=0))

    @property
    def weight(self) -> float:
        """Total weight of the rows."""
        return float(self.gram[0, 0])

    @property
    def mean(self) -> np.ndarray:
        """Means of [1, terms, target]."""
        return self.gram[0] / max(self.weight, _LEAST_WEIGHT)

    def centred(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Scatter of the terms, cross products with the target, and its scatter."""
        mean = self.mean
        scatter = self.gram - self.weight * np.outer(mean, mean)
        return scatter[1:-1, 1:-1], scatter[1:-1, -1], float(scatter[-1, -1])

    def intercept(self, coefficient: np.ndarray) -> float:
        """Intercept of least squared error for given coefficients."""
        mean = self.mean
        return float(mean[-1] - mean[1:-1] @ coefficient)


class Ridge(NamedTuple):
    """Result of a ridge regression.

    Attributes
    ----------
    intercept : float
    coefficient : ndarray of shape (n_terms,), float64
    penalty : float
    noise : float
        Variance of what is left, for the degrees of freedom that were spent.
    degrees : float
    """

    intercept: float
    coefficient: np.ndarray
    penalty: float
    noise: float
    degrees: float

    def predict(self, terms: np.ndarray) -> np.ndarray:
        """Predict rows from their terms."""
        return self.intercept + terms @ self.coefficient


def ridge(sums: Sums, gcv_factor: float) -> Ridge:
    """Fit ridge regression with the penalty chosen by generalised cross-validation.

    Golub, Heath & Wahba 1979, for all penalties from one decomposition.

    Parameters
    ----------
    gcv_factor : float
        Weight of a degree of freedom.
    """
    scatter, moment, total = sums.centred()
    size, axes = np.linalg.eigh(scatter)
    size = np.maximum(size, 0.0)
    along = axes.T @ moment
    weight = sums.weight
    penalty = np.geomspace(10.0 * max(weight, 1.0), _LEAST_PENALTY, _N_PENALTIES)
    shrunk = size + penalty[:, None]
    degrees = 1.0 + (size / shrunk).sum(axis=1)
    left = total - (along**2 * (2.0 / shrunk - size / shrunk**2)).sum(axis=1)
    left = np.maximum(left, 0.0)
    # A penalty that leaves no degrees is no choice; if none does, it is the greatest.
    rest = np.maximum(weight - gcv_factor * degrees, 0.0)
    error = np.divide(left, rest**2, out=np.full_like(left, np.inf), where=rest > 0)
    best = int(np.argmin(error))
    coefficient = axes @ (along / shrunk[best])
    free = max(weight - degrees[best], 1e-9 * weight)
    return Ridge(
        sums.intercept(coefficient),
        coefficient,
        float(penalty[best]),
        float(left[best] / free),
        float(degrees[best]),
    )


def with_penalty(sums: Sums, penalty: float) -> tuple[float, np.ndarray]:
    """Fit ridge regression with a given penalty: intercept and coefficients."""
    scatter, moment, _ = sums.centred()
    coefficient = np.linalg.solve(scatter + penalty * np.eye(len(moment)), moment)
    return sums.intercept(coefficient), coefficient


class Residuals(NamedTuple):
    """Residuals of rows from curves fitted without them.

    Attributes
    ----------
    stage : AdditiveStage
        From all rows.
    whole : ndarray of shape (n_rows, 1), float64
        Residual of every row, from curves fitted without its folds.
    folds : list of ndarray of shape (n_rows_outside, 1), float64
        For each part, of the rows outside of it: from curves that have seen neither
        the part nor the row, but for their penalty, which the others outside chose
        together with the row.
    unseen : list of ndarray of shape (n_rows_inside, 1), float64
        For each part, of its own rows, from curves without it.
    """

    stage: AdditiveStage
    whole: np.ndarray
    folds: list[np.ndarray]
    unseen: list[np.ndarray]


def residuals(
    rows: Rows,
    schema: TableSchema,
    options: Additive,
    divisions: Sequence[Sequence[np.ndarray]],
    *,
    tolerance: float = 0.0,
    for_folds: bool = True,
) -> Residuals:
    """Fit curves to all rows, and without each fold.

    Parameters
    ----------
    rows : Rows
        Rows with one output.
    divisions : sequence of sequence of ndarray of shape (n_rows,), bool
        Each divides all rows into parts.
    tolerance : float
        Maximum deviation of simplified curves from the best ones: a share of the noise
        variance, times the share that they explain.
    for_folds : bool
        False: ``folds`` stays empty.
    """
    target, weight = rows.targets[:, 0], rows.weight
    curves = curve_terms(schema, rows.table, weight, options)
    terms = design(curves, rows.table)
    left = np.zeros(rows.n_rows)
    folds: list[np.ndarray] = []
    unseen: list[np.ndarray] = []
    whole = None
    for parts in divisions:
        # Sums of the others are added: differences would be nearly zero, not zero.
        pieces = [
            (which, piece, Sums.of(terms[piece], target[piece], weight[piece]))
            for which, part in enumerate(parts)
            for piece in ([part] if len(parts) > 2 else _halves(part))
        ]
        whole = whole or Sums.of_all(sums for *_, sums in pieces)
        for which, part in enumerate(parts):
            outside = [each for each in pieces if each[0] != which]
            without = ridge(
                Sums.of_all(sums for *_, sums in outside), options.gcv_factor
            )
            unseen.append((target[part] - without.predict(terms[part]))[:, None])
            left[part] += unseen[-1][:, 0] / len(divisions)
            if not for_folds:
                continue
            found = target.copy()
            for each in outside:
                inner = each[1]
                others = Sums.of_all(sums for _, at, sums in outside if at is not inner)
                intercept, slopes = with_penalty(others, without.penalty)
                found[inner] -= intercept + terms[inner] @ slopes
            folds.append(found[~part][:, None])
    if whole is None:
        whole = Sums.of(terms, target, weight)
    stage = stage_of(curves, ridge(whole, options.gcv_factor), rows, tolerance)
    return Residuals(stage, left[:, None], folds, unseen)


def _halves(part: np.ndarray) -> list[np.ndarray]:
    """Split a fold in two alternating halves, for divisions with two folds only."""
    first = part & (np.cumsum(part) % 2 == 1)
    return [first, part & ~first]


def stage_of(
    curves: Sequence[CurveTerms], fitted: Ridge, rows: Rows, tolerance: float
) -> AdditiveStage:
    """Convert a ridge regression to curves with a mean of zero each, as flat arrays."""
    bounds = np.cumsum([0, *(curve.n_terms for curve in curves)])
    intercept, kept = fitted.intercept, []
    explained = max(1.0 - fitted.noise, 0.0)  # of standardised targets
    budget = tolerance * explained * fitted.noise / max(len(curves), 1)
    for curve, start, stop in zip(curves, bounds[:-1], bounds[1:], strict=True):
        own = fitted.coefficient[start:stop]
        missing = float(own[-1]) if curve.indicator >= 0 else 0.0
        value = curve.values @ own[: curve.values.shape[1]]
        found, mean, deviation = shortened(
            curve, value, missing, rows.table, rows.weight, budget
        )
        intercept += mean
        if found is not None:
            kept.append((found, deviation))
    columns, deviations = ([each[i] for each in kept] for i in range(2))
    sizes = [len(curve.at) for curve in columns]
    nothing = np.zeros(0)
    return AdditiveStage(
        intercept=float(intercept),
        column=np.array([curve.column for curve in columns], np.int32),
        attribute=np.array([curve.attribute for curve in columns], np.int32),
        indicator=np.array([curve.indicator for curve in columns], np.int32),
        missing=np.array([curve.missing for curve in columns], np.float64),
        first=np.cumsum([0, *sizes]).astype(np.int32),
        at=np.concatenate([nothing, *(curve.at for curve in columns)]),
        value=np.concatenate([nothing, *(curve.value for curve in columns)]),
        deviation=np.array(deviations, np.float64),
        degrees=fitted.degrees,
    )
