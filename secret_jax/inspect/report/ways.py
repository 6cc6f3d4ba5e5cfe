"""Ways of single rows through the tree, with what every column adds on them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from secret_jax.inspect.explain import explain_rows
from secret_jax.inspect.explanation import Explanation
from secret_jax.inspect.printing import entry, number, quoted
from secret_jax.inspect.report.held_out import HeldOut
from secret_jax.inspect.report.words import in_steps
from secret_jax.tree.structure import Tree

_MOST_ROWS = 40
_MOST_COLUMNS = 12  # of a row; the others are added up
_LONGEST = 60  # characters of what a row holds


class Added(NamedTuple):
    """What makes a prediction: where it starts, and what is added to that.

    Attributes
    ----------
    contributions : ndarray of shape (n_columns,), float64
    """

    baseline: float
    contributions: np.ndarray
    clipping: float

    def less(self, other: Added) -> Added:
        """What makes the difference of two predictions."""
        return Added(
            self.baseline - other.baseline,
            self.contributions - other.contributions,
            self.clipping - other.clipping,
        )


def example_ways(tree: Tree, rows: HeldOut) -> list[dict[str, Any]]:
    """Some rows, evenly spaced by their predictions, for the script of the page.

    Parameters
    ----------
    tree : Tree
        Of a single output.

    Returns
    -------
    list of dict
        ``row`` (its position), ``predicted`` and ``actual`` in words, ``path`` (nodes
        from the root to the leaf), and ``steps``: what is added, in words and as a
        number, from the baseline on.
    """
    chosen = chosen_rows(rows.prediction)
    columns = [np.asarray(column)[chosen] for column in rows.columns]
    values = tree.schema.as_written(columns)
    why = explain_rows(tree, rows.table.take(chosen), values)
    scale = tree.schema.target_scale
    baseline = np.broadcast_to(why.baseline, len(why))
    return [
        way(
            tree,
            why,
            i,
            row,
            Added(float(baseline[i]), why.contributions[i], float(why.clipping[i])),
            predicted=in_steps(float(rows.prediction[row]), scale),
            actual=number(float(rows.actual[row]), digits=4),
            start="on average",
            unit=scale,
        )
        for i, row in enumerate(chosen.tolist())
    ]


def chosen_rows(prediction: np.ndarray) -> np.ndarray:
    """Positions of some rows, evenly spaced by what is predicted for them."""
    order = np.argsort(prediction, kind="stable")
    places = np.linspace(0, len(order) - 1, min(len(order), _MOST_ROWS))
    return order[np.unique(places.astype(int))]


def way(
    tree: Tree,
    why: Explanation,
    i: int,
    row: int,
    added: Added,
    *,
    predicted: str,
    actual: str,
    start: str,
    unit: float,
) -> dict[str, Any]:
    """One row's way and what is added on it, the largest columns first."""
    contributions = added.contributions
    columns = np.argsort(-np.abs(contributions), kind="stable")
    columns = columns[contributions[columns] != 0]
    steps = [(start, added.baseline)]
    steps += [
        (f"{quoted(why.names[c])} = {_held(why.values[i, c])}", contributions[c])
        for c in columns[:_MOST_COLUMNS].tolist()
    ]
    rest = columns[_MOST_COLUMNS:]
    if len(rest):
        steps.append((f"{len(rest)} other columns", contributions[rest].sum()))
    if added.clipping:
        steps.append(("kept in the range of the leaf", added.clipping))
    return {
        "row": row,
        "predicted": predicted,
        "actual": actual,
        "path": _path(tree, int(why.leaf[i])),
        "steps": [
            (what, in_steps(float(value), unit), float(value) / unit)
            for what, value in steps
        ],
    }


def _held(value: Any) -> str:
    if value is None or value != value:
        return "missing"
    words = entry(value)
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"


def _path(tree: Tree, node: int) -> list[int]:
    path = [node]
    while path[-1]:
        path.append(int(tree.parent[path[-1]]))
    return path[::-1]
