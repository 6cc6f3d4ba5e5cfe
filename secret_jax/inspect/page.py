"""The whole page, and the foldable tree alone; how good it is on rows beside it.

The page's script computes with the tree as JSON: see `what_if`.
"""

import base64
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import compress
from typing import Any

import numpy as np
from sklearn.metrics import ConfusionMatrixDisplay, PredictionErrorDisplay

from secret_jax.data.dates import DAYS
from secret_jax.data.schema import TableSchema
from secret_jax.data.seen import hashes_of, unseen
from secret_jax.data.validation import ArrayLike, TableLike
from secret_jax.fit.prune.path import of_size
from secret_jax.inspect import words
from secret_jax.inspect.equations import unknown_values
from secret_jax.inspect.printing import counted, counted_leaves, number
from secret_jax.inspect.tables import CENTER, node_table
from secret_jax.inspect.view import Readable, Rows, View, as_view, estimator_of
from secret_jax.losses.interface import HIGHEST_LOG
from secret_jax.runtime.environment import imported
from secret_jax.tree.soft import HARD_LOGIT
from secret_jax.tree.structure import SplitKind, StopReason, Tree
from secret_jax.tree.totals import in_order, leaves_below, way_to

# What a page has room for; the notes on it say what was left out.
_MAX_NODES, _MAX_IN_NOTEBOOK = 1000, 200
_MAX_LEAVES = 300  # of a tree that the script computes with
_MAX_TERMS = 24  # of an equation, or its table
_WORDING = words.Wording(max_terms=_MAX_TERMS)
_MIN_PROBABILITY = 1e-15  # of a class that none was given to
_MAX_CLASSES = 20  # of a picture
_FEWEST = 10  # rows whose variance tells something, so that there is an R²
_OF_CLASSES = {"cmap": "Blues", "colorbar": False, "xticks_rotation": "vertical"}
_OF_NUMBERS = {"kind": "actual_vs_predicted", "random_state": 0}
_OF_NUMBERS |= {"scatter_kwargs": {"s": 10, "alpha": 0.5, "color": "#21709a"}}


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
        trees and leaves. Rows that an estimator knows from its fit are left out, and
        counted.
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
        If only one of X and y is given, or they do not match, or all rows were used in
        the fit.
    """
    if (X is None) != (y is None):
        raise ValueError("Give both X and y, or neither of them.")
    view = as_view(tree, output)
    rows, beside = None, ""
    if X is not None:
        rows = Rows.of(view, X, y)
        rows, n_seen = _held_out(tree, rows, X, y), len(rows.actual)
        n_seen -= len(rows.actual)
        beside = f"{n_seen:,} more rows were given that had grown the tree" * (
            n_seen > 0
        )
    tree, of_classes = view.tree, view.classes is not None
    nodes, left_out = _shown(view, _MAX_NODES)
    headings = ("right", "log-loss") if of_classes else ("error", "R²")
    figures = []
    if rows is not None:
        figures = _figures(_scores(view, rows.actual, rows.predicted))
    notes = *words.facts_of(tree), words.mixture_facts(tree), *left_out, beside
    return _template("page.html").render(
        title=title or view.title,
        view=view,
        of_classes=of_classes,
        headings=headings,
        figures=figures,
        n_held_out=0 if rows is None else len(rows.actual),
        notes=list(filter(None, notes)),
        nodes=nodes,
        cards=[_card(view, rows, each) for each in nodes if not each["below"]],
        comparison=error_lines(view, rows, comparison or {}),
        picture="" if rows is None else _picture(view, rows),
        what_if=what_if(view),
        center=CENTER,
    )


def _held_out(tree: Readable, rows: Rows, X: TableLike, y: ArrayLike) -> Rows:
    """Leave out rows that an estimator knows from its fit."""
    model = None if isinstance(tree, Tree | View) else estimator_of(tree)
    known = getattr(model, "training_rows_", None)
    if model is None or known is None:
        return rows
    new = unseen(known, hashes_of(model.tree_.schema, X, y))
    return rows if new.all() else rows.take(new)


def tree_fragment(trees: Sequence[Readable]) -> str:
    """Write the foldable trees alone, to stand in another page."""
    parts = []
    for view in map(as_view, trees):
        nodes, left_out = _shown(view, _MAX_IN_NOTEBOOK)
        parts.append({"note": "; ".join(left_out), "view": view, "nodes": nodes})
    return _template("fragment.html").render(trees=parts)


@cache
def _template(name: str) -> Any:
    jinja2 = imported("jinja2", "Pages", "plot")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("secret_jax.inspect"),
        autoescape=True,  # names of columns and categories are anybody's
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["counted"] = counted
    return environment.get_template(name)


def _shown(view: View, n_max: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Describe at most so many nodes, as they are read, and say what is left out."""
    tree, n_below, fills = view.tree, leaves_below(view.tree), view.fills
    n_shown = np.cumsum(np.bincount(tree.depth))
    deepest = max(int(np.searchsorted(n_shown, n_max, side="right")) - 1, 1)
    nodes, notes = [], []
    for node in in_order(tree, deepest):
        leaf, depth = bool(tree.is_leaf[node]), int(tree.depth[node])
        is_end = leaf or depth == deepest
        equations = view.equations_of(node) if is_end else []
        # In parts between which a line may break.
        parts = [words.model_parts(one, _WORDING) for one in equations]
        if len(equations) > 1:  # a leaf's own table has them
            parts = [[", ".join(words.most_moving(equations))]]
        above = [words.split_sentence(tree, *step) for step in way_to(tree, node)[-1:]]
        share = float(tree.n_rows[node] / max(tree.n_rows[0], 1))
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
    if re.search(r"\.\.\. [\d,]+ more\}", repr(nodes)):
        notes.append(
            "long lists of categories are cut short; export_text(max_categories=None), "
            "or secret-jax show MODEL --categories, has them whole"
        )
    return nodes, notes


