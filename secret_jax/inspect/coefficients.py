"""Tables of equations: coefficients with standard errors, as data and as text."""

import math
import textwrap
from collections import defaultdict
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from secret_jax.inspect.arguments import check_coverage, check_node
from secret_jax.inspect.equations import model_in_original_units
from secret_jax.inspect.frame import FLOAT, TEXT, WHOLE, made_table
from secret_jax.inspect.notes import quality
from secret_jax.inspect.printing import counted_leaves, number
from secret_jax.inspect.rounding import in_steps, printed_model
from secret_jax.inspect.view import Readable, View, as_view, outputs_of
from secret_jax.inspect.words import path_sentence, term_words

CENTER = "(at the center)"
_TYPES: dict[str, str] = {"node": WHOLE, "term": TEXT, "column": TEXT}
_TYPES |= dict.fromkeys(("coefficient", "standard_error", "low", "high"), FLOAT)
_TYPES |= {"center": FLOAT, "effect": FLOAT}
_COLUMNS = "term", "column", "coefficient", "standard_error", "center", "effect"
# Of the summary: characters of a line, of a figure, and of a name.
_WIDTH, _CELL = 88, 11
_NAME = _WIDTH - 5 * _CELL
_NOTE = (
    "Standard errors take the splits and the choice of terms as given: both were found "
    "on the same rows, so t is larger, and intervals are narrower, than of an equation "
    "that was chosen beforehand."
)


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
    width = NormalDist().inv_cdf(0.5 + 0.5 * float(coverage))
    names, several = tree.schema.target_names, tree.n_outputs > 1
    kind = "output" if tree.loss.labels(names) is None else "class"
    outputs = {name: tree.output(name) if several else tree for name in names}
    rows = []
    for one in np.flatnonzero(tree.is_leaf).tolist() if node is None else [node]:
        for name, equation in outputs.items():
            model = model_in_original_units(equation, one)
            lines = [(CENTER, None, model.level, model.level_error, None, None)]
            lines += [
                (term.label, term.name, term.factor, term.error, term.here, term.effect)
                for term in model.terms
            ]
            for line in lines:
                row: dict[str, Any] = dict(zip(_COLUMNS, line, strict=True))
                half = width * row["standard_error"]
                ends = row["coefficient"] - half, row["coefficient"] + half
                rows.append(
                    {"node": one, kind: name, "low": ends[0], "high": ends[1]} | row
                )
    types = {"node": WHOLE, kind: TEXT} if several else {}
    return made_table(rows, types | _TYPES)


