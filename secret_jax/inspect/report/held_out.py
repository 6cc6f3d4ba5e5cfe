"""Rows that the tree did not learn from, and how well it predicts them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.inspect.cost import reading_cost
from secret_jax.inspect.printing import number
from secret_jax.inspect.rest import rest_of
from secret_jax.prune.path import of_size
from secret_jax.tree.routing import apply, predict
from secret_jax.tree.structure import Tree

_DIGITS = 3


class HeldOut(NamedTuple):
    """Rows with their outputs and predictions.

    Attributes
    ----------
    table : Table
    columns : list of ndarray of shape (n_rows,)
        As they were given.
    actual, prediction : ndarray of shape (n_rows,), float64
        Less what curves in front of the tree say.
    leaf : ndarray of shape (n_rows,), int32
    variance : float
        Of the outputs with what the curves say: what R² is a share of.
    """

    table: Table
    columns: list[np.ndarray]
    actual: np.ndarray
    prediction: np.ndarray
    leaf: np.ndarray
    variance: float

    @classmethod
    def of(
        cls, tree: Tree, table: Table, columns: list[np.ndarray], actual: np.ndarray
    ) -> HeldOut:
        """Rows through a tree of a single output; less its curves, if it has any."""
        variance = float(np.var(actual))
        if tree.additive is not None:
            less = tree.additive.predict(table)[:, None]
            actual = actual - tree.schema.restore_targets(less)
            tree = rest_of(tree)
        prediction = np.asarray(predict(tree, table), np.float64)
        leaf = np.asarray(apply(tree, table))
        return cls(table, columns, actual, prediction, leaf, variance)

    @property
    def residual(self) -> np.ndarray:
        """Actual minus predicted, shape (n_rows,)."""
        return self.actual - self.prediction


class ErrorLine(NamedTuple):
    """How well something predicts the rows.

    Attributes
    ----------
    name : str
    leaves, numbers : int or None
        What there is to read.
    error, uncertainty, r2 : str
        Root mean squared error, its standard error, and R².
    bar : float
        Length of the error as a bar.
    """

    name: str
    leaves: int | None
    numbers: int | None
    error: str
    uncertainty: str
    r2: str
    bar: float


def error_and_uncertainty(residual: np.ndarray) -> tuple[float, float]:
    """Root mean squared error, and its standard error (by the delta method)."""
    squares = np.square(residual)
    error = math.sqrt(squares.mean())
    if error == 0 or len(squares) < 2:
        return error, 0.0
    of_mean = squares.std(ddof=1) / math.sqrt(len(squares))
    return error, float(of_mean / (2 * error))


def errors_by_size(tree: Tree, rows: HeldOut) -> list[ErrorLine]:
    """Errors of the tree cut down to 1, 2, 4, 8 ... leaves, and of the whole tree.

    The subtrees are those of the weakest-link path (`secret_jax.prune.path`), so what
    leads from one line to the next is the part of the tree that pays least. Their
    leaves predict with the models that the inner nodes have.

    Parameters
    ----------
    tree : Tree
        Of a single output.
    rows : HeldOut

    Returns
    -------
    list of ErrorLine
        By size; subtrees of the same size once.
    """
    sizes = [2**k for k in range(tree.n_leaves.bit_length()) if 2**k < tree.n_leaves]
    subtrees = {cut.n_leaves: cut for cut in (of_size(tree, n) for n in sizes)}
    subtrees[tree.n_leaves] = tree
    lines = []
    for n_leaves, cut in sorted(subtrees.items()):
        residual = rows.actual - predict(cut, rows.table)
        name = "the whole tree" if cut is tree else f"a tree of {n_leaves} leaves"
        if n_leaves == 1:
            name = "one linear model"
        error, uncertainty = error_and_uncertainty(residual)
        explained = r_squared(error, rows.variance)
        cost = reading_cost(cut).total
        lines.append(_line(name, n_leaves, cost, error, uncertainty, explained))
    return lines


def compared(scores: Any) -> list[ErrorLine]:
    """Errors of other methods, from a mapping of names to ``rmse``, ``r2``, ``leaves``.

    Parameters
    ----------
    scores : dict of str to dict, or None

    Returns
    -------
    list of ErrorLine
    """
    return [
        _line(name, score.get("leaves"), None, score["rmse"], None, score.get("r2"))
        for name, score in (scores or {}).items()
    ]


def with_bars(lines: list[ErrorLine]) -> list[ErrorLine]:
    """The lines with bars as shares of the longest one."""
    longest = max((line.bar for line in lines), default=0.0) or 1.0
    return [line._replace(bar=line.bar / longest) for line in lines]


def r_squared(error: float, variance: float) -> float | None:
    """R² of a root mean squared error; None if the outputs are constant."""
    return 1 - error**2 / variance if variance > 0 else None


def _line(
    name: str,
    leaves: int | None,
    numbers: int | None,
    error: float,
    uncertainty: float | None,
    explained: float | None,
) -> ErrorLine:
    return ErrorLine(
        name,
        leaves,
        numbers,
        number(error, digits=_DIGITS),
        "" if uncertainty is None else f"± {number(uncertainty, digits=2)}",
        "-" if explained is None else f"{explained:.3f}",
        error,
    )
