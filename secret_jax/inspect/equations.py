"""Splits and models of the nodes in units and names of the data, exact and as printed.

Printed numbers are rounded by what they do, not by how they look: a coefficient in
steps of ``10**-precision`` of one standard deviation of the target, divided by the
standard deviation of its column. The intercept is then computed from the rounded
coefficients, so that the printed equation is right where the training data lie. Splits
have few digits already (`secret_jax.tree.plain`), and all of them are printed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.inspect.printing import number
from secret_jax.runtime.values import is_integer
from secret_jax.tree.plain import plain_number, rounding_of_whole
from secret_jax.tree.structure import SplitKind, Tree
from secret_jax.tree.totals import Side, way_to

# Digits of a float32, and its relative rounding, with some slack; that of a float64.
_SINGLE_DIGITS, _SINGLE, _DOUBLE = 6, 4e-7, 1e-9
# A column whose mean is so many standard deviations away is not counted from zero.
_FAR_FROM_ZERO = 5.0
# Values of the target are told in steps of this share of its standard deviation.
_STEP_OF_TARGET = 1e-2
PRECISION = 3  # digits relative to the effect, by default


class Term(NamedTuple):
    """``factor`` times a number less ``at``, or times whether a value is something.

    That is, one of some ``categories`` (exactly one, unless terms were merged to be
    printed; None is that of missing values), or missing. ``label`` is how the term is
    printed alone (the name, or "[sex = F]"), ``position`` that of the encoded column;
    ``center`` and ``spread`` are its mean and deviation in training, ``here`` and
    ``moves`` those among the rows of a node, in units of the data (of indicators 0 and
    1 in training). What is missing, or a category that training did not know, counts
    as ``missing_as`` (None where it is an error). ``error`` is the standard error of
    the factor, NaN where it is not known; at ``low`` and ``high`` the column is flat.
    """

    factor: float
    column: int
    name: str
    label: str
    position: int
    center: float
    spread: float
    asks: Literal["number", "category", "missing"] = "number"
    categories: tuple[Any, ...] = ()
    missing_as: float | None = None
    here: float = 0.0
    moves: float = 1.0
    error: float = math.nan
    whole: bool = False
    low: float = -math.inf
    high: float = math.inf
    at: float = 0.0

    @property
    def effect(self) -> float:
        """By how much one standard deviation in the node moves the sum."""
        return abs(self.factor) * self.moves


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearSplit:
    """Comparison of a sum, the largest term first with a factor of 1, with a threshold.

    A row goes left when the sum is at most the threshold, or (not ``at_most``) at least
    so large. With a ``width`` the split is a gate: the share ``1 / (1 + exp(-d))`` of a
    row goes left, with ``d`` its distance from the threshold to the left, over the
    width. If a split on one column learned a side for its missing values, these count
    as ``missing_value`` in place of the mean, which lies on that side.
    """

    terms: tuple[Term, ...]
    threshold: float
    at_most: bool
    width: float
    missing_value: float | None = None
    missing_left: bool | None = None

    def sign(self, side: Side) -> str:
        if side == "left":
            return "<=" if self.at_most else ">="
        return ">" if self.at_most else "<"


@dataclass(frozen=True, eq=False, kw_only=True)
class CategorySplit:
    """Membership of a category in the set of one side.

    ``left`` and ``right`` are the categories of each side, in their order, without
    those that splits further up keep away from the node; None stands for missing
    values. ``listed`` are all categories of the smaller child: what is not listed, seen
    in training or not, goes to the larger. ``missing_left`` is None where a missing
    value is an error.
    """

    column: int
    name: str
    left: tuple[Any, ...]
    right: tuple[Any, ...]
    listed_side: Side
    listed: tuple[Any, ...]
    missing_left: bool | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Equation:
    """A node's prediction: ``clip(intercept + sum of the terms, low, high)``.

    Terms are not zero, the one that moves the prediction most among the rows of the
    node first; the range is infinite if the node does not clip. ``level_error`` is the
    standard error of ``level``, ``target_spread`` the deviation of the target in
    training. Terms that are ``hidden`` when it is printed add a mean in the node.
    """

    target: str
    intercept: float
    terms: tuple[Term, ...]
    low: float
    high: float
    level_error: float
    target_spread: float
    hidden: tuple[Term, ...] = ()
    hidden_mean: float = 0.0

    @property
    def level(self) -> float:
        """Value at the center of the node's rows."""
        return self.intercept + sum(term.factor * term.here for term in self.terms)


