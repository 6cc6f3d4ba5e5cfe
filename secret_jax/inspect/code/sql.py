"""A tree as an SQL expression, of standard SQL with ``EXP`` for soft splits alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from secret_jax.inspect.code.curves import WrittenCurve, written_curves
from secret_jax.inspect.code.program import (
    Program,
    decisions,
    plain_category,
    program_of,
)
from secret_jax.inspect.equations import (
    CategorySplit,
    LinearSplit,
    Side,
    Term,
)
from secret_jax.inspect.rest import rest_of
from secret_jax.tree.soft import HARD_LOGIT
from secret_jax.tree.structure import Tree

# SQLite and DuckDB refuse expressions that are nested deeper than about a thousand.
_LONGEST_SUM = 64


def sql_code(
    tree: Tree, column_name: str, precision: int | None, table: str | None
) -> str:
    """The expression or statement; see `secret_jax.inspect.code.export.export_code`."""
    return _statement(_expression(tree, precision), column_name, table)


def sql_sum(
    trees: Sequence[Tree],
    constant: float,
    column_name: str,
    precision: int | None,
    table: str | None,
) -> str:
    """The expression or statement that adds up what trees say, and a constant."""
    each = [f"({_expression(tree, precision)})" for tree in trees]
    total = _added([_number(constant), *each], " +\n")
    return _statement(f"({total})", column_name, table)


def sql_with_curves(
    tree: Tree, column_name: str, precision: int | None, table: str | None
) -> str:
    """The expression or statement that adds a tree to the curves in front of it."""
    start, curves = written_curves(tree, precision)
    _refuse_made(tree, [curve.name for curve in curves])
    each = [f"({_curve(curve)})" for curve in curves]
    rest = f"({_expression(rest_of(tree), precision)})"
    total = _added([_number(start), *each, rest], " +\n")
    return _statement(f"({total})", column_name, table)


def _curve(curve: WrittenCurve) -> str:
    """What a curve adds."""
    column = _identifier(curve.name)
    if not curve.points:
        cases = [
            f"WHEN {column} IS NULL THEN {_number(value)}"
            if category is None
            else f"WHEN {column} = {_literal(category, curve.name)} "
            f"THEN {_number(value)}"
            for category, value in curve.categories
        ]
        return " ".join(["CASE", *cases, "ELSE 0e0 END"])
    cases = []
    if curve.missing is not None:
        cases.append(f"WHEN {column} IS NULL THEN {_number(curve.missing)}")
    elif curve.missing_as is not None:
        column = f"COALESCE({column}, {_number(curve.missing_as)})"
    (before, low), *others = curve.points
    cases.append(f"WHEN {column} <= {_number(before)} THEN {_number(low)}")
    for place, high in others:
        slope = _number((high - low) / (place - before))
        cases.append(
            f"WHEN {column} <= {_number(place)} THEN {_number(low)} + "
            f"({column} - {_number(before)}) * {slope}"
        )
        before, low = place, high
    return " ".join(["CASE", *cases, f"ELSE {_number(low)} END"])


def _expression(tree: Tree, precision: int | None) -> str:
    program = program_of(tree, precision)
    _refuse_made_columns(tree, program)
    if tree.is_soft:
        return _mixture(tree, program)
    if tree.clip_margin is None:
        values = {leaf: _sum_of(program, leaf) for leaf in _leaves(tree)}
        return "\n".join(_decisions(tree, program, values))
    return _clipped_leaves(tree, program)


def _statement(expression: str, column_name: str, table: str | None) -> str:
    if table is None:
        return expression + "\n"
    name = _identifier(column_name)
    return f"SELECT *,\n{expression} AS {name}\nFROM {_identifier(table)}\n"


def _refuse_made_columns(tree: Tree, program: Program) -> None:
    """Raise if the tree asks for what a database would have to make first."""
    parts = (*program.splits.values(), *program.models.values())
    terms = [part.terms for part in parts if not isinstance(part, CategorySplit)]
    _refuse_made(tree, [term.name for its in terms for term in its])


def _refuse_made(tree: Tree, asked: Iterable[str]) -> None:
    """Raise if some columns are such as a database would have to make first."""
    schema = tree.schema
    made = {part: (name, "dates") for name, parts in schema.dates for part in parts}
    for column, _ in schema.levels:
        made[schema.names[column]] = schema.names[column], "ordered categories"
    for each in asked:
        if each in made:
            name, kind = made[each]
            raise ValueError(
                f"Column {name!r} holds {kind}, for which there is no SQL that all "
                "databases know. Export to Python, or fit on numbers in its place."
            )


def _leaves(tree: Tree) -> list[int]:
    return np.flatnonzero(tree.is_leaf).tolist()


def _decisions(
    tree: Tree, program: Program, values: Mapping[int, str]
) -> Iterator[str]:
    """One CASE for a chain of nodes, with another in each of its branches."""
    for step in decisions(tree):
        indent = "  " * step.depth
        if step.nested is not None:
            if step.first:
                yield f"{indent}CASE"
            condition = _condition(program.splits[step.node], step.nested)
            yield f"{indent}WHEN {condition} THEN"
            continue
        value = values[step.node]
        if step.first:
            yield indent + value
        else:
            yield from (f"{indent}ELSE", f"{indent}  {value}", f"{indent}END")


def _clipped_leaves(tree: Tree, program: Program) -> str:
    """A query without a table: the leaf, its sum, and the sum clipped.

    There is no standard function that clips, and a CASE that does names the sum three
    times; so the sum has a name.
    """
    prefix = _free_prefix(tree, ("leaf", "value"))
    leaf, value = f"{prefix}leaf", f"{prefix}value"
    leaves = _leaves(tree)

    def chosen(values: Iterable[str]) -> str:
        pairs = zip(leaves, values, strict=True)
        lines = "\n".join(f"WHEN {node} THEN {text}" for node, text in pairs)
        return f"CASE {leaf}\n{lines}\nEND"

    models = [program.models[node] for node in leaves]
    numbers = _decisions(tree, program, {node: str(node) for node in leaves})
    sums = chosen(_sum_of(program, node) for node in leaves)
    clipped = chosen(_clipped(value, model.low, model.high) for model in models)
    return (
        f"(SELECT {clipped}\nFROM (\nSELECT {leaf}, {sums} AS {value}\nFROM (\nSELECT\n"
        + "\n".join(numbers)
        + f"\nAS {leaf}) AS {prefix}leaves) AS {prefix}sums)"
    )


def _free_prefix(tree: Tree, names: tuple[str, ...]) -> str:
    """What makes names that no column begins with."""
    taken = {name.lower() for name in tree.schema.names}
    prefix = ""
    while any(name.startswith(tuple(prefix + own for own in names)) for name in taken):
        prefix += "tree_"
    return prefix


def _mixture(tree: Tree, program: Program) -> str:
    """A query without a table: gates and leaves first, then their mixture, clipped."""
    prefix = _free_prefix(tree, ("gate", "leaf"))
    gates, products = [], []
    share = {0: ""}
    for node in range(tree.n_nodes):
        if tree.is_leaf[node]:
            model = program.models[node]
            name = f"{prefix}leaf_{node}"
            gates.append(f"{_sum(model.intercept, model.terms)} AS {name}")
            products.append(f"{share[node]}{_clipped(name, model.low, model.high)}")
        else:
            name = f"{prefix}gate_{node}"
            gates.append(f"{_share(program.splits[node])} AS {name}")
            share[int(tree.left[node])] = f"{share[node]}{name} * "
            share[int(tree.right[node])] = f"{share[node]}(1e0 - {name}) * "
    mixture = f"{prefix}mixture"
    inside = ",\n      ".join(gates)
    return (
        f"(SELECT {_clipped(mixture, program.low, program.high)} FROM (\n"
        f"  SELECT {_added(products, ' + ' + chr(10) + '    ')} AS {mixture}\n"
        f"  FROM (\n    SELECT\n      {inside}\n"
        f"  ) AS {prefix}gates\n) AS {prefix}mixtures)"
    )


def _condition(split: LinearSplit | CategorySplit, side: Side) -> str:
    """A condition under which a row goes to a side."""
    missing_taken = split.missing_left == (side == "left")
    if isinstance(split, CategorySplit):
        name, is_listed = _identifier(split.name), side == split.listed_side
        plain = [_literal(c, split.name) for c in split.listed if c is not None]
        condition = f"{name} {'IN' if is_listed else 'NOT IN'} ({', '.join(plain)})"
        if not plain:
            condition = "1 = 0" if is_listed else f"{name} = {name}"
        # Of NULL neither IN nor NOT IN is true.
        return f"({condition} OR {name} IS NULL)" if missing_taken else condition
    total, threshold = _sum(None, split.terms), _number(split.threshold)
    condition = f"{total} {split.sign(side)} {threshold}"
    if split.missing_left is None:
        return condition
    name = _identifier(split.terms[0].name)
    if missing_taken:
        return f"({condition} OR {name} IS NULL)"
    return f"({condition} AND {name} IS NOT NULL)"


def _share(split: LinearSplit | CategorySplit) -> str:
    """The share of a row that goes left."""
    if isinstance(split, CategorySplit) or split.width == 0:
        return f"CASE WHEN {_condition(split, 'left')} THEN 1e0 ELSE 0e0 END"
    terms = split.terms
    if split.missing_value is not None:
        terms = (terms[0]._replace(missing_as=split.missing_value),)
    total, threshold = f"({_sum(None, terms)})", _number(split.threshold)
    sides = (total, threshold) if split.at_most else (threshold, total)
    exponent = f"({sides[0]} - {sides[1]}) / {_number(split.width)}"
    limit = _number(HARD_LOGIT)
    # EXP of a large number is an error in some databases.
    return (
        f"CASE WHEN {exponent} > {limit} THEN 0e0 WHEN {exponent} < -{limit} THEN 1e0 "
        f"ELSE 1e0 / (1e0 + EXP({exponent})) END"
    )


def _sum_of(program: Program, node: int) -> str:
    return _sum(program.models[node].intercept, program.models[node].terms)


def _clipped(text: str, low: float, high: float) -> str:
    if math.isinf(low):
        return text
    low_text, high_text = _number(low), _number(high)
    return (
        f"CASE WHEN {text} < {low_text} THEN {low_text} WHEN {text} > {high_text} "
        f"THEN {high_text} ELSE {text} END"
    )


def _sum(constant: float | None, terms: Iterable[Term]) -> str:
    parts = [] if constant is None else [_number(constant)]
    for term in terms:
        factor, column = _number(term.factor), _identifier(term.name)
        if term.asks == "number":
            if term.missing_as is not None:
                column = f"COALESCE({column}, {_number(term.missing_as)})"
            parts.append(column if term.factor == 1 else f"{factor} * {column}")
        else:
            holds = f"{column} IS NULL"
            if term.category is not None:
                holds = f"{column} = {_literal(term.category, term.name)}"
            parts.append(f"CASE WHEN {holds} THEN {factor} ELSE 0e0 END")
    return _added(parts, " + ") if parts else "0e0"


def _added(parts: list[str], plus: str) -> str:
    while len(parts) > _LONGEST_SUM:
        starts = range(0, len(parts), _LONGEST_SUM)
        parts = [f"({plus.join(parts[i : i + _LONGEST_SUM])})" for i in starts]
    return plus.join(parts)


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(category: object, name: str) -> str:
    value = plain_category(category, name)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return _number(value) if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    """A literal of double precision: without an exponent it would be a decimal."""
    text = repr(float(np.float64(value)))
    if "e" not in text:
        text = text.removesuffix(".0") + "e0"
    return text
