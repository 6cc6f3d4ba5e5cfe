"""The tree as a program that predicts without this package."""

from __future__ import annotations

import keyword
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from secret_jax.inspect.arguments import check_choice, check_text, checked_precision
from secret_jax.inspect.classes import Classes
from secret_jax.inspect.code.answer import Answer, Summands, link_of
from secret_jax.inspect.code.python import python_code
from secret_jax.inspect.code.python_phrases import TAKEN
from secret_jax.inspect.code.sql import sql_code
from secret_jax.losses.interface import Loss
from secret_jax.tree.structure import Tree


def export_code(
    tree: Tree,
    language: Literal["python", "sql"] = "python",
    *,
    function_name: str | None = None,
    precision: int | None = None,
    table: str | None = None,
    classes: Classes | None = None,
    output: int | str | None = None,
) -> str:
    """The tree as Python functions, or as an SQL expression or query.

    Parameters
    ----------
    tree : Tree
        Of a single output of numbers, or with the outputs of all classes.
    language : {"python", "sql"}
    function_name : str, optional
        Name of the Python function, "predict" by default, or of the column of a query,
        "prediction" by default.
    precision : int, optional
        Significant digits relative to the effect, as in `export_text`. By default all
        digits are written.
    table : str, optional
        Only with SQL: the table of the rows. The result is then a query that gives all
        of its columns and the prediction, otherwise an expression to use in one's own.
    classes : Classes, optional
        The labels of the classes; by default the names of the outputs.
    output : int or str, optional
        Of classes the one whose probability alone is said, in place of a class.

    Returns
    -------
    str
        Python: the source of a function of keyword arguments or of one dict, which
        returns a float and needs nothing but Python. Of classes ``predict`` returns the
        class, and ``predict_proba`` a dict of the probabilities of all classes.

        SQL: standard SQL with CASE and MATERIALIZED (which SQLite has from version
        3.35; leave the word out where a database does not know it). An expression, of
        two classes the probability of the second; or with ``table`` a query, which for
        classes has the columns "log-odds of ..." ("score of ..." of several classes),
        "probability of ..." and the class. Column names are quoted.

    Raises
    ------
    TypeError
        If a category is neither text nor a number nor a truth value.
    ValueError
        If an option is not what it should be, or an SQL expression is asked for the
        probabilities of several classes.

    Notes
    -----
    The code computes in float64 what `predict` computes in float32. The two differ by
    less than 3e-5 standard deviations of the target, or 3e-4 if the tree has gates, on
    all tables of the tests. Splits on one column change sides at exactly the same
    value; a row within float32 rounding of the threshold of a sum of columns may go the
    other way. Categories that training never saw go to the larger side, as in
    `predict`. Missing values (None or NaN in Python, NULL in SQL) are what they are in
    `predict`.

    In SQL a NaN is no NULL: databases that have it (DuckDB) order it among the numbers,
    so turn it into NULL first (``NULLIF(x, 'NaN')``). Most databases take names that
    differ in case alone for one column; rename such columns before the fit. SQLite
    reads a quoted name of a column that the table does not have as text, without an
    error.

    Soft trees use ``EXP`` in SQL, which SQLite has from version 3.35 if it was built
    with its mathematical functions; elsewhere register it
    (``connection.create_function("EXP", 1, math.exp)``).

    Examples
    --------
    >>> import numpy as np
    >>> from secret_jax import SecretRegressor
    >>> X = np.arange(30.0)[:, None]
    >>> y = np.where(X[:, 0] < 15, 3.0, 8.0)
    >>> model = SecretRegressor(distill=False, random_state=0).fit(X, y)
    >>> scope = {}
    >>> exec(model.export_code(function_name="level"), scope)
    >>> round(scope["level"](x0=7), 3)
    3.0
    >>> print(model.export_code("sql", table="rows"))
    SELECT *,
    ...
    FROM "rows"
    """
    summands = Summands(
        trees=(_outputs(tree),),
        constants=(0.0,) * tree.n_outputs,
        names=_names(tree, language),
    )
    known = classes or Classes.of_tree(tree)
    return _exported(
        summands,
        _answer(tree.loss, known, output),
        language,
        function_name=function_name,
        precision=precision,
        table=table,
    )


