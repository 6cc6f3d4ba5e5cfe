"""Trees and their sums as ONNX graphs: an ensemble of splits, a gather and a product.

Columns are encoded as the tree has them. Splits are compared in float32, all at once;
the operator ``TreeEnsembleRegressor`` says which leaf follows. The coefficients of that
leaf are gathered and multiplied by the row in float64. The graph is of opset 17, with
``ai.onnx.ml`` 3.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from secret_jax.inspect.code.export import exported
from secret_jax.inspect.code.onnx.columns import Columns
from secret_jax.inspect.code.onnx.graph import Graph
from secret_jax.inspect.code.onnx.trees import leaves, mixture
from secret_jax.inspect.code.program import ExportedModel
from secret_jax.inspect.view import Readable
from secret_jax.losses.interface import HIGHEST_LOG

# What follows from sums, of several outputs or of one.
_BY_LINK: dict[str, Callable[[Graph, str, bool], str]] = {
    "identity": lambda graph, sums, several: sums,
    "exponential": lambda graph, sums, several: graph.add(
        "Exp", graph.clip(sums, -math.inf, HIGHEST_LOG)
    ),
    "softmax": lambda graph, sums, several: graph.add(
        "Softmax" if several else "Sigmoid", sums
    ),
    "clip": lambda graph, sums, several: graph.clip(sums, 0.0, 1.0),
}


def to_onnx(tree: Readable, *, output: int | str | None = None) -> Any:
    """Convert the tree to an ONNX model, which needs nothing of this package to run.

    Parameters
    ----------
    output : int or str, optional
        See `export_code`.

    Returns
    -------
    onnx.ModelProto
        Its inputs are the columns that the tree uses, by name and each of the shape
        (n_rows, 1): numbers and truth values as float64, text as strings; or one
        matrix ``X`` if the model was fitted on an array of numbers. Missing numbers are
        NaN, missing texts empty; dates are as in `export_code`. Its outputs are
        ``prediction``, of shape (n_rows,); or of classes ``label``, (n_rows,), and
        ``probabilities``, (n_rows, n_classes).

    Raises
    ------
    ImportError
        If onnx is not installed: ``pip install 'secret-jax[onnx]'``.
    TypeError
        If a column has texts and numbers as categories, or tells empty texts from
        missing ones.

    Examples
    --------
    >>> import numpy as np
    >>> from secret_jax import SecretRegressor
    >>> X = np.arange(30.0)[:, None]
    >>> y = np.where(X[:, 0] < 15, 3.0, 8.0)
    >>> model = SecretRegressor(distill=False, random_state=0).fit(X, y)
    >>> graph = model.to_onnx()  # with open(...) as file: file.write(
    >>> [one.name for one in (*graph.graph.input, *graph.graph.output)]
    ['X', 'prediction']
    """
    return onnx_model(exported(tree, output=output))


def onnx_model(model: ExportedModel) -> Any:
    """Convert what programs compute to a graph; see `to_onnx`."""
    graph = Graph(model.schema)
    columns = Columns(graph, model)
    totals: list[list[str]] = [[] for _ in model.constants]
    for outputs in model.trees:
        make = mixture if outputs[0].tree.is_soft else leaves
        for addends, value in zip(totals, make(columns, outputs), strict=True):
            addends.append(value)
    sums = []
    for constant, (first, *others) in zip(model.constants, totals, strict=True):
        for addend in others:
            first = graph.add("Add", first, addend)
        sums.append(graph.add("Add", first, graph.constant([[constant]])))
    _answer(graph, model, graph.concat(sums))
    return graph.proto(" ".join(model.title.split()))


def _answer(graph: Graph, model: ExportedModel, scores: str) -> None:
    """Add what follows from the sums, of shape (n_rows, n_outputs)."""
    several = len(model.constants) > 1
    chances = _BY_LINK[model.link](graph, scores, several)
    if model.classes is None:
        graph.output("prediction", graph.squeeze(chances), np.float64, [None])
        return
    if not several:
        other = graph.add("Sub", graph.constant(1.0), chances)
        chances = graph.concat([other, chances])
    if model.only is not None:
        index = graph.constant(model.only, np.int64)
        value = graph.add("Gather", chances, index, axis=1)
        graph.output("prediction", value, np.float64, [None])
        return
    gains = chances
    if model.classes.costs is not None:
        gains = graph.add("MatMul", chances, graph.constant(-model.classes.costs))
    best = graph.add("ArgMax", gains, axis=1, keepdims=0)
    labels = np.array(model.labels)
    kind = object if labels.dtype.kind == "U" else labels.dtype
    label = graph.add("Gather", graph.constant(labels, kind), best)
    graph.output("label", label, kind, [None])
    graph.output("probabilities", chances, np.float64, [None, len(labels)])
