"""Equations with the numbers that are printed.

Numbers are rounded by what they do, not by how they look: a coefficient is rounded in
steps of ``10**-precision`` of one standard deviation of the target (models) or of the
combination (splits), divided by the standard deviation of its column. What rounds to
nothing is left out. Intercept and threshold are then computed from the rounded
coefficients, so that the printed equation is right where the training data lie.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from secret_jax.inspect.arguments import checked_precision
from secret_jax.inspect.equations import LinearModel, LinearSplit, Term


def rounded_split(split: LinearSplit, precision: int | None = None) -> LinearSplit:
    """The split with the numbers that are printed.

    Parameters
    ----------
    split : LinearSplit
    precision : int, optional
        Significant digits relative to the effect; 3 by default.

    Returns
    -------
    LinearSplit
        Without the terms that round to zero.
    """
    if not split.terms:
        return split
    digits = checked_precision(precision)
    width = float(f"{split.width:.{digits}g}")
    # A row that changes sides moves by more than the rounding, and correlated columns
    # make a sum far narrower than its terms: sums get one digit more.
    digits += len(split.terms) > 1
    effect = np.array([term.factor * term.spread for term in split.terms])
    step = 10.0**-digits * float(np.linalg.norm(effect))
    factors = [_rounded(term.factor, step / term.spread) for term in split.terms]
    factors[0] = 1.0
    threshold = _rounded(split.threshold + _moved(split.terms, factors), step)
    missing = split.missing_value
    if missing is not None:
        missing = _rounded(missing, step)
        if split.missing_left != (
            missing <= threshold if split.at_most else missing >= threshold
        ):  # rounding has moved it to the other side
            missing = split.missing_value
    return replace(
        split,
        terms=_with_factors(split.terms, factors),
        threshold=threshold,
        width=width,
        missing_value=missing,
    )


def rounded_model(model: LinearModel, precision: int | None = None) -> LinearModel:
    """The model with the numbers that are printed.

    Parameters
    ----------
    model : LinearModel
    precision : int, optional
        Significant digits relative to the effect; 3 by default.

    Returns
    -------
    LinearModel
        Without the terms that round to zero.
    """
    step = _step(model.target_spread, precision)
    factors = [_rounded(term.factor, step / term.spread) for term in model.terms]
    return replace(
        model,
        terms=_with_factors(model.terms, factors),
        intercept=_rounded(model.intercept - _moved(model.terms, factors), step),
        low=_rounded(model.low, step),
        high=_rounded(model.high, step),
    )


def rounded_output(value: float, target_spread: float, precision: int | None) -> float:
    """A value of the target, rounded as a model's intercept is."""
    return _rounded(value, _step(target_spread, precision))


def _step(target_spread: float, precision: int | None) -> float:
    return 10.0 ** -checked_precision(precision) * target_spread


def _moved(terms: Sequence[Term], factors: Sequence[float]) -> float:
    """What the sum of the terms gains at the means when it gets these factors."""
    change = [f - term.factor for term, f in zip(terms, factors, strict=True)]
    return float(np.dot(change, [term.center for term in terms]))


def _with_factors(terms: Iterable[Term], factors: Iterable[float]) -> tuple[Term, ...]:
    """The terms with other factors, without those whose factor is zero."""
    pairs = zip(terms, factors, strict=True)
    return tuple(term._replace(factor=factor) for term, factor in pairs if factor)


def _rounded(value: float, step: float) -> float:
    """A value rounded to the power of ten that is nearest to the step."""
    return round(value, round(-math.log10(step))) if math.isfinite(value) else value
