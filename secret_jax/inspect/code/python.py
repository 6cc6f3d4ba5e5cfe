"""A tree as a Python function that needs nothing but Python."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterable, Iterator

import numpy as np

from secret_jax.inspect.code.formulas import (
    Comparison,
    Membership,
    Side,
    Term,
    Value,
    leaves_under,
    mixture_range,
    model_formula,
    other,
    plain_category,
    split_formula,
)
from secret_jax.inspect.words import counted
from secret_jax.tree.soft import HARD_LOGIT
from secret_jax.tree.structure import Tree

_WIDTH = 88
_OPPOSITE = {"<=": ">", ">=": "<"}
# What the function uses itself.
_TAKEN = {"row", "columns", "min", "max", "float", "exp", "gate", "clip", "total"}
_TAKEN |= {"missing", "number"}


def python_code(tree: Tree, function_name: str, precision: int | None) -> str:
    """The source of the function; see `secret_jax.inspect.code.export.export_code`."""
    splits = {
        int(node): split_formula(tree, int(node), precision)
        for node in np.flatnonzero(~tree.is_leaf)
    }
    values = {
        int(node): model_formula(tree, int(node), precision)
        for node in np.flatnonzero(tree.is_leaf)
    }
    numeric, discrete, gaps = _columns_used([*splits.values(), *values.values()])
    names = _local_names(tree.schema.names, function_name)
    soft = tree.is_soft
    clip = mixture_range(tree, precision)
    lines = []
    if soft:
        limit = repr(HARD_LOGIT)
        lines += [
            "from math import exp",
            "",
            "",
            "def gate(distance):",
            f"    return 1.0 / (1.0 + exp(-min(max(distance, -{limit}), {limit})))",
            "",
            "",
        ]
    if any(map(math.isfinite, [clip[0], *(v.low for v in values.values())])):
        lines += [
            "def clip(value, low, high):",
            "    return min(max(value, low), high)",
            "",
            "",
        ]
    if tree.schema.allow_missing and (numeric or discrete or gaps):
        lines += [
            "def missing(value):",
            "    return value is None or value != value",
            "",
            "",
        ]
        if numeric:
            lines += [
                "def number(value, mean):",
                "    return mean if missing(value) else float(value)",
                "",
                "",
            ]
    target = tree.schema.target_name
    summary = f"{target}: a tree of {counted(tree.n_leaves, 'leaf', 'leaves')}."
    lines += [
        f"def {function_name}(row=None, /, **columns):",
        f"    # {' '.join(summary.split())}",
        "    # Columns come as keyword arguments or as one dict; others are ignored.",
    ]
    if numeric or discrete or gaps:
        lines.append("    row = columns if row is None else row")
    for name in tree.schema.names:
        if numeric.get(name) is not None:
            value = f"number(row[{name!r}], {numeric[name]!r})"
            lines.append(f"    {names[name]} = {value}")
        elif name in numeric:
            lines.append(f"    {names[name]} = float(row[{name!r}])")
        elif name in discrete and tree.schema.allow_missing:
            value = f"None if missing(row[{name!r}]) else row[{name!r}]"
            lines.append(f"    {names[name]} = {value}")
        elif name in discrete:
            lines.append(f"    {names[name]} = row[{name!r}]")
        if name in gaps:
            lines.append(f"    {names[name]}_missing = missing(row[{name!r}])")
    if soft:
        body = _mixture(tree, splits, values, names, clip)
    else:
        body = _decisions(tree, splits, values, names, leaves_under(tree))
    return "\n".join([*lines, *body]) + "\n"


def _decisions(tree, splits, values, names, n_leaves) -> Iterator[str]:
    """If, return, if, return ...: of two sides the smaller one is indented.

    So the indentation grows with the logarithm of the number of leaves at most.
    """
    stack = [(0, "    ")]
    while stack:
        node, indent = stack.pop()
        if tree.is_leaf[node]:
            yield from _wrapped(["return", *_clipped(values[node], names)], indent)
            continue
        sides: tuple[Side, Side] = ("left", "right")
        child = {side: int(getattr(tree, side)[node]) for side in sides}
        small = min(sides, key=lambda side: n_leaves[child[side]])
        parts = _condition(splits[node], small, names)
        yield from _wrapped(["if", *parts[:-1], parts[-1] + ":"], indent)
        stack.append((child[other(small)], indent))
        stack.append((child[small], indent + "    "))


def _mixture(tree, splits, values, names, clip) -> Iterator[str]:
    """Shares of the nodes, from the root down, then the sum over the leaves."""
    for node in range(tree.n_nodes):
        share = ""
        if node:
            parent = int(tree.parent[node])
            goes_left = tree.left[parent] == node
            share = f"left_{parent}" if goes_left else f"(1.0 - left_{parent})"
            above = f"share_{parent} * " if parent else ""
            share = above + share
        if node and not tree.is_leaf[node]:
            yield f"    share_{node} = {share}"
        if not tree.is_leaf[node]:
            parts = _share(splits[node], names)
            yield from _wrapped([f"left_{node} =", *parts], "    ")
    sign = "="
    for node in np.flatnonzero(tree.is_leaf).tolist():
        parent = int(tree.parent[node])
        share = f"left_{parent}"
        share = share if tree.left[parent] == node else f"(1.0 - {share})"
        share = f"share_{parent} * {share}" if parent else share
        value = _clipped(values[node], names)
        if len(value) > 1 and not value[0].startswith("clip("):
            value = ["(" + value[0], *value[1:-1], value[-1] + ")"]
        yield from _wrapped([f"total {sign} {share} *", *value], "    ")
        sign = "+="
    low, high = clip
    total = "total" if math.isinf(low) else f"clip(total, {low!r}, {high!r})"
    yield f"    return {total}"


def _condition(split: Comparison | Membership, side: Side, names) -> list[str]:
    """A condition under which a row goes to a side, in parts."""
    if isinstance(split, Membership):
        listed = [repr(plain_category(c, split.name)) for c in split.listed]
        word = "in" if side == split.side else "not in"
        parts = [f"{item}," for item in listed] or [""]
        parts[0] = "(" + parts[0]
        parts[-1] += ")"
        return [f"{names[split.name]} {word}", *parts]
    sign = "<=" if split.at_most else ">="
    sign = sign if side == "left" else _OPPOSITE[sign]
    parts = [*_sum(None, split.terms, names), f"{sign} {split.threshold!r}"]
    if split.missing_left is not None:
        gap = f"{names[split.terms[0].name]}_missing"
        taken = split.missing_left == (side == "left")
        parts = [f"{gap} or" if taken else f"not {gap} and", *parts]
    return parts


def _share(split: Comparison | Membership, names) -> list[str]:
    """The share of a row that goes left, in parts."""
    if isinstance(split, Membership) or split.width == 0:
        parts = _condition(split, "left", names)
        parts[0] = "float(" + parts[0]
        parts[-1] += ")"
        return parts
    inside = _sum(None, split.terms, names)
    if split.missing_value is not None:
        gap = f"{names[split.terms[0].name]}_missing"
        inside = [f"({split.missing_value!r} if {gap} else", inside[-1] + ")"]
    if split.at_most:
        if len(inside) > 1:
            inside = ["(" + inside[0], *inside[1:-1], inside[-1] + ")"]
        inside = [f"gate(({split.threshold!r} -", *inside]
        inside[-1] += f") / {split.width!r})"
    else:
        inside = ["gate((" + inside[0], *inside[1:]]
        inside[-1] += f" - {split.threshold!r}) / {split.width!r})"
    return inside


def _clipped(value: Value, names) -> list[str]:
    parts = _sum(value.constant, value.terms, names)
    if math.isinf(value.low):
        return parts
    parts = ["clip(" + parts[0], *parts[1:]]
    parts[-1] += ","
    return [*parts, f"{value.low!r},", f"{value.high!r})"]


def _sum(constant: float | None, terms: Iterable[Term], names) -> list[str]:
    parts = [] if constant is None else [repr(constant)]
    for term in terms:
        factor = term.factor
        sign = ("- " if factor < 0 else "+ ") if parts else "-" if factor < 0 else ""
        column = names[term.name]
        if term.asks == "gap":
            column += "_missing"
        elif term.asks == "category":
            column = f"({column} == {plain_category(term.category, term.name)!r})"
        times = (
            "" if abs(factor) == 1 and term.asks == "number" else f"{abs(factor)!r} * "
        )
        parts.append(sign + times + column)
    return parts or ["0.0"]


def _columns_used(formulas) -> tuple[dict[str, float | None], set[str], set[str]]:
    """Numbers, with what gaps count as; columns of categories; gaps asked for."""
    numeric, discrete, gaps = {}, set(), set()
    for formula in formulas:
        if isinstance(formula, Membership):
            discrete.add(formula.name)
            continue
        for term in formula.terms:
            if term.asks == "number":
                numeric[term.name] = term.mean
            else:
                (discrete if term.asks == "category" else gaps).add(term.name)
        if isinstance(formula, Comparison) and formula.missing_left is not None:
            gaps.add(formula.terms[0].name)
    return numeric, discrete, gaps


def _local_names(names: tuple[str, ...], function_name: str) -> dict[str, str]:
    """A variable for every column."""
    taken = _TAKEN | {function_name}
    local = {}
    for name in names:
        variable = re.sub(r"\W", "_", name)
        if not variable.isidentifier() or keyword.iskeyword(variable):
            variable = "x_" + variable
        while {variable, f"{variable}_missing"} & taken or re.fullmatch(
            r"(left|share)_\d+", variable
        ):
            variable += "_"
        taken |= {variable, f"{variable}_missing"}
        local[name] = variable
    return local


def _wrapped(parts: list[str], indent: str) -> Iterator[str]:
    """Parts in lines of at most the text width, if that is possible.

    Outside of brackets a line may not end: where there is no call, a pair is put round
    all that follows the first part.
    """
    line = indent + " ".join(parts)
    if len(line) <= _WIDTH or len(parts) < 3:
        yield line
        return
    first, *rest = parts
    if not rest[0].startswith(("clip(", "gate(", "float(", "(")) or first == "if":
        colon = ":" if first == "if" else ""
        rest[0] = "(" + rest[0]
        rest[-1] = rest[-1].removesuffix(":") + ")" + colon
    line = indent + first
    for i, part in enumerate(rest):
        if i and len(line) + 1 + len(part) > _WIDTH:
            yield line
            line = indent + "    " + part
        else:
            line += " " + part
    yield line
