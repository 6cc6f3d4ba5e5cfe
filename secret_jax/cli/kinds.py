"""Kinds of models on the command line: one tree, or a booster."""

from typing import Any

import numpy as np

import secret_jax
from secret_jax.cli.messages import CommandError
from secret_jax.cli.reading.problems import check_exists
from secret_jax.tree.file import estimator_name

# Estimators of each kind, of numbers and of classes.
KINDS = {
    "tree": ("SecretRegressor", "SecretClassifier"),
    "booster": ("SecretBoostingRegressor", "SecretBoostingClassifier"),
}
_MOST_COLUMNS = 8


def estimator_of(kind: str, classes: bool) -> Any:
    """Class of a kind of estimators."""
    return getattr(secret_jax, KINDS[kind][classes])


def loaded(path: str, method: str = "predict") -> Any:
    """Load a saved model that can do something; a misspelt name is guessed."""
    check_exists(path)
    model = getattr(secret_jax, estimator_name(path)).load(path)
    if not hasattr(model, method):
        raise CommandError(
            f"{path!r} holds a {type(model).__name__}, which has no {method}; fit with "
            "--model tree"
        )
    return model


def text_of(model: Any) -> str:
    """Write a tree as text; of a booster, how much each column explains."""
    if hasattr(model, "export_text"):
        return model.export_text()
    share, names = model.feature_importances_, model._schema.input_names
    order = np.argsort(-share, kind="stable")[:_MOST_COLUMNS]
    lines = [f"  {names[i]}: {100 * share[i]:.1f} %" for i in order]
    said = f"a booster of {model.n_trees_:,} trees, {model.n_iter_} rounds each"
    return "\n".join([f"{said}; the columns by importance:", *lines])
