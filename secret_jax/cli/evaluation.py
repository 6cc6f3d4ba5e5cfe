"""A tree's errors on held-out rows, beside two methods that everybody knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor

from secret_jax.cli.classes import class_baselines, measured_classes

if TYPE_CHECKING:
    import pandas as pd

    from secret_jax.data.schema import TableSchema

TREE = "SECRET tree"  # its name among the methods
Score = dict[str, float | None]

# Of the training rows of CART, to choose its size by: what a hold-out part is for us.
_CHOOSING_SHARE = 0.25


class Evaluation(NamedTuple):
    """A fitted model and what was measured.

    Attributes
    ----------
    scores : dict of str to dict
        Method to its errors on the held-out rows (``mse``, ``rmse``, ``mae``, ``r2``;
        of classes ``error``, ``log_loss``) and its number of ``leaves``. Empty without
        held-out rows.
    seconds : float
        Of the fit.
    held_out : tuple of (DataFrame, Series) or None
        The rows that were measured on.
    """

    model: Any
    n_training: int
    n_test: int
    scores: dict[str, Score]
    seconds: float
    held_out: tuple[pd.DataFrame, pd.Series] | None = None


def evaluate(
    model: Any,
    X: pd.DataFrame,
    y: pd.Series,
    *,
    test_fraction: float,
    seed: int,
    progress: Callable[[str], None],
) -> Evaluation:
    """Fit on one part of the rows; measure on the rest, beside the two baselines.

    Parameters
    ----------
    model : SecretRegressor or SecretClassifier
        Not changed; a copy is fitted.
    X : DataFrame of shape (n_rows, n_columns)
    y : Series of shape (n_rows,)
    test_fraction : float
        Share of the rows to hold out, in [0, 1).
    seed : int
        Chooses the held-out rows, and those that CART chooses its size on.
    progress : callable
        Called with a line now and then.

    Raises
    ------
    ValueError
        If there are too few rows to hold some out.
    """
    n_test = round(len(X) * test_fraction)
    n_training = len(X) - n_test
    if test_fraction > 0 and (n_test < 1 or n_training < 4):
        raise ValueError(
            f"{len(X)} rows are too few to hold some out; add rows, or measure no "
            "errors (test_fraction 0)"
        )
    order = np.random.default_rng(seed).permutation(len(X))
    test, training = np.sort(order[:n_test]), np.sort(order[n_test:])
    X_training, y_training = X.iloc[training], y.iloc[training]
    progress(f"growing the tree on {n_training:,} rows")
    started = perf_counter()
    fitted = cast(Any, clone(model)).fit(X_training, y_training)
    seconds = perf_counter() - started
    progress(f"fitted in {seconds:.1f} s")
    scores, held_out = {}, None
    if n_test:
        progress(f"measuring on {n_test} held-out rows, beside two other methods")
        X_test, y_test = X.iloc[test], y.iloc[test].to_numpy()
        held_out = X_test, y.iloc[test]
        scores[TREE] = measured(fitted, X_test, y_test)
        scores[TREE]["leaves"] = fitted.n_leaves_
        scores |= _baselines(fitted, X_training, y_training, X_test, y_test, seed)
    return Evaluation(fitted, n_training, n_test, scores, seconds, held_out)


def measured(model: Any, X: pd.DataFrame, y: np.ndarray) -> Score:
    """The errors of a fitted tree on rows, by what its targets are."""
    if is_classifier(model):
        return measured_classes(model.predict_proba(X), model.classes_, y)
    return errors(model.predict(X), y)


def _baselines(
    model: Any,
    X: pd.DataFrame,
    y: pd.Series,
    X_test: pd.DataFrame,
    y_test: np.ndarray,
    seed: int,
) -> dict[str, Score]:
    """Ordinary least squares, and CART of the size that a held-out part asks for.

    Of classes logistic regression, and CART by log-loss.

    Missing numbers are filled in with the mean for both.

    CART chooses among powers of two leaves on as large a part of the training rows as
    the tree is pruned on, and is then refitted on all of them.
    """
    schema = model.tree_.schema
    encoder = make_column_transformer(
        (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            [schema.names[column] for column in schema.discrete],
        ),
        (
            make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler()),
            [schema.names[column] for column in schema.continuous],
        ),
    )
    X, X_test = (_attributes(schema, table) for table in (X, X_test))
    encoded = np.asarray(encoder.fit_transform(X))
    encoded_test = np.asarray(encoder.transform(X_test))
    if is_classifier(model):
        return class_baselines(encoded, y.to_numpy(), encoded_test, y_test, seed)
    linear = LinearRegression().fit(encoded, y)
    scores = {"ordinary least squares": errors(linear.predict(encoded_test), y_test)}

    grow, choose, y_grow, y_choose = train_test_split(
        encoded, y, test_size=_CHOOSING_SHARE, random_state=seed
    )

    def cart(n_leaves: int) -> DecisionTreeRegressor:
        return DecisionTreeRegressor(max_leaf_nodes=n_leaves, random_state=seed)

    def error(n_leaves: int) -> float:
        return mean_squared_error(
            y_choose, cart(n_leaves).fit(grow, y_grow).predict(choose)
        )

    sizes = [2**k for k in range(1, 12) if 2**k <= max(2, len(grow))]
    chosen = cart(min(sizes, key=error)).fit(encoded, y)
    score = errors(chosen.predict(encoded_test), y_test)
    scores["CART (scikit-learn)"] = score | {"leaves": int(chosen.get_n_leaves())}
    return scores


def _attributes(schema: TableSchema, X: pd.DataFrame) -> pd.DataFrame:
    """A table with dates in parts, and ordered categories as places."""
    import pandas as pd

    columns = zip(schema.names, schema.columns_of(X), strict=True)
    return pd.DataFrame(dict(columns), index=X.index)


def errors(prediction: np.ndarray, y: np.ndarray) -> Score:
    """Mean squared error, its root, mean absolute error and R² (None if y is constant).

    Examples
    --------
    >>> errors(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    {'mse': 2.0, 'rmse': 1.414..., 'mae': 1.0, 'r2': 0.111...}
    """
    residual = prediction - y
    mse = float(np.mean(residual**2))
    variance = float(np.var(y))
    return {
        "mse": mse,
        "rmse": math.sqrt(mse),
        "mae": float(np.mean(np.abs(residual))),
        "r2": 1 - mse / variance if variance > 0 else None,
    }


def score_table(evaluation: Evaluation) -> str:
    """The scores as a table for people; empty without held-out rows."""
    return "\n".join(_score_lines(evaluation)) if evaluation.scores else ""


def _score_lines(evaluation: Evaluation) -> Iterator[str]:
    title = f"Errors on {evaluation.n_test:,} held-out rows"
    if is_classifier(evaluation.model):
        yield f"{title:<34}{'wrong':>10}{'log-loss':>10}{'leaves':>8}"
        for name, score in evaluation.scores.items():
            wrong, log_loss = score["error"], score["log_loss"]
            assert wrong is not None
            leaves = score.get("leaves", "-")
            share = f"{100 * wrong:.1f} %"
            yield f"  {name:<32}{share:>10}{rounded(log_loss):>10}{leaves:>8}"
        return
    yield f"{title:<34}{'MAE':>10}{'R²':>8}{'RMSE':>10}{'leaves':>8}"
    for name, score in evaluation.scores.items():
        mae, rmse = rounded(score["mae"]), rounded(score["rmse"])
        r2 = "-" if score["r2"] is None else f"{score['r2']:.3f}"
        leaves = score.get("leaves", "-")
        yield f"  {name:<32}{mae:>10}{r2:>8}{rmse:>10}{leaves:>8}"


def rounded(value: float | None) -> str:
    """Four significant digits, without an exponent where that reads well.

    Examples
    --------
    >>> [rounded(value) for value in (4.26812, 0.00123456, 123456.7, 1e-9)]
    ['4.268', '0.001235', '123457', '1e-09']
    """
    if value is None:
        return "-"
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:.4g}"
    return f"{value:.{max(0, 3 - math.floor(math.log10(abs(value))))}f}"
