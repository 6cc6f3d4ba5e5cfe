"""Tables: of the nodes, and of their equations with standard errors, as data and text.

Numbers are in the units of the data. What a page, a summary and a DataFrame say of an
equation are the same terms of `secret_jax.inspect.equations.Equation`.
"""

import json
import math
import textwrap
from collections import defaultdict
from collections.abc import Iterable
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from secret_jax.inspect import words
from secret_jax.inspect.equations import (
    CategorySplit,
    check_node,
    conditions_at,
    in_steps,
    printed_model,
    rounded_split,
)
from secret_jax.inspect.printing import counted_leaves, number
from secret_jax.inspect.view import Readable, View, as_view
from secret_jax.runtime.environment import imported
from secret_jax.runtime.values import is_real
from secret_jax.tree.structure import SplitKind, StopReason, Tree

CENTER = "(at the center)"
# Of the summary: characters of a line, of a figure, and of a name.
_WIDTH, _CELL = 88, 11
_NAME = _WIDTH - 5 * _CELL
_NOTE = (
    f"{CENTER}: the value where all columns are at their means among the leaf's rows. "
    "Standard errors take the splits and the choice of terms as given: both were found "
    "on the same rows, so t is larger, and intervals are narrower, than of an equation "
    "that was chosen beforehand."
)


def to_dataframe(tree: Readable, *, output: int | str | None = None) -> Any:
    """Make a DataFrame of the nodes of a tree.

    Parameters
    ----------
    output : int or str, optional
        Which of several outputs; by default all.

    Returns
    -------
    pandas.DataFrame
        One row per node, parents before their children:

        - ``node``, ``parent``, ``left``, ``right`` (-1: none), and ``depth``.
        - ``kind``: "axis", "oblique", "discrete", "conjunction" or "leaf"; ``split``:
          the condition to go left.
        - ``attribute``: the column of an axis or discrete split; ``factors`` of axis
          and oblique splits as JSON, ``{"length": 1.0, "weight": -2.26}``, and the
          ``threshold`` of their sum, as printed; numbers of gates are not rounded.
        - ``rows``: number of the training rows; ``share`` of all; ``weight``: sum of
          their weights, of which the mean is one, copies of one observation counted as
          one.
        - ``gain`` of the split as the search measured it; comparable within a tree. Of
          a fixed split what the models of its sides save, in squared error or loss.
        - ``stop_reason``: why a leaf was not split.
        - ``mean`` of the target on these rows, or the share of the class; ``error``:
          root mean squared error of the node's model on them, or with a loss its mean.
        - ``model``: the equation, of inner nodes too, clipped to [``low``, ``high``].

        Of several outputs the last five are there for each: ``mean of A`` and so on.

    Raises
    ------
    ImportError
        If pandas is not installed.
    """
    view = as_view(tree, output, several=True)
    several = len(view.trees) > 1
    whole = view.tree if several else view.trees[0]
    rows = [_node_row(whole, node) for node in range(whole.n_nodes)]
    for i, (name, one) in enumerate(
        zip(whole.schema.target_names, view.trees, strict=True)
    ):
        suffix, schema = f" of {name}" * several, one.schema
        for node, row in enumerate(rows):
            equation = view.equations(node)[i]
            mean_loss = max(float(one.train_error[node, 0]), 0.0)
            row |= {
                f"mean{suffix}": float(schema.restore_target(one.mean[node, 0])),
                f"error{suffix}": one.loss.reported(mean_loss, schema.target_scale),
                f"model{suffix}": " ".join(words.model_parts(equation)),
                f"low{suffix}": equation.low,
                f"high{suffix}": equation.high,
            }
    return _frame(rows)


