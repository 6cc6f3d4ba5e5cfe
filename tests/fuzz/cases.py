"""Random cases: an estimator and a table for it, all drawn from one seed."""

from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

import secret_jax as sj
from tests.fuzz import estimators
from tests.helpers import random_tables as tables
from tests.helpers.random_tables import PLAIN


class Case:
    """A random estimator of a kind, its table, and what it predicts once fitted."""

    def __init__(self, kind: str, seed: int):
        self.kind, self.rng = kind, np.random.default_rng([seed, len(kind)])
        rng, n_rows = self.rng, int(self.rng.integers(30, 160))
        n_rows += 120 * (kind == "accurate")  # which chooses logarithms
        X, signal = tables.table(rng, n_rows)
        self.model = estimators.ALL[kind](rng)
        self.has_classes = is_classifier(self.model)
        if self.has_classes:
            y = tables.classes(rng, signal, int(rng.integers(2, 4)))
        else:
            n_outputs = 1 + (kind in estimators.SEVERAL and rng.random() < 0.2)
            positive = kind in estimators.COUNTS or rng.random() < 0.1
            y = tables.numbers(rng, signal, n_outputs, positive)
        self.several = y.ndim > 1
        # What asks for the second of several outputs.
        self.second = {"output": 1} if self.several else {}
        weight = tables.weights(rng, n_rows)
        self.data = tables.Data(X, y, weight, tables.groups(rng, n_rows))
        self.directions: dict[str, int] = {}
        known, drawn = self.model.get_params(), rng.random()
        if "random_state" in known:
            self.model.set_params(random_state=int(rng.integers(9)))
        if "split_features" in known and drawn < 0.2:
            asked = ("split_features", "categorical_features")[rng.integers(2)]
            self.model.set_params(**{asked: [str(rng.choice([*X]))]})
        elif getattr(self.model, "splits", None) == "rss" and drawn > 0.9:
            name = str(rng.choice([n for n in X if n.rpartition(" ")[0] in PLAIN]))
            fixed = sj.RssSplits(fixed_splits=(name, float(X[name].median())))
            self.model.set_params(splits=fixed)
        elif "monotonic_cst" in known and drawn < 0.35:
            plain = [n for n in X if n.rpartition(" ")[0] in PLAIN]
            self.directions = {n: int(rng.choice([-1, 1])) for n in plain[:2]}
            self.model.set_params(monotonic_cst=self.directions)

    def fit(self, rows: Any = slice(None), **changes: Any) -> Any:
        """Fit a clone to some of the rows, with changes of what is given."""
        names, (X, *others) = ("X", "y", "sample_weight", "groups"), self.data
        own = [X.iloc[rows], *(one if one is None else one[rows] for one in others)]
        return clone(self.model).fit(**dict(zip(names, own, strict=True)) | changes)

    @cached_property
    def fitted(self) -> Any:
        return self.fit()

    @cached_property
    def expected(self) -> np.ndarray:
        return self.said_by(self.fitted)

    @property
    def of_second(self) -> np.ndarray:
        return self.expected[:, 1] if self.several else self.expected

    def said_by(self, model: Any, X: Any = None) -> np.ndarray:
        """Probabilities of classes, or predictions of numbers."""
        says = model.predict_proba if self.has_classes else model.predict
        return np.asarray(says(self.data.X if X is None else X), np.float64)

    def near(
        self, found: Any, expected: Any = None, tolerance: float = 1e-6, what: str = ""
    ) -> None:
        """Compare with the model's predictions, in deviations of the target."""
        expected = self.expected if expected is None else expected
        size = 1.0 if self.has_classes else float(np.std(self.data.y)) or 1.0
        size += 1e-3 * tolerance * np.abs(expected).max(initial=0)
        np.testing.assert_allclose(found, expected, 1e-9, tolerance * size, True, what)
