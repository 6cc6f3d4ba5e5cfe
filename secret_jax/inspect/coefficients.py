"""Table of the equations: coefficients, standard errors, intervals."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import narwhals as nw
import numpy as np

from secret_jax.inspect.arguments import check_node
from secret_jax.inspect.equations import model_in_original_units
from secret_jax.inspect.frame import made_table
from secret_jax.inspect.views import Readable, outputs_of
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
    tree: Readable,
    node: int | None = None,
    *,
    coverage: float = 0.95,
    backend: str | None = None,
    output: int | str | None = None,
) -> Any:
    """Make a DataFrame of the coefficients of one node, or of all leaves.

    Parameters
    ----------
    node : int, optional
        By default every leaf.
    coverage : float, default=0.95
        Of the intervals, in (0, 1).
    backend : {"pandas", "polars", "pyarrow"}, optional
        By default the first of these that is installed.
    output : int or str, optional
        Which of several outputs; by default all.

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
    They take the splits and the choice of terms as given and the noise as the same for
    all rows, so intervals are too narrow where a node has few rows for its columns.
    With a loss see `secret_jax.models.standard_errors`; of more than two classes there
    are none.

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
    tree = outputs_of(tree, output)
    if node is not None:
        check_node(tree, node)
    nodes = np.flatnonzero(tree.is_leaf).tolist() if node is None else [node]
    width = NormalDist().inv_cdf(0.5 + 0.5 * float(coverage))
    if tree.n_outputs == 1:
        rows = [row for one in nodes for row in _rows(tree, one, width)]
        return made_table(rows, _TYPES, backend)
    kind = "class" if isinstance(tree.loss, ClassLoss) else "output"
    types = {"node": _TYPES["node"], kind: nw.String(), **_TYPES}
    outputs = [(name, tree.output(name)) for name in tree.schema.target_names]
    rows = [
        {kind: name, **row}
        for one in nodes
        for name, output_tree in outputs
        for row in _rows(output_tree, one, width)
    ]
    return made_table(rows, types, backend)


def _rows(tree: Tree, node: int, width: float) -> list[dict[str, Any]]:
    """Describe the value at the center and the terms of a node's equation."""
    schema, model = tree.schema, model_in_original_units(tree, node)
    error = tree.standard_error[node, 0] * schema.target_scale
    at_center = model.intercept + sum(term.factor * term.here for term in model.terms)
    errors = [float(error[0])]
    rows: list[dict[str, Any]] = [{"term": CENTER, "coefficient": at_center}]
    for term in model.terms:
        errors.append(float(error[1 + term.position] / schema.scale[term.position]))
        rows.append(
            {
                "term": term.label,
                "column": term.name,
                "coefficient": term.factor,
                "center": term.here,
                "effect": term.effect,
            }
        )
    for row, deviation in zip(rows, errors, strict=True):
        row["node"], row["standard_error"] = node, deviation
        row["low"] = row["coefficient"] - width * deviation
        row["high"] = row["coefficient"] + width * deviation
    return [dict.fromkeys(_TYPES) | row for row in rows]
