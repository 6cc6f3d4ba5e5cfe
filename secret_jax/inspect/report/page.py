"""The whole page, and the foldable tree alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.inspect.arguments import check_count
from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.notes import missing_facts, mixture_facts, shortening_facts
from secret_jax.inspect.printing import counted, counted_leaves, counted_rows
from secret_jax.inspect.report.class_rows import ClassRows
from secret_jax.inspect.report.error_lines import with_bars
from secret_jax.inspect.report.held_out import HeldOut
from secret_jax.inspect.report.nodes import NodeView, shown_nodes
from secret_jax.inspect.report.of_classes import ClassParts, shade
from secret_jax.inspect.report.of_numbers import NumberParts
from secret_jax.inspect.tree_view import NumberView, TreeView
from secret_jax.inspect.views import as_view
from secret_jax.inspect.words import cuts_a_list
from secret_jax.tree.structure import Tree

# What a page has room for; the notes on it say what was left out.
_MOST_CARDS = 200
_MOST_NODES = 1000
_MOST_IMPORTANCES = 20
_LEAST_IMPORTANCE = 0.001


def report_page(
    tree: Tree | TreeView,
    rows: HeldOut | ClassRows | None = None,
    *,
    comparison: Mapping[str, Mapping[str, Any]] | None = None,
    title: str | None = None,
    max_points: int = 300,
) -> str:
    """A page of HTML that holds all it needs: style, script, drawings.

    Parameters
    ----------
    rows : HeldOut or ClassRows, optional
        Rows that the tree did not learn from, made by `held_out_rows`: for errors,
        drawings and ways.
    comparison : dict of str to dict, optional
        Other methods: ``rmse``, ``r2`` and perhaps ``leaves`` of each name; of classes
        ``error`` (the share that is wrong) and ``log_loss``.
    title : str, optional
        By default the name of the target.
    max_points : int
        Most points of a leaf's drawing.

    Returns
    -------
    str
        It asks for nothing over a network, and says so to the browser, too.
    """
    check_count("max_points", max_points)
    view = as_view(tree)
    parts: Any = _parts(view)
    depth = _deepest(view.tree, _MOST_NODES)
    nodes = shown_nodes(view, depth)
    notes = (
        *(shortening_facts(view.tree), missing_facts(view.tree)),
        mixture_facts(view.tree),
        *(_cut(view.tree, depth), _abbreviated(nodes)),
    )
    content: dict[str, Any] = {
        "title": title or view.title,
        "parts": parts,
        "tiles": [*_tiles(view), *parts.tiles(rows)],
        "notes": [words for words in notes if words],
        "nodes": nodes,
        "cards": _cards(view, parts, rows, max_points),
        "n_leaves": view.tree.n_leaves,
        "importances": _importances(list(view.tree.schema.names), parts.importances),
        "comparison": with_bars(parts.lines(rows, comparison)),
        "ways": [],
        "drawings": {},
        "n_rows": 0,
    }
    if rows is not None:
        content |= {
            "ways": parts.ways(rows),
            "drawings": parts.drawings(rows, max_points),
            "n_rows": len(rows.actual),
        }
    return _templates().get_template("page.html").render(content)


def held_out_rows(
    view: TreeView, table: Table, columns: list[np.ndarray], X: Any, y: Any
) -> HeldOut | ClassRows:
    """Rows that a tree did not learn from, for its page.

    Parameters
    ----------
    columns : list of ndarray of shape (n_rows,)
        As they were given.
    X, y : array-like
        The rows and their targets.
    """
    return _parts(view).rows(table, columns, X, y)


def tree_fragment(trees: Sequence[Tree | TreeView], limit: int) -> str:
    """The foldable trees alone, to stand in another page.

    Parameters
    ----------
    limit : int
        Most bytes; deep levels are left out, and that is said.
    """
    template = _templates().get_template("fragment.html")
    views = [as_view(tree) for tree in trees]
    depth = max(_deepest(v.tree, _MOST_NODES) or v.tree.max_depth for v in views)
    while True:
        parts = []
        for view in views:
            nodes = shown_nodes(view, depth)
            notes = (_cut(view.tree, depth), _abbreviated(nodes))
            parts.append(
                {
                    "head": _head(view),
                    "key": _parts(view).key,
                    "nodes": nodes,
                    "note": "; ".join(filter(None, notes)),
                }
            )
        html = template.render(trees=parts)
        if len(html.encode()) <= limit or depth == 0:
            return html
        depth -= 1


def _parts(view: TreeView) -> NumberParts | ClassParts:
    if isinstance(view, ClassView):
        return ClassParts(view)
    assert isinstance(view, NumberView)
    return NumberParts(view)


@cache
def _templates() -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError(
            "Pages need jinja2, which is not installed. Install the extra: "
            "pip install 'secret-jax[plot]'"
        ) from error
    made = Environment(
        loader=PackageLoader("secret_jax.inspect.report"),
        autoescape=True,  # names of columns and categories are anybody's
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["shade"] = shade
    return made


def _head(view: TreeView) -> str:
    numbers = counted(view.n_numbers(), "number", "numbers")
    return (
        f"{view.title}: {counted_leaves(view.tree.n_leaves)}, {numbers} to "
        f"read, {counted_rows(view.tree.weight[0])}"
    )


def _tiles(view: TreeView) -> list[tuple[str, str, str]]:
    """Figures of the head that all trees have: label, value, remark."""
    tree = view.tree
    depth = f"depth {tree.max_depth}" + (", soft splits" if tree.is_soft else "")
    return [
        ("grown on", counted_rows(tree.weight[0]), ""),
        ("size", counted_leaves(tree.n_leaves), depth),
        ("to read", f"{view.n_numbers():,} numbers", "splits and equations"),
    ]


def _cards(
    view: TreeView, parts: Any, rows: HeldOut | ClassRows | None, max_points: int
) -> list[dict[str, Any]]:
    """The leaves in the order of the tree; of very many the ones with most rows."""
    tree = view.tree
    leaves = np.flatnonzero(tree.is_leaf)
    largest = leaves[np.argsort(-tree.weight[leaves], kind="stable")][:_MOST_CARDS]
    chosen = set(largest.tolist())
    return [
        {"view": one, "color": parts.color(one.node)}
        | parts.card(one.node, rows, max_points)
        for one in shown_nodes(view)
        if one.node in chosen
    ]


def _importances(names: list[str], shares: np.ndarray) -> list[tuple[str, str, float]]:
    """Column, percent and length of its bar, the largest first."""
    order = np.argsort(-shares, kind="stable")[:_MOST_IMPORTANCES]
    largest = max(float(shares.max(initial=0.0)), 1e-300)
    return [
        (
            names[column],
            f"{100 * shares[column]:.1f} %",
            float(shares[column]) / largest,
        )
        for column in order.tolist()
        if shares[column] >= _LEAST_IMPORTANCE
    ]


def _deepest(tree: Tree, most_nodes: int) -> int | None:
    """The deepest level down to which so many nodes are shown; None: all are."""
    shown = np.cumsum(np.bincount(tree.depth))
    if shown[-1] <= most_nodes:
        return None
    return max(int(np.searchsorted(shown, most_nodes, side="right")) - 1, 1)


def _cut(tree: Tree, depth: int | None) -> str:
    if depth is None or depth >= tree.max_depth:
        return ""
    return (
        f"only the upper {counted(depth, 'level', 'levels')} of {tree.max_depth} are "
        "shown; export_text() shows the whole tree"
    )


def _abbreviated(nodes: list[NodeView]) -> str:
    for node in nodes:
        words = [node.condition, *(" ".join(parts) for parts in node.equations)]
        if any(map(cuts_a_list, words)):
            return (
                "long lists of categories are cut short; "
                "export_text(max_categories=None), or secret-jax show MODEL "
                "--categories, has them whole"
            )
    return ""