def _card(view: View, rows: Rows | None, shown: dict[str, Any]) -> dict[str, Any]:
    tree, node = view.tree, shown["node"]
    reason = StopReason(int(tree.stop_reason[node])).sentence
    remarks = (
        view.range_facts(node, in_full=True),
        words.one_leaf_sentence(tree) or reason,
    )
    held_out = []
    if rows is not None and (rows.leaf == node).any():
        here = rows.leaf == node
        score = _scores(view, rows.actual[here], rows.predicted[here])
        n_here = counted(int(here.sum()), "held-out row", "held-out rows")
        held_out = n_here, *_figures(score)
    return {
        **shown,
        "path": words.path_sentence(tree, node),
        "color": max(shown["bar"])[1],
        "remark": "; ".join(filter(None, remarks)),
        "table": node_table(view, node, _MAX_TERMS),
        "held_out": held_out,
    }


def _scores(view: View, actual: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    """Measure predictions: root mean squared error and R², or errors and log-loss."""
    if view.classes:
        chance = predicted[np.arange(len(actual)), np.maximum(actual, 0)]
        chance = np.where(actual < 0, 0.0, chance).clip(_MIN_PROBABILITY)
        wrong = view.predicted_class(predicted) != actual
        return {"error": wrong.mean(), "log_loss": -np.log(chance).mean()}
    square, variance = np.square(actual - predicted[:, 0]).mean(), np.var(actual)
    told = variance > 0 and len(actual) >= _FEWEST
    share = 1.0 - square / variance if told else None
    return {"rmse": math.sqrt(square), "r2": share}


def _figures(score: Mapping[str, Any]) -> list[str]:
    if "rmse" in score:
        share = "-" if score.get("r2") is None else f"{score['r2']:.3f}"
        return [number(score["rmse"], digits=3), share]
    right = f"{100 * (1.0 - score['error']):.1f} %"
    return [right, number(score["log_loss"], digits=3)]


def error_lines(
    view: View, rows: Rows | None, comparison: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Measure the tree cut down to 1, 2, 4, 8 ... leaves, and other methods."""
    lines, tree = [], view.tree
    if rows is not None:
        cuts = [of_size(tree, 2**k) for k in range(tree.n_leaves.bit_length())]
        for n, cut in {one.n_leaves: one for one in (*cuts, tree)}.items():
            name = "the whole tree" if cut is tree else f"a tree of {counted_leaves(n)}"
            seen = replace(view, tree=cut)
            score = _scores(view, rows.actual, seen.predict(rows.table))
            lines.append((name, score | {"leaves": n, "numbers": seen.n_numbers()}))
    sizes = {"leaves": None, "numbers": None}
    return [
        {**sizes, **score, "name": name, "figures": _figures(score)}
        for name, score in (*lines, *comparison.items())
    ]


def _picture(view: View, rows: Rows) -> str:
    display, options = PredictionErrorDisplay, _OF_NUMBERS
    given = rows.actual, rows.predicted[:, 0]
    if view.classes:
        names = np.array([*view.names, "never seen"])
        if len(view.names) > _MAX_CLASSES:
            return ""
        given = names[rows.actual], names[view.predicted_class(rows.predicted)]
        labels = names if (rows.actual < 0).any() else names[:-1]
        display, options = ConfusionMatrixDisplay, {**_OF_CLASSES, "labels": labels}
    figure = imported("matplotlib.figure", "Pages", "plot").Figure
    figure = figure(figsize=(5, 5), layout="constrained")
    axes = figure.add_subplot(title=f"{len(rows.actual):,} held-out rows")
    display.from_predictions(*given, ax=axes, **options)
    if display is PredictionErrorDisplay:  # its marks are no round numbers
        axes.set(xscale="linear", yscale="linear")
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=150)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def what_if(view: View) -> dict[str, Any] | None:
    """Write the tree as it is in memory, for the script of the page, with its inputs.

    Rows hold numbers, codes of categories, or None. None for very large trees, and for
    losses without a link.
    """
    tree, schema = view.tree, view.tree.schema
    if tree.n_leaves > _MAX_LEAVES or tree.loss.link is None:
        return None
    asked = {*compress(schema.input_columns, tree.in_use)}
    asked |= {schema.discrete[attribute] for attribute in tree.asked_attributes}
    return {
        "columns": _columns(schema),
        "nodes": [_node(tree, node) for node in range(tree.n_nodes)],
        "ends": np.nan_to_num(np.stack(tree.clip_range(), axis=2)).tolist(),
        "clip_leaves": tree.clip_leaves or not tree.is_soft,
        "targets": [*zip(schema.target_centers, schema.target_scales, strict=True)],
        "link": tree.loss.link,
        "most": {"logarithm": HIGHEST_LOG, "logit": HARD_LOGIT},
        "labels": replace(view, only=None).names if view.classes else (),
        "inputs": [_input(schema, position) for position in sorted(asked)],
    }


def _columns(schema: TableSchema) -> list[dict[str, Any]]:
    """Say how each column is encoded: a number, or 1 for the category of a ``code``."""
    ends = schema.saturation
    numbers = np.transpose([schema.center, schema.scale, unknown_values(schema), *ends])
    columns: list[dict[str, Any]] = [
        {"from": position, "numbers": each}
        for position, each in zip(schema.input_columns, numbers.tolist(), strict=True)
    ]
    first = schema.n_regressors - schema.n_indicators
    for place, (_, code) in enumerate(schema.indicators, first):
        columns[place]["code"] = code
    for _, place in schema.missing_columns:
        columns[place]["code"] = None  # that of no value
    return columns


def _node(tree: Tree, node: int) -> dict[str, Any]:
    """Write the conditions under which a row goes left, or the equations of a leaf."""
    if tree.is_leaf[node]:
        return {
            "equations": [_sum(each[1:], each[0]) for each in tree.coefficient[node]]
        }
    conditions = []
    for one in tree.comparisons_at(node):
        if tree.kind[one] == SplitKind.DISCRETE:
            position = tree.schema.discrete[tree.attribute[one]]
            listed = np.flatnonzero(tree.goes_left[one]).tolist()
            other = bool(tree.larger_left[node])
            conditions.append({"from": position, "left": listed, "unseen_left": other})
        else:
            ends = float(tree.threshold[one]), float(tree.gate_width[node])
            sum = _sum(tree.direction[one])
            conditions.append({"sum": sum, "threshold": ends[0], "width": ends[1]})
    left, right = int(tree.left[node]), int(tree.right[node])
    return {"conditions": conditions, "left": left, "right": right}


def _sum(weights: Any, constant: float = 0.0) -> dict[str, Any]:
    pairs = [(column, float(one)) for column, one in enumerate(weights) if one]
    return {"constant": float(constant), "weights": pairs}


def _input(schema: TableSchema, position: int) -> dict[str, Any]:
    """Describe the input for an attribute: pairs of words and values, or a number."""
    name, (_, part, levels) = schema.names[position], schema.origin(position)
    if position in schema.discrete or levels:
        if levels:
            known, usual = levels, round(schema.center[schema.position_of(position)])
        else:
            attribute = schema.discrete.index(position)
            known = schema.categories[attribute]
            usual = dict(enumerate(schema.most_frequent)).get(attribute, 0)
        said = ["(missing)" if one is None else str(one) for one in known]
        choices: list[Any] = [*zip(said, range(len(said)), strict=True)]
        if schema.allow_missing and None not in known:
            choices.append(("(missing)", None))
        return {"from": position, "name": name, "choices": choices, "value": usual}
    place, whole = schema.position_of(position), position in schema.whole
    value, tenth = schema.center[place], float(f"{schema.scale[place] / 10:.1g}")
    value = round(value) if whole else float(f"{value:.4g}")
    box = {"value": value, "step": max(1.0, tenth) if whole else tenth or "any"}
    return {"from": position, "name": name, **box, "date": part == DAYS}
