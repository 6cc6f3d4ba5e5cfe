"""What the page says of every node."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from secret_jax.inspect.colors import Scale
from secret_jax.inspect.explain import path_sentence
from secret_jax.inspect.one_leaf import one_leaf_sentence
from secret_jax.inspect.printing import counted_leaves, counted_rows, number
from secret_jax.inspect.report.words import in_steps
from secret_jax.inspect.words import clip_facts, model_parts, split_sentence
from secret_jax.tree.structure import StopReason, Tree
from secret_jax.tree.totals import leaves_below

_DIGITS = 3
_MOST_TERMS = 24  # of an equation


class NodeView(NamedTuple):
    """A node in words.

    Attributes
    ----------
    node : int
    condition : str
        Under which its parent sends a row there.
    path : str
        All conditions on the way.
    rows, percent, mean, deviation, error, r2 : str
        Of its training rows; ``r2`` is that of its own model.
    share : float
        Of all training rows.
    color : str
        Of its mean.
    is_end : bool
        Whether nothing is shown below it.
    below : str
        Leaves below an inner node; empty of a leaf.
    equation : list of str
        Parts between which a line may break; only of ends.
    remark : str
        Range of its predictions, and why a leaf was not split.
    n_closed : int
        Branches that end with it in the order of `shown_nodes`.
    """

    node: int
    condition: str
    path: str
    rows: str
    percent: str
    mean: str
    deviation: str
    error: str
    r2: str
    share: float
    color: str
    is_end: bool
    below: str
    equation: list[str]
    remark: str
    n_closed: int


def shown_nodes(
    tree: Tree, scale: Scale, max_depth: int | None = None
) -> list[NodeView]:
    """The nodes in the order in which they are read, the left side first.

    Parameters
    ----------
    tree : Tree
        Of a single output.
    scale : Scale
    max_depth : int, optional
        Deepest level that is shown.

    Returns
    -------
    list of NodeView
    """
    n_below = leaves_below(tree)
    ends = tree.is_leaf | (tree.depth == (-1 if max_depth is None else max_depth))
    order = list(_in_order(tree, ends))
    following = [int(tree.depth[node]) for node in order[1:]] + [0]
    return [
        _view(tree, node, scale, bool(ends[node]), int(n_below[node]), below)
        for node, below in zip(order, following, strict=True)
    ]


def _in_order(tree: Tree, ends: np.ndarray) -> Iterator[int]:
    stack = [0]
    while stack:
        node = stack.pop()
        yield node
        if not ends[node]:
            stack += [int(tree.right[node]), int(tree.left[node])]


def _view(
    tree: Tree, node: int, scale: Scale, is_end: bool, n_below: int, next_depth: int
) -> NodeView:
    target = tree.schema.target_scale
    deviation = float(tree.deviation[node, 0])
    squared_error = max(float(tree.train_error[node, 0]), 0.0)
    explained = 1 - squared_error / deviation**2 if deviation > 0 else math.nan
    error = math.sqrt(squared_error) * target
    if tree.loss is not None:
        error, explained = squared_error, math.nan
    share = float(tree.weight[node] / tree.weight[0]) if tree.weight[0] > 0 else 0.0
    mean = float(tree.schema.restore_target(tree.mean[node, 0]))
    condition = "all rows"
    if node:
        parent = int(tree.parent[node])
        side = "left" if tree.left[parent] == node else "right"
        condition = split_sentence(tree, parent, side=side)
    leaf = bool(tree.is_leaf[node])
    reason = StopReason(int(tree.stop_reason[node])).sentence if leaf else ""
    reason = one_leaf_sentence(tree) or reason
    return NodeView(
        node=node,
        condition=condition,
        path=path_sentence(tree, node) if is_end else "",
        rows=counted_rows(tree.weight[node]),
        percent=f"{number(100 * share, digits=_DIGITS)} %",
        mean=in_steps(mean, target),
        deviation=number(deviation * target, digits=_DIGITS),
        error=number(error, digits=_DIGITS),
        r2="-" if math.isnan(explained) else f"{explained:.2f}",
        share=share,
        color=scale.color(mean),
        is_end=is_end,
        below="" if leaf else counted_leaves(n_below),
        equation=model_parts(tree, node, max_terms=_MOST_TERMS) if is_end else [],
        remark="; ".join(filter(None, [clip_facts(tree, node), reason])),
        n_closed=int(tree.depth[node]) - next_depth if is_end else 0,
    )


def means(tree: Tree) -> np.ndarray:
    """Mean of the target in every node, shape (n_nodes,), float64."""
    return tree.schema.restore_target(tree.mean[:, 0])
