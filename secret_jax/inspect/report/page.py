"""The whole page, and the foldable tree alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from secret_jax.inspect.arguments import check_count
from secret_jax.inspect.colors import Scale
from secret_jax.inspect.cost import reading_cost
from secret_jax.inspect.curves import curves_note
from secret_jax.inspect.importances import feature_importances
from secret_jax.inspect.printing import counted, counted_leaves, counted_rows, number
from secret_jax.inspect.report.drawing import Scatter, histogram, scatter
from secret_jax.inspect.report.held_out import (
    HeldOut,
    compared,
    error_and_uncertainty,
    errors_by_size,
    r_squared,
    with_bars,
)
from secret_jax.inspect.report.nodes import NodeView, means, shown_nodes
from secret_jax.inspect.report.terms import TermLine, term_lines
from secret_jax.inspect.report.ways import example_ways
from secret_jax.inspect.report.words import in_steps
from secret_jax.inspect.rest import rest_of
from secret_jax.inspect.words import missing_facts, mixture_facts
from secret_jax.tree.structure import Tree

# What a page has room for; the notes on it say what was left out.
_MOST_CARDS = 200
_MOST_NODES = 1000
_MOST_IMPORTANCES = 20
_LEAST_IMPORTANCE = 0.001
_BINS = 41  # odd: one of them is around zero
# Pixels.
_CARD_SCATTER, _LARGE_SCATTER = 150, 300
_HISTOGRAM = 460, 220


class Card(NamedTuple):
    """A leaf: what is said of it, its terms, and its rows as points."""

    view: NodeView
    terms: list[TermLine]
    n_hidden: int
    scatter: Scatter | None


def report_page(
    tree: Tree,
    rows: HeldOut | None = None,
    *,
    comparison: Mapping[str, Mapping[str, Any]] | None = None,
    title: str | None = None,
    max_points: int = 300,
) -> str:
    """A page of HTML that holds all it needs: style, script, drawings.

    Parameters
    ----------
    tree : Tree
        Of a single output.
    rows : HeldOut, optional
        Rows that the tree did not learn from: for errors, points and ways.
    comparison : dict of str to dict, optional
        Other methods: ``rmse``, ``r2`` and perhaps ``leaves`` of each name.
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
    note, tree = curves_note(tree), rest_of(tree)
    schema = tree.schema
    scale = Scale(means(tree).tolist())
    depth = _deepest(tree, _MOST_NODES)
    nodes = shown_nodes(tree, scale, depth)
    cards = _cards(tree, scale, rows, max_points)
    content: dict[str, Any] = {
        "title": title or schema.target_name,
        "target": schema.target_name,
        "tiles": _tiles(tree, rows),
        "notes": [
            words
            for words in (
                *(note, missing_facts(tree), mixture_facts(tree)),
                _cut(tree, depth),
            )
            if words
        ],
        "nodes": nodes,
        "low": in_steps(scale.low, schema.target_scale),
        "high": in_steps(scale.high, schema.target_scale),
        "shades": scale.shades,
        "cards": cards,
        "n_leaves": tree.n_leaves,
        "importances": _importances(tree),
        "comparison": [],
        "ways": [],
    }
    lines = compared(comparison)
    if rows is not None:
        lines = errors_by_size(tree, rows) + lines
        content |= {
            "ways": example_ways(tree, rows),
            "fit": scatter(
                rows.prediction, rows.actual, _LARGE_SCATTER, max(10 * max_points, 1)
            ),
            "residuals": histogram(rows.residual, *_HISTOGRAM, _BINS),
            "n_rows": len(rows.actual),
        }
    content["comparison"] = with_bars(lines)
    return _templates().get_template("page.html").render(content)


