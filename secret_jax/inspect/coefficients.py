"""Tables of equations: coefficients, standard errors, intervals, classes in columns."""

import math
from collections import defaultdict
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from secret_jax.inspect.arguments import check_coverage, check_node
from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.equations import model_in_original_units
from secret_jax.inspect.frame import FLOAT, TEXT, WHOLE, made_table
from secret_jax.inspect.printing import number
from secret_jax.inspect.rounding import in_steps, printed_model
from secret_jax.inspect.tree_view import TreeView
from secret_jax.inspect.views import Readable, outputs_of
from secret_jax.inspect.words import term_words
from secret_jax.tree.structure import Tree

CENTER = "(at the center)"
_TYPES: dict[str, str] = {"node": WHOLE, "term": TEXT, "column": TEXT}
_TYPES |= dict.fromkeys(("coefficient", "standard_error", "low", "high"), FLOAT)
_TYPES |= {"center": FLOAT, "effect": FLOAT}


def coefficients(
    tree: Readable,
    node: int | None = None,
    *,
    coverage: float = 0.95,
    output: int | str | None = None,
) -> Any:
    """Make a DataFrame of the coefficients of one node, or of all leaves.

    Parameters
    ----------
    node : int, optional
        By default every leaf.
    coverage : float, default=0.95
        Of the intervals, in (0, 1).
    output : int or str, optional
        Which of several outputs; by default all.

    Returns
    -------
    pandas.DataFrame
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
    (`secret_jax.tree.degrees.noise_variance`), n the weight of its rows, and C the
    second moments of the columns in the equation, those of the parent counting as
    thirty rows.
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
    check_coverage(coverage)
    tree = outputs_of(tree, output)
    if node is not None:
        check_node(tree, node)
    nodes = np.flatnonzero(tree.is_leaf).tolist() if node is None else [node]
    width = NormalDist().inv_cdf(0.5 + 0.5 * float(coverage))
    names, several = tree.schema.target_names, tree.n_outputs > 1
    kind = "output" if tree.loss.labels(names) is None else "class"
    outputs = {name: tree.output(name) if several else tree for name in names}
    rows = [
        {kind: name, **row}
        for one in nodes
        for name, equation in outputs.items()
        for row in _rows(equation, one, width)
    ]
    types = {"node": WHOLE, kind: TEXT} if several else {}
    return made_table(rows, types | _TYPES)


def _rows(tree: Tree, node: int, width: float) -> list[dict[str, Any]]:
    """Describe the value at the center and the terms of a node's equation."""
    model = model_in_original_units(tree, node)
    center = {"coefficient": model.level, "standard_error": model.level_error}
    rows: list[dict[str, Any]] = [{"term": CENTER, **center}]
    rows += [
        {
            **{"term": term.label, "column": term.name},
            **{"coefficient": term.factor, "standard_error": term.error},
            **{"center": term.here, "effect": term.effect},
        }
        for term in model.terms
    ]
    for row in rows:
        half = width * row["standard_error"]
        row["low"], row["high"] = row["coefficient"] - half, row["coefficient"] + half
    return [dict.fromkeys(_TYPES) | row | {"node": node} for row in rows]


class NodeTable(NamedTuple):
    """The equations of a node as they are read: cells in words, below their heads.

    Terms that move the prediction most are the first, ``n_hidden`` are left out.
    """

    heads: list[str]
    lines: list[list[str]]
    n_hidden: int


def node_table(view: TreeView, node: int, max_terms: int) -> NodeTable:
    """List the largest terms of a node; of several classes these are the columns.

    Of one equation the first line is its value at the center of the node's rows. A line
    has the coefficient in units of the target per unit of the column, its standard
    error (of several categories that of the most frequent one), and what one standard
    deviation of the column in the node moves.
    """
    if isinstance(view, ClassView) and len(view.equations) > 1:
        return _table_of_classes(view, node, max_terms)
    model = model_in_original_units(view.equations[0], node)
    _, terms, hidden = printed_model(model, max_terms=max_terms)
    level = in_steps(model.level, view.tree.schema.target_scale)
    lines = [[CENTER, level, _around(model.level_error), ""]]
    for term in terms:
        moves = number(math.copysign(term.effect, term.factor), digits=2)
        cells = number(term.factor), _around(term.main.error), moves
        lines.append([term_words(term), *cells])
    heads = ["term", "coefficient", "std. error", "moves"]
    return NodeTable(heads, lines, len(hidden))


def _around(error: float) -> str:
    """Write a standard error; empty if it is not known."""
    return f"± {number(error, digits=2)}" if math.isfinite(error) else ""


def _table_of_classes(view: ClassView, node: int, max_terms: int) -> NodeTable:
    equations = view.equations_of(node)
    constants, effects = ["constant"], defaultdict[str, float](float)
    lines = defaultdict[str, list[str]](lambda: [""] * len(equations))
    for place, tree in enumerate(equations):
        model = model_in_original_units(tree, node)
        constant, terms, _ = printed_model(model, merged=False)
        constants.append(number(constant))
        for term in terms:
            name = term_words(term)
            lines[name][place] = number(term.factor)
            effects[name] = max(effects[name], term.effect)
    order = sorted(lines, key=lambda name: -effects[name])
    shown = [[name, *lines[name]] for name in order[:max_terms]]
    heads = ["term", *(view.names[which] for which in view.shown_in(node))]
    return NodeTable(heads, [constants, *shown], len(order) - len(shown))
