"""Kinds of models on the command line: one tree, curves and a tree, a booster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from secret_jax.cli.messages import CommandError

if TYPE_CHECKING:
    from secret_jax.data.schema import TableSchema

KINDS = ("tree", "additive", "booster")
_MOST_COLUMNS = 8


def estimator_of(kind: str, classes: bool) -> Any:
    """Class of a kind of estimators; of curves it is that of their tree."""
    if kind == "booster":
        from secret_jax.ensemble.classifier import SecretBoostingClassifier
        from secret_jax.ensemble.regressor import SecretBoostingRegressor

        return SecretBoostingClassifier if classes else SecretBoostingRegressor
    if kind == "additive" and classes:
        raise CommandError("--model additive goes with a target of numbers")
    from secret_jax.estimators.classifier import SecretClassifier
    from secret_jax.estimators.regressor import SecretRegressor

    return SecretClassifier if classes else SecretRegressor


def loaded(path: str, method: str = "predict") -> Any:
    """Load a saved model that can do something; a misspelt name is guessed."""
    from secret_jax.cli.reading.problems import check_exists
    from secret_jax.composed.additive.estimator import SecretAdditiveRegressor
    from secret_jax.tree.file import fitted_attributes

    check_exists(path)
    held = fitted_attributes(path)
    kind = "booster" if "ensemble_" in held else "tree"
    model = (
        SecretAdditiveRegressor
        if "curves_" in held
        else estimator_of(kind, "classes_" in held)
    ).load(path)
    if not hasattr(model, method):
        raise CommandError(
            f"{path!r} holds a {type(model).__name__}, which has no {method}; fit with "
            "--model tree"
        )
    return model


def schema_of(model: Any) -> TableSchema:
    """Columns that a fitted model of any kind reads."""
    if hasattr(model, "ensemble_"):
        return model.ensemble_.schema
    return getattr(model, "schema_", None) or model.tree_.schema


def name_of(model: Any) -> str:
    """Name of a fitted model among other methods."""
    if hasattr(model, "ensemble_"):
        return "SECRET booster"
    return "SECRET curves and tree" if hasattr(model, "curves_") else "SECRET tree"


def text_of(model: Any) -> str:
    """Write a tree or curves as text; of a booster, how much each column explains."""
    if hasattr(model, "export_text"):
        return model.export_text()
    share, names = model.feature_importances_, schema_of(model).input_names
    order = np.argsort(-share, kind="stable")[:_MOST_COLUMNS]
    lines = [f"  {names[i]}: {100 * share[i]:.1f} %" for i in order]
    said = f"a booster of {model.n_trees_:,} trees, {model.n_iter_} rounds each"
    return "\n".join([f"{said}; the columns by importance:", *lines])
