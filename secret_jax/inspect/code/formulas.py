"""What a tree computes, in the units of the data, as values that programs are made of.

`secret_jax.inspect.code.python` and `secret_jax.inspect.code.sql` write these down in their languages.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from secret_jax.inspect.equations import (
    CategorySplit,
    LinearModel,
    LinearSplit,
    model_in_original_units,
    rounded_model,
    rounded_split,
    split_in_original_units,
)
from secret_jax.tree.structure import Tree

Side = Literal["left", "right"]


class Term(NamedTuple):
    """``factor`` times a column, or times whether it holds a category, or a gap.

    Attributes
    ----------
    factor : float
    name : str
        Of the input column.
    asks : {"number", "category", "gap"}
    category : object
        Only where a category is asked for; None is that of missing values.
    mean : float or None
        What a missing number counts as; None where it is an error.
    """

    factor: float
    name: str
    asks: Literal["number", "category", "gap"] = "number"
    category: Any = None
    mean: float | None = None


class Comparison(NamedTuple):
    """A row goes left when the sum of the terms is at most, or least, the threshold.

    Attributes
    ----------
    terms : tuple of Term
    threshold : float
    at_most : bool
    width : float
        0, or the width of a gate.
    missing_value : float or None
    missing_left : bool or None
        As in `secret_jax.inspect.equations.LinearSplit`, where they are explained: the side of
        a missing value at a hard split on one column, its value at a gate.
    """

    terms: tuple[Term, ...]
    threshold: float
    at_most: bool
    width: float
    missing_value: float | None = None
    missing_left: bool | None = None


class Membership(NamedTuple):
    """A row goes to one side when its category is listed, else to the other.

    The larger side is the other one, so that unseen categories go there.

    Attributes
    ----------
    name : str
        Of the input column.
    listed : tuple
        Categories.
    side : {"left", "right"}
        Where the listed ones go.
    missing_side : {"left", "right"} or None
        Where missing values go; None where they are errors.
    """

    name: str
    listed: tuple[Any, ...]
    side: Side
    missing_side: Side | None = None


class Value(NamedTuple):
    """``clip(constant + sum of the terms, low, high)``; without terms a plain number.

    Attributes
    ----------
    constant : float
    terms : tuple of Term
    low, high : float
        Infinite where nothing is clipped.
    """

    constant: float
    terms: tuple[Term, ...]
    low: float
    high: float


def split_formula(
    tree: Tree, node: int, precision: int | None = None
) -> Comparison | Membership:
    """What an inner node asks of a row.

    Parameters
    ----------
    tree : Tree
    node : int
    precision : int, optional
        Rounds as `secret_jax.inspect.text.export_text` does; None: all digits, and of splits
        on one column the very number at which the tree, in float32, changes sides.

    Returns
    -------
    Comparison or Membership
    """
    split = split_in_original_units(tree, node)
    if isinstance(split, CategorySplit):
        # Not those that ancestors keep away only: they are what unseen ones are not.
        attribute = tree.attribute[node]
        categories = tree.schema.categories[attribute]
        to_left = tree.goes_left[node, : len(categories)]
        chosen = np.flatnonzero(to_left != tree.larger_left[node])
        listed = tuple(categories[code] for code in chosen)
        side: Side = "right" if split.unseen_left else "left"
        missing = side if None in listed else other(side)
        allowed = tree.schema.allow_missing
        return Membership(split.name, listed, side, missing if allowed else None)
    threshold = split.threshold
    if precision is not None:
        split = rounded_split(split, precision)
        threshold = split.threshold
    elif len(split.columns) == 1 and split.width == 0:
        threshold = _exact_threshold(tree, node, split)
    return Comparison(
        _terms(tree, split.encoded, split.coefficient),
        threshold,
        split.at_most,
        split.width,
        split.missing_value,
        split.missing_left,
    )


def model_formula(tree: Tree, node: int, precision: int | None = None) -> Value:
    """What a node predicts; clipped, unless only the mixture of the leaves is.

    Parameters
    ----------
    tree : Tree
    node : int
    precision : int, optional

    Returns
    -------
    Value
    """
    model = _clipped_model(tree, node, precision)
    low, high = model.low, model.high
    if tree.is_soft and not tree.clip_leaves:
        low, high = -np.inf, np.inf
    terms = _terms(tree, model.encoded, model.slope)
    if terms:
        return Value(model.intercept, terms, low, high)
    constant = min(max(model.intercept, low), high)
    return Value(constant, (), -np.inf, np.inf)


def mixture_range(tree: Tree, precision: int | None = None) -> tuple[float, float]:
    """To which the mixture of the leaves of a soft tree is clipped, or infinities."""
    if not tree.is_soft or tree.clip_leaves:
        return -np.inf, np.inf
    root = _clipped_model(tree, 0, precision)
    return root.low, root.high


def _clipped_model(tree: Tree, node: int, precision: int | None) -> LinearModel:
    """A node's model with the node's own range, whatever is clipped."""
    low, high = (float(tree.schema.restore_target(s[node])) for s in tree.clip_range())
    model = replace(model_in_original_units(tree, node), low=low, high=high)
    return model if precision is None else rounded_model(model, precision)


def leaves_under(tree: Tree) -> np.ndarray:
    """Number of leaves under every node, shape (n_nodes,), int64."""
    count = tree.is_leaf.astype(np.int64)
    for node in range(tree.n_nodes - 1, 0, -1):  # children come after their parents
        count[tree.parent[node]] += count[node]
    return count


def other(side: Side) -> Side:
    """The other side."""
    return "right" if side == "left" else "left"


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


def _terms(tree: Tree, encoded: tuple[int, ...], factor: np.ndarray):
    schema = tree.schema
    categories = range(schema.n_regressors - schema.n_indicators, schema.n_regressors)
    categories = dict(zip(categories, schema.indicators, strict=False))
    gaps = {gap for _, gap in schema.gap_columns}
    terms = []
    for position, value in zip(encoded, factor.tolist(), strict=True):
        name = schema.names[schema.input_columns[position]]
        if position in categories:
            attribute, code = categories[position]
            category = schema.categories[attribute][code]
            terms.append(Term(value, name, "category", category))
        elif position in gaps:
            terms.append(Term(value, name, "gap"))
        else:
            mean = float(schema.center[position]) if schema.allow_missing else None
            terms.append(Term(value, name, mean=mean))
    return tuple(terms)


def _exact_threshold(tree: Tree, node: int, split: LinearSplit) -> float:
    """The last value of the column, in float64, that the tree sends to the left."""
    direction = tree.direction[node, split.encoded[0]]
    center, spread = split.center[0], split.spread[0]

    def goes_left(value: float) -> bool:
        with np.errstate(over="ignore"):
            scaled = np.clip((value - center) / spread, -1e30, 1e30)
            return bool(direction * np.float32(scaled) <= tree.threshold[node])

    if split.at_most:
        return _last(goes_left)
    return -_last(lambda value: goes_left(-value))


def _last(holds: Callable[[float], bool]) -> float:
    """Largest float for which a condition holds that holds for all smaller ones."""
    # The bits of a float, read as an integer, are in the order of its size.
    most = struct.unpack("<q", struct.pack("<d", np.finfo(np.float64).max))[0]
    low, high = -most, most
    while low < high:
        middle = (low + high + 1) // 2
        if holds(_float_of(middle)):
            low = middle
        else:
            high = middle - 1
    return _float_of(low)


def _float_of(rank: int) -> float:
    size = struct.unpack("<d", struct.pack("<q", abs(rank)))[0]
    return size if rank >= 0 else -size