def export_sum(
    trees: Sequence[Tree],
    steps: Sequence[float],
    language: Literal["python", "sql"] = "python",
    *,
    function_name: str | None = None,
    precision: int | None = None,
    table: str | None = None,
    loss: Loss | None = None,
    classes: Classes | None = None,
    output: int | str | None = None,
) -> str:
    """A weighted sum of hard trees as Python functions, or as SQL.

    Parameters
    ----------
    trees : sequence of Tree
        Of one schema; of a single output of numbers, or with the outputs of all
        classes.
    steps : sequence of float
        What each counts.
    language, function_name, precision, table
        As in `export_code`.
    loss : Loss, optional
        That says what the sums mean; None: they predict.
    classes, output
        As in `export_code`.

    Returns
    -------
    str
        See `export_code`.
    """
    schema = trees[0].schema
    each = zip(map(_outputs, trees), steps, strict=True)
    summands = Summands(
        trees=tuple(tuple(_scaled(tree, step) for tree in its) for its, step in each),
        constants=tuple(map(float, schema.target_centers)),
        names=_names(replace(trees[0], loss=loss), language),
    )
    return _exported(
        summands,
        _answer(loss, classes, output),
        language,
        function_name=function_name,
        precision=precision,
        table=table,
    )


def _exported(
    summands: Summands,
    answer: Answer,
    language: str,
    *,
    function_name: str | None,
    precision: int | None,
    table: str | None,
) -> str:
    name = checked_export(language, function_name, precision, table)
    several = answer.classes is not None and len(summands.constants) > 1
    if language == "python":
        return python_code(summands, answer, name, precision)
    if several and answer.which is None and table is None:
        raise ValueError(
            "An SQL expression has one value, and each of several classes has a "
            "probability. Name a table with table= for a query that has a column for "
            "each and the class, or one class with output=."
        )
    return sql_code(summands, answer, name, precision, table)


def _answer(
    loss: Loss | None, classes: Classes | None, output: int | str | None
) -> Answer:
    """What sums of a loss mean."""
    if classes is None:
        return Answer(link_of(loss))
    which = None if output is None else classes.position(output)
    return Answer(link_of(loss), classes, which)


def _outputs(tree: Tree) -> tuple[Tree, ...]:
    """Every output as a tree of that output alone."""
    return tuple(tree.output(which) for which in range(tree.n_outputs))


def _names(tree: Tree, language: str) -> tuple[str, ...]:
    """What is predicted; in SQL the sums have columns, with names of their own."""
    check_choice("language", language, ("python", "sql"))
    if language == "python":
        return tree.schema.target_names
    return tuple(each.schema.target_name for each in _outputs(tree))


def _scaled(tree: Tree, step: float) -> Tree:
    """A tree that says its part of a sum, in the units of the target."""
    scale = (step * tree.schema.target_scale,)
    schema = replace(tree.schema, target_centers=(0.0,), target_scales=scale)
    return replace(tree, schema=schema)


def checked_export(
    language: str, function_name: str | None, precision: int | None, table: str | None
) -> str:
    """The name of the function or the column; errors for what cannot be."""
    if precision is not None:
        checked_precision(precision)
    check_choice("language", language, ("python", "sql"))
    check_text("function_name", function_name)
    check_text("table", table)
    if language == "python":
        if table is not None:
            raise ValueError(
                f"table is {table!r}, but a Python function reads no table. Leave it "
                "out, or set language='sql'."
            )
        name = "predict" if function_name is None else function_name
        name = unicodedata.normalize("NFKC", name)  # as Python reads it
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(
                f"function_name is {name!r}, which is no name of a Python function."
            )
        if name in TAKEN:
            raise ValueError(
                f"function_name is {name!r}, which the function itself uses. Choose a "
                "name other than " + ", ".join(sorted(TAKEN - {name})) + "."
            )
        return name
    return "prediction" if function_name is None else function_name
