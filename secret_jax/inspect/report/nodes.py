"""What the page says of every node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from secret_jax.inspect.arguments import Wording
from secret_jax.inspect.notes import one_leaf_sentence
from secret_jax.inspect.printing import counted_leaves, counted_rows
from secret_jax.inspect.report.classes import ClassParts
from secret_jax.inspect.report.numbers import NumberParts
from secret_jax.inspect.tree_view import TreeView, share_of_rows
from secret_jax.inspect.words import (
    model_parts,
    most_moving,
    path_sentence,
    split_sentence,
)
from secret_jax.tree.structure import StopReason, Tree
from secret_jax.tree.totals import leaves_below

_MOST_TERMS = 24  # of an equation


class NodeView(NamedTuple):
    """A node in words.

    Attributes
    ----------
    condition : str
        Under which its parent sends a row there.
    path : str
        All conditions on the way.
    rows, percent : str
        Of its training rows.
    facts : list of (str, str)
        What else is known of them, with its name.
    bar : list of (float, str)
        Lengths and colours of the parts of its bar, as shares of the whole.
    is_end : bool
        Whether nothing is shown below it.
    below : str
        Leaves below an inner node; empty of a leaf.
    equations : list of list of str
        Each in parts between which a line may break; only of ends.
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
    facts: list[tuple[str, str]]
    bar: list[tuple[float, str]]
    is_end: bool
    below: str
    equations: list[list[str]]
    remark: str
    n_closed: int


def shown_nodes(
    parts: NumberParts | ClassParts, max_depth: int | None = None
) -> list[NodeView]:
    """List the nodes in the order in which they are read, the left side first.

    Parameters
    ----------
    max_depth : int, optional
        Deepest level that is shown.
    """
    tree = parts.tree
    n_below = leaves_below(tree)
    ends = tree.is_leaf | (tree.depth == (-1 if max_depth is None else max_depth))
    order = list(_in_order(tree, ends))
    following = [*(int(tree.depth[node]) for node in order[1:]), 0]
    shown = []
    for node, next_depth in zip(order, following, strict=True):
        leaf, is_end = bool(tree.is_leaf[node]), bool(ends[node])
        reason = StopReason(int(tree.stop_reason[node])).sentence if leaf else ""
        remarks = [parts.bounds(node), one_leaf_sentence(tree) or reason]
        shown.append(
            NodeView(
                node=node,
                condition=_condition(tree, node),
                path=path_sentence(tree, node) if is_end else "",
                rows=counted_rows(tree.weight[node]),
                percent=share_of_rows(tree, node),
                facts=parts.facts(node),
                bar=parts.bar(node),
                is_end=is_end,
                below="" if leaf else counted_leaves(int(n_below[node])),
                equations=_equations(parts.view, node) if is_end else [],
                remark="; ".join(filter(None, remarks)),
                n_closed=int(tree.depth[node]) - next_depth if is_end else 0,
            )
        )
    return shown


def _in_order(tree: Tree, ends: np.ndarray) -> Iterator[int]:
    stack = [0]
    while stack:
        node = stack.pop()
        yield node
        if not ends[node]:
            stack += [int(tree.right[node]), int(tree.left[node])]


def _condition(tree: Tree, node: int) -> str:
    if not node:
        return "all rows"
    parent = int(tree.parent[node])
    side = "left" if tree.left[parent] == node else "right"
    return split_sentence(tree, parent, side=side)


def _equations(view: TreeView, node: int) -> list[list[str]]:
    shown = view.equations_of(node)
    if len(shown) > 1:  # the leaf's own table has them
        return [[", ".join(most_moving(shown, node))]]
    return [model_parts(tree, node, Wording(max_terms=_MOST_TERMS)) for tree in shown]