def _node_row(tree: Tree, node: int) -> dict[str, Any]:
    kind, attribute = SplitKind(int(tree.kind[node])), None
    is_leaf, factors, threshold = bool(tree.is_leaf[node]), None, math.nan
    conditions = [] if is_leaf else conditions_at(tree, node)
    if len(conditions) == 1:
        (split,) = conditions
        if isinstance(split, CategorySplit):
            attribute = split.name
        else:
            split = split if split.width else rounded_split(split)
            attribute = split.terms[0].name if kind == SplitKind.AXIS else None
            factors = json.dumps({term.label: term.factor for term in split.terms})
            threshold = split.threshold
    gain = float(tree.gain[node])
    if not math.isfinite(gain):  # of a fixed split
        error = tree.weight * tree.train_error.sum(axis=1)
        saved = error[node] - error[tree.left[node]] - error[tree.right[node]]
        gain = max(float(saved), 0.0)
    reason = StopReason(int(tree.stop_reason[node])).sentence
    neighbours = ("parent", "left", "right", "depth")
    return {
        "node": node,
        **{name: int(getattr(tree, name)[node]) for name in neighbours},
        "kind": "conjunction" if len(conditions) > 1 else kind.name.lower(),
        "split": None if is_leaf else words.split_sentence(tree, node),
        "attribute": attribute,
        "factors": factors,
        "threshold": threshold,
        "rows": int(tree.n_rows[node]),
        "share": float(tree.n_rows[node] / tree.n_rows[0]),
        "weight": float(tree.weight[node]),
        "gain": gain,
        "stop_reason": reason if is_leaf else None,
    }


def _frame(rows: list[dict[str, Any]]) -> Any:
    """Make a DataFrame of rows of numbers, and of texts or None."""
    numbers = {
        name: type(value)
        for name, value in rows[0].items()
        if isinstance(value, int | float)
    }
    pandas = imported("pandas", "Tables", "data")
    return pandas.DataFrame(rows, dtype=object).astype(numbers)


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
        First a row for the value at the center of the node's rows, then one per term,
        the one that moves the prediction most first; of categories that are printed
        together one each:

        - ``node``, ``term`` (as it is printed alone), ``column``; of several outputs
          ``output`` as well, or ``class``.
        - ``coefficient`` in units of the target per unit of the column; of an indicator
          the difference to rows without it.
        - ``standard_error``, and ``low`` and ``high`` of the interval; NaN where there
          is none, as in trees with trained gates.
        - ``center``: mean of the column in the node; ``effect``: by how much one
          standard deviation of the column in the node moves the prediction.

    Raises
    ------
    ImportError
        If pandas is not installed.
    ValueError
        If the node does not exist.

    Notes
    -----
    Standard errors are ``s * sqrt(diag(inverse(C)) / n)`` with s² the noise of the node
    (`secret_jax.tree.totals.noise_variance`), n the weight of its rows, and C the
    second moments of the columns in the equation, those of the parent counting as
    thirty rows. They take the splits and the choice of terms as given and the noise as
    the same for all rows, so intervals are too narrow where a node has few rows for its
    columns. With a loss see `secret_jax.models.short_models`; of more than two
    classes there are none.

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
    width = NormalDist().inv_cdf(0.5 + 0.5 * coverage)
    view = as_view(tree, output, several=True)
    if node is not None:
        check_node(view.tree, node)
    several, kind = len(view.trees) > 1, "class" if view.classes else "output"
    names = view.tree.schema.target_names if several else ("",)
    leaves, rows = np.flatnonzero(view.tree.is_leaf).tolist(), list[dict[str, Any]]()
    for one in leaves if node is None else [node]:
        for name, model in zip(names, view.equations(one), strict=True):
            lines = [(CENTER, None, model.level, model.level_error, math.nan, math.nan)]
            lines += [
                (t.label, t.name, t.factor, t.error, t.here, t.effect)
                for t in model.terms
            ]
            of = {"node": one} | ({kind: name} if several else {})
            for term, column, value, error, center, effect in lines:
                line = {"term": term, "column": column, "coefficient": value}
                ends = {"low": value - width * error, "high": value + width * error}
                line |= {"standard_error": error, **ends}
                rows.append(of | line | {"center": center, "effect": effect})
    return _frame(rows)


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
        The share of the variance that is explained on the training rows (with a loss
        its mean); then of each leaf the value at the center of its rows, and the terms
        of its equation as printed elsewhere, with standard errors (see `coefficients`;
        a dash where they are not known), the ratio t, and normal intervals.

    Raises
    ------
    ValueError
        If several numbers are predicted, and ``output`` is not given.

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
    width, view = NormalDist().inv_cdf(0.5 + 0.5 * coverage), as_view(tree, output)
    whole, low = view.tree, 0.5 * (1.0 - float(coverage))
    what, (explained,) = words.quality(whole, float(whole.leaf_error.sum()))
    leaves = counted_leaves(whole.n_leaves)
    numbers = f"Numbers to read: {view.n_numbers():,}"
    lines = [f"{view.title}: {leaves}, depth {whole.max_depth}"]
    differ = "" if whole.n_different is None else f" ({whole.n_different:,} differ)"
    rows = f"Rows: {number(float(whole.n_rows[0]))}{differ}"
    lines.append(f"{rows}   {what}: {explained}   {numbers}")
    heads = "coef", "std err", "t", f"[{low:.3g}", f"{1.0 - low:.3g}]"
    for node in np.flatnonzero(whole.is_leaf).tolist():
        path = f"[{node}] {words.path_sentence(whole, node)}"
        lines += ["=" * _WIDTH, *textwrap.wrap(path, _WIDTH)]
        for i in view.shown_in(node):
            one, equation = view.trees[i], view.equations(node)[i]
            error = max(float(one.train_error[node, 0]), 0.0)
            error = number(one.loss.reported(error, one.schema.target_scale), digits=4)
            facts = f"n = {number(float(one.n_rows[node]))}, {one.loss.error_name}"
            facts = f"{equation.target}: {facts} {error}"
            lines += [*textwrap.wrap(facts, _WIDTH), _cells("", heads), "-" * _WIDTH]
            figures = [(CENTER, equation.level, equation.level_error)]
            printed = printed_model(equation).terms
            figures += [(words.term_words(t), t.factor, t.error) for t in printed]
            for term, value, error in figures:
                cells = [f"{value:.4g}", *"----"]
                if error > 0:
                    ends = value - width * error, value + width * error
                    cells[1:] = [f"{one:.4g}" for one in (error, value / error, *ends)]
                lines.append(_cells(term, cells))
    return "\n".join([*lines, "=" * _WIDTH, *textwrap.wrap(_NOTE, _WIDTH)]) + "\n"


