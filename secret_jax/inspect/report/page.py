"""The whole page, and the foldable tree alone."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from secret_jax.data.given import ArrayLike, TableLike
from secret_jax.inspect.arguments import Wording, check_pair
from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.coefficients import around, class_table, term_lines
from secret_jax.inspect.colors import Scale
from secret_jax.inspect.notes import facts_of, mixture_facts, one_leaf_sentence
from secret_jax.inspect.printing import counted, counted_leaves, counted_rows, number
from secret_jax.inspect.report import quality
from secret_jax.inspect.report.script import what_if
from secret_jax.inspect.rounding import in_steps
from secret_jax.inspect.tree_view import Rows, TreeView
from secret_jax.inspect.views import Readable, as_view
from secret_jax.inspect.words import (
    cuts_a_list,
    model_parts,
    most_moving,
    path_sentence,
    split_sentence,
)
from secret_jax.runtime.optional import imported
from secret_jax.tree.structure import StopReason, Tree
from secret_jax.tree.totals import in_order, leaves_below, way_to

# What a page has room for; the notes on it say what was left out.
_MOST_CARDS = 200
_MOST_NODES = 1000
_MOST_TERMS = 24  # of an equation, or its table
_WORDING = Wording(max_terms=_MOST_TERMS)


def to_html(
    tree: Readable,
    X: TableLike = None,
    y: ArrayLike = None,
    *,
    comparison: Mapping[str, Mapping[str, Any]] | None = None,
    title: str | None = None,
    output: int | str | None = None,
) -> str:
    """Write the tree as a page of HTML: one file that needs no network.

    To give away: the tree folds, every leaf has a card, and values can be changed to
    see the prediction.

    Parameters
    ----------
    X, y : optional
        Rows that were not used in `fit`, and their targets: for errors, also of smaller
        trees and leaves, and as examples.
    comparison : dict of str to dict, optional
        Other methods: ``rmse``, ``r2`` and perhaps ``leaves`` of each name; of classes
        ``error`` (the share that is wrong) and ``log_loss``.
    title : str, optional
        By default the name of the target.
    output : int or str, optional
        Which one, of several.

    Raises
    ------
    ImportError
        If jinja2, or for rows matplotlib, is not installed.
    ValueError
        If only one of X and y is given, or they do not match.
    """
    check_pair(X, y)
    view = as_view(tree, output)
    rows = None if X is None else Rows.of(view, X, y)
    tree, depth = view.tree, _deepest(view.tree)
    lines = quality.error_lines(view, rows, comparison or {})
    nodes = _nodes(view, depth)
    notes = *facts_of(tree), mixture_facts(tree), *_left_out(tree, depth, nodes)
    content: dict[str, Any] = {
        "title": title or view.title,
        "view": view,
        "of_classes": isinstance(view, ClassView),
        "key": _key(view),
        "tiles": [
            ("grown on", counted_rows(tree.weight[0]), ""),
            ("size", counted_leaves(tree.n_leaves), f"depth {tree.max_depth}"),
            ("to read", f"{view.n_numbers():,} numbers", "in splits and equations"),
        ],
        "figures": [] if rows is None else quality.of_rows(view, rows),
        "remark": "" if rows is None else quality.remark(view, rows),
        "notes": list(filter(None, notes)),
        "nodes": nodes,
        "cards": _cards(view, rows),
        "comparison": lines,
        "longest": max((line["bar"] for line in lines), default=0.0) or 1.0,
        "drawings": [] if rows is None else quality.drawings(view, rows),
        "what_if": what_if(view, rows),
    }
    return _template("page.html").render(content)


def tree_fragment(trees: Sequence[Readable], limit: int) -> str:
    """Write the foldable trees alone, to stand in another page.

    Deep levels are left out beyond so many bytes, and that is said.
    """
    views = [as_view(tree) for tree in trees]
    depth = max(_deepest(view.tree) for view in views)
    while True:
        parts = []
        for view in views:
            size = counted(view.n_numbers(), "number", "numbers")
            size = f"{counted_leaves(view.tree.n_leaves)}, {size} to read"
            head = f"{view.title}: {size}, {counted_rows(view.tree.weight[0])}"
            nodes = _nodes(view, depth)
            note = "; ".join(_left_out(view.tree, depth, nodes))
            part = {"head": head, "note": note, "key": _key(view), "nodes": nodes}
            parts.append(part)
        html = _template("fragment.html").render(trees=parts)
        if len(html.encode()) <= limit or depth == 0:
            return html
        depth -= 1


@cache
def _template(name: str) -> Any:
    jinja2 = imported("jinja2", "Pages", "plot")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("secret_jax.inspect.report"),
        autoescape=True,  # names of columns and categories are anybody's
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(zip=zip, number=number, around=around)
    return environment.get_template(name)


def _key(view: TreeView) -> dict[str, Any]:
    """Say what the colours are: of classes, or from the lowest to the highest mean."""
    if isinstance(view, ClassView):
        classes = zip(view.colors, view.names, strict=True)
        return {"classes": list(classes), "ends": [], "shades": []}
    scale, unit = Scale(view.means.tolist()), view.tree.schema.target_scale
    ends = [in_steps(end, unit) for end in (scale.low, scale.high)]
    return {
        "classes": [],
        "ends": ends if ends[0] != ends[1] else [],
        "shades": scale.shades,
    }


def _nodes(view: TreeView, max_depth: int | None = None) -> list[dict[str, Any]]:
    """Describe the nodes down to a level, in the order in which they are read.

    ``equations`` come in parts between which a line may break. ``is_end`` says that
    nothing is shown below, ``n_closed`` how many branches end with the node.
    """
    tree, n_below, fills = view.tree, leaves_below(view.tree), view.fills
    order = in_order(tree, max_depth)
    following = [*(int(tree.depth[node]) for node in order[1:]), 0]
    nodes = []
    for node, next_depth in zip(order, following, strict=True):
        leaf, depth = bool(tree.is_leaf[node]), int(tree.depth[node])
        is_end = leaf or depth == max_depth
        reason = StopReason(int(tree.stop_reason[node])).sentence if leaf else ""
        remarks = [view.bounds(node), one_leaf_sentence(tree) or reason]
        equations = view.equations_of(node) if is_end else []
        parts = [model_parts(one, node, _WORDING) for one in equations]
        if len(equations) > 1:  # a leaf's own table has them
            parts = [[", ".join(most_moving(equations, node))]]
        above = [split_sentence(tree, *step) for step in way_to(tree, node)[-1:]]
        share = float(tree.weight[node] / max(tree.weight[0], 1e-300))
        shown = {
            "node": node,
            "condition": above[0] if above else "all rows",
            "path": path_sentence(tree, node) if is_end else "",
            "facts": view.fact_parts(node),
            "bar": view.bar(node) or [(share, fills[node])],
            "color": max(view.bar(node) or [(1.0, fills[node])])[1],
            "is_end": is_end,
            "below": "" if leaf else counted_leaves(int(n_below[node])),
            "equations": parts,
            "remark": "; ".join(filter(None, remarks)),
            "n_closed": depth - next_depth if is_end else 0,
        }
        nodes.append(shown)
    return nodes


def _cards(view: TreeView, rows: Rows | None) -> list[dict[str, Any]]:
    """Describe leaves in the order of the tree; of very many those with most rows."""
    tree, cards = view.tree, []
    leaves = np.flatnonzero(tree.is_leaf)
    largest = leaves[np.argsort(-tree.weight[leaves], kind="stable")][:_MOST_CARDS]
    for shown in _nodes(view):
        node = shown["node"]
        if node not in largest:
            continue
        card = shown | {"table": None, "held_out": ""}
        if isinstance(view, ClassView) and len(view.equations) > 1:
            card["table"] = class_table(view, node, _MOST_TERMS)
        else:
            card |= term_lines(view.equations[0], node)
        if rows is not None and (rows.leaf == node).any():
            here = rows.take(rows.leaf == node)
            words = f"{len(here.actual):,} held-out rows"
            card["held_out"] = words, *quality.of_rows(view, here)
        cards.append(card)
    return cards


def _deepest(tree: Tree) -> int:
    """Find the deepest level for whose nodes there is room."""
    shown = np.cumsum(np.bincount(tree.depth))
    return max(int(np.searchsorted(shown, _MOST_NODES, side="right")) - 1, 1)


def _left_out(tree: Tree, depth: int, nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say that deep levels, or parts of long lists, are left out."""
    notes = []
    if depth < tree.max_depth:
        levels = f"{counted(depth, 'level', 'levels')} of {tree.max_depth}"
        notes.append(
            f"only the upper {levels} are shown; export_text() shows the whole tree"
        )
    words = [" ".join(part) for node in nodes for part in node["equations"]]
    if any(map(cuts_a_list, [*words, *(node["condition"] for node in nodes)])):
        notes.append(
            "long lists of categories are cut short; export_text(max_categories=None), "
            "or secret-jax show MODEL --categories, has them whole"
        )
    return notes
