"""Table of the nodes of a tree, in the units and column names of the data."""

import importlib.util
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from secret_jax.inspect.arguments import check_choice, checked_precision
from secret_jax.inspect.equations import (
    CategorySplit,
    LinearSplit,
    range_of_node,
    split_in_original_units,
)
from secret_jax.inspect.rounding import rounded_split
from secret_jax.inspect.views import Readable, outputs_of
from secret_jax.inspect.words import model_equation, split_sentence
from secret_jax.tree.structure import SplitKind, StopReason, Tree

BACKENDS = ("pandas", "polars", "pyarrow")

# Of every node, and of every output in it; of several outputs these have a column each.
WHOLE, FLOAT, TEXT = nw.Int64(), nw.Float64(), nw.String()
_PLACES = "parent", "left", "right", "depth"
_OF_NODE: dict[str, Any] = dict.fromkeys(("node", *_PLACES), WHOLE)
_OF_NODE |= dict.fromkeys(("kind", "split", "attribute", "factors"), TEXT)
_OF_NODE |= dict.fromkeys(("threshold", "rows", "share", "gain"), FLOAT)
_OF_NODE |= {"stop_reason": TEXT}
_OF_OUTPUT = {"mean": FLOAT, "error": FLOAT, "model": TEXT, "low": FLOAT, "high": FLOAT}


def to_dataframe(
    tree: Readable,
    *,
    backend: str | None = None,
    precision: int | None = None,
    output: int | str | None = None,
) -> Any:
    """Make a DataFrame of the nodes of a tree.

    Parameters
    ----------
    backend : {"pandas", "polars", "pyarrow"}, optional
        By default the first of these that is installed.
    precision : int, optional
        Significant digits of the words, as in `export_text`. Columns of numbers are
        not rounded.
    output : int or str, optional
        Which of several outputs; by default all.

    Returns
    -------
    DataFrame or Table of ``backend``
        One row per node, parents before their children:

        - ``node``, ``parent``, ``left``, ``right``: ids as `apply` gives them, -1 where
          there is none; ``depth``.
        - ``kind``: "axis", "oblique", "discrete", "conjunction" or "leaf".
        - ``split``: the condition to go left, in words.
        - ``attribute``: the column of an axis or discrete split; ``factors`` of axis
          and oblique splits as JSON, ``{"length": 1.0, "weight": -2.26}``, and the
          ``threshold`` of their sum, as printed; numbers of gates are not rounded.
        - ``rows``: sum of the weights of the training rows; ``share`` of all.
        - ``gain`` of the split as the search measured it; comparable within a tree. Of
          a fixed split what the models of its sides save, in squared error or loss.
        - ``stop_reason``: why a leaf was not split, in words.
        - ``mean`` of the target on these rows; of classes the share of the class.
        - ``error``: root mean squared error of the node's model on these rows, in units
          of the target, or with a loss its mean.
        - ``model``: the equation of the node, of inner nodes too; its value is clipped
          to [``low``, ``high``].

        Of several outputs the last five are there for each: ``mean of A`` and so on.

    Raises
    ------
    ImportError
        If no backend, or not the one asked for, is installed.
    ValueError
        If there is no such backend or ``precision`` is below 1.
    """
    checked_precision(precision)
    tree = outputs_of(tree, output)
    nodes = range(tree.n_nodes)
    rows = [_row(tree, node, precision) for node in nodes]
    types = dict(_OF_NODE)
    for which, name in enumerate(tree.schema.target_names):
        several = tree.n_outputs > 1
        one, suffix = (tree.output(which), f" of {name}") if several else (tree, "")
        types |= {what + suffix: kind for what, kind in _OF_OUTPUT.items()}
        for node in nodes:
            facts = _row_of_output(one, node, precision)
            rows[node] |= {what + suffix: fact for what, fact in facts.items()}
    return made_table(rows, types, backend)


def _row(tree: Tree, node: int, precision: int | None) -> dict[str, Any]:
    kind = SplitKind(int(tree.kind[node]))
    is_leaf = kind == SplitKind.LEAF
    split = None if is_leaf else split_in_original_units(tree, node)
    attribute, factors, threshold = None, None, math.nan
    if isinstance(split, CategorySplit):
        attribute = split.name
    elif isinstance(split, LinearSplit):
        split = split if split.width else rounded_split(split)
        attribute = split.terms[0].name if kind == SplitKind.AXIS else None
        factors = json.dumps({term.label: term.factor for term in split.terms})
        threshold = split.threshold
    reason = StopReason(int(tree.stop_reason[node])).sentence
    return {
        "node": node,
        **{name: int(getattr(tree, name)[node]) for name in _PLACES},
        "kind": kind.name.lower(),
        "split": None if is_leaf else split_sentence(tree, node, precision=precision),
        "attribute": attribute,
        "factors": factors,
        "threshold": threshold,
        "rows": float(tree.weight[node]),
        "share": float(tree.weight[node] / tree.weight[0]),
        "gain": _gain(tree, node),
        "stop_reason": reason if is_leaf else None,
    }


def _gain(tree: Tree, node: int) -> float:
    if np.isfinite(tree.gain[node]):
        return float(tree.gain[node])
    error = tree.weight * tree.train_error.sum(axis=1)
    saved = error[node] - error[tree.left[node]] - error[tree.right[node]]
    return max(float(saved), 0.0)


def _row_of_output(tree: Tree, node: int, precision: int | None) -> dict[str, Any]:
    """Describe the model of a node of one output."""
    low, high = range_of_node(tree, node)
    mean_loss = max(float(tree.train_error[node, 0]), 0.0)
    return {
        "mean": float(tree.schema.restore_target(tree.mean[node, 0])),
        "error": tree.loss.reported(mean_loss, tree.schema.target_scale),
        "model": model_equation(tree, node, precision=precision),
        "low": low,
        "high": high,
    }


def made_table(
    rows: Sequence[Mapping[str, Any]], types: Mapping[str, Any], backend: str | None
) -> Any:
    """Make a table of a library from rows, with the columns of given types."""
    columns = {name: [row[name] for row in rows] for name in types}
    chosen = installed_backend(backend)
    if chosen != "pandas":
        return nw.from_dict(columns, dict(types), backend=chosen).to_native()
    import pandas as pd

    # A cast to text would make words of missing ones.
    held = {nw.Int64: "int64", nw.Float64: "float64", nw.String: "object"}
    return pd.DataFrame(
        {
            name: pd.Series(values, dtype=held[type(types[name])])
            for name, values in columns.items()
        }
    )


def installed_backend(backend: str | None) -> Any:
    """Choose the library that makes tables: the one asked for or the first there is."""
    if backend is None:
        for name in BACKENDS:
            if importlib.util.find_spec(name) is not None:
                return name
        raise ImportError(
            "to_dataframe needs pandas, polars or pyarrow. Install the extra 'data': "
            "pip install 'secret-jax[data]'."
        )
    check_choice("backend", backend, BACKENDS)
    if importlib.util.find_spec(backend) is None:
        raise ImportError(
            f"{backend} is not installed. Install it (pip install {backend}), or leave "
            "backend out to take what there is."
        )
    return backend
