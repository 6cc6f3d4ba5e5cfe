"""Export of trees to programs that predict without this package, and to drawings."""

from typing import Any, Literal, get_args

from secret_jax.inspect.code.onnx import onnx_model
from secret_jax.inspect.code.program import ExportedModel, exported
from secret_jax.inspect.code.python import python_code
from secret_jax.inspect.code.sql import sql_code
from secret_jax.inspect.text import dot_code
from secret_jax.inspect.view import Readable, as_view

Language = Literal["python", "sql", "onnx", "dot"]
_GOES_WITH = {"function_name": ("sql", "python"), "table": ("sql",)}
_GOES_WITH |= {"max_depth": ("dot",)}
# What a sum of trees is not exported to, and why.
_NOT_OF_SUMS = {"sql": "it takes databases too long", "dot": "it is too long to draw"}


def export_code(
    tree: Readable,
    language: Language = "python",
    *,
    function_name: str | None = None,
    table: str | None = None,
    max_depth: int | None = None,
    output: int | str | None = None,
) -> Any:
    """Write the tree as Python functions, an SQL expression or query, ONNX or DOT.

    For services and databases that cannot install this package, and for drawings.

    Parameters
    ----------
    language : {"python", "sql", "onnx", "dot"}
    function_name : str, optional
        Name of the function of Python ("predict"), or of the column of a query
        ("prediction").
    table : str, optional
        Of SQL: the table of the rows, for a query of its columns and the prediction in
        place of an expression.
    max_depth : int, optional
        Of DOT: deepest level that is drawn, inner nodes on it dashed.
    output : int or str, optional
        Which of several outputs of numbers; of classes the one whose probability alone
        is predicted, in place of a class.

    Returns
    -------
    str or onnx.ModelProto
        Python: the source of a function of keyword arguments or of one dict. Of classes
        ``predict`` returns the class, and ``predict_proba`` a dict of probabilities.

        SQL: standard SQL with CASE and MATERIALIZED. An expression, of two classes the
        probability of the second; or a query, which for classes has the columns
        "log-odds of ..." ("score of ..." of several), "probability of ..." and the
        class.

        ONNX: a graph. Its inputs are the columns that the tree uses, by name, of the
        shape (n_rows, 1): numbers and truth values as float64, text as strings; or one
        matrix ``X`` if the model was fitted on an array of numbers. Missing numbers are
        NaN, missing texts empty. Its outputs are ``prediction``, (n_rows,); or of
        classes ``label``, (n_rows,), and ``probabilities``, (n_rows, n_classes).

        DOT: text for Graphviz (``dot -Tsvg tree.dot -o tree.svg``), its nodes named as
        `apply` names them. Where the condition of a box holds, the way is "yes". Edges
        are as wide as their share of the training rows, boxes coloured by the mean of
        the target, or by the most frequent class; a leaf's tooltip says why it was not
        split. Of a sum the eight largest terms are shown.

    Raises
    ------
    ImportError
        If onnx is not installed: ``pip install 'secret-jax[onnx]'``.
    TypeError
        If a category is neither text nor a number nor a truth value; with ONNX also if
        a column has texts and numbers, or empty texts and missing ones.
    ValueError
        If an option does not go with the language, or SQL with gates; an expression of
        SQL has no place for the probabilities of several classes.

    Notes
    -----
    The code computes in float64 what `predict` computes in float32. The two differ by
    less than 3e-5 standard deviations of the target, or 3e-4 if the tree has gates.
    Splits on one column change sides at exactly the same value. Missing values (None or
    NaN in Python, NULL in SQL) and unseen categories go where `predict` sends them.
    Python takes dates and times of day themselves, or texts as ISO 8601 has them. In
    SQL and ONNX their parts are columns of their own, numbers that are named as in the
    text: ``sold (year)``; the first lines, or the graph's ``doc_string``, define them.

    In SQL turn NaN into NULL first (``NULLIF(x, 'NaN')``). Classes use ``EXP``; where
    SQLite lacks it, ``connection.create_function("EXP", 1, math.exp)`` adds it.

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
    >>> graph = model.export_code("onnx")  # .SerializeToString() for a file
    >>> [one.name for one in (*graph.graph.input, *graph.graph.output)]
    ['X', 'prediction']
    """
    options = {"function_name": function_name, "table": table, "max_depth": max_depth}
    check_language(language, options)
    if language == "dot":
        return dot_code(as_view(tree, output), max_depth)
    return program_code(exported(tree, output), language, function_name, table)


def check_language(
    language: str, options: dict[str, Any], *, of_sum: bool = False
) -> None:
    """Refuse a language that a tree, or a sum, is not written in, with its options."""
    if not isinstance(language, str) or language not in get_args(Language):
        raise ValueError(
            f"language is {language!r}; choose 'python', 'sql', 'onnx' or 'dot'."
        )
    for option, value in options.items():
        if option != "max_depth" and not isinstance(value, str | None):
            raise TypeError(f"{option} is {value!r}; give text or None.")
        if value is not None and language not in _GOES_WITH[option]:
            raise ValueError(
                f"{option} is {value!r}, which says nothing to {language!r}. Leave it "
                f"out, or set language={_GOES_WITH[option][-1]!r}."
            )
    if of_sum and language in _NOT_OF_SUMS:
        raise ValueError(
            f"A sum of trees is not exported to {language!r}: {_NOT_OF_SUMS[language]}."
            f" distill() gives one tree, which export_code({language!r}) writes."
        )


def program_code(
    model: ExportedModel,
    language: str,
    function_name: str | None = None,
    table: str | None = None,
) -> Any:
    """Write a tree, or a sum of trees, in Python, SQL or ONNX."""
    if language == "onnx":
        return onnx_model(model)
    if language == "sql":
        return sql_code(model, function_name or "prediction", table)
    return python_code(model, "predict" if function_name is None else function_name)
