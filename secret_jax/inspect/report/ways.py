"""Ways of single rows through the tree, with what every column adds on them."""

import textwrap
from typing import Any

import numpy as np

from secret_jax.inspect.class_view import ClassView, percent
from secret_jax.inspect.explain import explain_rows
from secret_jax.inspect.explanation import Explanation
from secret_jax.inspect.plot.picture import evenly_spaced
from secret_jax.inspect.printing import number, quoted
from secret_jax.inspect.rounding import in_steps
from secret_jax.inspect.rows import Rows
from secret_jax.inspect.tree_view import TreeView
from secret_jax.tree.totals import way_to

_MOST_ROWS = 40
_MOST_COLUMNS = 12  # of a row; the others are added up
_LONGEST = 90  # characters of a column and what a row holds
_STRANGER = "a class never seen"


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
