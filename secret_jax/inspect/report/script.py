"""What the script of a page shows: ways of rows, and what if a row were another."""

import math
import textwrap
from dataclasses import replace
from typing import Any

import numpy as np

from secret_jax.data.attributes import DAYS
from secret_jax.data.columns import is_missing
from secret_jax.inspect.class_view import ClassView, percent
from secret_jax.inspect.code.export import exported
from secret_jax.inspect.code.functions import functions
from secret_jax.inspect.code.javascript import JavaScript
from secret_jax.inspect.code.program import ExportedModel, plain_category
from secret_jax.inspect.equations import LinearSplit
from secret_jax.inspect.explain import explain_rows
from secret_jax.inspect.explanation import Explanation
from secret_jax.inspect.plot.picture import evenly_spaced
from secret_jax.inspect.printing import number, quoted
from secret_jax.inspect.rounding import in_steps
from secret_jax.inspect.tree_view import Rows, TreeView
from secret_jax.losses.numbers import SQUARED_ERROR
from secret_jax.tree.reshape import hardened
from secret_jax.tree.totals import way_to

_MOST_ROWS = 40
_MOST_COLUMNS = 12  # of a row; the others are added up
_LONGEST = 90  # characters of a column and what a row holds
_STRANGER = "a class never seen"
_MOST_LEAVES = 300
_MISSING = "(missing)"
_TAIL = 0.005  # of the rows on either side of a slider
_SPREADS = 2.5  # without rows a slider goes so many deviations from the mean
_STEPS = 100  # of a slider, at least


def example_ways(view: TreeView, rows: Rows) -> list[dict[str, Any]]:
    """Take the predictions of some rows apart, for the script of the page.

    The rows are evenly spaced by their predictions, or by how sure these are. ``path``
    are nodes from the root to the leaf, ``steps`` what is added, in words and as a
    number, from the baseline on; of classes that is to log-odds or scores.
    """
    predicted, schema = rows.predicted, view.tree.schema
    if isinstance(view, ClassView):
        predicted = predicted[:, 1] if view.of_two else predicted.max(axis=1)
    order = np.argsort(predicted, kind="stable")
    chosen = order[evenly_spaced(len(order), _MOST_ROWS)]
    some = rows.take(chosen)
    why = explain_rows(view, some.table, schema.as_written(some.columns))
    ways = []
    for i, row in enumerate(chosen.tolist()):
        unit, start = 1.0, f"{why.target_of(i)}, on average"
        if isinstance(view, ClassView):
            names = [quoted(name) for name in view.names]
            best = 1 if view.of_two else int(some.predicted[i].argmax())
            said = f"{percent(some.predicted[i, best])} {names[best]}"
            actual = int(some.actual[i])
            true = _STRANGER if actual < 0 else names[actual]
        else:
            unit, start = schema.target_scale, "on average"
            said = in_steps(float(some.predicted[i]), unit)
            true = number(float(some.actual[i]), digits=4)
        leaf = int(why.leaf[i])
        way = {
            "row": row,
            "path": [node for node, _ in way_to(view.tree, leaf)] + [leaf],
            "steps": [
                (words, in_steps(value, unit), value / unit)
                for words, value in _steps(why, i, start)
            ],
            "predicted": said,
            "actual": true,
        }
        ways.append(way)
    return ways


def _steps(why: Explanation, i: int, start: str) -> list[tuple[str, float]]:
    """List what is added up to a row's prediction, the largest columns first."""
    columns = why.steps(i)
    steps = [(start, why.baseline_of(i)), *columns[:_MOST_COLUMNS]]
    rest = columns[_MOST_COLUMNS:]
    if rest:
        others = sum(value for _, value in rest)
        steps.append((f"{len(rest)} other columns", others))
    if why.clipping[i]:
        steps.append(("kept in the range of the leaf", float(why.clipping[i])))
    return [(textwrap.shorten(w, _LONGEST, placeholder="…"), v) for w, v in steps]


