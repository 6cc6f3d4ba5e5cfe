"""The equations as a table: coefficients, standard errors, intervals."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import narwhals as nw
import numpy as np

from secret_jax.inspect.arguments import check_node
from secret_jax.inspect.equations import model_in_original_units
from secret_jax.inspect.frame import made_table
from secret_jax.losses.classes import ClassLoss
from secret_jax.runtime.values import is_real
from secret_jax.tree.structure import Tree

CENTER = "(at the center)"
_TYPES = {
    "node": nw.Int64(),
    "term": nw.String(),
    "column": nw.String(),
    "coefficient": nw.Float64(),
    "standard_error": nw.Float64(),
    "low": nw.Float64(),
    "high": nw.Float64(),
    "center": nw.Float64(),
    "effect": nw.Float64(),
}


def coefficients(
    tree: Tree,
    node: int | None = None,
    *,
    coverage: float = 0.95,
    backend: str | None = None,
) -> Any:
    """The coefficients of one node's equation, or of all leaves', as a DataFrame.

    Parameters
    ----------
    tree : Tree
        Of one output or of several.
    node : int, optional
        By default every leaf.
    coverage : float, default=0.95
        Of the intervals, in (0, 1).
    backend : {"pandas", "polars", "pyarrow"}, optional
        By default the first of these that is installed.

    Returns
    -------
    DataFrame or Table of ``backend``
        One row per term, the one that moves the prediction most first, after a first
        row for the value at the center of the node's rows. Categories that share a
        number, and are printed together, have a row each:

        - ``node``, ``term`` (as it is printed alone), ``column``; of several outputs
          ``output`` as well, or ``class`` where they stand for classes: every class has
          an equation of its own.
        - ``coefficient`` in units of the target per unit of the column; of an indicator
          the difference to rows without it.
        - ``standard_error``, and ``low`` and ``high`` of the interval; NaN where there
          is none, as in trees with trained gates.
        - ``center``: mean of the column in the node; ``effect``: by how much one
          standard deviation of the column in the node moves the prediction.

    Raises
    ------
    ValueError
        If the node does not exist, or the coverage is none.

    Notes
    -----
    Standard errors are ``s * sqrt(diag(inverse(C)) / n)`` with s² the noise of the node
    (`secret_jax.tree.noise.noise_variance`), n the weight of its rows, and C the second
    moments of the columns in the equation, those of the parent counting as thirty rows.
    They take the splits and the choice of terms as given, the noise as the same
    everywhere in the node, and the shrinkage toward the parent as no bias: the
    intervals are too narrow where a node has few rows for its columns.

    Those of a tree with a loss are those of its likelihood, two classes and counts, or
    of the sandwich estimator, quantiles and Huber's loss
    (`secret_jax.models.standard_errors`). There are none, NaN, of more than two
    classes, and where few rows tell a coefficient.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(500, random_state=0)
    >>> table = SecretRegressor(max_depth=0).fit(X, y).coefficients(0)
    >>> bool((table["low"] <= table["high"]).all())
    True
    """
    if not is_real(coverage) or not 0 < coverage < 1:
        raise ValueError(f"coverage must be a float in (0, 1). Got {coverage!r}.")
    if node is not None:
        check_node(tree, node)
    nodes = np.flatnonzero(tree.is_leaf) if node is None else [node]
    width = NormalDist().inv_cdf(0.5 + 0.5 * float(coverage))
    types: dict[str, Any] = dict(_TYPES)
    each = [({}, tree)]
    if tree.n_outputs > 1:
        kind = "class" if isinstance(tree.loss, ClassLoss) else "output"
        types = {"node": types.pop("node"), kind: nw.String(), **types}
        names = tree.schema.target_names
        each = [({kind: name}, tree.output(i)) for i, name in enumerate(names)]
    rows = [
        row | named
        for one in nodes
        for named, own in each
        for row in _rows(own, int(one), width)
    ]
    data = {name: [row[name] for row in rows] for name in types}
    return made_table(data, types, backend)


def _rows(tree: Tree, node: int, width: float) -> list[dict[str, Any]]:
    schema, model = tree.schema, model_in_original_units(tree, node)
    error = tree.standard_error[node, 0] * schema.target_scale
    at_center = model.intercept + sum(term.factor * term.here for term in model.terms)

    def row(term: str, column: str | None, value: float, deviation: float, **more: Any):
        low, high = value - width * deviation, value + width * deviation
        return {
            **{"node": node, "term": term, "column": column, "coefficient": value},
            **{"standard_error": deviation, "low": low, "high": high},
            **more,
        }

    found = [row(CENTER, None, at_center, float(error[0]), center=None, effect=None)]
    for term in model.terms:
        deviation = float(error[1 + term.position] / schema.scale[term.position])
        more = {"center": term.here, "effect": term.effect}
        found.append(row(term.label, term.name, term.factor, deviation, **more))
    return found
