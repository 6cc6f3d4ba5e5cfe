"""The whole page, and the foldable tree alone."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from secret_jax.data.given import ArrayLike, TableLike
from secret_jax.inspect.arguments import Wording
from secret_jax.inspect.coefficients import node_table
from secret_jax.inspect.notes import facts_of, mixture_facts, one_leaf_sentence
from secret_jax.inspect.printing import counted, counted_leaves, counted_rows
from secret_jax.inspect.report import quality
from secret_jax.inspect.report.script import what_if
from secret_jax.inspect.view import Readable, Rows, View, as_view
from secret_jax.inspect.words import (
    cuts_a_list,
    model_parts,
    most_moving,
    path_sentence,
    split_sentence,
)
from secret_jax.runtime.optional import imported
from secret_jax.tree.structure import StopReason
from secret_jax.tree.totals import in_order, leaves_below, way_to

# What a page has room for; the notes on it say what was left out.
_MOST_NODES, _MOST_IN_NOTEBOOK = 1000, 200
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
    if (X is None) != (y is None):
        raise ValueError("Give both X and y, or neither of them.")
    view = as_view(tree, output)
    rows = None if X is None else Rows.of(view, X, y)
    tree, of_classes = view.tree, view.classes is not None
    nodes, left_out = _shown(view, _MOST_NODES)
    headings = ("right", "log-loss") if of_classes else ("error", "R²")
    tiles = [
        ("grown on", counted_rows(tree.weight[0]), ""),
        ("size", counted_leaves(tree.n_leaves), f"depth {tree.max_depth}"),
        ("to read", f"{view.n_numbers():,} numbers", "in splits and equations"),
    ]
    if rows is not None:
        seen = f"{len(rows.actual):,} held-out rows"
        figures = quality.in_words(quality.scores(view, rows.actual, rows.predicted))
        pairs = zip(headings, figures, strict=True)
        tiles += [(name, figure, seen) for name, figure in pairs]
    notes = *facts_of(tree), mixture_facts(tree), *left_out
    return _template("page.html").render(
        title=title or view.title,
        view=view,
        of_classes=of_classes,
        headings=headings,
        tiles=tiles,
        notes=list(filter(None, notes)),
        nodes=nodes,
        cards=[_card(view, rows, each) for each in nodes if not each["below"]],
        comparison=quality.error_lines(view, rows, comparison or {}),
        picture="" if rows is None else quality.picture(view, rows),
        what_if=what_if(view),
    )


def tree_fragment(trees: Sequence[Readable]) -> str:
    """Write the foldable trees alone, to stand in another page.

    Deep levels are left out where there are very many nodes, and that is said.
    """
    parts = []
    for view in map(as_view, trees):
        nodes, left_out = _shown(view, _MOST_IN_NOTEBOOK)
        size = counted(view.n_numbers(), "number", "numbers")
        size = f"{counted_leaves(view.tree.n_leaves)}, {size} to read"
        head = f"{view.title}: {size}, {counted_rows(view.tree.weight[0])}"
        note = "; ".join(left_out)
        parts.append({"head": head, "note": note, "view": view, "nodes": nodes})
    return _template("fragment.html").render(trees=parts)


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
    return environment.get_template(name)


def _shown(view: View, most: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Describe at most so many nodes, as they are read, and say what is left out."""
    tree, n_below, fills = view.tree, leaves_below(view.tree), view.fills
    n_shown = np.cumsum(np.bincount(tree.depth))
    deepest = max(int(np.searchsorted(n_shown, most, side="right")) - 1, 1)
    nodes, notes = [], []
    for node in in_order(tree, deepest):
        leaf, depth = bool(tree.is_leaf[node]), int(tree.depth[node])
        is_end = leaf or depth == deepest
        equations = view.equations_of(node) if is_end else []
        # In parts between which a line may break.
        parts = [model_parts(one, node, _WORDING) for one in equations]
        if len(equations) > 1:  # a leaf's own table has them
            parts = [[", ".join(most_moving(equations, node))]]
        above = [split_sentence(tree, *step) for step in way_to(tree, node)[-1:]]
        share = float(tree.weight[node] / max(tree.weight[0], 1e-300))
        shown = {
            "node": node,
            "depth": depth,
            "condition": above[0] if above else "all rows",
            "facts": view.facts(node),
            "bar": view.bar(node) or [(share, fills[node])],
            "is_end": is_end,
            "below": "" if leaf else counted_leaves(int(n_below[node])),
            "equations": parts,
        }
        nodes.append(shown)
    if deepest < tree.max_depth:
        levels = f"{counted(deepest, 'level', 'levels')} of {tree.max_depth}"
        notes.append(
            f"only the upper {levels} are shown; export_text() shows the whole tree"
        )
    if cuts_a_list(repr(nodes)):
        notes.append(
            "long lists of categories are cut short; export_text(max_categories=None), "
            "or secret-jax show MODEL --categories, has them whole"
        )
    return nodes, notes


def _card(view: View, rows: Rows | None, shown: dict[str, Any]) -> dict[str, Any]:
    """Describe a leaf, by what the tree shows of it and more."""
    tree, node = view.tree, shown["node"]
    reason = StopReason(int(tree.stop_reason[node])).sentence
    remarks = view.range_facts(node, in_full=True), one_leaf_sentence(tree) or reason
    held_out = []
    if rows is not None and (rows.leaf == node).any():
        here = rows.leaf == node
        score = quality.scores(view, rows.actual[here], rows.predicted[here])
        held_out = f"{here.sum():,} held-out rows", *quality.in_words(score)
    return {
        **shown,
        "path": path_sentence(tree, node),
        "color": max(shown["bar"])[1],
        "remark": "; ".join(filter(None, remarks)),
        "table": node_table(view, node, _MOST_TERMS),
        "held_out": held_out,
    }
