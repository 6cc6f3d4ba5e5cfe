"""Equations with the numbers that are printed.

Numbers are rounded by what they do, not by how they look: a coefficient is rounded in
steps of ``10**-precision`` of one standard deviation of the target, divided by the
standard deviation of its column. What rounds to nothing is left out. The intercept is
then computed from the rounded coefficients, so that the printed equation is right where
the training data lie. Splits have few digits already (`secret_jax.tree.plain`), and
all of them are printed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from secret_jax.inspect.arguments import checked_precision
from secret_jax.inspect.equations import LinearModel, LinearSplit, Term
from secret_jax.tree.plain import plain_number, rounding_of_whole

# Digits of a float32, and its relative rounding, with some slack; that of a float64.
_SINGLE_DIGITS, _SINGLE, _DOUBLE = 6, 4e-7, 1e-9
# A column whose mean is so many standard deviations away is not counted from zero.
_FAR_FROM_ZERO = 5.0


def rounded_split(split: LinearSplit, precision: int | None = None) -> LinearSplit:
    """The split with the numbers that are printed.

    Parameters
    ----------
    precision : int, optional
        Significant digits of a gate's numbers, 3 by default. A hard split has numbers
        of few digits already, and gets as many as it needs: no row may change sides.

    Returns
    -------
    LinearSplit
        Without the terms that round to zero.
    """
    if not split.terms:
        return split
    if split.width == 0:
        return _written_out(split)
    digits = checked_precision(precision)
    width = float(f"{split.width:.{digits}g}")
    # Correlated columns make a sum far narrower than its terms: one digit more.
    digits += len(split.terms) > 1
    effect = np.array([term.factor * term.spread for term in split.terms])
    step = 10.0**-digits * float(np.linalg.norm(effect))
    factors = [_rounded(term.factor, step / term.spread) for term in split.terms]
    factors[0] = 1.0
    threshold = _rounded(split.threshold + _moved(split.terms, factors), step)
    missing = _on_its_side(split, threshold, step)
    return replace(
        split,
        terms=_with_factors(split.terms, factors),
        threshold=threshold,
        width=width,
        missing_value=missing,
    )


def _written_out(split: LinearSplit) -> LinearSplit:
    """A hard split, its numbers without what float32 has added to them."""
    factors = [float(f"{term.factor:.{_SINGLE_DIGITS}g}") for term in split.terms]
    factors[0] = 1.0
    centers = [term.center for term in split.terms]
    from_center = split.threshold - float(
        np.dot([term.factor for term in split.terms], centers)
    )
    threshold = from_center + float(np.dot(factors, centers))
    spread = split.terms[0].spread
    rounding = max(_SINGLE * abs(from_center), _DOUBLE * spread)
    threshold = plain_number(threshold - rounding, threshold + rounding)
    if len(split.terms) == 1 and split.terms[0].whole:
        whole = float(round(threshold))
        if abs(threshold - whole) <= 2.0 * rounding_of_whole(whole, centers[0]):
            threshold = whole
    return replace(
        split,
        terms=_with_factors(split.terms, factors),
        threshold=threshold,
        missing_value=_on_its_side(split, threshold, 1e-3 * spread),
    )


def _on_its_side(split: LinearSplit, threshold: float, step: float) -> float | None:
    """What a missing value counts as, rounded if that does not move it across."""
    missing = split.missing_value
    if missing is None:
        return None
    rounded = _rounded(missing, step)
    left = rounded <= threshold if split.at_most else rounded >= threshold
    return rounded if left == split.missing_left else missing


def rounded_model(model: LinearModel, precision: int | None = None) -> LinearModel:
    """The model with the numbers that are printed.

    Parameters
    ----------
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


def printed_model(
    model: LinearModel,
    precision: int | None = None,
    max_terms: int | None = None,
    *,
    merged: bool = True,
) -> tuple[float, tuple[PrintedTerm, ...], tuple[PrintedTerm, ...]]:
    """What is printed of an equation: constant, terms, and those that are left out.

    A column whose zero is far from its values is counted from a round number near those
    of the node. The constant is the same however many terms are left out.

    Parameters
    ----------
    precision : int, optional
        See `rounded_model`.
    max_terms : int, optional
        Most terms that are shown, the ones that move most in the node.
    merged : bool
        Whether categories of one column with the same number are one term.
    """
    rounded = rounded_model(model, precision)
    alike = _alike(rounded.terms) if merged else [[term] for term in rounded.terms]
    printed = [_printed(group) for group in alike]
    printed.sort(key=lambda term: -term.effect)  # stable
    shown, hidden = printed[:max_terms], printed[len(printed[:max_terms]) :]
    constant = rounded.intercept + sum(term.factor * term.at for term in printed)
    step = _step(model.target_spread, precision)
    return _rounded(constant, step), tuple(shown), tuple(hidden)


class PrintedTerm(NamedTuple):
    """A term as it is printed: a number times a column, or times being in a set.

    Attributes
    ----------
    name : str
        Of the column.
    at : float
        What is subtracted from the column first; 0 for nothing.
    here, effect : float
        Its mean in the node, and what one standard deviation there moves.
    asks : {"number", "category", "missing"}
    categories : tuple
        That it asks for.
    """

    factor: float
    name: str
    at: float
    here: float
    effect: float
    asks: str
    categories: tuple[Any, ...] = ()


def _alike(terms: Sequence[Term]) -> list[list[Term]]:
    """Terms, those of categories of one column with the same factor together."""
    groups: dict[Any, list[Term]] = {}
    for term in terms:
        if term.asks == "category":
            groups.setdefault((term.column, term.factor), []).append(term)
        else:
            groups[term.position] = [term]
    return list(groups.values())


def _printed(group: list[Term]) -> PrintedTerm:
    first = group[0]
    if first.asks == "category":
        share = sum(term.here for term in group)
        moves = math.sqrt(max(share * (1.0 - share), 0.0))
        categories = tuple(term.category for term in sorted(group, key=_position))
        return PrintedTerm(
            *(first.factor, first.name, 0.0, share, abs(first.factor) * moves),
            asks="category",
            categories=categories,
        )
    at = 0.0
    if first.asks == "number" and abs(first.center) > _FAR_FROM_ZERO * first.spread:
        at = _rounded(first.here, 10.0 ** math.floor(math.log10(first.spread)))
    return PrintedTerm(
        *(first.factor, first.name, at, first.here, first.effect), asks=first.asks
    )


def _position(term: Term) -> int:
    return term.position


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
