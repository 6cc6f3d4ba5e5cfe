"""The whole page, and the foldable tree alone."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from secret_jax.data.given import ArrayLike, TableLike
from secret_jax.inspect.arguments import check_pair
from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.importances import feature_importances
from secret_jax.inspect.notes import facts_of, mixture_facts
from secret_jax.inspect.printing import counted, counted_leaves, counted_rows
from secret_jax.inspect.report.classes import ClassParts
from secret_jax.inspect.report.numbers import NumberParts
from secret_jax.inspect.report.parts import error_lines, shown_nodes
from secret_jax.inspect.report.script import example_ways, held_values, what_if
from secret_jax.inspect.tree_view import Rows, TreeView
from secret_jax.inspect.views import Readable, as_view
from secret_jax.inspect.words import cuts_a_list
from secret_jax.runtime.optional import imported
from secret_jax.tree.structure import Tree

# What a page has room for; the notes on it say what was left out.
_MOST_CARDS = 200
_MOST_NODES = 1000
_MOST_IMPORTANCES = 20
_LEAST_IMPORTANCE = 0.001


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

    Parameters
    ----------
    X, y : optional
        Rows that were not used in `fit`, and their targets: for errors, points in the
        leaves, and the ways of some rows through the tree.
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
        If jinja2 is not installed.
    ValueError
        If only one of X and y is given, or they do not match.
    """
    check_pair(X, y)
    view = as_view(tree, output)
    rows = None if X is None else Rows.of(view, X, y)
    parts = _parts(view, rows)
    depth = _deepest(view.tree)
    nodes = shown_nodes(parts, depth)
    cut = _cut(view.tree, depth), _abbreviated(nodes)
    notes = *facts_of(view.tree), mixture_facts(view.tree), *cut
    lines = error_lines(parts, comparison)
    program, ways = what_if(view, rows), []
    if rows is not None:
        ways = example_ways(view, rows)
        asked = program["inputs"] if program else []
        for way in ways:
            way["values"] = held_values(view, rows, way["row"], asked)
    depth_words = f"depth {view.tree.max_depth}"
    soft = ", soft splits" if view.tree.is_soft else ""
    content: dict[str, Any] = {
        "title": title or view.title,
        "parts": parts,
        "view": view,
        "of_classes": isinstance(view, ClassView),
        "tiles": [
            ("grown on", counted_rows(view.tree.weight[0]), ""),
            ("size", counted_leaves(view.tree.n_leaves), depth_words + soft),
            ("to read", f"{view.n_numbers():,} numbers", "splits and equations"),
            *parts.tiles(),
        ],
        "notes": [words for words in notes if words],
        "nodes": nodes,
        "cards": _cards(parts),
        "importances": _importances(view),
        "comparison": lines,
        "longest": max((line["bar"] for line in lines), default=0.0) or 1.0,
        "ways": ways,
        "what_if": program,
        "drawings": {} if rows is None else parts.drawings(),
        "n_rows": 0 if rows is None else len(rows.actual),
    }
    return _templates().get_template("page.html").render(content)


def tree_fragment(trees: Sequence[Readable], limit: int) -> str:
    """Write the foldable trees alone, to stand in another page.

    Deep levels are left out beyond so many bytes, and that is said.
    """
    template = _templates().get_template("fragment.html")
    views = [as_view(tree) for tree in trees]
    depth = max(_deepest(v.tree) or v.tree.max_depth for v in views)
    while True:
        parts = []
        for view in views:
            of_view = _parts(view)
            nodes = shown_nodes(of_view, depth)
            numbers = counted(view.n_numbers(), "number", "numbers")
            notes = (_cut(view.tree, depth), _abbreviated(nodes))
            parts.append(
                {
                    "head": f"{view.title}: {counted_leaves(view.tree.n_leaves)}, "
                    f"{numbers} to read, {counted_rows(view.tree.weight[0])}",
                    "key": of_view.key,
                    "nodes": nodes,
                    "note": "; ".join(filter(None, notes)),
                }
            )
        html = template.render(trees=parts)
        if len(html.encode()) <= limit or depth == 0:
            return html
        depth -= 1


def _parts(view: TreeView, rows: Rows | None = None) -> NumberParts | ClassParts:
    return (ClassParts if isinstance(view, ClassView) else NumberParts)(view, rows)


@cache
def _templates() -> Any:
    jinja2 = imported("jinja2", "Pages", "plot")
    return jinja2.Environment(
        loader=jinja2.PackageLoader("secret_jax.inspect.report"),
        autoescape=True,  # names of columns and categories are anybody's
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _cards(parts: NumberParts | ClassParts) -> list[dict[str, Any]]:
    """Describe leaves in the order of the tree; of very many those with most rows."""
    tree, rows = parts.tree, parts.rows
    leaves = np.flatnonzero(tree.is_leaf)
    largest = leaves[np.argsort(-tree.weight[leaves], kind="stable")][:_MOST_CARDS]
    cards = []
    for shown in shown_nodes(parts):
        node = shown["node"]
        if node in largest:
            here = None if rows is None else rows.take(rows.leaf == node)
            here = here if here is not None and len(here.actual) else None
            known = {"view": shown, "color": parts.color(node)}
            cards.append(parts.card(node, here) | known)
    return cards


def _importances(view: TreeView) -> list[tuple[str, str, float]]:
    """Shares of the columns in what the tree explains, the mean over outputs."""
    tree, only = view.tree, getattr(view, "only", None)
    outputs = range(tree.n_outputs) if only is None else [only]
    shares = np.mean([feature_importances(tree, i) for i in outputs], axis=0)
    names = tree.schema.names
    order = np.argsort(-shares, kind="stable")[:_MOST_IMPORTANCES]
    shown = [i for i in order.tolist() if shares[i] >= _LEAST_IMPORTANCE]
    lengths = (shares / max(shares.max(initial=0.0), 1e-300)).tolist()
    return [(str(names[i]), f"{100 * shares[i]:.1f} %", lengths[i]) for i in shown]


def _deepest(tree: Tree) -> int | None:
    """Find the deepest level down to which nodes are shown; None: all are."""
    shown = np.cumsum(np.bincount(tree.depth))
    if shown[-1] <= _MOST_NODES:
        return None
    return max(int(np.searchsorted(shown, _MOST_NODES, side="right")) - 1, 1)


def _cut(tree: Tree, depth: int | None) -> str:
    if depth is None or depth >= tree.max_depth:
        return ""
    return (
        f"only the upper {counted(depth, 'level', 'levels')} of {tree.max_depth} are "
        "shown; export_text() shows the whole tree"
    )


def _abbreviated(nodes: list[dict[str, Any]]) -> str:
    conditions = [node["condition"] for node in nodes]
    equations = [" ".join(parts) for node in nodes for parts in node["equations"]]
    if not any(map(cuts_a_list, conditions + equations)):
        return ""
    return (
        "long lists of categories are cut short; export_text(max_categories=None), or "
        "secret-jax show MODEL --categories, has them whole"
    )
