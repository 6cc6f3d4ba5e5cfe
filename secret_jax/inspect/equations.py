"""Splits and models of the nodes in the units of the data, and how they are rounded.

Numbers are rounded by what they do, not by how they look: a coefficient is rounded in
steps of ``10**-precision`` of one standard deviation of the target (models) or of the
combination (splits), divided by the standard deviation of its column. What rounds to
nothing is left out. Intercept and threshold are then computed from the rounded
coefficients, so that the printed equation is right where the training data lie.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from secret_jax.tree.structure import SplitKind, Tree

DEFAULT_PRECISION = 3
_MOST_DIGITS = 100  # a float has 17


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearSplit:
    """Compares ``x[columns] @ coefficient`` with a threshold.

    Attributes
    ----------
    columns : tuple of int
        Input columns, the one with the largest effect first.
    names : tuple of str
        Their names.
    encoded : tuple of int
        Their positions among the encoded columns.
    coefficient : ndarray of shape (n_terms,), float64
        In the units of the data; the first one is 1.
    threshold : float
    at_most : bool
        True: left when the sum is at most the threshold; False: when at least.
    width : float
        0: a hard split. Positive: a gate; the share ``1 / (1 + exp(-d))`` of a row goes
        left, with ``d`` its distance from the threshold to the left, over the width.
    center, spread : ndarray of shape (n_terms,), float64
        Mean and standard deviation of the columns in training; the mean stands for
        missing values.
    missing_value : float or None
        What a missing value counts as in place of the mean, if the split is on one
        column and learned a side for its gaps.
    missing_left : bool or None
        That side.
    """

    columns: tuple[int, ...]
    names: tuple[str, ...]
    encoded: tuple[int, ...]
    coefficient: np.ndarray
    threshold: float
    at_most: bool
    width: float
    center: np.ndarray
    spread: np.ndarray
    missing_value: float | None = None
    missing_left: bool | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class CategorySplit:
    """A row goes left when its category is in ``left``.

    Attributes
    ----------
    column : int
        Input column.
    name : str
        Its name.
    left, right : tuple
        The categories of each side, in their sorted order, without those that splits
        further up keep away from the node. None stands for missing values.
    unseen_left : bool
        Whether a category that training never saw goes left.
    """

    column: int
    name: str
    left: tuple[Any, ...]
    right: tuple[Any, ...]
    unseen_left: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearModel:
    """A node's prediction: ``clip(intercept + x[columns] @ slope, low, high)``.

    Attributes
    ----------
    target : str
        Name of the target.
    columns : tuple of int
        Input columns whose slope is not zero, the one with the largest effect first.
    names : tuple of str
        Their names.
    encoded : tuple of int
        Their positions among the encoded columns.
    intercept : float
    slope : ndarray of shape (n_terms,), float64
        In units of the target per unit of the column.
    low, high : float
        Range to which predictions are clipped; infinite if the tree does not clip.
    center, spread : ndarray of shape (n_terms,), float64
        Mean and standard deviation of the columns in training.
    target_spread : float
        Standard deviation of the target in training.
    """

    target: str
    columns: tuple[int, ...]
    names: tuple[str, ...]
    encoded: tuple[int, ...]
    intercept: float
    slope: np.ndarray
    low: float
    high: float
    center: np.ndarray
    spread: np.ndarray
    target_spread: float


def split_in_original_units(tree: Tree, node: int) -> LinearSplit | CategorySplit:
    """The split of an inner node, unrounded, in the units and names of the data.

    Parameters
    ----------
    tree : Tree
    node : int

    Returns
    -------
    LinearSplit or CategorySplit

    Raises
    ------
    ValueError
        If the node does not exist or is a leaf.
    """
    _check_node(tree, node)
    schema, attribute = tree.schema, int(tree.attribute[node])
    if tree.kind[node] == SplitKind.LEAF:
        raise ValueError(
            f"Node {node} is a leaf and has no split; ask for its model instead."
        )
    if tree.kind[node] == SplitKind.DISCRETE:
        column, categories = schema.discrete[attribute], schema.categories[attribute]
        left, right = _reaching_categories(tree, node)
        return CategorySplit(
            column=column,
            name=schema.names[column],
            left=tuple(categories[code] for code in left),
            right=tuple(categories[code] for code in right),
            unseen_left=bool(tree.larger_left[node]),
        )
    effect = np.asarray(tree.direction[node], np.float64)
    missing_value = missing_left = None
    gap = dict(schema.gap_columns).get(attribute)
    if tree.kind[node] == SplitKind.AXIS and gap is not None:
        # The weight of the indicator is what a gap counts as.
        counts_as = float(effect[gap] / effect[attribute])
        missing_left = bool(tree.direction[node, gap] <= tree.threshold[node])
        missing_value = schema.center[attribute] + schema.scale[attribute] * counts_as
        effect[gap] = 0.0
    order = _by_effect(effect)
    columns = tuple(schema.input_columns[position] for position in order)
    center, spread = schema.center[order], schema.scale[order]
    # Dividing by the first coefficient leaves the sum in the units of its column; a
    # negative one turns the inequality round.
    first = effect[order[0]] / spread[0] if len(order) else 1.0
    coefficient = effect[order] / spread / first
    return LinearSplit(
        columns=columns,
        names=tuple(schema.labels[position] for position in order),
        encoded=tuple(order.tolist()),
        coefficient=coefficient,
        threshold=float(tree.threshold[node] / first + coefficient @ center),
        at_most=bool(first > 0),
        width=float(tree.gate_width[node] / abs(first)),
        center=center,
        spread=spread,
        missing_value=None if missing_value is None else float(missing_value),
        missing_left=missing_left,
    )


def model_in_original_units(tree: Tree, node: int) -> LinearModel:
    """The model of a node, unrounded, in the units and names of the data.

    Parameters
    ----------
    tree : Tree
    node : int
        A leaf or an inner node.

    Returns
    -------
    LinearModel

    Raises
    ------
    ValueError
        If the node does not exist.
    """
    _check_node(tree, node)
    schema = tree.schema
    low, high = (float(schema.restore_target(side[node])) for side in tree.clip_range())
    if not tree.clip_leaves:
        low, high = -math.inf, math.inf  # the mixture of the leaves is clipped
    effect = np.asarray(tree.coefficient[node, 1:], np.float64)
    order = _by_effect(effect)
    columns = tuple(schema.input_columns[position] for position in order)
    center, spread = schema.center[order], schema.scale[order]
    slope = effect[order] * schema.target_scale / spread
    at_center = float(schema.restore_target(tree.coefficient[node, 0]))
    return LinearModel(
        target=schema.target_name,
        columns=columns,
        names=tuple(schema.labels[position] for position in order),
        encoded=tuple(order.tolist()),
        intercept=float(at_center - slope @ center),
        slope=slope,
        low=low,
        high=high,
        center=center,
        spread=spread,
        target_spread=schema.target_scale,
    )


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
    if not split.columns:
        return split
    # A row that changes sides moves by more than the rounding, and correlated columns
    # make a sum far narrower than its terms: sums get one digit more.
    digits = checked_precision(precision) + (len(split.columns) > 1)
    effect = split.coefficient * split.spread
    step = 10.0**-digits * float(np.linalg.norm(effect))
    coefficient = _rounded(split.coefficient, step / split.spread)
    coefficient[0] = 1.0
    kept = np.flatnonzero(coefficient)
    shift = (coefficient - split.coefficient) @ split.center
    threshold = float(_rounded(split.threshold + shift, step))
    missing = split.missing_value
    if missing is not None:
        missing = float(_rounded(missing, step))
        if split.missing_left != (
            missing <= threshold if split.at_most else missing >= threshold
        ):  # rounding has moved it to the other side
            missing = split.missing_value
    return replace(
        split,
        missing_value=missing,
        columns=tuple(split.columns[i] for i in kept),
        names=tuple(split.names[i] for i in kept),
        encoded=tuple(split.encoded[i] for i in kept),
        coefficient=coefficient[kept],
        threshold=threshold,
        width=float(f"{split.width:.{checked_precision(precision)}g}"),
        center=split.center[kept],
        spread=split.spread[kept],
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
    step = 10.0 ** -checked_precision(precision) * model.target_spread
    slope = _rounded(model.slope, step / model.spread)
    kept = np.flatnonzero(slope)
    shift = (slope - model.slope) @ model.center
    return replace(
        model,
        columns=tuple(model.columns[i] for i in kept),
        names=tuple(model.names[i] for i in kept),
        encoded=tuple(model.encoded[i] for i in kept),
        intercept=float(_rounded(model.intercept - shift, step)),
        slope=slope[kept],
        low=float(_rounded(model.low, step)),
        high=float(_rounded(model.high, step)),
        center=model.center[kept],
        spread=model.spread[kept],
    )


def _reaching_categories(tree: Tree, node: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes on either side of a discrete split, without those that never get there."""
    attribute = tree.attribute[node]
    reaching = np.ones(len(tree.schema.categories[attribute]), bool)
    goes_left = tree.goes_left[:, : len(reaching)]
    child, parent = node, int(tree.parent[node])
    while parent >= 0:
        same = tree.kind[parent] == SplitKind.DISCRETE
        if same and tree.attribute[parent] == attribute:
            reaching &= goes_left[parent] == (tree.left[parent] == child)
        child, parent = parent, int(tree.parent[parent])
    left = np.flatnonzero(goes_left[node] & reaching)
    right = np.flatnonzero(~goes_left[node] & reaching)
    return left, right


