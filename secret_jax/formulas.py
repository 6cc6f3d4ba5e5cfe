"""What a tree computes, in the units of the data, as values that programs are made of.

`secret_jax.python_code` and `secret_jax.sql_code` write these down in their languages.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from secret_jax.equations import (
    CategorySplit,
    LinearSplit,
    model_in_original_units,
    rounded_model,
    rounded_split,
    split_in_original_units,
)
from secret_jax.tree import Tree

Side = Literal["left", "right"]


class Term(NamedTuple):
    """``factor`` times a column, or times whether a column holds a category.

    Attributes
    ----------
    factor : float
    name : str
        Of the input column.
    is_indicator : bool
    category : object
        Only of an indicator; None: whether the value is missing.
    missing : float or None
        Of a column of numbers that had gaps in training: what a gap counts as.
    is_number : bool
        Whether the column holds numbers.
    """

    factor: float
    name: str
    is_indicator: bool = False
    category: Any = None
    missing: float | None = None
    is_number: bool = True


class Comparison(NamedTuple):
    """A row goes left when the sum of the terms is at most, or least, the threshold.

    Attributes
    ----------
    terms : tuple of Term
    threshold : float
    at_most : bool
    width : float
        0, or the width of a gate; see `secret_jax.equations.LinearSplit`.
    """

    terms: tuple[Term, ...]
    threshold: float
    at_most: bool
    width: float


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
    may_miss : bool
        Whether values were missing in training: None is then a category.
    """

    name: str
    listed: tuple[Any, ...]
    side: Side
    may_miss: bool = False


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
        Rounds as `secret_jax.export.export_text` does; None: all digits, and of splits
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
        side = "right" if split.unseen_left else "left"
        return Membership(split.name, listed, side, None in categories)
    threshold = split.threshold
    if precision is not None:
        split = rounded_split(split, precision)
        threshold = split.threshold
    elif len(split.columns) == 1 and split.width == 0:
        threshold = _exact_threshold(tree, node, split)
    terms = _terms(tree, split.encoded, split.coefficient)
    if split.missing_value is not None:
        terms = (terms[0]._replace(missing=split.missing_value),)
    return Comparison(
        terms,
        threshold,
        split.at_most,
        split.width,
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
    model = model_in_original_units(tree, node)
    if precision is not None:
        model = rounded_model(model, precision)
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
    if tree.clip_leaves:
        return -np.inf, np.inf
    root = model_in_original_units(tree, 0)
    if precision is not None:
        root = rounded_model(root, precision)
    return root.low, root.high


def leaves_under(tree: Tree) -> np.ndarray:
    """Number of leaves under every node, shape (n_nodes,), int64."""
    count = tree.is_leaf.astype(np.int64)
    for node in range(tree.n_nodes - 1, 0, -1):  # children come after their parents
        count[tree.parent[node]] += count[node]
    return count


def other(side: Side) -> Side:
    """The other side."""
    return "right" if side == "left" else "left"


def plain_category(category: Any, name: str) -> str | bool | int | float:
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
    if isinstance(category, bool | int | float):
        return category
    raise TypeError(
        f"Column {name!r} has the category {category!r}, a "
        f"{type(category).__name__}, which cannot be written as code. Turn the column "
        "into text or numbers before fitting."
    )


def _terms(
    tree: Tree, encoded: tuple[int, ...], factor: np.ndarray
) -> tuple[Term, ...]:
    schema = tree.schema
    first = schema.n_regressors - schema.n_indicators
    gaps = {indicator for _, indicator in schema.gap_columns}
    with_gaps = {column for column, _ in schema.missing_shares}
    terms = []
    for position, value in zip(encoded, factor.tolist(), strict=True):
        column = schema.input_columns[position]
        name = schema.names[column]
        if position in gaps:
            terms.append(Term(value, name, True))
        elif first <= position < schema.n_regressors:
            attribute, code = schema.indicators[position - first]
            category = schema.categories[attribute][code]
            terms.append(Term(value, name, True, category, is_number=False))
        else:
            mean = float(schema.center[position]) if column in with_gaps else None
            terms.append(Term(value, name, missing=mean))
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
