"""What is on every page: errors on rows that the tree did not learn from, and nodes."""

from collections.abc import Mapping
from typing import Any

from secret_jax.fit.prune.path import of_size
from secret_jax.inspect.arguments import Wording
from secret_jax.inspect.notes import one_leaf_sentence
from secret_jax.inspect.printing import counted_leaves, counted_rows
from secret_jax.inspect.tree_view import Rows, TreeView, share_of_rows
from secret_jax.inspect.words import (
    model_parts,
    most_moving,
    path_sentence,
    split_sentence,
)
from secret_jax.tree.structure import StopReason
from secret_jax.tree.totals import in_order, leaves_below, way_to

MOST_TERMS = 24  # of an equation, or its table
Figures = list[tuple[str, str]]
"""Figures of quality in words, each with its standard error."""


class Parts:
    """Parts of a page about numbers or classes.

    Errors are measured on ``rows``. Both have a ``key`` to the colours, ``tiles``
    (label, value, remark) and ``drawings`` of quality, ``figures`` of predictions with
    the length of a bar, and ``headings`` of these; and for a node its ``color``,
    ``facts``, the shares of its ``bar``, and the ``card`` of a leaf.
    """

    def __init__(self, view: Any, rows: Rows | None = None):
        self.view, self.tree, self.rows = view, view.tree, rows


def error_lines(
    parts: Any, comparison: Mapping[str, Mapping[str, Any]] | None
) -> list[dict[str, Any]]:
    """Measure the tree cut down to 1, 2, 4, 8 ... leaves, and other methods.

    The subtrees are those of the weakest-link path (`secret_jax.fit.prune.path`): what
    leads from one line to the next is the part of the tree that pays least. Their
    leaves predict with the models that the inner nodes have.
    """
    lines, tree, rows = [], parts.tree, parts.rows
    if rows is not None:
        sizes = [2**k for k in range(tree.n_leaves.bit_length())]
        cuts = [of_size(tree, n) for n in sizes if n < tree.n_leaves]
        for n_leaves, cut in sorted(
            {one.n_leaves: one for one in (*cuts, tree)}.items()
        ):
            name = (
                "the whole tree"
                if cut is tree
                else f"a tree of {counted_leaves(n_leaves)}"
            )
            seen = parts.view.of(cut)
            measured = parts.figures(seen.said(rows.table), rows.actual)
            name = parts.root if n_leaves == 1 else name
            lines.append((name, n_leaves, seen.n_numbers(), *measured))
    for name, score in (comparison or {}).items():
        lines.append((name, score.get("leaves"), None, *parts.figures_of_score(score)))
    names = "name", "leaves", "numbers", "figures", "bar"
    return [dict(zip(names, line, strict=True)) for line in lines]


def shown_nodes(parts: Any, max_depth: int | None = None) -> list[dict[str, Any]]:
    """Describe the nodes down to a level, in the order in which they are read.

    ``equations`` come in parts between which a line may break. ``is_end`` says that
    nothing is shown below, ``n_closed`` how many branches end with the node.
    """
    tree, n_below = parts.tree, leaves_below(parts.tree)
    order = in_order(tree, max_depth)
    following = [*(int(tree.depth[node]) for node in order[1:]), 0]
    shown = []
    for node, next_depth in zip(order, following, strict=True):
        leaf, depth = bool(tree.is_leaf[node]), int(tree.depth[node])
        is_end = leaf or depth == max_depth
        reason = StopReason(int(tree.stop_reason[node])).sentence if leaf else ""
        remarks = [parts.view.bounds(node), one_leaf_sentence(tree) or reason]
        above = [split_sentence(tree, *step) for step in way_to(tree, node)[-1:]]
        view = {
            "node": node,
            "condition": above[0] if above else "all rows",
            "path": path_sentence(tree, node) if is_end else "",
            "rows": counted_rows(tree.weight[node]),
            "percent": share_of_rows(tree, node),
            "facts": parts.facts(node),
            "bar": parts.bar(node),
            "is_end": is_end,
            "below": "" if leaf else counted_leaves(int(n_below[node])),
            "equations": _equations(parts.view, node) if is_end else [],
            "remark": "; ".join(filter(None, remarks)),
            "n_closed": depth - next_depth if is_end else 0,
        }
        shown.append(view)
    return shown


def _equations(view: TreeView, node: int) -> list[list[str]]:
    shown = view.equations_of(node)
    if len(shown) > 1:  # the leaf's own table has them
        return [[", ".join(most_moving(shown, node))]]
    return [model_parts(tree, node, Wording(max_terms=MOST_TERMS)) for tree in shown]
