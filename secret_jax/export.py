"""The fitted tree in words: splits and leaf equations in the units of the data.

Numbers are rounded by what they do, not by how they look: a coefficient is rounded in
steps of ``10**-precision`` of one standard deviation of the target (models) or of the
combination (splits), divided by the standard deviation of its column. What rounds to
nothing is left out. Intercept and threshold are then computed from the rounded
coefficients, so that the printed equation is right where the training data lie.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from secret_jax.tree import SplitKind, StopReason, Tree

DEFAULT_PRECISION = 3
_WIDTH = 100
_PLAIN_WORDS = re.compile(r"[^\W\d][\w.]*(?: \w[\w.]*)*")


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearSplit:
    """Compares ``x[columns] @ coefficient`` with a threshold.

    Attributes
    ----------
    columns : tuple of int
        Input columns, the one with the largest effect first.
    names : tuple of str
        Their names.
    coefficient : ndarray of shape (n_terms,), float64
        In the units of the data; the first one is 1.
    threshold : float
    at_most : bool
        True: left when the sum is at most the threshold; False: when at least.
    center, spread : ndarray of shape (n_terms,), float64
        Mean and standard deviation of the columns in training.
    """

    columns: tuple[int, ...]
    names: tuple[str, ...]
    coefficient: np.ndarray
    threshold: float
    at_most: bool
    center: np.ndarray
    spread: np.ndarray


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
        The categories of each side, in their sorted order.
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
        sides = tree.goes_left[node]
        return CategorySplit(
            column=column,
            name=schema.names[column],
            left=tuple(c for code, c in enumerate(categories) if sides[code]),
            right=tuple(c for code, c in enumerate(categories) if not sides[code]),
            unseen_left=bool(tree.larger_left[node]),
        )
    effect = np.asarray(tree.direction[node], np.float64)
    order = _by_effect(effect)
    columns = tuple(schema.continuous[position] for position in order)
    center, spread = schema.center[order], schema.scale[order]
    # Dividing by the first coefficient leaves the sum in the units of its column; a
    # negative one turns the inequality round.
    first = effect[order[0]] / spread[0] if len(order) else 1.0
    coefficient = effect[order] / spread / first
    return LinearSplit(
        columns=columns,
        names=tuple(schema.names[column] for column in columns),
        coefficient=coefficient,
        threshold=float(tree.threshold[node] / first + coefficient @ center),
        at_most=bool(first > 0),
        center=center,
        spread=spread,
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
    effect = np.asarray(tree.coefficient[node, 1:], np.float64)
    order = _by_effect(effect)
    columns = tuple(schema.continuous[position] for position in order)
    center, spread = schema.center[order], schema.scale[order]
    slope = effect[order] * schema.target_scale / spread
    at_center = float(schema.restore_target(tree.coefficient[node, 0]))
    return LinearModel(
        target=schema.target_name,
        columns=columns,
        names=tuple(schema.names[column] for column in columns),
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
    effect = split.coefficient * split.spread
    step = 10.0 ** -_checked_precision(precision) * float(np.linalg.norm(effect))
    coefficient = _rounded(split.coefficient, step / split.spread)
    coefficient[0] = 1.0
    kept = np.flatnonzero(coefficient)
    shift = (coefficient - split.coefficient) @ split.center
    return replace(
        split,
        columns=tuple(split.columns[i] for i in kept),
        names=tuple(split.names[i] for i in kept),
        coefficient=coefficient[kept],
        threshold=float(_rounded(split.threshold + shift, step)),
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
    step = 10.0 ** -_checked_precision(precision) * model.target_spread
    slope = _rounded(model.slope, step / model.spread)
    kept = np.flatnonzero(slope)
    shift = (slope - model.slope) @ model.center
    return replace(
        model,
        columns=tuple(model.columns[i] for i in kept),
        names=tuple(model.names[i] for i in kept),
        intercept=float(_rounded(model.intercept - shift, step)),
        slope=slope[kept],
        low=float(_rounded(model.low, step)),
        high=float(_rounded(model.high, step)),
        center=model.center[kept],
        spread=model.spread[kept],
    )


def split_sentence(
    tree: Tree,
    node: int,
    *,
    precision: int | None = None,
    max_categories: int | None = 8,
    side: Literal["left", "right"] = "left",
) -> str:
    """The condition under which a row goes to one side of a split.

    Parameters
    ----------
    tree : Tree
    node : int
        An inner node.
    precision : int, optional
        Significant digits relative to the effect; 3 by default.
    max_categories : int or None
        Longer lists of categories are replaced by the other side's, if that is short,
        or abbreviated; None: never.
    side : {"left", "right"}

    Returns
    -------
    str
        For example ``"length - 2.26 weight <= 3.1"`` or ``"sex in {F, M}"``.

    Raises
    ------
    ValueError
        If the node does not exist or is a leaf.
    """
    return " ".join(_split_chunks(tree, node, precision, max_categories, side))


def model_equation(
    tree: Tree,
    node: int,
    *,
    precision: int | None = None,
    max_terms: int | None = None,
) -> str:
    """The equation of a node's model, its terms sorted by the size of their effect.

    Parameters
    ----------
    tree : Tree
    node : int
        A leaf or an inner node.
    precision : int, optional
        Significant digits relative to the effect; 3 by default.
    max_terms : int, optional
        Terms that are shown; an ellipsis stands for the others.

    Returns
    -------
    str
        For example ``"rings = 2.31 + 12.1 shell_weight - 3.2 height"``.

    Raises
    ------
    ValueError
        If the node does not exist.
    """
    return " ".join(_model_chunks(tree, node, precision, max_terms))


def export_text(
    tree: Tree,
    *,
    max_depth: int | None = None,
    precision: int | None = None,
    show_models: Literal["leaves", "all", "none"] = "leaves",
    max_categories: int | None = 8,
) -> str:
    """The tree as indented text, in the units and column names of the data.

    Parameters
    ----------
    tree : Tree
    max_depth : int, optional
        Deepest level that is shown; inner nodes on it are shown with their own model.
    precision : int, optional
        Significant digits relative to the effect, 3 by default: a coefficient is
        rounded in steps of ``10**-precision`` of the target's standard deviation, over
        one standard deviation of its column. 16 prints all digits there are.
    show_models : {"leaves", "all", "none"}
        The nodes whose equation is printed.
    max_categories : int or None
        Longer lists of categories are replaced by the other side's, if that is short,
        or abbreviated; None: never.

    Returns
    -------
    str
        The numbers in brackets are those of the nodes, as `apply` gives them. ``error``
        is the root mean squared error on the node's training rows, in units of the
        target. Rows are counted with their weights.

    Raises
    ------
    TypeError, ValueError
        If an option is not what it should be.
    """
    _check_level("max_depth", max_depth)
    _check_level("max_categories", max_categories)
    _checked_precision(precision)
    if show_models not in ("leaves", "all", "none"):
        raise ValueError(
            f"show_models is {show_models!r}; choose 'leaves', 'all' or 'none'."
        )
    leaves = counted(tree.n_leaves, "leaf", "leaves")
    lines = [
        f"{tree.schema.target_name}: a tree of {leaves}, depth {tree.max_depth}, "
        f"grown on {rows_text(tree.weight[0])}",
        "[n]: node n; error: root mean squared error on the training rows",
        "",
    ]

    def write(node: int, indent: str) -> None:
        leaf = bool(tree.is_leaf[node])
        cut = not leaf and tree.depth[node] == max_depth
        label = f"[{node}] "
        if show_models == "all" or ((leaf or cut) and show_models == "leaves"):
            chunks = _model_chunks(tree, node, precision, None)
            lines.extend(_wrapped(chunks, indent, label))
            label = " " * len(label)
        if leaf or cut or show_models == "all":
            lines.append(indent + label + node_facts(tree, node, precision))
            label = " " * len(label)
        if leaf:
            reason = StopReason(int(tree.stop_reason[node])).sentence
            lines.append(f"{indent}{label}leaf: {reason}")
        elif cut:
            below = counted(leaves_below(tree, node), "leaf", "leaves")
            lines.append(f"{indent}{label}... {below} below")
        else:
            for word, side in (("if", "left"), ("else", "right")):
                chunks = _split_chunks(tree, node, precision, max_categories, side)
                if (
                    word == "else"
                    and len(chunks) > 3
                    and tree.kind[node] == SplitKind.OBLIQUE
                ):
                    chunks = [f"({chunks[-1]})"]  # once is enough for a long sum
                lines.extend(_wrapped(chunks, indent, f"[{node}] {word} "))
                write(int(getattr(tree, side)[node]), indent + "|   ")

    write(0, "")
    return "\n".join(lines) + "\n"


def node_facts(tree: Tree, node: int, precision: int | None = None) -> str:
    """Rows, share, error and clipping range of a node, in one line."""
    share = 100 * float(tree.weight[node] / tree.weight[0])
    facts = [
        f"{rows_text(tree.weight[node])} ({number(_digits(share, 3))} %)",
        f"error {number(root_mean_squared_error(tree, node))}",
    ]
    model = rounded_model(model_in_original_units(tree, node), precision)
    if model.columns and math.isfinite(model.low):
        facts.append(f"clipped to [{number(model.low)}, {number(model.high)}]")
    return ", ".join(facts)


def root_mean_squared_error(tree: Tree, node: int) -> float:
    """Training error of a node in units of the target, to three digits."""
    error = math.sqrt(max(float(tree.train_error[node]), 0.0))
    return _digits(error * tree.schema.target_scale, 3)


def leaves_below(tree: Tree, node: int) -> int:
    """Number of leaves under a node."""
    if tree.is_leaf[node]:
        return 1
    return sum(leaves_below(tree, int(side[node])) for side in (tree.left, tree.right))


def rows_text(weight: float) -> str:
    """A number of rows, or the sum of their weights, in words.

    Examples
    --------
    >>> rows_text(1203.0), rows_text(1.0), rows_text(2.5)
    ('1,203 rows', '1 row', '2.5 rows')
    """
    whole = round(float(weight))
    if math.isclose(whole, weight, rel_tol=1e-6):
        return counted(whole, "row", "rows")
    return f"{float(weight):,.1f} rows"


def counted(n: int, one: str, many: str) -> str:
    """A count with its noun."""
    return f"{n:,} {one if n == 1 else many}"


def number(value: float) -> str:
    """The shortest decimal that is this number.

    Examples
    --------
    >>> [number(v) for v in (1200.0, 0.05, -2.5e-7, 3e12)]
    ['1200', '0.05', '-2.5e-7', '3e+12']
    """
    if value == 0 or 1e-4 <= abs(value) < 1e7:
        return np.format_float_positional(value + 0.0, trim="-")
    return np.format_float_scientific(value, trim="-", exp_digits=1)


def quoted(name: Any) -> str:
    """A column or category as it is printed: in quotes unless it is plain words.

    Examples
    --------
    >>> [quoted(name) for name in ("shell weight", "a - b", 2.0, True, "2")]
    ['shell weight', "'a - b'", '2', 'True', "'2'"]
    """
    if isinstance(name, str):
        return name if _PLAIN_WORDS.fullmatch(name) else repr(name)
    is_number = isinstance(name, int | float) and not isinstance(name, bool)
    return number(float(name)) if is_number else str(name)


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


def _digits(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def _split_chunks(
    tree: Tree,
    node: int,
    precision: int | None,
    max_categories: int | None,
    side: str,
) -> list[str]:
    """A split's condition in pieces between which a line may break."""
    if side not in ("left", "right"):
        raise ValueError(f"side is {side!r}; choose 'left' or 'right'.")
    split = split_in_original_units(tree, node)
    if isinstance(split, CategorySplit):
        sides = (split.left, split.right)
        own, other = sides if side == "left" else sides[::-1]
        return list(_membership(quoted(split.name), own, other, max_categories))
    split = rounded_split(split, precision)
    left_sign, right_sign = ("<=", ">") if split.at_most else (">=", "<")
    sign = left_sign if side == "left" else right_sign
    terms = _terms(split.coefficient, split.names)
    return [*terms, f"{sign} {number(split.threshold)}"]