def _by_effect(effect: np.ndarray) -> np.ndarray:
    """Positions of the effects that are not zero, the largest first."""
    order = np.argsort(-np.abs(effect), kind="stable")
    return order[effect[order] != 0]


def _rounded(value: Any, step: Any) -> np.ndarray:
    """Values rounded to the power of ten that is nearest to each step, float64."""
    value, step = np.broadcast_arrays(np.asarray(value, np.float64), step)
    rounded = [
        round(float(v), round(-math.log10(s))) if math.isfinite(v) else float(v)
        for v, s in zip(value.ravel(), step.ravel(), strict=True)
    ]
    return np.array(rounded, np.float64).reshape(value.shape)


def checked_precision(precision: int | None) -> int:
    if precision is None:
        return DEFAULT_PRECISION
    check_count("precision", precision)
    if not 1 <= precision <= _MOST_DIGITS:
        raise ValueError(
            f"precision is {precision}; 1 to {_MOST_DIGITS} digits are possible."
        )
    return int(precision)


def check_count(name: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is {value!r}; give an int or None.")
    if value < 0:
        raise ValueError(f"{name} is {value}; it cannot be negative.")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in choices:
        *first, last = map(repr, choices)
        raise ValueError(f"{name} is {value!r}; choose {', '.join(first)} or {last}.")


def check_text(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}; give text or None.")


def _check_node(tree: Tree, node: int) -> None:
    if isinstance(node, bool) or not isinstance(node, int | np.integer):
        raise TypeError(f"node is {node!r}; give the number of a node.")
    if not 0 <= node < tree.n_nodes:
        raise ValueError(
            f"Node {node} does not exist; the tree has the nodes 0 to "
            f"{tree.n_nodes - 1}."
        )
