"""Content of exported programs in any language: splits, models, sums, conditions."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from secret_jax.data.dates import MINUTES
from secret_jax.data.schema import FAR, TableSchema
from secret_jax.inspect.equations import (
    CategorySplit,
    Equation,
    LinearSplit,
    Term,
    conditions_at,
    model_in_original_units,
)
from secret_jax.inspect.view import Classes, Readable, as_view
from secret_jax.losses.interface import HIGHEST_LOG, Link, Loss
from secret_jax.losses.numbers import SQUARED_ERROR
from secret_jax.tree.structure import Tree
from secret_jax.tree.totals import Side, leaves_below


class ExportedModel(NamedTuple):
    """Trees that add up, with ``constants``, and the meaning of their sums.

    Each is given restricted to every output. Of ``classes``, or of one ``only``,
    probabilities are predicted.
    """

    title: str
    trees: list[list[Tree]]
    constants: tuple[float, ...]
    loss: Loss
    classes: Classes | None
    only: int | None

    @property
    def schema(self) -> TableSchema:
        return self.trees[0][0].schema

    @property
    def link(self) -> Link:
        if self.loss.link is None:
            raise TypeError(
                f"{type(self.loss).__name__} does not say how predictions follow from "
                "what its models say. Set its class attribute link to one of "
                "'identity', 'exponential', 'softmax' and 'clip', if it is one of them."
            )
        return self.loss.link

    @property
    def labels(self) -> list[Any]:
        """Classes as plain values."""
        assert self.classes is not None
        return [plain_category(label, "y") for label in self.classes.labels]


def exported(tree: Readable, output: int | str | None = None) -> ExportedModel:
    """Convert a tree; of classes with the output chosen after all are computed."""
    view, only = as_view(tree, output), None
    loss, classes = view.tree.loss, view.classes
    if classes is not None:
        only = None if output is None else classes.position(output)
        view = replace(view, only=None)
    constants = (0.0,) * len(view.trees)
    return ExportedModel(view.title, [view.trees], constants, loss, classes, only)


def exported_sum(
    trees: Sequence[Tree],
    steps: Sequence[float],
    *,
    loss: Loss,
    classes: Classes | None,
    output: int | str | None,
) -> ExportedModel:
    """Convert a weighted sum of hard trees of one schema; the loss says what it is."""
    schema, parts = trees[0].schema, []
    units, centers = schema.target_scales, schema.target_centers
    if loss.link == "exponential":  # logarithms of shares of the scales are added
        units, centers = (1.0,) * len(units), map(math.log, units)
    for tree, step in zip(trees, steps, strict=True):
        scales = tuple(step * unit for unit in units)
        zeros = (0.0,) * len(scales)
        scaled = replace(schema, target_centers=zeros, target_scales=scales)
        tree = replace(tree, schema=scaled, loss=SQUARED_ERROR)
        parts.append([tree.output(i) for i in range(len(scales))])
    only = None if output is None or classes is None else classes.position(output)
    centers = tuple(map(float, centers))
    title = " / ".join(schema.target_names)
    return ExportedModel(title, parts, centers, loss, classes, only)


def parts_of_dates(model: ExportedModel) -> list[str]:
    """Sentences on what the columns are that stand for a date or a time of day."""
    sentences = []
    for name, parts in model.schema.dates:
        zone = dict(model.schema.zones).get(name)
        where = f" on the clocks of {zone}" if zone else ""
        meaning = (
            "counted from midnight"
            if MINUTES in parts[0]
            else "weekday 1 is Monday, minutes are decimals of the hour, and days are "
            "those since 1970-01-01"
        )
        names = ", ".join(parts)
        text = f"Numbers to compute from {name}{where}: {names}; {meaning}."
        sentences.append(" ".join(text.split()))
    return sentences


def exact_equation(tree: Tree, node: int) -> Equation:
    """Convert the model of a leaf; what has no terms is clipped at once."""
    model = model_in_original_units(tree, node)
    if model.terms:
        return model
    constant = min(max(model.intercept, model.low), model.high)
    return replace(model, intercept=constant, low=-math.inf, high=math.inf)


def exact_conditions(tree: Tree, node: int) -> list[LinearSplit | CategorySplit]:
    """Convert a split; of one column, thresholds are the last float64 to go left."""
    found = []
    pairs = zip(tree.comparisons_at(node), conditions_at(tree, node), strict=True)
    for one, split in pairs:
        if isinstance(split, LinearSplit) and len(split.terms) == 1 and not split.width:
            split = replace(split, threshold=_last_to_go_left(tree, one, split))
        found.append(split)
    return found


def _last_to_go_left(tree: Tree, one: int, split: LinearSplit) -> float:
    (term,) = split.terms
    direction, sign = tree.direction[one, term.position], 1.0 if split.at_most else -1.0

    def value(rank: int) -> float:
        # The bits of a float, read as an integer, are in the order of its size.
        return sign * math.copysign(float(np.int64(abs(rank)).view(np.float64)), rank)

    def goes_right(rank: int) -> bool:
        with np.errstate(over="ignore"):
            scaled = (value(rank) - term.center) / term.spread
            scaled = np.float32(np.clip(scaled, -FAR, FAR))
            return not direction * scaled <= tree.threshold[one]

    largest = int(np.finfo(np.float64).max.view(np.int64))
    ranks = range(-largest, 0) if goes_right(0) else range(largest + 1)
    first = bisect_left(ranks, True, key=goes_right)
    return value(ranks[max(first - 1, 0)])


def decisions(tree: Tree) -> Iterator[tuple[int, int, Side | None, bool]]:
    """Order the nodes for nested decisions: of two sides the smaller one is nested.

    So nesting grows as the logarithm of the number of leaves. Each node comes with its
    depth, the side that is nested (None: a leaf), and whether it begins a block.
    """
    n_leaves, stack = leaves_below(tree), [(0, 0, True)]
    while stack:
        node, depth, first = stack.pop()
        if tree.is_leaf[node]:
            yield node, depth, None, first
            continue
        left, right = int(tree.left[node]), int(tree.right[node])
        nested: Side = "left" if n_leaves[left] <= n_leaves[right] else "right"
        smaller, larger = (left, right) if nested == "left" else (right, left)
        yield node, depth, nested, first
        stack += [(larger, depth, False), (smaller, depth + 1, True)]


def plain_categories(schema: TableSchema, name: str) -> list[Any]:
    attribute = schema.discrete.index(schema.names.index(name))
    return [plain_category(one, name) for one in schema.categories[attribute]]


def plain_category(category: Any, name: str) -> str | bool | int | float | None:
    """Convert a category to text, a finite number or a truth value, or refuse it."""
    if isinstance(category, np.generic):
        category = category.item()
    if isinstance(category, str):
        return str.__str__(category)
    if category is None or isinstance(category, bool | int):
        return category
    if isinstance(category, float) and math.isfinite(category):
        return category
    raise TypeError(
        f"Column {name!r} has the category {category!r}, a "
        f"{type(category).__name__}, which cannot be written as code. Turn the column "
        "into text or finite numbers before fitting."
    )


class Writer:
    """Conditions and sums over the columns of a row, as Python and SQL write them.

    A language has functions that write a number, a column (with a mean in place of
    missing ones), that it is missing or holds some categories, what a category adds to
    a sum, and a value that is cut at those of its bounds that are finite.
    """

    # The words for or, and, not; what is 1 where a condition holds, and else 0; the
    # name of the exponential; what stands between addends.
    logical: ClassVar[tuple[str, str, str]]
    indicator: ClassVar[str]
    exponential: ClassVar[str]
    blank: ClassVar[str] = " "

    def __init__(self, model: ExportedModel):
        self.model, self.schema = model, model.schema

    number: Any
    column: Any
    missing: Any
    member: Any
    effect: Any
    clip: Any

    def sum_of(self, terms: Sequence[Term], constant: float | None = None) -> str:
        """Write a sum: numbers, and gaps in them, before columns of categories."""
        addends = [] if constant is None else [self.number(constant)]
        by_column: dict[str, list[Term]] = {}
        for term in terms:
            if term.asks == "category":
                by_column.setdefault(term.name, []).append(term)
                continue
            if term.asks == "number":
                cell = self.column(term.name, term.missing_as)
                value = self.clip(cell, term.low, term.high)
            else:
                value = self.indicator.format(self.missing(term.name))
            size = self.number(abs(term.factor)) + " * "
            size = "" if abs(term.factor) == 1 else size
            addends.append(f"{'-' if term.factor < 0 else '+'} {size}{value}")
        for name, its in by_column.items():
            otherwise = float(sum(t.factor * (t.missing_as or 0.0) for t in its))
            known = plain_categories(self.schema, name) if otherwise else []
            effects = dict.fromkeys(known, 0.0)
            for term in its:
                effects[plain_category(term.categories[0], name)] = term.factor
            addends.append(f"+ {self.effect(name, effects, otherwise)}")
        return self.added(addends)

    def added(self, addends: Sequence[str]) -> str:
        """Join signed addends, of which the first needs no plus."""
        return self.blank.join(addends).removeprefix("+ ") or self.number(0.0)

    def undone(self, score: str) -> str:
        """Write what follows from a sum by a link that knows no other sums."""
        if self.model.link == "exponential":
            return f"{self.exponential}({self.clip(score, -math.inf, HIGHEST_LOG)})"
        return self.clip(score, 0.0, 1.0) if self.model.link == "clip" else score

    def costs(self, chances: Sequence[str], sign: str) -> list[str]:
        """Write the average cost of naming each class; empty if all cost the same."""
        assert self.model.classes is not None
        table, found = self.model.classes.costs, []
        for column in [] if table is None else table.T.tolist():
            pairs = zip(column, chances, strict=True)
            each = [f"{sign} {self.number(cost)} * {of}" for cost, of in pairs if cost]
            found.append(self.added(each))
        return found

    def condition(
        self, conditions: Sequence[LinearSplit | CategorySplit], side: Side
    ) -> str:
        """Write when a row goes to a side."""
        any_of, all_of, no = self.logical
        texts = []
        for split in conditions:
            if isinstance(split, CategorySplit):
                texts.append(self.member(split, side))
                continue
            total = self.sum_of(split.terms)
            text = f"{total} {split.sign(side)} {self.number(split.threshold)}"
            if split.missing_left is not None:
                gap = self.missing(split.terms[0].name)
                if split.missing_left == (side == "left"):
                    text = f"({gap} {any_of} {text})"
                else:
                    text = f"({no} {gap} {all_of} {text})"
            texts.append(text)
        return f" {all_of if side == 'left' else any_of} ".join(texts)