def _membership(
    name: str, own: tuple, other: tuple, max_categories: int | None
) -> Iterator[str]:
    most = len(own) if max_categories is None else max_categories
    inverted = len(own) > most >= len(other)
    listed = other if inverted else own
    items = [quoted(category) for category in listed[:most]]
    if len(listed) > most:
        items.append(f"... {len(listed) - most} more")
    yield f"{name} {'not in' if inverted else 'in'} {{{', '.join(items[:1])}" + (
        "," if len(items) > 1 else "}"
    )
    for item in items[1:-1]:
        yield item + ","
    if len(items) > 1:
        yield items[-1] + "}"


def _model_chunks(
    tree: Tree, node: int, precision: int | None, max_terms: int | None
) -> list[str]:
    """A model's equation in pieces between which a line may break."""
    model = rounded_model(model_in_original_units(tree, node), precision)
    values = np.concatenate([[model.intercept], model.slope])
    terms = _terms(values, ("", *model.names))
    hidden = len(model.names) - (len(model.names) if max_terms is None else max_terms)
    if hidden > 0:
        terms = [*terms[:-hidden], "+ ..."]
    return [f"{quoted(model.target)} =", *terms]


def _terms(values: np.ndarray, names: tuple[str, ...]) -> list[str]:
    """Signed terms; the empty name stands for a constant, left out where it is 0."""
    terms = []
    for value, name in zip(values.tolist(), names, strict=True):
        if not name and value == 0 and len(names) > 1:
            continue
        sign = ("-" if value < 0 else "") if not terms else "- " if value < 0 else "+ "
        size = number(abs(value))
        factor = size if not name else "" if size == "1" else size + " "
        terms.append(sign + factor + (quoted(name) if name else ""))
    return terms or ["0"]


def _wrapped(chunks: list[str], indent: str, label: str) -> list[str]:
    """Lines of at most the text width, broken between chunks."""
    lines, hanging = [indent + label + chunks[0]], indent + " " * (len(label) + 2)
    for chunk in chunks[1:]:
        if len(lines[-1]) + 1 + len(chunk) <= _WIDTH:
            lines[-1] += " " + chunk
        else:
            lines.append(hanging + chunk)
    return lines


def _checked_precision(precision: int | None) -> int:
    if precision is None:
        return DEFAULT_PRECISION
    _check_level("precision", precision)
    if precision < 1:
        raise ValueError(f"precision is {precision}; at least 1 digit is needed.")
    return int(precision)


def _check_level(name: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is {value!r}; give an int or None.")
    if value < 0:
        raise ValueError(f"{name} is {value}; it cannot be negative.")


def _check_node(tree: Tree, node: int) -> None:
    if not 0 <= node < tree.n_nodes:
        raise ValueError(
            f"Node {node} does not exist; the tree has the nodes 0 to "
            f"{tree.n_nodes - 1}."
        )
