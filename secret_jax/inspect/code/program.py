"""What a program is made of in any language: conditions, values and their order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from secret_jax.inspect.code.threshold import exact_threshold
from secret_jax.inspect.equations import (
    CategorySplit,
    LinearModel,
    LinearSplit,
    Side,
    mixture_range,
    model_in_original_units,
    split_in_original_units,
)
from secret_jax.inspect.rounding import rounded_model, rounded_output, rounded_split
from secret_jax.tree.structure import Tree
from secret_jax.tree.totals import leaves_below


@dataclass(frozen=True, eq=False, kw_only=True)
class Program:
    """A tree in the units of the data, with the numbers that are written.

    Attributes
    ----------
    splits : dict of int to LinearSplit or CategorySplit
        Of the inner nodes.
    models : dict of int to LinearModel
        Of the leaves. One without terms is a plain number, already clipped.
    low, high : float
        To which the mixture of the leaves is clipped; infinite where each leaf is.
    """

    splits: dict[int, LinearSplit | CategorySplit]
    models: dict[int, LinearModel]
    low: float
    high: float


class Step(NamedTuple):
    """A line of a program of nested decisions.

    Attributes
    ----------
    depth : int
        Of nesting.
    nested : {"left", "right"} or None
        The side that is nested in the node's condition; None for leaves.
    first : bool
        Whether the step begins a block of its own depth.
    """

    node: int
    depth: int
    nested: Side | None
    first: bool


def program_of(tree: Tree, precision: int | None = None) -> Program:
    """What is written down of a tree.

    Parameters
    ----------
    precision : int, optional
        Rounds as `secret_jax.inspect.text.export_text` does; None: all digits, and of
        hard splits on one column the very number at which the tree, in float32, changes
        sides, or the whole number that the column's rows hold.
    """
    low, high = mixture_range(tree)
    if precision is not None:
        spread = tree.schema.target_scale
        low, high = (rounded_output(v, spread, precision) for v in (low, high))
    nodes = range(tree.n_nodes)
    return Program(
        splits={n: _split(tree, n, precision) for n in nodes if not tree.is_leaf[n]},
        models={n: _model(tree, n, precision) for n in nodes if tree.is_leaf[n]},
        low=low,
        high=high,
    )


def _split(tree: Tree, node: int, precision: int | None) -> LinearSplit | CategorySplit:
    split = split_in_original_units(tree, node)
    if isinstance(split, CategorySplit):
        return split
    if precision is not None:
        return rounded_split(split, precision)
    first, *others = split.terms
    if others or split.width > 0:
        return split
    printed = rounded_split(split)
    if first.whole and printed.threshold.is_integer():
        return replace(split, threshold=printed.threshold)
    return replace(split, threshold=exact_threshold(tree, node, split))


def _model(tree: Tree, node: int, precision: int | None) -> LinearModel:
    model = model_in_original_units(tree, node)
    if precision is not None:
        model = rounded_model(model, precision)
    if model.terms:
        return model
    constant = min(max(model.intercept, model.low), model.high)
    return replace(model, intercept=constant, low=-math.inf, high=math.inf)


def decisions(tree: Tree) -> Iterator[Step]:
    """The nodes in the order of a program: of two sides the smaller one is nested.

    The larger side follows it, at the depth of its parent. So the nesting grows with
    the logarithm of the number of leaves at most.
    """
    n_leaves = leaves_below(tree)
    stack = [(0, 0, True)]
    while stack:
        node, depth, first = stack.pop()
        left, right = int(tree.left[node]), int(tree.right[node])
        if tree.is_leaf[node]:
            yield Step(node, depth, None, first)
        elif n_leaves[left] <= n_leaves[right]:
            yield Step(node, depth, "left", first)
            stack += [(right, depth, False), (left, depth + 1, True)]
        else:
            yield Step(node, depth, "right", first)
            stack += [(left, depth, False), (right, depth + 1, True)]


def plain_category(category: Any, name: str) -> str | bool | int | float | None:
    """A category as a plain value that can be written in any language.

    Raises
    ------
    TypeError
        If it is neither text nor a number nor a truth value.
    """
    if isinstance(category, np.generic):
        category = category.item()
    if isinstance(category, str):
        return str.__str__(category)
    if category is None or isinstance(category, bool | int | float):
        return category
    raise TypeError(
        f"Column {name!r} has the category {category!r}, a "
        f"{type(category).__name__}, which cannot be written as code. Turn the column "
        "into text or numbers before fitting."
    )
