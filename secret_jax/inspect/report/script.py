"""What the script of a page computes with: the tree as JSON, and inputs for a row."""

from dataclasses import replace
from typing import Any

import numpy as np

from secret_jax.data.attributes import DAYS
from secret_jax.data.schema import TableSchema
from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.code.program import unknown_values
from secret_jax.inspect.equations import comparisons_at
from secret_jax.inspect.tree_view import Rows, TreeView
from secret_jax.losses.interface import HIGHEST_LOG
from secret_jax.tree.soft import HARD_LOGIT
from secret_jax.tree.structure import SplitKind, Tree

_MOST_LEAVES = 300
_TAIL = 0.005  # of the rows on either side of a slider
_SPREADS = 2.5  # without rows a slider goes so many deviations from the mean


def what_if(view: TreeView, rows: Rows | None) -> dict[str, Any] | None:
    """Write the tree for the script of the page, with inputs.

    As it is in memory, in encoded columns; a row for it holds numbers, None where they
    are missing, and codes of categories. None for very large trees, and for losses
    without a link.
    """
    tree, schema = view.tree, view.tree.schema
    if tree.n_leaves > _MOST_LEAVES or tree.loss.link is None:
        return None
    labels = replace(view, only=None).names if isinstance(view, ClassView) else ()
    used = tree.in_splits
    slopes = np.any(tree.coefficient[tree.is_leaf, :, 1:], axis=(0, 1))
    used[: len(slopes)] |= slopes
    asked = {
        column for column, use in zip(schema.input_columns, used, strict=True) if use
    }
    asked |= {schema.discrete[attribute] for attribute in tree.asked_attributes}
    return {
        "columns": _columns(schema),
        "nodes": [_node(tree, node) for node in range(tree.n_nodes)],
        "ranges": _ranges(tree, 0, tree.is_soft and not tree.clip_leaves),
        "targets": [*zip(schema.target_centers, schema.target_scales, strict=True)],
        "link": tree.loss.link,
        "most": {"logarithm": HIGHEST_LOG, "logit": HARD_LOGIT},
        "labels": labels,
        "inputs": [_input(schema, rows, position) for position in sorted(asked)],
    }


def _columns(schema: TableSchema) -> list[dict[str, Any]]:
    """Say how each column is encoded: a number, or 1 for the category of a ``code``.

    ``unknown`` is what it counts as where the value is missing or was never seen.
    """
    numbers = schema.center, schema.scale, unknown_values(schema), *schema.saturation
    columns = [
        {"from": position, "center": center, "scale": scale or 1.0, "unknown": unknown}
        | {"range": ends}
        for position, center, scale, unknown, *ends in zip(
            schema.input_columns, *(each.tolist() for each in numbers), strict=True
        )
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
        sums = [_sum(weights, first) for first, *weights in tree.coefficient[node]]
        clips = not tree.is_soft or tree.clip_leaves
        return {"equations": sums, "ranges": _ranges(tree, node, clips)}
    conditions = []
    for part in comparisons_at(tree, node):
        if part.kind[node] == SplitKind.DISCRETE:
            position = tree.schema.discrete[part.attribute[node]]
            listed = np.flatnonzero(part.goes_left[node]).tolist()
            other = bool(tree.larger_left[node])
            conditions.append({"from": position, "left": listed, "unseen_left": other})
        else:
            sum = _sum(part.direction[node], 0.0)
            ends = float(part.threshold[node]), float(part.gate_width[node])
            conditions.append({"sum": sum, "threshold": ends[0], "width": ends[1]})
    left, right = int(tree.left[node]), int(tree.right[node])
    return {"conditions": conditions, "left": left, "right": right}


def _sum(weights: Any, constant: float) -> dict[str, Any]:
    pairs = [(column, float(one)) for column, one in enumerate(weights) if one]
    return {"constant": float(constant), "weights": pairs}


def _ranges(tree: Tree, node: int, clips: bool) -> list[tuple[float, float]] | None:
    """Bounds of the outputs of a node; None where it does not clip."""
    if not clips or tree.clip_margin is None:
        return None
    low, high = tree.clip_range()
    return [*zip(low[node].tolist(), high[node].tolist(), strict=True)]


def _input(schema: TableSchema, rows: Rows | None, position: int) -> dict[str, Any]:
    """Describe the input for an attribute: its ``name`` and a ``value`` to begin with.

    Then ``choices``, pairs of words and value; or of numbers the ends of a slider,
    whether they are ``whole``, and whether they are days of a ``date``.
    """
    name, (_, part, levels) = schema.names[position], schema.origin(position)
    if position in schema.discrete or levels:
        known = levels or schema.categories[schema.discrete.index(position)]
        words = ["(missing)" if one is None else str(one) for one in known]
        choices: list[tuple[str, Any]] = [*zip(words, range(len(words)), strict=True)]
        if schema.allow_missing and None not in known:
            choices.append(("(missing)", None))
        return {"from": position, "name": name, "choices": choices, "value": 0}
    place, whole = schema.position_of(position), position in schema.whole
    reach = _SPREADS * np.array([-1.0, 0.0, 1.0]) * schema.scale[place]
    ends = schema.center[place] + reach
    column = [] if rows is None else np.asarray(rows.columns[position], np.float64)
    known = np.array(column)[np.isfinite(column)]
    if len(known) and known.min() < known.max():
        ends = np.quantile(known, [_TAIL, 0.5, 1.0 - _TAIL])
    low, value, high = (round(end) if whole else float(f"{end:.4g}") for end in ends)
    slider = {"low": low, "value": value, "high": high, "whole": whole}
    return {"from": position, "name": name, **slider, "date": part == DAYS}