def check_node(tree: Tree, node: Any) -> None:
    if not is_integer(node):
        raise TypeError(f"node is {node!r}; give the number of a node.")
    if not 0 <= node < tree.n_nodes:
        raise ValueError(
            f"Node {node} does not exist; the tree has the nodes 0 to "
            f"{tree.n_nodes - 1}."
        )


def conditions_at(tree: Tree, node: int) -> list[LinearSplit | CategorySplit]:
    """Convert the split of an inner node, unrounded, to units and names of the data.

    Lists the conditions that all hold for the rows that go left, in the order of the
    tree's comparisons: one but of conjunctions.
    """
    check_node(tree, node)
    if tree.is_leaf[node]:
        raise ValueError(
            f"Node {node} is a leaf and has no split; ask for its model instead."
        )
    discrete = tree.kind == SplitKind.DISCRETE
    return [
        _category_split(tree, one) if discrete[one] else _linear_split(tree, one)
        for one in tree.comparisons_at(node)
    ]


def _linear_split(tree: Tree, one: int) -> LinearSplit:
    schema, attribute = tree.schema, int(tree.attribute[one])
    effect = np.asarray(tree.direction[one], np.float64)
    threshold, width = tree.threshold[one], float(tree.gate_width[tree.node_of[one]])
    missing_value = missing_left = None
    on_one = tree.kind[one] == SplitKind.AXIS
    indicator = dict(schema.missing_columns).get(attribute)
    if on_one and indicator is not None:
        # The weight of the indicator is what a missing value counts as.
        counts_as = float(effect[indicator] / effect[attribute])
        missing_left = bool(tree.direction[one, indicator] <= threshold)
        missing_value = schema.center[attribute] + schema.scale[attribute] * counts_as
        missing_value = float(missing_value)
        effect[indicator] = 0.0
    terms = _terms(tree, effect)
    # Dividing by the first coefficient leaves the sum in the units of its column; a
    # negative one turns the inequality round.
    first = terms[0].factor if terms else 1.0
    changes = {"low": -math.inf, "high": math.inf}  # no threshold lies beyond a bound
    changes = changes if on_one and not width else {}
    terms = tuple(t._replace(factor=t.factor / first, **changes) for t in terms)
    at_centers = np.dot([term.factor for term in terms], [t.center for t in terms])
    return LinearSplit(
        terms=terms,
        threshold=float(float(threshold) / first + at_centers),
        at_most=first > 0,
        width=width / abs(first),
        missing_value=missing_value,
        missing_left=missing_left,
    )


def _category_split(tree: Tree, one: int) -> CategorySplit:
    schema, attribute = tree.schema, int(tree.attribute[one])
    column, categories = schema.discrete[attribute], schema.categories[attribute]
    unseen_left = bool(tree.larger_left[tree.node_of[one]])
    goes_left = tree.goes_left[one, : len(categories)]
    reaching = np.ones(len(categories), bool)
    alike = (tree.kind == SplitKind.DISCRETE) & (tree.attribute == attribute)
    for parent, side in way_to(tree, int(tree.node_of[one])):
        above = tree.comparisons_at(parent)
        # Of a conjunction that does not hold any condition may hold.
        for each in above if side == "left" or len(above) == 1 else ():
            if alike[each]:
                reaching &= tree.goes_left[each, : len(reaching)] == (side == "left")
    masks = goes_left & reaching, ~goes_left & reaching, goes_left != unseen_left
    left, right, listed = (
        tuple(categories[code] for code in np.flatnonzero(mask)) for mask in masks
    )
    return CategorySplit(
        column=column,
        name=schema.names[column],
        left=left,
        right=right,
        listed_side="right" if unseen_left else "left",
        listed=listed,
        missing_left=(None in listed) != unseen_left if schema.allow_missing else None,
    )


