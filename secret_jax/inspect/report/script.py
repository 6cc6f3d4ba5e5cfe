"""What the script of a page computes with: the tree as JSON, and inputs for a row."""

from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np

from secret_jax.data.attributes import DAYS
from secret_jax.data.schema import TableSchema
from secret_jax.inspect.code.program import unknown_values
from secret_jax.inspect.view import View
from secret_jax.losses.interface import HIGHEST_LOG
from secret_jax.tree.soft import HARD_LOGIT
from secret_jax.tree.structure import SplitKind, Tree

_MOST_LEAVES = 300


def what_if(view: View) -> dict[str, Any] | None:
    """Write the tree, as it is in memory, for the script of the page, with inputs.

    A row for it holds numbers, codes of categories, and None where they are missing.
    None for very large trees, and for losses without a link.
    """
    tree, schema = view.tree, view.tree.schema
    if tree.n_leaves > _MOST_LEAVES or tree.loss.link is None:
        return None
    asked = {*compress(schema.input_columns, tree.in_use)}
    asked |= {schema.discrete[attribute] for attribute in tree.asked_attributes}
    return {
        "columns": _columns(schema),
        "nodes": [_node(tree, node) for node in range(tree.n_nodes)],
        "ends": np.nan_to_num(np.stack(tree.clip_range(), axis=2)).tolist(),
        "clip_leaves": tree.clip_leaves or not tree.is_soft,
        "targets": [*zip(schema.target_centers, schema.target_scales, strict=True)],
        "link": tree.loss.link,
        "most": {"logarithm": HIGHEST_LOG, "logit": HARD_LOGIT},
        "labels": replace(view, only=None).names if view.classes else (),
        "inputs": [_input(schema, position) for position in sorted(asked)],
    }


def _columns(schema: TableSchema) -> list[dict[str, Any]]:
    """Say how each column is encoded: a number, or 1 for the category of a ``code``.

    Numbers have a center, a scale, what they are if unknown, and ends.
    """
    unknown = unknown_values(schema)
    numbers = np.array([schema.center, schema.scale, unknown, *schema.saturation])
    columns: list[dict[str, Any]] = [
        {"from": position, "numbers": each}
        for position, each in zip(schema.input_columns, numbers.T.tolist(), strict=True)
    ]
    first = schema.n_regressors - schema.n_indicators
    for place, (_, code) in enumerate(schema.indicators, first):
        columns[place]["code"] = code
    for _, place in schema.missing_columns:
        columns[place]["code"] = None  # that of no value
    return columns


def _node(tree: Tree, node: int) -> dict[str, Any]:
    """Write the conditions under which a row goes left, or the equations of a leaf."""
    if tree.is_leaf[node]:
        return {
            "equations": [_sum(slopes, at) for at, *slopes in tree.coefficient[node]]
        }
    conditions = []
    for one in tree.comparisons_at(node):
        if tree.kind[one] == SplitKind.DISCRETE:
            position = tree.schema.discrete[tree.attribute[one]]
            listed = np.flatnonzero(tree.goes_left[one]).tolist()
            other = bool(tree.larger_left[node])
            conditions.append({"from": position, "left": listed, "unseen_left": other})
        else:
            ends = float(tree.threshold[one]), float(tree.gate_width[node])
            sum = _sum(tree.direction[one])
            conditions.append({"sum": sum, "threshold": ends[0], "width": ends[1]})
    left, right = int(tree.left[node]), int(tree.right[node])
    return {"conditions": conditions, "left": left, "right": right}


def _sum(weights: Any, constant: float = 0.0) -> dict[str, Any]:
    pairs = [(column, float(one)) for column, one in enumerate(weights) if one]
    return {"constant": float(constant), "weights": pairs}


def _input(schema: TableSchema, position: int) -> dict[str, Any]:
    """Describe the input for an attribute: pairs of words and values, or a number."""
    name, (_, part, levels) = schema.names[position], schema.origin(position)
    if position in schema.discrete or levels:
        known = levels or schema.categories[schema.discrete.index(position)]
        words = ["(missing)" if one is None else str(one) for one in known]
        choices: list[Any] = [*zip(words, range(len(words)), strict=True)]
        if schema.allow_missing and None not in known:
            choices.append(("(missing)", None))
        return {"from": position, "name": name, "choices": choices, "value": 0}
    place, whole = schema.position_of(position), position in schema.whole
    value, tenth = schema.center[place], float(f"{schema.scale[place] / 10:.1g}")
    value = round(value) if whole else float(f"{value:.4g}")
    box = {"value": value, "step": max(1.0, tenth) if whole else tenth or "any"}
    return {"from": position, "name": name, **box, "date": part == DAYS}
