"""What the page says of every node."""

from typing import Any

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
from secret_jax.tree.structure import StopReason
from secret_jax.tree.totals import in_order, leaves_below, way_to

_MOST_TERMS = 24  # of an equation


def shown_nodes(
    parts: NumberParts | ClassParts, max_depth: int | None = None
) -> list[dict[str, Any]]:
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
    return [model_parts(tree, node, Wording(max_terms=_MOST_TERMS)) for tree in shown]