def summary(
    tree: Readable, *, coverage: float = 0.95, output: int | str | None = None
) -> str:
    """Write the equations of the leaves as tables, with their standard errors.

    Parameters
    ----------
    coverage : float, default=0.95
        Of the intervals, in (0, 1).
    output : int or str, optional
        Which of several outputs; of classes all are written.

    Returns
    -------
    str
        First the number of rows and leaves, and the share of the variance that is
        explained on the training rows (with a loss its mean). Then for each leaf its
        rows, and for each term of its equation the coefficient, its standard error,
        their ratio t, and an interval by the normal distribution, as printed elsewhere
        (a dash where errors are not known); the first line is the
        value at the center of the leaf's rows. See `coefficients` for what standard
        errors are, and for the same as a DataFrame.

    Raises
    ------
    ValueError
        If the coverage is none, or several numbers are predicted and ``output`` is not
        given.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(500, random_state=0)
    >>> print(SecretRegressor(max_depth=0).fit(X, y).summary())
    y: 1 leaf, depth 0
    Rows: 500   R²: 0.767   Numbers to read: 6
    =====...
    [0] all rows
    y: n = 500, root mean squared error 2.449
                          coef    std err          t     [0.025     0.975]
    ----------...
    (at the center)      14.23     0.1098      129.6      14.02      14.45
    ...
    """
    check_coverage(coverage)
    view = as_view(tree, output)
    whole, low = view.tree, 0.5 * (1.0 - float(coverage))
    width = NormalDist().inv_cdf(0.5 + 0.5 * float(coverage))
    what, (explained,) = quality(whole, float(whole.leaf_error.sum()))
    leaves, n_rows = counted_leaves(whole.n_leaves), number(float(whole.weight[0]))
    numbers = f"Numbers to read: {view.n_numbers():,}"
    lines = [f"{view.title}: {leaves}, depth {whole.max_depth}"]
    lines.append(f"Rows: {n_rows}   {what}: {explained}   {numbers}")
    heads = "coef", "std err", "t", f"[{low:.3g}", f"{1.0 - low:.3g}]"
    for node in np.flatnonzero(whole.is_leaf).tolist():
        path = f"[{node}] {path_sentence(whole, node)}"
        lines += ["=" * _WIDTH, *textwrap.wrap(path, _WIDTH)]
        for equation in view.equations_of(node):
            loss, schema = equation.loss, equation.schema
            error = max(float(equation.train_error[node, 0]), 0.0)
            error = number(loss.reported(error, schema.target_scale), digits=4)
            facts = f"n = {number(float(equation.weight[node]))}, {loss.error_name}"
            facts = f"{schema.target_name}: {facts} {error}"
            lines += [*textwrap.wrap(facts, _WIDTH), _cells("", heads), "-" * _WIDTH]
            model = model_in_original_units(equation, node)
            terms = [(CENTER, model.level, model.level_error)]
            for one in printed_model(model).terms:
                terms.append((term_words(one), one.factor, one.main.error))
            for term, value, error in terms:
                cells = [f"{value:.4g}", *"----"]
                if error > 0:
                    ends = value - width * error, value + width * error
                    cells[1:] = [f"{one:.4g}" for one in (error, value / error, *ends)]
                lines.append(_cells(term, cells))
    return "\n".join([*lines, "=" * _WIDTH, *textwrap.wrap(_NOTE, _WIDTH)]) + "\n"


def _cells(name: str, cells: Sequence[str]) -> str:
    shown = textwrap.shorten(name, _NAME - 1, placeholder="…")
    return f"{shown:<{_NAME}}" + "".join(f"{cell:>{_CELL}}" for cell in cells)


class NodeTable(NamedTuple):
    """The equations of a node as they are read: cells in words, below their heads."""

    heads: list[str]
    lines: list[list[str]]
    n_hidden: int


def node_table(view: View, node: int, max_terms: int) -> NodeTable:
    """List the largest terms of a node; of several classes these are the columns.

    Of one equation the first line is its value at the center of the node's rows. A line
    has the coefficient in units of the target per unit of the column, its standard
    error, and what one standard deviation of the column in the node moves.
    """
    if len(view.equations) == 1:
        model = model_in_original_units(view.equations[0], node)
        _, terms, hidden, _ = printed_model(model, max_terms=max_terms)
        level = in_steps(model.level, model.target_spread)
        lines = [[CENTER, level, _around(model.level_error), ""]]
        for term in terms:
            moves = number(math.copysign(term.effect, term.factor), digits=2)
            cells = number(term.factor), _around(term.main.error), moves
            lines.append([term_words(term), *cells])
        heads = ["term", "coefficient", "std. error", "moves"]
        return NodeTable(heads, lines, len(hidden))
    shown = view.shown_in(node)
    effects, cells = defaultdict[str, float](float), {}
    constants = ["constant"]
    for place, which in enumerate(shown):
        model = model_in_original_units(view.equations[which], node)
        printed = printed_model(model, merged=False)
        constants.append(number(printed.constant))
        for term in printed.terms:
            name = term_words(term)
            cells.setdefault(name, [""] * len(shown))[place] = number(term.factor)
            effects[name] = max(effects[name], term.effect)
    order = sorted(cells, key=lambda name: -effects[name])
    lines = [[name, *cells[name]] for name in order[:max_terms]]
    heads = ["term", *(view.names[which] for which in shown)]
    return NodeTable(heads, [constants, *lines], len(order) - len(lines))


def _around(error: float) -> str:
    return f"± {number(error, digits=2)}" if math.isfinite(error) else ""