def model_in_original_units(tree: Tree, node: int) -> Equation:
    """Convert the model of a leaf or inner node to units and names of the data."""
    check_node(tree, node)
    schema = tree.schema
    low, high = clip_range_of(tree, node)
    terms = _terms(tree, np.asarray(tree.coefficient[node, 0, 1:], np.float64), node)
    at_centers = np.dot([term.factor for term in terms], [t.center for t in terms])
    at_center = float(schema.restore_target(tree.coefficient[node, 0, 0]))
    return Equation(
        target=schema.target_name,
        intercept=float(at_center - at_centers),
        terms=terms,
        low=low,
        high=high,
        level_error=float(tree.standard_error[node, 0, 0] * schema.target_scale),
        target_spread=schema.target_scale,
    )


def clip_range_of(tree: Tree, node: int | None = None) -> tuple[float, float]:
    """Range to which predictions of a node, or of a mixture (None), are clipped."""
    clips_leaves = not tree.is_soft or tree.clip_leaves
    if clips_leaves == (node is None):
        return -math.inf, math.inf
    ends = (end[node or 0, 0] for end in tree.clip_range())
    low, high = (float(tree.schema.restore_target(end)) for end in ends)
    return low, high


def _terms(tree: Tree, effect: np.ndarray, node: int | None = None) -> tuple[Term, ...]:
    """Convert effects of encoded columns, of a split or in a node, largest first."""
    schema, size = tree.schema, np.abs(effect)
    unit, here = 1.0, size
    if node is not None:
        unit, here = schema.target_scale, size * tree.spread[node]
    first = schema.n_regressors - schema.n_indicators
    categories = dict(enumerate(schema.indicators, first))
    missing = {indicator for _, indicator in schema.missing_columns}
    tails = {column: bounds for column, *bounds in schema.tails}
    unknown, terms = unknown_values(schema), list[Term]()
    for position in np.lexsort((-size, -here)).tolist():
        if effect[position] == 0:
            continue
        column, label = schema.encoded[position]
        center, spread = float(schema.center[position]), float(schema.scale[position])
        more: dict[str, Any] = {"whole": column in schema.whole}
        if node is not None:
            error = tree.standard_error[node, 0, 1 + position]
            more["here"] = center + float(spread * tree.center[node, position])
            more["moves"] = float(spread * tree.spread[node, position])
            more["error"] = float(error * schema.target_scale / spread)
        if position in categories:
            attribute, code = categories[position]
            more |= {"asks": "category", "missing_as": float(unknown[position])}
            more["categories"] = (schema.categories[attribute][code],)
        elif position in missing:
            more["asks"] = "missing"
        else:
            more["low"], more["high"] = tails.get(column, (-math.inf, math.inf))
            more["missing_as"] = center if schema.allow_missing else None
        factor, name = float(effect[position] * unit / spread), schema.names[column]
        terms.append(
            Term(factor, column, name, label, position, center, spread, **more)
        )
    return tuple(terms)


def unknown_values(schema: TableSchema) -> np.ndarray:
    """What encoded columns count as where a value is missing, or was never seen."""
    values = np.zeros(schema.n_columns)
    first = schema.n_regressors - schema.n_indicators
    values[first : first + len(schema.indicator_shares)] = schema.indicator_shares
    values[[indicator for _, indicator in schema.missing_columns]] = 1.0
    return values


def check_counts(**options: Any) -> None:
    """Refuse options that are neither None nor integers of at least 0."""
    for name, value in options.items():
        if value is not None and not is_integer(value):
            raise TypeError(f"{name} is {value!r}; give an int or None.")
        if value is not None and value < 0:
            raise ValueError(f"{name} is {value}; it cannot be negative.")


def rounded_split(split: LinearSplit, precision: int | None = None) -> LinearSplit:
    """Round the numbers of a split, and leave out the terms that round to zero.

    The precision is that of a gate; of a hard split no row may change sides.
    """
    terms, width = split.terms, split.width
    if not terms:
        return split
    if width == 0:
        terms, threshold = _hard_numbers(split)
        step = 1e-3 * terms[0].spread
    else:
        digits = precision or PRECISION
        width = float(f"{width:.{digits}g}")
        # Correlated columns make a sum far narrower than its terms: one digit more.
        digits += len(terms) > 1
        effect = np.array([term.factor * term.spread for term in terms])
        step = 10.0**-digits * float(np.linalg.norm(effect))
        terms, moved = _rounded_terms(terms, step)
        threshold = _rounded(split.threshold + moved, step)
    missing = split.missing_value
    if missing is not None:  # unless it moved across
        rounded = _rounded(missing, step)
        left = rounded <= threshold if split.at_most else rounded >= threshold
        missing = rounded if left == split.missing_left else missing
    numbers = {"threshold": threshold, "width": width, "missing_value": missing}
    return replace(split, terms=terms, **numbers)


