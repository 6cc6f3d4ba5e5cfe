"""Content of exported programs in any language: splits, models, order of nodes."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.schema import FAR, TableSchema
from secret_jax.inspect.classes import Classes
from secret_jax.inspect.equations import (
    AnySplit,
    CategorySplit,
    Conjunction,
    LinearModel,
    LinearSplit,
    Term,
    conditions_at,
    mixture_range,
    model_in_original_units,
)
from secret_jax.losses.interface import Link, Loss
from secret_jax.tree.structure import SplitKind, Tree
from secret_jax.tree.totals import Side, leaves_below


class Levels(NamedTuple):
    """What a column of categories adds to a sum: by category, or else ``otherwise``."""

    name: str
    effects: dict[Any, float]
    otherwise: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Program:
    """Splits and leaf models of a tree of one output, with the numbers of a program.

    A model without terms is a plain number, already clipped. The mixture of the leaves
    is clipped to ``low`` and ``high``, which are infinite where each leaf is.
    """

    tree: Tree
    splits: dict[int, AnySplit]
    models: dict[int, LinearModel]
    low: float
    high: float


class ExportedModel(NamedTuple):
    """Trees that add up, and the meaning of their sums.

    ``trees`` are lists of their outputs, to each of which one of the ``constants`` is
    added. Of ``classes``, or of one ``only``, probabilities are predicted.
    """

    title: str
    trees: list[list[Program]]
    constants: tuple[float, ...]
    loss: Loss
    classes: Classes | None
    only: int | None

    @property
    def schema(self) -> TableSchema:
        """Columns, which all trees share."""
        return self.trees[0][0].tree.schema

    @property
    def link(self) -> Link:
        """What turns sums into predictions."""
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


def program_of(tree: Tree) -> Program:
    """Convert a tree of one output to the numbers that are written.

    With all digits, and of hard splits on one column the very number at which the tree,
    in float32, changes sides.
    """
    low, high = mixture_range(tree)
    splits: dict[int, AnySplit] = {}
    models: dict[int, LinearModel] = {}
    for node, leaf in enumerate(tree.is_leaf.tolist()):
        if leaf:
            models[node] = _model(tree, node)
            continue
        parts = conditions_at(tree, node)
        first, *more = (_comparison(part, node, one) for part, one in parts)
        joined = tree.kind[node] == SplitKind.CONJUNCTION
        splits[node] = Conjunction(conditions=(first, *more)) if joined else first
    return Program(tree=tree, splits=splits, models=models, low=low, high=high)


def _comparison(
    tree: Tree, node: int, split: LinearSplit | CategorySplit
) -> LinearSplit | CategorySplit:
    if isinstance(split, CategorySplit):
        return split
    if len(split.terms) > 1 or split.width > 0:
        return split
    return replace(split, threshold=_exact_threshold(tree, node, split))


def _model(tree: Tree, node: int) -> LinearModel:
    model = model_in_original_units(tree, node)
    if model.terms:
        return model
    constant = min(max(model.intercept, model.low), model.high)
    return replace(model, intercept=constant, low=-math.inf, high=math.inf)


def _exact_threshold(tree: Tree, node: int, split: LinearSplit) -> float:
    """Find the last float64 value of a split's one column that the tree sends left."""
    (term,) = split.terms
    direction = tree.direction[node, term.position]
    sign = 1.0 if split.at_most else -1.0

    def value(rank: int) -> float:
        # The bits of a float, read as an integer, are in the order of its size.
        return math.copysign(float(np.int64(abs(rank)).view(np.float64)), rank)

    def goes_right(rank: int) -> bool:
        with np.errstate(over="ignore"):
            scaled = (sign * value(rank) - term.center) / term.spread
            scaled = np.float32(np.clip(scaled, -FAR, FAR))
            return not direction * scaled <= tree.threshold[node]

    most = int(np.finfo(np.float64).max.view(np.int64))
    ranks = range(-most, 0) if goes_right(0) else range(most + 1)
    first = bisect_left(ranks, True, key=goes_right)
    return sign * value(ranks[max(first - 1, 0)])


def unknown_values(schema: TableSchema) -> np.ndarray:
    """What encoded columns count as where a value is missing, or was never seen.

    Of numbers that is 0, their mean, and of indicators of categories the share of the
    rows; programs of all kinds ask it here.
    """
    values = np.zeros(schema.n_columns)
    first = schema.n_regressors - schema.n_indicators
    values[first : first + len(schema.indicator_shares)] = schema.indicator_shares
    values[[indicator for _, indicator in schema.missing_columns]] = 1.0
    return values


def split_sum(
    schema: TableSchema, terms: Sequence[Term]
) -> tuple[list[Term], list[Levels]]:
    """Part a sum into terms of numbers, or of gaps in them, and columns of categories.

    Of these what is not listed adds nothing, or all that are known are listed.
    """
    numbers = [term for term in terms if term.asks != "category"]
    of_column: dict[str, list[Term]] = {}
    for term in terms:
        if term.asks == "category":
            of_column.setdefault(term.name, []).append(term)
    unknown, levels = unknown_values(schema), []
    for name, its in of_column.items():
        otherwise = float(sum(term.factor * unknown[term.position] for term in its))
        known = plain_categories(schema, name) if otherwise else []
        effects = dict.fromkeys(known, 0.0)
        effects |= {plain_category(term.category, name): term.factor for term in its}
        levels.append(Levels(name, effects, otherwise))
    return numbers, levels


def decisions(tree: Tree) -> Iterator[tuple[int, int, Side | None, bool]]:
    """Order the nodes for nested decisions: of two sides the smaller one is nested.

    The larger one follows at the depth of its parent, so nesting grows as the logarithm
    of the number of leaves. Each node comes with its depth of nesting, the side that is
    nested (None: a leaf), and whether it begins a block of its depth.
    """
    n_leaves = leaves_below(tree)
    stack = [(0, 0, True)]
    while stack:
        node, depth, first = stack.pop()
        if tree.is_leaf[node]:
            yield node, depth, None, first
            continue
        sides: dict[Side, int] = {"left": int(tree.left[node])}
        sides["right"] = int(tree.right[node])
        nested = min(sides, key=lambda side: n_leaves[sides[side]])
        yield node, depth, nested, first
        larger: Side = "right" if nested == "left" else "left"
        stack += [(sides[larger], depth, False), (sides[nested], depth + 1, True)]


def plain_categories(schema: TableSchema, name: str) -> list[Any]:
    """Convert the categories of a column to plain values, None for missing ones."""
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
