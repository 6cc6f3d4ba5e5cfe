"""Summary of a tree: the equations of its leaves as tables of regression output."""

import textwrap
from collections.abc import Sequence
from statistics import NormalDist

from secret_jax.inspect.arguments import check_coverage
from secret_jax.inspect.coefficients import CENTER
from secret_jax.inspect.equations import model_in_original_units
from secret_jax.inspect.notes import quality
from secret_jax.inspect.printing import counted_leaves, number
from secret_jax.inspect.rounding import printed_model
from secret_jax.inspect.views import Readable, as_view
from secret_jax.inspect.words import path_sentence, term_words
from secret_jax.tree.structure import Tree

_WIDTH = 88
_CELL = 11  # characters of a figure
_NAME = _WIDTH - 5 * _CELL
_NOTE = (
    "Standard errors take the splits and the choice of terms as given: both were found "
    "on the same rows, so t is larger, and intervals are narrower, than of an equation "
    "that was chosen beforehand."
)


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
        value at the center of the leaf's rows. See
        `secret_jax.inspect.coefficients.coefficients` for what standard errors are, and
        for the same as a DataFrame.

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
    whole, width = view.tree, NormalDist().inv_cdf(0.5 + 0.5 * float(coverage))
    what, (value,) = quality(whole, float(whole.leaf_error.sum()))
    facts = ("Rows", number(float(whole.weight[0]))), (what, value)
    facts = (*facts, ("Numbers to read", f"{view.n_numbers():,}"))
    leaves = counted_leaves(whole.n_leaves)
    lines = [f"{view.title}: {leaves}, depth {whole.max_depth}"]
    lines.append("   ".join(f"{name}: {value}" for name, value in facts))
    low = 0.5 * (1.0 - float(coverage))
    heads = "coef", "std err", "t", f"[{low:.3g}", f"{1.0 - low:.3g}]"
    for node in whole.is_leaf.nonzero()[0].tolist():
        path = f"[{node}] {path_sentence(whole, node)}"
        lines += ["=" * _WIDTH, *textwrap.wrap(path, _WIDTH)]
        for equation in view.equations_of(node):
            facts = _leaf_facts(equation, node)
            lines += [*textwrap.wrap(facts, _WIDTH), _line("", heads), "-" * _WIDTH]
            model = model_in_original_units(equation, node)
            lines.append(_line(CENTER, _figures(model.level, model.level_error, width)))
            for term in printed_model(model)[1]:
                figures = _figures(term.factor, term.main.error, width)
                lines.append(_line(term_words(term), figures))
    return "\n".join([*lines, "=" * _WIDTH, *textwrap.wrap(_NOTE, _WIDTH)]) + "\n"


def _leaf_facts(tree: Tree, node: int) -> str:
    """Write the rows of a leaf, and how well its equation fits them."""
    schema, error = tree.schema, max(float(tree.train_error[node, 0]), 0.0)
    said = tree.loss.reported(error, schema.target_scale)
    name = tree.loss.error_name
    rows = f"n = {number(float(tree.weight[node]))}"
    return f"{schema.target_name}: {rows}, {name} {number(said, digits=4)}"


def _figures(value: float, error: float, width: float) -> list[str]:
    """Write a coefficient, its standard error, t, and the ends of the interval."""
    first = f"{value:.4g}"
    if not error > 0:
        return [first, *"----"]
    ends = value - width * error, value + width * error
    return [first, *(f"{one:.4g}" for one in (error, value / error, *ends))]


def _line(name: str, cells: Sequence[str]) -> str:
    shown = textwrap.shorten(name, _NAME - 1, placeholder="…")
    return f"{shown:<{_NAME}}" + "".join(f"{cell:>{_CELL}}" for cell in cells)