def _cells(name: str, cells: Iterable[str]) -> str:
    shown = textwrap.shorten(name, _NAME - 1, placeholder="…")
    return f"{shown:<{_NAME}}" + "".join(f"{cell:>{_CELL}}" for cell in cells)


class NodeTable(NamedTuple):
    """The equations of a node as they are read: cells in words, below their heads."""

    heads: list[str]
    lines: list[list[str]]
    n_hidden: int


def node_table(view: View, node: int, max_terms: int) -> NodeTable:
    """List the largest terms of a node; of several classes these are the columns."""
    if len(view.trees) == 1:
        (model,) = view.equations(node)
        printed = printed_model(model, max_terms=max_terms)
        level = in_steps(model.level, model.target_spread)
        lines = [[CENTER, level, _around(model.level_error), ""]]
        for term in printed.terms:
            moves = number(math.copysign(term.effect, term.factor), digits=2)
            cells = number(term.factor), _around(term.error), moves
            lines.append([words.term_words(term), *cells])
        heads = ["term", "coefficient", "std. error", "moves"]
        return NodeTable(heads, lines, len(printed.hidden))
    shown = view.shown_in(node)
    effects, cells = defaultdict[str, float](float), {}
    constants = ["constant"]
    for place, equation in enumerate(view.equations_of(node)):
        printed = printed_model(equation, merged=False)
        constants.append(number(printed.intercept))
        for term in printed.terms:
            name = words.term_words(term)
            cells.setdefault(name, [""] * len(shown))[place] = number(term.factor)
            effects[name] = max(effects[name], term.effect)
    order = sorted(cells, key=lambda name: -effects[name])
    lines = [[name, *cells[name]] for name in order[:max_terms]]
    heads = ["term", *(view.names[output] for output in shown)]
    return NodeTable(heads, [constants, *lines], len(order) - len(lines))


def _around(error: float) -> str:
    return f"± {number(error, digits=2)}" if math.isfinite(error) else ""


def check_coverage(coverage: Any) -> None:
    if not is_real(coverage) or not 0 < coverage < 1:
        raise ValueError(f"coverage must be a float in (0, 1). Got {coverage!r}.")
