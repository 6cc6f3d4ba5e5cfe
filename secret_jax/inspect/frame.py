"""The tree as a table: one row per node, in the units and column names of the data."""

from __future__ import annotations

import importlib.util
import math
from typing import Any

import narwhals as nw

from secret_jax.inspect.arguments import check_choice, checked_precision
from secret_jax.inspect.equations import (
    CategorySplit,
    LinearSplit,
    range_of_node,
    split_in_original_units,
)
from secret_jax.inspect.words import model_equation, split_sentence
from secret_jax.tree.structure import SplitKind, StopReason, Tree

BACKENDS = ("pandas", "polars", "pyarrow")

_TYPES = {
    "node": nw.Int64(),
    "parent": nw.Int64(),
    "left": nw.Int64(),
    "right": nw.Int64(),
    "depth": nw.Int64(),
    "kind": nw.String(),
    "split": nw.String(),
    "attribute": nw.String(),
    "threshold": nw.Float64(),
    "rows": nw.Float64(),
    "share": nw.Float64(),
    "error": nw.Float64(),
    "gain": nw.Float64(),
    "stop_reason": nw.String(),
    "model": nw.String(),
    "low": nw.Float64(),
    "high": nw.Float64(),
}


def to_dataframe(
    tree: Tree, *, backend: str | None = None, precision: int | None = None
) -> Any:
    """The nodes of a tree as a DataFrame.

    Parameters
    ----------
    tree : Tree
    backend : {"pandas", "polars", "pyarrow"}, optional
        By default the first of these that is installed.
    precision : int, optional
        Significant digits of the words, as in `export_text`. Columns of numbers are
        not rounded.

    Returns
    -------
    DataFrame or Table of ``backend``
        One row per node, parents before their children:

        - ``node``, ``parent``, ``left``, ``right``: ids as `apply` gives them, -1 where
          there is none; ``depth``.
        - ``kind``: "axis", "oblique", "discrete" or "leaf".
        - ``split``: the condition to go left, in words; missing for leaves.
        - ``attribute``: the column that an axis or discrete split asks for.
        - ``threshold``: of axis and oblique splits, in the units of ``attribute`` or of
          the sum in ``split``; NaN for others.
        - ``rows``: sum of the weights of the training rows; ``share`` of all.
        - ``error``: root mean squared error of the node's model on these rows, or with
          a loss its mean, in units
          of the target.
        - ``gain`` of the split as the search measured it, 0 for leaves; comparable
          within a tree only.
        - ``stop_reason``: why a leaf was not split, in words.
        - ``model``: the equation of the node, of inner nodes too; predictions are
          clipped to [``low``, ``high``].

    Raises
    ------
    ImportError
        If no backend, or not the one asked for, is installed.
    ValueError
        If there is no such backend or ``precision`` is below 1.
    """
    columns = node_columns(tree, precision=precision)
    frame = nw.from_dict(columns, _TYPES, backend=installed_backend(backend))
    return frame.to_native()


def node_columns(tree: Tree, *, precision: int | None = None) -> dict[str, list[Any]]:
    """The columns of `to_dataframe` as lists, without any DataFrame library.

    Parameters
    ----------
    tree : Tree
    precision : int, optional

    Returns
    -------
    dict of str to list
        All of length ``n_nodes``; None where words are missing.
    """
    checked_precision(precision)
    rows = [_row(tree, node, precision) for node in range(tree.n_nodes)]
    return {name: [row[name] for row in rows] for name in _TYPES}


def _row(tree: Tree, node: int, precision: int | None) -> dict[str, Any]:
    kind = SplitKind(int(tree.kind[node]))
    is_leaf = kind == SplitKind.LEAF
    split = None if is_leaf else split_in_original_units(tree, node)
    low, high = range_of_node(tree, node)
    attribute = None
    if isinstance(split, CategorySplit):
        attribute = split.name
    elif split is not None and kind == SplitKind.AXIS:
        attribute = split.terms[0].name
    reason = StopReason(int(tree.stop_reason[node])).sentence
    error = max(float(tree.train_error[node, 0]), 0.0)
    if tree.loss is None:
        error = math.sqrt(error) * tree.schema.target_scale
    return {
        "node": node,
        "parent": int(tree.parent[node]),
        "left": int(tree.left[node]),
        "right": int(tree.right[node]),
        "depth": int(tree.depth[node]),
        "kind": kind.name.lower(),
        "split": None if is_leaf else split_sentence(tree, node, precision=precision),
        "attribute": attribute,
        "threshold": split.threshold if isinstance(split, LinearSplit) else math.nan,
        "rows": float(tree.weight[node]),
        "share": float(tree.weight[node] / tree.weight[0]),
        "error": error,
        "gain": float(tree.gain[node]),
        "stop_reason": reason if is_leaf else None,
        "model": model_equation(tree, node, precision=precision),
        "low": low,
        "high": high,
    }


def installed_backend(backend: str | None) -> Any:
    """The library that makes tables: the one asked for or the first there is."""
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
