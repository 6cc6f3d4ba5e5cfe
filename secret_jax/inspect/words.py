"""Splits, models and sizes of the nodes in words.

The picture and the explanations say the same as the text because all of them ask here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from secret_jax.inspect.equations import (
    CategorySplit,
    LinearSplit,
    model_in_original_units,
    rounded_model,
    rounded_split,
    split_in_original_units,
)
from secret_jax.tree.structure import SplitKind, Tree

# What cannot be taken for a number, an operator or the end of a list.
_PLAIN_WORDS = re.compile(r"(?!.* - )[^\W\d][^\s{}<>=+,'\"]*(?: [^\s{}<>=+,'\"]+)*")


def split_sentence(
    tree: Tree,
    node: int,
    *,
    precision: int | None = None,
    max_terms: int | None = None,
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
    max_terms : int, optional
        Terms that are shown; an ellipsis stands for the others.
    max_categories : int or None
        Longer lists of categories are replaced by the other side's, if that is short,
        or abbreviated; None: never.
    side : {"left", "right"}

    Returns
    -------
    str
        For example ``"length - 2.26 weight <= 3.1"`` or ``"sex in {F, M}"``, of a gate
        ``"length <= 3.1 (soft, width 0.2)"``, and where values were missing ``"length
        <= 3.1 or missing"`` or ``"length is missing"``.

    Raises
    ------
    ValueError
        If the node does not exist or is a leaf.
    """
    return " ".join(
        split_parts(
            tree,
            node,
            precision=precision,
            max_terms=max_terms,
            max_categories=max_categories,
            side=side,
        )
    )


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
    return " ".join(model_parts(tree, node, precision=precision, max_terms=max_terms))


def split_parts(
    tree: Tree,
    node: int,
    *,
    precision: int | None = None,
    max_terms: int | None = None,
    max_categories: int | None = 8,
    side: Literal["left", "right"] = "left",
) -> list[str]:
    """The words of `split_sentence` in parts between which a line may break."""
    if side not in ("left", "right"):
        raise ValueError(f"side is {side!r}; choose 'left' or 'right'.")
    split = split_in_original_units(tree, node)
    if isinstance(split, CategorySplit):
        sides = (split.left, split.right)
        own, other = sides if side == "left" else sides[::-1]
        return list(_membership(quoted(split.name), own, other, max_categories))
    if _asks_for_gaps(tree, node):
        name = quoted(tree.schema.names[split.columns[0]])
        missing = (side == "left") == (not split.at_most)
        return [f"{name} is {'' if missing else 'not '}missing"]
    split = rounded_split(split, precision)
    left_sign, right_sign = ("<=", ">") if split.at_most else (">=", "<")
    sign = left_sign if side == "left" else right_sign
    terms = _terms(split.coefficient, split.names)
    if max_terms is not None and len(terms) > max_terms:
        terms = [*terms[:max_terms], "+ ..."]
    return [*terms, f"{sign} {number(split.threshold)}{_remark(split, side)}"]


def _remark(split: LinearSplit, side: str) -> str:
    """What there is to say of gaps and of a gate's width."""
    if split.width > 0:
        known = split.missing_value
        missing = "" if known is None else f", missing as {number(known)}"
        return f" (soft, width {number(split.width)}{missing})"
    if split.missing_left is None:
        return ""
    return " or missing" if split.missing_left == (side == "left") else ""


def _asks_for_gaps(tree: Tree, node: int) -> bool:
    """Whether a split tells the gaps of one column from its values."""
    indicators = {indicator for _, indicator in tree.schema.gap_columns}
    hard_axis = tree.kind[node] == SplitKind.AXIS and tree.gate_width[node] == 0
    return bool(hard_axis and int(tree.attribute[node]) in indicators)


def gap_facts(tree: Tree) -> str:
    """What missing numbers count as in sums; empty if none were missing."""
    schema = tree.schema
    means = []
    for column, share in schema.missing_shares:
        mean = number(_digits(schema.center[schema.position_of(column)], 4))
        percent = number(_digits(100 * share, 2))
        means.append(f"{quoted(schema.names[column])} {mean} ({percent} % missing)")
    if not means:
        return ""
    more = f" and {len(means) - 8} more" if len(means) > 8 else ""
    return "missing numbers count as means in sums: " + ", ".join(means[:8]) + more


def _membership(
    name: str, own: tuple, other: tuple, max_categories: int | None
) -> Iterator[str]:
    most = len(own) if max_categories is None else max_categories
    inverted = len(own) > most >= len(other)
    listed = other if inverted else own
    items = [quoted(category) for category in listed[:most]]
    if len(listed) > most:
        items.append(f"... {len(listed) - most} more")
    yield f"{name} {'not in' if inverted else 'in'}"
    for i, item in enumerate(items or [""]):
        first, last = i == 0, i >= len(items) - 1
        yield ("{" if first else "") + item + ("}" if last else ",")


def model_parts(
    tree: Tree,
    node: int,
    *,
    precision: int | None = None,
    max_terms: int | None = None,
) -> list[str]:
    """The words of `model_equation` in parts between which a line may break."""
    model = rounded_model(model_in_original_units(tree, node), precision)
    shown = len(model.names) if max_terms is None else max_terms
    values = np.concatenate([[model.intercept], model.slope[:shown]])
    terms = _terms(values, ("", *model.names[:shown]))
    if len(model.names) > shown:
        terms.append("+ ...")
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


def node_facts(tree: Tree, node: int) -> str:
    """Rows, share of the rows, and error of a node."""
    share = 100 * float(tree.weight[node] / tree.weight[0])
    error = root_mean_squared_error(tree, node)
    rows = rows_text(tree.weight[node])
    return f"{rows} ({number(_digits(share, 3))} %), error {number(error)}"


def mixture_range(tree: Tree) -> str:
    """The range to which mixtures of leaves are clipped; empty if each leaf is."""
    if tree.clip_leaves or tree.clip_margin is None:
        return ""
    low, high = (
        _digits(float(tree.schema.restore_target(side[0])), 5)
        for side in tree.clip_range()
    )
    return f", clipped to [{number(low)}, {number(high)}]"


def clip_facts(tree: Tree, node: int, precision: int | None = None) -> str:
    """The range to which a node's predictions are clipped; empty if it has none."""
    model = rounded_model(model_in_original_units(tree, node), precision)
    if not model.columns or math.isinf(model.low):
        return ""
    return f"clipped to [{number(model.low)}, {number(model.high)}]"


def root_mean_squared_error(tree: Tree, node: int) -> float:
    """Training error of a node in units of the target, to three digits."""
    error = math.sqrt(max(float(tree.train_error[node]), 0.0))
    if error < 1e-7:  # what rounding leaves of an exact fit
        return 0.0
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

    None, the category of missing values, is printed as missing.

    Examples
    --------
    >>> [quoted(name) for name in ("tax (1000 $)", "a - b", 2.0, True, "2")]
    ['tax (1000 $)', "'a - b'", '2', 'True', "'2'"]
    """
    if name is None:
        return "missing"
    if isinstance(name, str):
        plain = _PLAIN_WORDS.fullmatch(name) and name != "missing"
        indicator = name.startswith("[") and name.endswith("]")
        return name if plain or indicator else repr(name)
    is_number = isinstance(name, int | float) and not isinstance(name, bool)
    return number(float(name)) if is_number else str(name)


def _digits(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")
