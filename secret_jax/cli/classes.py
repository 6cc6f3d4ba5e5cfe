"""What the command line measures of a classifier, beside two that everybody knows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from secret_jax.inspect.class_errors import class_errors

# Of the training rows of CART, to choose its size by.
_CHOOSING_SHARE = 0.25


def measured_classes(
    probability: np.ndarray, classes: np.ndarray, y: np.ndarray
) -> dict[str, float | None]:
    """Share of wrong classes, and mean log-loss in nats.

    Parameters
    ----------
    probability : ndarray of shape (n_rows, n_classes)
    classes : ndarray of shape (n_classes,)
        In order.
    y : ndarray of shape (n_rows,)
        One that is none of the classes is wrong, whatever was said of it.

    Examples
    --------
    >>> said = np.array([[0.5, 0.5], [0.25, 0.75]])
    >>> measured_classes(said, np.array(["a", "b"]), np.array(["a", "a"]))
    {'error': 0.5, 'log_loss': 1.039...}
    """
    member = y[:, None] == classes
    actual = np.where(member.any(axis=1), member.argmax(axis=1), -1)
    found = class_errors(probability, probability.argmax(axis=1), actual)
    return {"error": 1.0 - found.accuracy, "log_loss": found.log_loss}


def class_baselines(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, seed: int
) -> dict[str, dict[str, float | None]]:
    """Logistic regression, and CART of the size that a held-out part asks for.

    Parameters
    ----------
    X, X_test : ndarray of shape (n_rows, n_features)
        Encoded and scaled.
    y, y_test : ndarray of shape (n_rows,)
    """

    def measured(model: Any, rows: Any, labels: Any) -> dict[str, Any]:
        return measured_classes(model.predict_proba(rows), model.classes_, labels)

    linear = LogisticRegression(max_iter=5000).fit(X, y)
    scores = {"logistic regression": measured(linear, X_test, y_test)}
    grow, choose, y_grow, y_choose = train_test_split(
        X, y, test_size=_CHOOSING_SHARE, random_state=seed
    )

    def cart(n_leaves: int) -> DecisionTreeClassifier:
        return DecisionTreeClassifier(max_leaf_nodes=n_leaves, random_state=seed)

    def log_loss(n_leaves: int) -> float:
        found = measured(cart(n_leaves).fit(grow, y_grow), choose, y_choose)
        return float(found["log_loss"])

    sizes = [2**k for k in range(1, 12) if 2**k <= max(2, len(grow))]
    chosen = cart(min(sizes, key=log_loss)).fit(X, y)
    score = measured(chosen, X_test, y_test)
    scores["CART (scikit-learn)"] = score | {"leaves": int(chosen.get_n_leaves())}
    return scores
