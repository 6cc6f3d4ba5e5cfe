"""Splits and models of the nodes in the units and names of the data.

Text, pictures, explanations and exported code all read a tree through these values.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from secret_jax.runtime.values import is_integer
from secret_jax.tree.structure import SplitKind, Tree
from secret_jax.tree.totals import Side, way_to


class Term(NamedTuple):
    """``factor`` times a number, or times whether a value is a category or missing.

    ``label`` is how it is printed (the name, or "[sex = F]"), ``position`` that of the
    encoded column; ``center`` and ``spread`` are its mean and deviation in training,
    ``here`` and ``moves`` those among the rows of a node, in units of the data (of
    indicators 0 and 1 in training). A missing number counts as ``missing_as`` (None
    where it is an error), and so does an indicator of a category where training did not
    know what there is; the category None is that of missing values.
    ``error`` is the standard error of the factor, NaN where it is not known; at ``low``
    and ``high`` the column is flat.
    """

    factor: float
    column: int
    name: str
    label: str
    position: int
    center: float
    spread: float
    asks: Literal["number", "category", "missing"] = "number"
    category: Any = None
    missing_as: float | None = None
    here: float = 0.0
    moves: float = 1.0
    error: float = math.nan
    whole: bool = False
    low: float = -math.inf
    high: float = math.inf

    @property
    def effect(self) -> float:
        """By how much one standard deviation in the node moves the sum."""
        return abs(self.factor) * self.moves


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearSplit:
    """Comparison of a sum of terms with a threshold.

    The term with the largest effect is the first, with a factor of 1. A row goes left
    when the sum is at most the threshold, or (not ``at_most``) when it is at least so
    large. With a ``width`` the split is a gate: the share ``1 / (1 + exp(-d))`` of a
    row goes left, with ``d`` its distance from the threshold to the left, over the
    width. If the split is on one column and learned a side for its missing values,
    these count as ``missing_value`` in place of the mean, which lies on that side.
    """

    terms: tuple[Term, ...]
    threshold: float
    at_most: bool
    width: float
    missing_value: float | None = None
    missing_left: bool | None = None

    def sign(self, side: Side) -> str:
        """Sign of the comparison that sends a row to a side."""
        if side == "left":
            return "<=" if self.at_most else ">="
        return ">" if self.at_most else "<"


@dataclass(frozen=True, eq=False, kw_only=True)
class CategorySplit:
    """Membership of a category in the set of one side.

    ``left`` and ``right`` are the categories of each side, in their sorted order,
    without those that splits further up keep away from the node; None stands for
    missing values. ``listed`` are all categories of the smaller child, also those that
    never reach the node: what is not listed, seen in training or not, goes to the
    larger child. ``missing_left`` is None where a missing value is an error.
    """

    column: int
    name: str
    left: tuple[Any, ...]
    right: tuple[Any, ...]
    listed_side: Side
    listed: tuple[Any, ...]
    missing_left: bool | None


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearModel:
    """A node's prediction: ``clip(intercept + sum of the terms, low, high)``.

    Terms are those that are not zero, the one that moves the prediction most among the
    rows of the node first; the range is infinite if the node does not clip.
    ``level_error`` is the standard error of ``level``, ``target_spread`` the standard
    deviation of the target in training.
    """

    target: str
    intercept: float
    terms: tuple[Term, ...]
    low: float
    high: float
    level_error: float
    target_spread: float

    @property
    def level(self) -> float:
        """Value at the center of the node's rows."""
        return self.intercept + sum(term.factor * term.here for term in self.terms)


def check_node(tree: Tree, node: Any) -> None:
    """Refuse what is no node of the tree."""
    if not is_integer(node):
        raise TypeError(f"node is {node!r}; give the number of a node.")
    if not 0 <= node < tree.n_nodes:
        raise ValueError(
            f"Node {node} does not exist; the tree has the nodes 0 to "
            f"{tree.n_nodes - 1}."
        )


def conditions_at(
    tree: Tree, node: int
) -> list[tuple[int, LinearSplit | CategorySplit]]:
    """Convert the split of an inner node, unrounded, to units and names of the data.

    Lists the conditions that all hold for the rows that go left, one but of
    conjunctions, each with its position among the tree's comparisons. Each says by
    itself on which side of it a row, or a missing value, lies.
    """
    check_node(tree, node)
    if tree.is_leaf[node]:
        raise ValueError(
            f"Node {node} is a leaf and has no split; ask for its model instead."
        )
    # Conjunctions that do not hold are left out: any of their conditions may hold.
    way: list[tuple[int, Side]] = [
        (one, side)
        for parent, side in way_to(tree, node)
        if side == "left" or len(tree.comparisons_at(parent)) == 1
        for one in tree.comparisons_at(parent)
    ]
    return [
        (
            one,
            _category_split(tree, one, way)
            if tree.kind[one] == SplitKind.DISCRETE
            else _linear_split(tree, one),
        )
        for one in tree.comparisons_at(node)
    ]


