"""What the page says of every node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.notes import one_leaf_sentence
from secret_jax.inspect.printing import counted_leaves, counted_rows, number
from secret_jax.inspect.report.words import in_steps
from secret_jax.inspect.tree_view import NumberView, TreeView, share_of_rows
from secret_jax.inspect.words import (
    model_parts,
    most_moving,
    path_sentence,
    split_sentence,
)
from secret_jax.losses.numbers import SquaredError
from secret_jax.tree.structure import StopReason, Tree
from secret_jax.tree.totals import leaves_below

_DIGITS = 3
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
        What else is known of them, with its name: of numbers mean, standard deviation,
        error and R² of the node's own model; of classes their shares and the loss.
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


def shown_nodes(view: TreeView, max_depth: int | None = None) -> list[NodeView]:
    """The nodes in the order in which they are read, the left side first.

    Parameters
    ----------
    max_depth : int, optional
        Deepest level that is shown.
    """
    tree = view.tree
    n_below = leaves_below(tree)
    ends = tree.is_leaf | (tree.depth == (-1 if max_depth is None else max_depth))
    order = list(_in_order(tree, ends))
    following = [int(tree.depth[node]) for node in order[1:]] + [0]
    if isinstance(view, ClassView):
        told = _ClassFacts(view)
    else:
        assert isinstance(view, NumberView)
        told = _NumberFacts(view)
    return [
        _view(told, node, bool(ends[node]), int(n_below[node]), below)
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
    told: _NumberFacts | _ClassFacts,
    node: int,
    is_end: bool,
    n_below: int,
    next_depth: int,
) -> NodeView:
    tree = told.view.tree
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
        percent=share_of_rows(tree, node),
        facts=told.facts(node),
        bar=told.bar(node),
        is_end=is_end,
        below="" if leaf else counted_leaves(n_below),
        equations=told.equations(node) if is_end else [],
        remark="; ".join(filter(None, [told.bounds(node), reason])),
        n_closed=int(tree.depth[node]) - next_depth if is_end else 0,
    )


class _NumberFacts:
    """Means, deviations and errors of the nodes, and colours by the mean."""

    def __init__(self, view: NumberView):
        self.view = view
        self._means, self._colors = view.means.tolist(), view.fills

    def facts(self, node: int) -> list[tuple[str, str]]:
        tree = self.view.tree
        target = tree.schema.target_scale
        deviation = float(tree.deviation[node, 0])
        squared_error = max(float(tree.train_error[node, 0]), 0.0)
        known = [
            ("mean", in_steps(self._means[node], target)),
            ("sd", number(deviation * target, digits=_DIGITS)),
        ]
        error = number(tree.loss.reported(squared_error, target), digits=_DIGITS)
        known.append((tree.loss.error_name.split()[-1], error))
        if deviation > 0 and isinstance(tree.loss, SquaredError):
            known.append(("R²", f"{1 - squared_error / deviation**2:.2f}"))
        return known

    def bar(self, node: int) -> list[tuple[float, str]]:
        weight = self.view.tree.weight
        share = float(weight[node] / weight[0]) if weight[0] > 0 else 0.0
        return [(share, self._colors[node])]

    def equations(self, node: int) -> list[list[str]]:
        return [model_parts(self.view.tree, node, max_terms=_MOST_TERMS)]

    def bounds(self, node: int) -> str:
        return self.view.bounds(node)


class _ClassFacts:
    """Shares of the classes in the nodes, and the mean loss."""

    def __init__(self, view: ClassView):
        self.view = view

    def facts(self, node: int) -> list[tuple[str, str]]:
        shares = [("", words) for words in self.view.share_words(node)]
        loss = number(self.view.loss_of(node), digits=_DIGITS)
        return [*shares, (self.view.loss_name, loss)]

    def bar(self, node: int) -> list[tuple[float, str]]:
        return self.view.bar(node)

    def equations(self, node: int) -> list[list[str]]:
        shown = self.view.equations_of(node)
        if len(shown) > 1:  # the leaf's own table has them
            first, *others = most_moving(shown, node)
            return [[", ".join([first, *others])]]
        return [model_parts(tree, node, max_terms=_MOST_TERMS) for tree in shown]

    def bounds(self, node: int) -> str:
        return self.view.range_facts(node)
