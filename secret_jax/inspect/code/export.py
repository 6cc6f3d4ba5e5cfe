"""Export of trees to programs that predict without this package."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from secret_jax.inspect.code.program import ExportedModel, program_of
from secret_jax.inspect.code.python import python_code
from secret_jax.inspect.code.sql import sql_code
from secret_jax.inspect.view import Classes, Readable, as_view
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import SQUARED_ERROR
from secret_jax.tree.structure import Tree

Language = Literal["python", "sql"]


def export_code(
    tree: Readable,
    language: Language = "python",
    *,
    function_name: str | None = None,
    table: str | None = None,
    output: int | str | None = None,
) -> str:
    """Write the tree as Python functions, or as an SQL expression or query.

    For services and databases that cannot install this package; `to_onnx` makes a graph
    for runtimes of many languages.

    Parameters
    ----------
    language : {"python", "sql"}
    function_name : str, optional
        Name of the function, "predict" by default, or of the column of a query,
        "prediction" by default.
    table : str, optional
        Only with SQL: the table of the rows. The result is then a query that gives all
        of its columns and the prediction, otherwise an expression.
    output : int or str, optional
        Which of several outputs of numbers; of classes the one whose probability alone
        is predicted, in place of a class.

    Returns
    -------
    str
        Python: the source of a function of keyword arguments or of one dict, which
        returns a float and needs nothing but Python. Of classes ``predict`` returns the
        class, and ``predict_proba`` a dict of the probabilities of all classes.

        SQL: standard SQL with CASE and MATERIALIZED. An expression, of two classes the
        probability of the second; or a query, which for classes has the columns
        "log-odds of ..." ("score of ..." of several), "probability of ..." and the
        class.

        Parts of dates are columns of their own, numbers that are named as in the text:
        ``sold (year)``.

    Raises
    ------
    TypeError
        If a category is neither text nor a number nor a truth value.
    ValueError
        If an option is not what it should be, or an SQL expression is asked for the
        probabilities of several classes, or SQL for a tree with gates.

    Notes
    -----
    The code computes in float64 what `predict` computes in float32. The two differ by
    less than 3e-5 standard deviations of the target, or 3e-4 if the tree has gates.
    Splits on one column change sides at exactly the same value. Missing values (None or
    NaN in Python, NULL in SQL) and unseen categories go where `predict` sends them.

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
    >>> print(model.export_code("sql", table="rows"))
    SELECT *,
    ...
    FROM "rows"
    """
    return written(exported(tree, output), language, function_name, table)


def written(
    model: ExportedModel,
    language: Language,
    function_name: str | None,
    table: str | None = None,
) -> str:
    if not isinstance(language, str) or language not in ("python", "sql"):
        raise ValueError(
            f"language is {language!r}; choose 'python' or 'sql'. to_onnx() makes a "
            "graph for other languages."
        )
    for option, value in (("function_name", function_name), ("table", table)):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{option} is {value!r}; give text or None.")
    if language == "sql":
        return sql_code(model, function_name or "prediction", table)
    if table is not None:
        raise ValueError(
            f"table is {table!r}, but a function reads no table. Leave it out, or set "
            "language='sql'."
        )
    return python_code(model, "predict" if function_name is None else function_name)


def exported(tree: Readable, output: int | str | None = None) -> ExportedModel:
    view, classes, only = as_view(tree, output), None, None
    if view.classes is not None:
        view, classes = replace(view, only=None), view.classes
        only = None if output is None else classes.position(output)
    return ExportedModel(
        title=view.title,
        trees=[program_of(view.equations)],
        constants=(0.0,) * len(view.equations),
        loss=view.tree.loss,
        classes=classes,
        only=only,
    )


def exported_sum(
    trees: Sequence[Tree],
    steps: Sequence[float],
    *,
    loss: Loss = SQUARED_ERROR,
    classes: Classes | None = None,
    output: int | str | None = None,
) -> ExportedModel:
    """Convert a weighted sum of hard trees of one schema; the loss says what it is."""
    schema = trees[0].schema
    parts = []
    for tree, step in zip(trees, steps, strict=True):
        scales = tuple(step * scale for scale in schema.target_scales)
        centers = (0.0,) * len(scales)
        scaled = replace(schema, target_centers=centers, target_scales=scales)
        outputs = [replace(tree, schema=scaled).output(i) for i in range(len(scales))]
        parts.append(program_of(outputs))
    return ExportedModel(
        title=" / ".join(schema.target_names),
        trees=parts,
        constants=tuple(map(float, schema.target_centers)),
        loss=loss,
        classes=classes,
        only=None if output is None or classes is None else classes.position(output),
    )
