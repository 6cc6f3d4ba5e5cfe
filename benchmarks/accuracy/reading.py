"""How many numbers a reader of a fitted model has to take in.

Counted alike for all: one for each threshold or set of categories, one for each
constant and each coefficient of an equation; ours by `secret_jax.inspect.equations`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def numbers_of_cubist(model: str) -> int:
    """Conditions, constants and coefficients in the text of Cubist's rules.

    Every rule is read on its own, so a condition counts in each rule that has it.
    """
    lines = model.splitlines()
    conditions = sum(line.startswith("type=") for line in lines)
    equations = (line for line in lines if line.startswith("coeff="))
    return conditions + sum(line.count("coeff=") for line in equations)


def numbers_of_lightgbm(trees: Sequence[dict[str, Any]]) -> int:
    """Thresholds, values and coefficients of LightGBM's dumped trees."""
    return sum(
        2 * tree["num_leaves"] - 1 + _coefficients(tree.get("tree_structure", {}))
        for tree in trees
    )


def _coefficients(node: dict[str, Any]) -> int:
    """Of linear trees, at and below a node of a dumped tree."""
    children = (node[side] for side in ("left_child", "right_child") if side in node)
    return len(node.get("leaf_coeff", ())) + sum(map(_coefficients, children))


def numbers_of_pilot(summary: Any) -> int:
    """Thresholds, constants and slopes of PILOT's nodes.

    Each node counts once, although the equation of a leaf is the sum of all nodes above
    it; zeros do not count.

    Parameters
    ----------
    summary : pandas.DataFrame
        As `PILOT.tree_summary` gives it.
    """
    names = ["intercept_left", "slope_left", "intercept_right", "slope_right"]
    values = summary[names].to_numpy(np.float64)
    splits = ~summary["node_type"].isin(["con", "lin"])
    return int(splits.sum() + np.count_nonzero(np.nan_to_num(values)))


def numbers_of_ebm(model: Any) -> int:
    """Thresholds or categories and values of InterpretML's additive model.

    Every term is a table: the bounds along its axes count, and its cells that rows have
    come to; and one for the constant.

    Parameters
    ----------
    model : ExplainableBoostingRegressor
        A fitted one; read are `term_features_`, `bins_` and `bin_weights_`.
    """
    total = 1
    for columns, rows in zip(model.term_features_, model.bin_weights_, strict=True):
        # A column's bins: those of its own term, then coarser ones for its pairs.
        bins = (model.bins_[column][: len(columns)][-1] for column in columns)
        total += sum(map(len, bins)) + int(np.count_nonzero(rows))
    return total
