"""Ways of single rows through the tree, with what every column adds on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from secret_jax.inspect.explain import explain
from secret_jax.inspect.printing import entry, number, quoted
from secret_jax.inspect.report.held_out import HeldOut
from secret_jax.inspect.report.words import in_steps
from secret_jax.tree.structure import Tree

_MOST_ROWS = 40
_MOST_COLUMNS = 12  # of a row; the others are added up
_LONGEST = 60  # characters of what a row holds


def example_ways(tree: Tree, rows: HeldOut) -> list[dict[str, Any]]:
    """Some rows, evenly spaced by their predictions, for the script of the page.

    Parameters
    ----------
    tree : Tree
        Of a single output.
    rows : HeldOut

    Returns
    -------
    list of dict
        ``row`` (its position), ``predicted`` and ``actual`` in words, ``path`` (nodes
        from the root to the leaf), and ``steps``: what is added, in words and as a
        number, from the baseline on.
    """
    order = np.argsort(rows.prediction, kind="stable")
    places = np.linspace(0, len(order) - 1, min(len(order), _MOST_ROWS))
    chosen = order[np.unique(places.astype(int))]
    columns = [np.asarray(column)[chosen] for column in rows.columns]
    values = tree.schema.as_written(columns)
    why = explain(tree, rows.table.take(chosen), values)
    scale = tree.schema.target_scale
    ways = []
    for i, row in enumerate(chosen.tolist()):
        contributions = why.contributions[i]
        columns = np.argsort(-np.abs(contributions), kind="stable")
        columns = columns[contributions[columns] != 0]
        steps = [("on average", why.baseline)]
        steps += [
            (f"{quoted(why.names[c])} = {_held(values[i, c])}", contributions[c])
            for c in columns[:_MOST_COLUMNS].tolist()
        ]
        rest = columns[_MOST_COLUMNS:]
        if len(rest):
            steps.append((f"{len(rest)} other columns", contributions[rest].sum()))
        if why.clipping[i]:
            steps.append(("clipped to the range of the leaf", why.clipping[i]))
        ways.append(
            {
                "row": row,
                "predicted": in_steps(float(why.prediction[i]), scale),
                "actual": number(float(rows.actual[row]), digits=4),
                "path": _path(tree, int(why.leaf[i])),
                "steps": [
                    (what, in_steps(float(value), scale), float(value) / scale)
                    for what, value in steps
                ],
            }
        )
    return ways


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
