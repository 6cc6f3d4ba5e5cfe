"""Data sets as the models of other packages take them.

Every peer gets the encoding of discrete columns that suits it best: ridge
indicators; the others numbers where the column holds numbers, whatever the paper takes
for discrete (indicators double the error of CART and LightGBM on auto_mpg), and for
text indicators, or in LightGBM, EBM and RaFFLE their own categories. Missing cells of
text are a category, but for LightGBM and EBM, which take them as they are; missing
numbers stay missing where the peer takes them (CART, LightGBM, EBM, Cubist), for the
others they are means, with indicators of having been missing.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas
from sklearn.impute import SimpleImputer

from benchmarks.accuracy.data import not_numeric
from benchmarks.shared import Experiment, Part


class Encoded(NamedTuple):
    """An experiment as peers take it; ``both`` are the rows to train and to prune."""

    train: Part
    prune: Part
    both: Part
    X_test: Any
    seed: int


def indicators(experiment: Experiment) -> Encoded:
    """Numbers as they are, a 0/1 column for each category seen before the test."""
    seen = _categories(experiment)

    def encode(X: Any) -> np.ndarray:
        numeric = [column for column in X.columns if column not in seen]
        blocks = [X[numeric].to_numpy(np.float64)]
        for column, values in seen.items():
            blocks.append((_cells(X[column])[:, None] == values).astype(np.float64))
        return np.hstack(blocks)

    return _encoded(experiment, encode, np.vstack)


def numbers(experiment: Experiment) -> Encoded:
    """Numbers wherever a column holds them, indicators of text."""
    return indicators(_text_only(experiment))


def native(experiment: Experiment) -> Encoded:
    """DataFrames with pandas' categories for text; unseen ones become missing."""
    experiment = _text_only(experiment)
    seen = _categories(experiment)

    def encode(X: Any) -> Any:
        X = X.copy()
        # LightGBM refuses names with punctuation; columns keep their order.
        names = {column: f"c{i}" for i, column in enumerate(X.columns)}
        for column, values in seen.items():
            known = [value for value in values if value is not None]
            cells = X[column].where(X[column].isin(known))
            X[column] = pandas.Categorical(cells, categories=known)
        return X.rename(columns=names)

    return _encoded(experiment, encode, pandas.concat)


def text(experiment: Experiment) -> Encoded:
    """DataFrames whose names and categories are letters and digits.

    A category that the test part alone has becomes the commonest one.
    """
    experiment = _text_only(experiment)
    seen = _categories(experiment)
    known = pandas.concat([experiment.train.X, experiment.prune.X])

    def encode(X: Any) -> Any:
        columns = {}
        for i, column in enumerate(X.columns):
            if column in seen:
                codes = {value: f"v{code}" for code, value in enumerate(seen[column])}
                cells = map(codes.get, _cells(known[column]))
                commonest = collections.Counter(cells).most_common(1)[0][0]
                found = [codes.get(cell, commonest) for cell in _cells(X[column])]
                columns[f"x{i}"] = np.array(found, object)
            else:
                columns[f"x{i}"] = X[column].to_numpy(np.float64)
        return pandas.DataFrame(columns)

    return _encoded(experiment, encode, pandas.concat)


ENCODINGS = {
    "indicators": indicators,
    "numbers": numbers,
    "categories": native,
    "text": text,
}


def _text_only(experiment: Experiment) -> Experiment:
    return experiment._replace(discrete=not_numeric(experiment.train.X))


def _categories(experiment: Experiment) -> dict[str, np.ndarray]:
    """Values of discrete columns before the test; None where cells are missing."""
    parts = (experiment.train.X, experiment.prune.X)
    seen = {}
    for column in experiment.discrete:
        values = {value for X in parts for value in _cells(X[column])}
        seen[column] = np.array(sorted(values, key=str), object)
    return seen


def _cells(column: Any) -> np.ndarray:
    """A column of a DataFrame as objects, those that are missing as None."""
    cells = column.to_numpy(object, copy=True)
    cells[column.isna().to_numpy()] = None
    return cells


def _encoded(experiment: Experiment, encode: Callable, join: Callable) -> Encoded:
    train, prune = (Part(encode(part.X), part.y) for part in experiment[:2])
    both = Part(join([train.X, prune.X]), np.concatenate([train.y, prune.y]))
    return Encoded(train, prune, both, encode(experiment.test.X), experiment.seed)


def filled() -> SimpleImputer:
    """Means where numbers are missing, and columns that say where."""
    return SimpleImputer(add_indicator=True, keep_empty_features=True)