def what_if(view: TreeView, rows: Rows | None) -> dict[str, Any] | None:
    """Write the functions of the page: ``code``, its ``inputs`` and ``labels``.

    They are ``predict(row)``, or of classes ``predict_proba(row)``, and
    ``leaf_of(row)``. None for very large trees, losses without a link, and categories
    that code cannot hold.
    """
    if view.tree.n_leaves > _MOST_LEAVES:
        return None
    # A title could end the script.
    model = exported(view)._replace(title="prediction", only=None)
    programs = [JavaScript(model, "predict"), JavaScript(_of_leaves(model), "leaf_of")]
    try:
        code = "\n".join(map(functions, programs))
    except TypeError:  # of an interval as a category, or a loss without a link
        return None
    return {
        "code": code,
        "inputs": [_input(view, rows, name) for name in programs[0].asked],
        "labels": list(view.names) if isinstance(view, ClassView) else [],
    }


def _of_leaves(model: ExportedModel) -> ExportedModel:
    """Program that predicts the number of a leaf, with gates as hard splits."""
    (outputs,) = model.trees
    splits = {
        node: replace(split, width=0.0) if isinstance(split, LinearSplit) else split
        for node, split in outputs[0].splits.items()
    }
    program = replace(
        outputs[0],
        tree=hardened(outputs[0].tree),
        splits=splits,
        models={
            leaf: replace(
                model, intercept=float(leaf), terms=(), low=-math.inf, high=math.inf
            )
            for leaf, model in outputs[0].models.items()
        },
    )
    return model._replace(
        trees=[[program]], constants=(0.0,), loss=SQUARED_ERROR, classes=None
    )


def _input(view: TreeView, rows: Rows | None, name: str) -> dict[str, Any]:
    """Describe the input for an attribute: its ``name`` and a ``value`` to begin with.

    Then ``choices``, pairs of words and value; or of numbers ``low``, ``high`` and
    ``step`` of a slider, and whether they are days of a ``date``.
    """
    schema = view.tree.schema
    position = schema.names.index(name)
    _, part, levels = schema.origin(position)
    if position in schema.discrete or levels:
        known = levels or schema.categories[schema.discrete.index(position)]
        plain = [plain_category(one, name) for one in known if one is not None]
        choices: list[tuple[str, Any]] = [(str(one), one) for one in plain]
        if schema.allow_missing:
            choices.append((_MISSING, None))
        return {"name": name, "choices": choices, "value": plain[0] if plain else None}
    place = schema.position_of(position)
    center, spread = float(schema.center[place]), float(schema.scale[place])
    low = high = center
    if rows is not None:
        column = np.asarray(rows.columns[position]).astype(np.float64)
        known = column[np.isfinite(column)]
        if len(known):
            ends = np.quantile(known, [_TAIL, 0.5, 1.0 - _TAIL], method="nearest")
            low, center, high = ends.tolist()
    if not low < high:  # the rows, if any, tell no range
        low, high = center - _SPREADS * spread, center + _SPREADS * spread
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-300) / _STEPS))
    step = max(step, 1.0) if position in schema.whole else step
    digits = max(0, -round(math.log10(step)))
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    ends = {"low": low, "high": max(high, low + step), "value": center}
    slider = {key: round(end, digits) for key, end in ends.items()}
    return {"name": name, **slider, "step": step, "date": part == DAYS}


def held_values(
    view: TreeView, rows: Rows, row: int, inputs: list[dict[str, Any]]
) -> list[Any]:
    """Values of a row for the inputs; None where one is missing."""
    schema, values = view.tree.schema, []
    for each in inputs:
        position = schema.names.index(each["name"])
        levels = schema.origin(position).levels
        value = np.asarray(rows.columns[position])[row]
        value = value.item() if isinstance(value, np.generic) else value
        value = None if is_missing(value) else value
        if levels and value is not None:
            value = levels[int(value)]
        values.append(value)
    return values
