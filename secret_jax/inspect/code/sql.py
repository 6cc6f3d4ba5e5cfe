"""Trees and what they add up to as SQL, with ``EXP`` for gates and classes alone.

A clipped sum would be written three times, since there is no standard function that
clips, so leaves and sums have names, in common table expressions of one row. These are
MATERIALIZED: SQLite would otherwise put what they stand for in each place of the name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from secret_jax.inspect.code.answer import Answer, Summands
from secret_jax.inspect.code.curves import WrittenCurve, written_curves
from secret_jax.inspect.code.program import Program, decisions, program_of
from secret_jax.inspect.code.sql_phrases import (
    LONGEST_SUM,
    added,
    clipped,
    condition,
    identifier,
    literal,
    number,
    share_left,
    sum_at,
    sum_of_terms,
)
from secret_jax.inspect.equations import CategorySplit
from secret_jax.tree.structure import Tree

# Exponents beyond are chances of 0 or 1, and an error in some databases; expected
# counts stay below e^30, as in `secret_jax.losses.numbers.Poisson`.
_MOST_LOG_ODDS, _MOST_LOG_COUNT = 100.0, 30.0
_AS = "AS MATERIALIZED"


def sql_code(
    summands: Summands,
    answer: Answer,
    column_name: str,
    precision: int | None,
    table: str | None,
) -> str:
    """The expression or query; see `secret_jax.inspect.code.export.export_code`."""
    sums = [
        _sum(summands, output, precision) for output in range(len(summands.constants))
    ]
    if answer.classes is not None and answer.which is None and table is not None:
        return _query_of_classes(summands, answer, sums, column_name, table)
    expression = _answered(summands, answer, sums)
    if table is None:
        return expression + "\n"
    name = identifier(column_name)
    return f"SELECT *,\n{expression} AS {name}\nFROM {identifier(table)}\n"


def _answered(summands: Summands, answer: Answer, sums: list[str]) -> str:
    """One number: the sum itself, what it means, or the probability of one class."""
    if answer.link == "identity":
        return sums[0]
    names = [f"{_free_prefix(summands, ('score',))}score_{i}" for i in range(len(sums))]
    if answer.classes is None:
        found = f"EXP({clipped(names[0], -math.inf, _MOST_LOG_COUNT)})"
    else:
        which = 1 if answer.which is None else answer.which
        found = _probabilities(answer, names)[which]
    named = ",\n".join(f"{s} AS {name}" for s, name in zip(sums, names, strict=True))
    inside = f"{_free_prefix(summands, ('scores',))}scores"
    return f"(WITH {inside} {_AS} (SELECT\n{named})\nSELECT {found} FROM {inside})"


def _query_of_classes(
    summands: Summands, answer: Answer, sums: list[str], column_name: str, table: str
) -> str:
    """A query that adds scores, probabilities, and the class that they speak for."""
    labels = answer.labels
    schema = summands.trees[0][0].schema
    taken = {name.lower() for name in (*schema.names, column_name)}

    def free(name: str) -> str:
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        return identifier(name)

    scores = [free(name) for name in summands.names]
    chances = [free(f"probability of {label}") for label in labels]

    def listed(values: Sequence[str], names: Sequence[str]) -> str:
        pairs = zip(values, names, strict=True)
        return ",\n".join(f"{value} AS {name}" for value, name in pairs)

    scored, rated = "scored", "rated"
    while table.lower() in (scored, rated):
        scored, rated = f"{scored}_", f"{rated}_"
    return (
        f"WITH {scored} {_AS} (\nSELECT *,\n{listed(sums, scores)}\n"
        f"FROM {identifier(table)}\n), {rated} {_AS} (\nSELECT *,\n"
        f"{listed(_probabilities(answer, scores), chances)}\nFROM {scored}\n)\n"
        f"SELECT *,\n{_likeliest(answer, chances)} AS {identifier(column_name)}\n"
        f"FROM {rated}\n"
    )


def _probabilities(answer: Answer, scores: list[str]) -> list[str]:
    """The probability of each class, from columns of scores."""
    if answer.link == "clip":
        shares = [clipped(score, 0.0, 1.0) for score in scores]
        return [f"1e0 - {shares[0]}", *shares] if len(scores) == 1 else shares
    most = _MOST_LOG_ODDS
    if len(scores) == 1:
        bounded = [clipped(f"{sign}{scores[0]}", -most, most) for sign in ("", "-")]
        return [f"1e0 / (1e0 + EXP({each}))" for each in bounded]
    first, *others = scores
    odds = [f"EXP({clipped(f'({s} - {first})', -most, most)})" for s in others]
    total = added(["1e0", *odds], " + ")
    return [f"{each} / ({total})" for each in ("1e0", *odds)]


def _likeliest(answer: Answer, chances: list[str]) -> str:
    """The class that is predicted: a later one wins only if it is better."""
    assert answer.classes is not None
    values, better = chances, ">="
    if answer.classes.costs is not None:
        values, better = [], "<="
        for costs in answer.classes.costs.T.tolist():
            pairs = zip(costs, chances, strict=True)
            terms = [f"{number(cost)} * {chance}" for cost, chance in pairs if cost]
            values.append(f"({added(terms, ' + ')})" if terms else "0e0")
    *labels, last = [literal(label, "y") for label in answer.labels]
    cases = []
    for place, label in enumerate(labels):
        others = values[place + 1 :]
        best = " AND ".join(f"{values[place]} {better} {each}" for each in others)
        cases.append(f"WHEN {best} THEN {label}")
    return "\n".join(["CASE", *cases, f"ELSE {last}", "END"])


def _sum(summands: Summands, output: int, precision: int | None) -> str:
    """What curves and trees add up to in one output."""
    trees = [its[output] for its in summands.trees]
    programs = [program_of(tree, precision) for tree in trees]
    for tree, program in zip(trees, programs, strict=True):
        _refuse_made_columns(tree, program)
    constant, parts = summands.constants[output], []
    if summands.curved is not None:
        start, curves = written_curves(summands.curved, precision)
        _refuse_made(summands.curved, [curve.name for curve in curves])
        constant += start
        parts = [f"({_curve(curve)})" for curve in curves]
    prefix = _free_prefix(summands, ("leaf", "value", "gate", "mixture"))
    together = []
    for tree, program in zip(trees, programs, strict=True):
        if tree.is_soft:
            parts.append(_mixture(tree, program, prefix))
        elif tree.clip_margin is None:
            values = {leaf: sum_at(program, leaf) for leaf in _leaves(tree)}
            parts.append("\n".join(_decisions(tree, program, values)))
        else:
            together.append((tree, program))
    for first in range(0, len(together), LONGEST_SUM):
        parts.append(_clipped_trees(together[first : first + LONGEST_SUM], prefix))
    if len(parts) == 1 and not constant:
        return parts[0]
    parts = [part if part.startswith("(") else f"({part})" for part in parts]
    return f"({added([number(constant), *parts], ' +' + chr(10))})"


def _curve(curve: WrittenCurve) -> str:
    """What a curve adds."""
    column = identifier(curve.name)
    if not curve.points:
        cases = [
            f"WHEN {column} IS NULL THEN {number(value)}"
            if category is None
            else f"WHEN {column} = {literal(category, curve.name)} THEN {number(value)}"
            for category, value in curve.categories
        ]
        return " ".join(["CASE", *cases, "ELSE 0e0 END"])
    cases = []
    if curve.missing is not None:
        cases.append(f"WHEN {column} IS NULL THEN {number(curve.missing)}")
    elif curve.missing_as is not None:
        column = f"COALESCE({column}, {number(curve.missing_as)})"
    (before, low), *others = curve.points
    cases.append(f"WHEN {column} <= {number(before)} THEN {number(low)}")
    for place, high in others:
        slope = number((high - low) / (place - before))
        cases.append(
            f"WHEN {column} <= {number(place)} THEN {number(low)} + "
            f"({column} - {number(before)}) * {slope}"
        )
        before, low = place, high
    return " ".join(["CASE", *cases, f"ELSE {number(low)} END"])


def _refuse_made_columns(tree: Tree, program: Program) -> None:
    """Raise if the tree asks for what a database would have to make first."""
    parts = (*program.splits.values(), *program.models.values())
    terms = [part.terms for part in parts if not isinstance(part, CategorySplit)]
    _refuse_made(tree, [term.name for its in terms for term in its])


def _refuse_made(tree: Tree, asked: Iterable[str]) -> None:
    """Raise if some columns are such as a database would have to make first."""
    for name in asked:
        column, part, levels = tree.schema.origin(tree.schema.names.index(name))
        if part or levels:
            kind = "dates" if part else "ordered categories"
            raise ValueError(
                f"Column {column!r} holds {kind}, for which there is no SQL that all "
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
            asked = condition(program.splits[step.node], step.nested)
            yield f"{indent}WHEN {asked} THEN"
            continue
        value = values[step.node]
        if step.first:
            yield indent + value
        else:
            yield from (f"{indent}ELSE", f"{indent}  {value}", f"{indent}END")


def _clipped_trees(trees: Sequence[tuple[Tree, Program]], prefix: str) -> str:
    """A query without a table: the leaf of every tree, its sum, and the clipped sums.

    Trees share it: some databases prepare every such query for long.
    """
    leaves, sums, each = [], [], []
    for i, (tree, program) in enumerate(trees):
        leaf, value = f"{prefix}leaf_{i}", f"{prefix}value_{i}"
        nodes = _leaves(tree)

        def chosen(values: Iterable[str], leaf: str = leaf, nodes: list = nodes) -> str:
            pairs = zip(nodes, values, strict=True)
            lines = "\n".join(f"WHEN {node} THEN {text}" for node, text in pairs)
            return f"CASE {leaf}\n{lines}\nEND"

        numbers = _decisions(tree, program, {node: str(node) for node in nodes})
        leaves.append("\n".join(numbers) + f" AS {leaf}")
        sums.append(f"{chosen(sum_at(program, node) for node in nodes)} AS {value}")
        models = [program.models[node] for node in nodes]
        each.append(chosen(clipped(value, model.low, model.high) for model in models))
    listed, summed = ",\n".join(leaves), ",\n".join(sums)
    total = added([f"({one})" for one in each] if len(each) > 1 else each, " +\n")
    return (
        f"(WITH {prefix}leaves {_AS} (\nSELECT\n{listed}\n), "
        f"{prefix}sums {_AS} (\nSELECT *,\n{summed}\nFROM {prefix}leaves\n)\n"
        f"SELECT {total}\nFROM {prefix}sums)"
    )


def _free_prefix(summands: Summands, names: tuple[str, ...]) -> str:
    """What makes names that no column begins with."""
    columns = summands.trees[0][0].schema.names
    taken = {name.lower() for name in columns}
    prefix = ""
    while any(name.startswith(tuple(prefix + own for own in names)) for name in taken):
        prefix += "tree_"
    return prefix


def _mixture(tree: Tree, program: Program, prefix: str) -> str:
    """A query without a table: gates and leaves first, then their mixture, clipped."""
    gates, products = [], []
    share = {0: ""}
    for node in range(tree.n_nodes):
        if tree.is_leaf[node]:
            model = program.models[node]
            name = f"{prefix}leaf_{node}"
            gates.append(f"{sum_of_terms(model.intercept, model.terms)} AS {name}")
            products.append(f"{share[node]}{clipped(name, model.low, model.high)}")
        else:
            name = f"{prefix}gate_{node}"
            gates.append(f"{share_left(program.splits[node])} AS {name}")
            share[int(tree.left[node])] = f"{share[node]}{name} * "
            share[int(tree.right[node])] = f"{share[node]}(1e0 - {name}) * "
    mixture = f"{prefix}mixture"
    inside, total = ",\n".join(gates), added(products, " +\n")
    return (
        f"(WITH {prefix}gates {_AS} (\nSELECT\n{inside}\n), "
        f"{prefix}mixtures {_AS} (\nSELECT\n{total} AS {mixture}\n"
        f"FROM {prefix}gates\n)\n"
        f"SELECT {clipped(mixture, program.low, program.high)}\n"
        f"FROM {prefix}mixtures)"
    )