def tree_fragment(trees: list[Tree], limit: int) -> str:
    """The foldable trees alone, to stand in another page.

    Parameters
    ----------
    trees : list of Tree
        Each of a single output.
    limit : int
        Most bytes; deep levels are left out, and that is said.

    Returns
    -------
    str
    """
    template = _templates().get_template("fragment.html")
    curves, trees = [curves_note(tree) for tree in trees], [*map(rest_of, trees)]
    depth = max(_deepest(tree, _MOST_NODES) or tree.max_depth for tree in trees)
    while True:
        parts = []
        for tree, note in zip(trees, curves, strict=True):
            scale = Scale(means(tree).tolist())
            parts.append(
                {
                    "head": _head(tree),
                    "nodes": shown_nodes(tree, scale, depth),
                    "note": "; ".join(filter(None, (note, _cut(tree, depth)))),
                }
            )
        html = template.render(trees=parts)
        if len(html.encode()) <= limit or depth == 0:
            return html
        depth -= 1


@cache
def _templates() -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError(
            "Pages need jinja2, which is not installed. Install the extra: "
            "pip install 'secret-jax[plot]'"
        ) from error
    return Environment(
        loader=PackageLoader("secret_jax.inspect.report"),
        autoescape=True,  # names of columns and categories are anybody's
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _head(tree: Tree) -> str:
    numbers = counted(reading_cost(tree).total, "number", "numbers")
    return (
        f"{tree.schema.target_name}: {counted_leaves(tree.n_leaves)}, {numbers} to "
        f"read, {counted_rows(tree.weight[0])}"
    )


def _tiles(tree: Tree, rows: HeldOut | None) -> list[tuple[str, str, str]]:
    """Figures of the head: label, value, remark."""
    depth = f"depth {tree.max_depth}" + (", soft splits" if tree.is_soft else "")
    tiles = [
        ("grown on", counted_rows(tree.weight[0]), ""),
        ("size", counted_leaves(tree.n_leaves), depth),
        ("to read", f"{reading_cost(tree).total:,} numbers", "splits and equations"),
    ]
    if rows is None:
        error = max(_training_error(tree), 0.0)
        if tree.loss is None:
            error = float(np.sqrt(error)) * tree.schema.target_scale
        what = "training error" if tree.loss is None else "training loss"
        tiles.append((what, number(error, digits=3), "no held-out rows were given"))
        return tiles
    error, uncertainty = error_and_uncertainty(rows.residual)
    explained = r_squared(error, rows.variance)
    words = f"{number(error, digits=3)} ± {number(uncertainty, digits=2)}"
    tiles.append(("held-out error", words, f"{len(rows.actual):,} rows"))
    if explained is not None:
        tiles.append(("held-out R²", f"{explained:.3f}", "share of the variance"))
    return tiles


def _training_error(tree: Tree) -> float:
    leaf = tree.is_leaf
    total = max(float(tree.weight[leaf].sum()), 1e-300)
    return float(tree.weight[leaf] @ tree.train_error[leaf, 0]) / total


def _cards(
    tree: Tree, scale: Scale, rows: HeldOut | None, max_points: int
) -> list[Card]:
    """The leaves in the order of the tree; of very many the ones with most rows."""
    leaves = np.flatnonzero(tree.is_leaf)
    largest = leaves[np.argsort(-tree.weight[leaves], kind="stable")][:_MOST_CARDS]
    chosen = set(largest.tolist())
    cards = []
    for view in shown_nodes(tree, scale):
        if view.node not in chosen:
            continue
        lines, n_hidden = term_lines(tree, view.node)
        points = None
        if rows is not None and max_points and (rows.leaf == view.node).any():
            here = rows.leaf == view.node
            points = scatter(
                rows.prediction[here], rows.actual[here], _CARD_SCATTER, max_points
            )
        cards.append(Card(view, lines, n_hidden, points))
    return cards


def _importances(tree: Tree) -> list[tuple[str, str, float]]:
    """Column, percent and length of its bar, the largest first."""
    shares = feature_importances(tree)
    order = np.argsort(-shares, kind="stable")[:_MOST_IMPORTANCES]
    largest = max(float(shares.max(initial=0.0)), 1e-300)
    return [
        (
            tree.schema.names[column],
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
