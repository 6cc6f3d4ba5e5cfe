"""Ways of single rows through the tree, with what every column adds on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from secret_jax.inspect.class_view import ClassView, percent
from secret_jax.inspect.explain import explain_rows
from secret_jax.inspect.explanation import Explanation
from secret_jax.inspect.plot.style import evenly_spaced
from secret_jax.inspect.printing import entry, number, quoted
from secret_jax.inspect.report.held_out import HeldOut
from secret_jax.inspect.rounding import in_steps
from secret_jax.inspect.tree_view import TreeView
from secret_jax.tree.structure import Tree

_MOST_ROWS = 40
_MOST_COLUMNS = 12  # of a row; the others are added up
_LONGEST = 60  # characters of what a row holds
_STRANGER = "a class never seen"


def example_ways(view: TreeView, rows: HeldOut) -> list[dict[str, Any]]:
    """Take the predictions of some rows apart, for the script of the page.

    The rows are evenly spaced by their predictions, or by how sure these are.

    Returns
    -------
    list of dict
        ``row`` (its position), ``predicted`` and ``actual`` in words, ``path`` (nodes
        from the root to the leaf), and ``steps``: what is added, in words and as a
        number, from the baseline on. Of classes that is to log-odds or scores.
    """
    predicted, schema = rows.predicted, view.tree.schema
    if isinstance(view, ClassView):
        predicted = predicted[:, 1] if view.of_two else predicted.max(axis=1)
    order = np.argsort(predicted, kind="stable")
    chosen = order[evenly_spaced(len(order), _MOST_ROWS)]
    some = rows.take(chosen)
    why = explain_rows(view, some.table, schema.as_written(some.columns))
    unit, start = 1.0, "on average"
    ways = []
    for i, row in enumerate(chosen.tolist()):
        if isinstance(view, ClassView):
            target = why.target if isinstance(why.target, str) else why.target[i]
            start = f"{target}, on average"
            names = [quoted(name) for name in view.names]
            best = 1 if view.of_two else int(some.predicted[i].argmax())
            said = f"{percent(some.predicted[i, best])} {names[best]}"
            actual = int(some.actual[i])
            true = _STRANGER if actual < 0 else names[actual]
        else:
            unit = schema.target_scale
            said = in_steps(float(some.predicted[i]), unit)
            true = number(float(some.actual[i]), digits=4)
        steps = [
            (words, in_steps(value, unit), value / unit)
            for words, value in _steps(why, i, start)
        ]
        path = _path(view.tree, int(why.leaf[i]))
        words = {"predicted": said, "actual": true}
        ways.append({"row": row, "path": path, "steps": steps} | words)
    return ways


def _steps(why: Explanation, i: int, start: str) -> list[tuple[str, float]]:
    """List what is added to a row's prediction, the largest columns first."""
    baseline = float(np.broadcast_to(why.baseline, len(why))[i])
    added = why.contributions[i]
    columns = np.argsort(-np.abs(added), kind="stable")
    columns = columns[added[columns] != 0]
    steps = [(start, baseline)]
    for column in columns[:_MOST_COLUMNS].tolist():
        value = why.values[i, column]
        held = "missing" if value is None or value != value else entry(value)
        held = held if len(held) <= _LONGEST else held[: _LONGEST - 1] + "…"
        steps.append((f"{quoted(why.names[column])} = {held}", float(added[column])))
    rest = columns[_MOST_COLUMNS:]
    if len(rest):
        steps.append((f"{len(rest)} other columns", float(added[rest].sum())))
    if why.clipping[i]:
        steps.append(("kept in the range of the leaf", float(why.clipping[i])))
    return steps


def _path(tree: Tree, node: int) -> list[int]:
    path = [node]
    while path[-1]:
        path.append(int(tree.parent[path[-1]]))
    return path[::-1]