def _hard_numbers(split: LinearSplit) -> tuple[tuple[Term, ...], float]:
    """Terms and threshold of a hard split, without what float32 has added."""
    (first, *others), centers = split.terms, [term.center for term in split.terms]
    plain = [t._replace(factor=float(f"{t.factor:.{_SINGLE_DIGITS}g}")) for t in others]
    terms = (first, *plain)
    given, factors = ([t.factor for t in each] for each in (split.terms, terms))
    from_center = split.threshold - float(np.dot(given, centers))
    threshold = from_center + float(np.dot(factors, centers))
    rounding = max(_SINGLE * abs(from_center), _DOUBLE * first.spread)
    threshold = plain_number(threshold - rounding, threshold + rounding)
    if not others and first.whole:
        whole = float(round(threshold))
        if abs(threshold - whole) <= 2.0 * rounding_of_whole(whole, first.center):
            threshold = whole
    return terms, threshold


def printed_model(
    model: Equation,
    precision: int | None = None,
    max_terms: int | None = None,
    *,
    merged: bool = True,
) -> Equation:
    """Choose the numbers of an equation as they are printed.

    A column whose zero is far from its values is counted from a round number near those
    of the node. The constant is the same however many terms are left out: those that
    move least. ``merged`` puts the categories of a column with the same factor in one
    term, that of the most frequent one.
    """
    step = 10.0 ** -(precision or PRECISION) * model.target_spread
    rounded, moved = _rounded_terms(model.terms, step)
    groups: dict[Any, list[Term]] = {}
    for term in rounded:
        same = merged and term.asks == "category"
        key = (term.column, term.factor) if same else (term.position,)
        groups.setdefault(key, []).append(term)
    terms = sorted(map(_printed, groups.values()), key=lambda term: -term.effect)
    constant = _rounded(model.intercept - moved, step)
    constant += sum(term.factor * term.at for term in terms)
    shown, hidden = terms[:max_terms], terms[len(terms[:max_terms]) :]
    columns = [term.column for term in shown]
    shown.sort(key=lambda term: columns.index(term.column))  # stable
    mean = sum(term.factor * (term.here - term.at) for term in hidden)
    numbers = {"intercept": constant, "low": model.low, "high": model.high}
    numbers = {name: _rounded(one, step) for name, one in numbers.items()}
    hidden_ones = {"hidden": tuple(hidden), "hidden_mean": _rounded(mean, step)}
    return replace(model, terms=tuple(shown), **numbers, **hidden_ones)


def _printed(group: list[Term]) -> Term:
    """Merge the terms of some categories, or choose from where a number is counted."""
    main = max(group, key=lambda term: term.here)
    if main.asks == "category":
        share = sum(term.here for term in group)
        moves = math.sqrt(max(share * (1.0 - share), 0.0))
        in_order = sorted(group, key=lambda term: term.position)
        categories = tuple(term.categories[0] for term in in_order)
        return main._replace(categories=categories, here=share, moves=moves)
    if main.asks == "number" and abs(main.center) > _FAR_FROM_ZERO * main.spread:
        size = 10.0 ** math.floor(math.log10(main.spread))
        return main._replace(at=_rounded(main.here, size))
    return main


def in_steps(value: float, target_scale: float) -> str:
    """Write a value of the target to a hundredth of its standard deviation.

    >>> in_steps(180_761.3, 79_000.0)
    '181,000'
    """
    return number(_rounded(value, _STEP_OF_TARGET * target_scale))


def _rounded_terms(
    terms: Sequence[Term], step: float
) -> tuple[tuple[Term, ...], float]:
    """Round factors to steps of the sum, without those of zero; gain at the means."""
    factors = [_rounded(term.factor, step / term.spread) for term in terms]
    change = np.array(factors) - [term.factor for term in terms]
    moved = float(np.dot(change, [term.center for term in terms]))
    pairs = zip(terms, factors, strict=True)
    return tuple(term._replace(factor=one) for term, one in pairs if one), moved


def _rounded(value: float, step: float) -> float:
    return round(value, round(-math.log10(step))) if math.isfinite(value) else value
