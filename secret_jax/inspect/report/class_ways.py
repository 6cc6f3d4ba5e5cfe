"""Ways of single rows through a tree of classes, in log-odds."""

from __future__ import annotations

from typing import Any

import numpy as np

from secret_jax.inspect.class_view import ClassView, percent
from secret_jax.inspect.explain import explain_rows
from secret_jax.inspect.explanation import Explanation
from secret_jax.inspect.printing import quoted
from secret_jax.inspect.report.class_rows import ClassRows
from secret_jax.inspect.report.ways import Added, chosen_rows, way

_STRANGER = "a class never seen"
_UNIT = 1.0  # of log-odds


def class_ways(view: ClassView, rows: ClassRows) -> list[dict[str, Any]]:
    """Some rows, evenly spaced by how sure they are, for the script of the page.

    Returns
    -------
    list of dict
        See `secret_jax.inspect.report.ways.example_ways`. Of several classes what is
        added is to the score of the likeliest class less that of the next one: the
        logarithm of how many times likelier it is.
    """
    probability = rows.probability
    sure = probability[:, 1] if view.of_two else probability.max(axis=1)
    chosen = chosen_rows(sure)
    columns = [np.asarray(column)[chosen] for column in rows.columns]
    values = view.tree.schema.as_written(columns)
    table = rows.table.take(chosen)
    whys = [explain_rows(tree, table, values) for tree in view.equations]
    names = [quoted(name) for name in view.names]
    ways = []
    for i, row in enumerate(chosen.tolist()):
        order = np.argsort(-probability[row], kind="stable").tolist()
        if len(whys) == 1:
            added, what = _added(whys[0], i), whys[0].target
        else:
            first, second = (_added(whys[which], i) for which in order[:2])
            added = first.less(second)
            what = f"score of {names[order[0]]} less that of {names[order[1]]}"
        best = 1 if view.of_two else order[0]
        actual = int(rows.actual[row])
        ways.append(
            way(
                view.tree,
                whys[0],
                i,
                row,
                added,
                predicted=f"{percent(probability[row, best])} {names[best]}",
                actual=_STRANGER if actual < 0 else names[actual],
                start=f"{what}, on average",
                unit=_UNIT,
            )
        )
    return ways


def _added(why: Explanation, row: int) -> Added:
    baseline = float(np.broadcast_to(why.baseline, len(why))[row])
    return Added(baseline, why.contributions[row], float(why.clipping[row]))
