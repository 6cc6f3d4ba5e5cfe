"""Rounding of equations and splits for print.

Numbers are rounded by what they do, not by how they look: a coefficient is rounded in
steps of ``10**-precision`` of one standard deviation of the target, divided by the
standard deviation of its column. What rounds to nothing is left out. The intercept is
then computed from the rounded coefficients, so that the printed equation is right where
the training data lie. Splits have few digits already (`secret_jax.tree.plain`), and
all of them are printed.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from secret_jax.inspect.equations import (
    LinearModel,
    LinearSplit,
    Term,
    conditions_at,
    model_in_original_units,
)
from secret_jax.inspect.printing import number
from secret_jax.runtime.values import is_integer
from secret_jax.tree.plain import plain_number, rounding_of_whole
from secret_jax.tree.structure import Tree

# Digits of a float32, and its relative rounding, with some slack; that of a float64.
_SINGLE_DIGITS, _SINGLE, _DOUBLE = 6, 4e-7, 1e-9
# A column whose mean is so many standard deviations away is not counted from zero.
_FAR_FROM_ZERO = 5.0
# Values of the target are told in steps of this share of its standard deviation.
_STEP_OF_TARGET = 1e-2
_PRECISION, _MAX_PRECISION = 3, 100  # digits by default, and at most: a float has 17


def check_counts(**options: Any) -> None:
    """Refuse options that are neither None nor integers of at least 0."""
    for name, value in options.items():
        if value is not None and not is_integer(value):
            raise TypeError(f"{name} is {value!r}; give an int or None.")
        if value is not None and value < 0:
            raise ValueError(f"{name} is {value}; it cannot be negative.")


def checked_precision(precision: int | None) -> int:
    """Check significant digits relative to the effect; None stands for the default."""
    check_counts(precision=precision)
    precision = _PRECISION if precision is None else precision
    if not 1 <= precision <= _MAX_PRECISION:
        raise ValueError(
            f"precision is {precision}; 1 to {_MAX_PRECISION} digits are possible."
        )
    return int(precision)


def rounded_split(split: LinearSplit, precision: int | None = None) -> LinearSplit:
    """Round the numbers of a split, and leave out the terms that round to zero.

    The precision is that of a gate; of a hard split no row may change sides.
    """
    terms, width = split.terms, split.width
    if not terms:
        return split
    if width == 0:
        factors, threshold = _hard_numbers(split)
        step = 1e-3 * terms[0].spread
    else:
        digits = checked_precision(precision)
        width = float(f"{width:.{digits}g}")
        # Correlated columns make a sum far narrower than its terms: one digit more.
        digits += len(terms) > 1
        effect = np.array([term.factor * term.spread for term in terms])
        step = 10.0**-digits * float(np.linalg.norm(effect))
        factors = [_rounded(term.factor, step / term.spread) for term in terms]
        factors[0] = 1.0
        threshold = _rounded(split.threshold + _moved(terms, factors), step)
    missing = split.missing_value
    if missing is not None:  # unless it moved across
        rounded = _rounded(missing, step)
        left = rounded <= threshold if split.at_most else rounded >= threshold
        missing = rounded if left == split.missing_left else missing
    return replace(
        split,
        terms=_with_factors(terms, factors),
        threshold=threshold,
        width=width,
        missing_value=missing,
    )


def _hard_numbers(split: LinearSplit) -> tuple[list[float], float]:
    """Factors and threshold of a hard split, without what float32 has added."""
    terms, centers = split.terms, [term.center for term in split.terms]
    given = [term.factor for term in terms]
    factors = [1.0, *(float(f"{one:.{_SINGLE_DIGITS}g}") for one in given[1:])]
    from_center = split.threshold - float(np.dot(given, centers))
    threshold = from_center + float(np.dot(factors, centers))
    rounding = max(_SINGLE * abs(from_center), _DOUBLE * terms[0].spread)
    threshold = plain_number(threshold - rounding, threshold + rounding)
    if len(terms) == 1 and terms[0].whole:
        whole = float(round(threshold))
        if abs(threshold - whole) <= 2.0 * rounding_of_whole(whole, centers[0]):
            threshold = whole
    return factors, threshold


class PrintedTerm(NamedTuple):
    """A number times a column (less ``at``), or times being in a set of categories.

    ``here`` and ``effect`` are the mean of the column in the node, and what a standard
    deviation there moves; ``main`` is the term, or that of the most frequent category.
    """

    factor: float
    at: float
    here: float
    effect: float
    main: Term
    categories: tuple[Any, ...] = ()


class PrintedModel(NamedTuple):
    """An equation as it is printed; hidden terms add a mean in the node."""

    constant: float
    terms: list[PrintedTerm]
    hidden: list[PrintedTerm]
    hidden_mean: float
    low: float
    high: float


def printed_model(
    model: LinearModel,
    precision: int | None = None,
    max_terms: int | None = None,
    *,
    merged: bool = True,
) -> PrintedModel:
    """Choose the numbers of an equation as they are printed.

    What rounds to zero is left out, and a column whose zero is far from its values is
    counted from a round number near those of the node. The constant is the same however
    many terms are left out: those that move least in the node. Terms of one column
    stand side by side; ``merged`` puts its categories with the same factor in one term.
    """
    step = 10.0 ** -checked_precision(precision) * model.target_spread
    factors = [_rounded(term.factor, step / term.spread) for term in model.terms]
    groups: dict[Any, list[Term]] = {}
    for term in _with_factors(model.terms, factors):
        same = merged and term.asks == "category"
        key = (term.column, term.factor) if same else (term.position,)
        groups.setdefault(key, []).append(term)
    terms = sorted(map(_printed, groups.values()), key=lambda term: -term.effect)
    constant = _rounded(model.intercept - _moved(model.terms, factors), step)
    constant += sum(term.factor * term.at for term in terms)
    shown, hidden = terms[:max_terms], terms[len(terms[:max_terms]) :]
    columns = [term.main.column for term in shown]
    shown.sort(key=lambda term: columns.index(term.main.column))  # stable
    mean = sum(term.factor * (term.here - term.at) for term in hidden)
    numbers = (constant, mean, model.low, model.high)
    constant, mean, low, high = (_rounded(one, step) for one in numbers)
    return PrintedModel(constant, shown, hidden, mean, low, high)


def _printed(group: list[Term]) -> PrintedTerm:
    """Merge the terms of some categories, or print one term."""
    main = max(group, key=lambda term: term.here)
    if main.asks == "category":
        share = sum(term.here for term in group)
        effect = abs(main.factor) * math.sqrt(max(share * (1.0 - share), 0.0))
        in_order = sorted(group, key=lambda term: term.position)
        categories = tuple(term.category for term in in_order)
        return PrintedTerm(main.factor, 0.0, share, effect, main, categories)
    at = 0.0
    if main.asks == "number" and abs(main.center) > _FAR_FROM_ZERO * main.spread:
        at = _rounded(main.here, 10.0 ** math.floor(math.log10(main.spread)))
    return PrintedTerm(main.factor, at, main.here, main.effect, main)


def in_steps(value: float, target_scale: float) -> str:
    """Write a value of the target to a hundredth of its standard deviation.

    >>> in_steps(180_761.3, 79_000.0)
    '181,000'
    """
    return number(_rounded(value, _STEP_OF_TARGET * target_scale))


def reading_cost(tree: Tree, precision: int | None = None) -> int:
    """Count the numbers in the splits and in the equations of all outputs.

    Of a tree with hard splits those that `export_text` prints; a gate has two more, its
    width and the shares of a row on its two sides.
    """
    outputs = [tree.output(output) for output in range(tree.n_outputs)]
    cost = 0
    for node in np.flatnonzero(tree.is_leaf).tolist():
        for output in outputs:
            model = model_in_original_units(output, node)
            terms = printed_model(model, precision).terms
            cost += 1 + sum(1 + (term.at != 0) for term in terms)
    for node in np.flatnonzero(~tree.is_leaf).tolist():
        for _, split in conditions_at(tree, node):
            cost += 1
            if isinstance(split, LinearSplit):
                n_terms = len(rounded_split(split, precision).terms)
                cost += (n_terms if n_terms > 1 else 0) + 2 * (split.width > 0)
    return cost


def _moved(terms: Sequence[Term], factors: Sequence[float]) -> float:
    """Gain of the sum of the terms at the means by these factors."""
    change = [f - term.factor for term, f in zip(terms, factors, strict=True)]
    return float(np.dot(change, [term.center for term in terms]))


def _with_factors(terms: Iterable[Term], factors: Iterable[float]) -> tuple[Term, ...]:
    """Replace the factors, and drop the terms whose factor is zero."""
    pairs = zip(terms, factors, strict=True)
    return tuple(term._replace(factor=factor) for term, factor in pairs if factor)


def _rounded(value: float, step: float) -> float:
    """Round to the power of ten that is nearest to the step."""
    return round(value, round(-math.log10(step))) if math.isfinite(value) else value