def _linear_split(tree: Tree, one: int) -> LinearSplit:
    schema, attribute = tree.schema, int(tree.attribute[one])
    effect = np.asarray(tree.direction[one], np.float64)
    missing_value = missing_left = None
    on_one, width = tree.kind[one] == SplitKind.AXIS, tree.gate_width[tree.node_of[one]]
    indicator = dict(schema.missing_columns).get(attribute)
    if on_one and indicator is not None:
        # The weight of the indicator is what a missing value counts as.
        counts_as = float(effect[indicator] / effect[attribute])
        missing_left = bool(tree.direction[one, indicator] <= tree.threshold[one])
        missing_value = float(
            schema.center[attribute] + schema.scale[attribute] * counts_as
        )
        effect[indicator] = 0.0
    order = _by_effect(effect)
    center, spread = schema.center[order], schema.scale[order]
    # Dividing by the first coefficient leaves the sum in the units of its column; a
    # negative one turns the inequality round.
    first = effect[order[0]] / spread[0] if len(order) else 1.0
    coefficient = effect[order] / spread / first
    terms = _terms(tree, order, coefficient)
    if on_one and not width:  # no threshold lies beyond a bound
        terms = tuple(t._replace(low=-math.inf, high=math.inf) for t in terms)
    return LinearSplit(
        terms=terms,
        threshold=float(tree.threshold[one] / first + coefficient @ center),
        at_most=bool(first > 0),
        width=float(width / abs(first)),
        missing_value=missing_value,
        missing_left=missing_left,
    )


def _category_split(tree: Tree, one: int, way: list[tuple[int, Side]]) -> CategorySplit:
    schema, attribute = tree.schema, int(tree.attribute[one])
    column, categories = schema.discrete[attribute], schema.categories[attribute]
    unseen_left = bool(tree.larger_left[tree.node_of[one]])
    goes_left = tree.goes_left[one, : len(categories)]
    reaching = np.ones(len(categories), bool)
    for above, side in way:
        discrete = tree.kind[above] == SplitKind.DISCRETE
        if discrete and tree.attribute[above] == attribute:
            reaching &= tree.goes_left[above, : len(reaching)] == (side == "left")
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


def model_in_original_units(tree: Tree, node: int) -> LinearModel:
    """Convert the model of a leaf or inner node to units and names of the data."""
    check_node(tree, node)
    schema = tree.schema
    low, high = clip_range_of(tree, node)
    effect = np.asarray(tree.coefficient[node, 0, 1:], np.float64)
    order = _by_effect(effect, tree.spread[node])
    slope = effect[order] * schema.target_scale / schema.scale[order]
    at_center = float(schema.restore_target(tree.coefficient[node, 0, 0]))
    return LinearModel(
        target=schema.target_name,
        intercept=float(at_center - slope @ schema.center[order]),
        terms=_terms(tree, order, slope, node),
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


def _by_effect(effect: np.ndarray, moves: np.ndarray | None = None) -> np.ndarray:
    """Positions of the effects that are not zero, the largest here first."""
    size = np.abs(effect)
    here = size if moves is None else size * moves
    order = np.lexsort((-size, -here))
    return order[effect[order] != 0]


def _terms(
    tree: Tree, order: np.ndarray, factors: np.ndarray, node: int | None = None
) -> tuple[Term, ...]:
    """Convert encoded columns to terms, of a split or of the model of a node."""
    schema = tree.schema
    first = schema.n_regressors - schema.n_indicators
    categories = dict(enumerate(schema.indicators, first))
    shares = dict(enumerate(schema.indicator_shares, first))
    missing = {indicator for _, indicator in schema.missing_columns}
    tails = {column: bounds for column, *bounds in schema.tails}
    terms = []
    for position, factor in zip(order.tolist(), factors.tolist(), strict=True):
        column = schema.input_columns[position]
        center, spread = float(schema.center[position]), float(schema.scale[position])
        more: dict[str, Any] = {"whole": column in schema.whole}
        if node is not None:
            error = tree.standard_error[node, 0, 1 + position]
            more["here"] = center + float(spread * tree.center[node, position])
            more["moves"] = float(spread * tree.spread[node, position])
            more["error"] = float(error * schema.target_scale / spread)
        if position in categories:
            attribute, code = categories[position]
            more |= {"asks": "category", "missing_as": shares.get(position)}
            more["category"] = schema.categories[attribute][code]
        elif position in missing:
            more["asks"] = "missing"
        else:
            more["low"], more["high"] = tails.get(column, (-math.inf, math.inf))
            more["missing_as"] = center if schema.allow_missing else None
        names = schema.names[column], schema.labels[position]
        terms.append(Term(factor, column, *names, position, center, spread, **more))
    return tuple(terms)
