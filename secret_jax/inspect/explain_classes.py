"""Why rows get their classes: each row tells of the class that is predicted for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.explain import Explanation, explain


def explain_classes(
    view: ClassView,
    table: Table,
    values: np.ndarray,
    *,
    precision: int | None = None,
    background: Table | None = None,
) -> Explanation:
    """Take what a tree says of classes apart, of several that of the predicted ones.

    Parameters
    ----------
    view : ClassView
        Where it reads one of several classes, the scores of that one are explained, in
        place of those of the predicted ones.
    table, values, precision, background
        As in `explain`.
    """
    tree, classes = view.tree, view.classes
    probability = replace(view, only=None).said(table)
    chosen = classes.chosen(probability)
    which = chosen
    if tree.n_outputs == 1:
        which = np.zeros(len(values), int)
    elif view.only is not None:
        which = np.full(len(values), view.only)
    parts, places = [], []
    for one in np.unique(which).tolist():
        rows = np.flatnonzero(which == one)
        parts.append(
            explain(
                tree.output(one),
                table.take(rows),
                values[rows],
                precision=precision,
                background=background,
            )
        )
        places.append(rows)
    if not parts:
        parts, places = [explain(tree.output(0), table, values)], [np.arange(0)]
    why = parts[0] if len(parts) == 1 else _put_together(parts, places)
    labels = np.empty(len(classes.labels), object)
    labels[:] = classes.labels
    return replace(
        why,
        classes=classes.labels,
        predicted=labels[chosen],
        probability=probability,
    )


def _put_together(parts: list[Explanation], places: list[np.ndarray]) -> Explanation:
    """Explanations of parts of the rows as one, in the order of the rows."""
    order = np.argsort(np.concatenate(places), kind="stable")

    def rows(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts])[order]

    names = [part.target for part in parts for _ in range(len(part))]
    paths = [path for part in parts for path in part.path]
    baselines = [np.full(len(part), part.baseline) for part in parts]
    return Explanation(
        target=tuple(str(names[i]) for i in order),
        names=parts[0].names,
        values=rows("values"),
        baseline=np.concatenate(baselines)[order],
        linear=rows("linear"),
        splits=rows("splits"),
        clipping=rows("clipping"),
        prediction=rows("prediction"),
        leaf=rows("leaf"),
        share=rows("share"),
        path=tuple(paths[i] for i in order),
    )
