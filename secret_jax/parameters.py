"""What the estimator's parameters may be, and what is said when they are not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np
from sklearn.utils._param_validation import InvalidParameterError

from secret_jax.grow.batches import SEARCHES
from secret_jax.models.leaves import LEAF_MODELS
from secret_jax.prune.rules import PRUNING_RULES

# Registries are read when a model is fitted: what was added to them counts.
_CHOICES: dict[str, Callable[[], Iterable[Any]]] = {
    "leaf": lambda: LEAF_MODELS,
    "criterion": lambda: SEARCHES,
    "gini_gain": lambda: ("normal", "counted"),
    "prune": lambda: ("auto", "holdout", "cross-validation", *PRUNING_RULES, None),
    "refine": lambda: (None, "hard", "blend", "soft"),
    "em_start": lambda: ("component", "rows"),
    "oblique": lambda: ("auto", True, False),
    "refit": lambda: (True, False),
    "born_again": lambda: (True, False),
    "discrete_regressors": lambda: ("auto", True, False),
    "missing_values": lambda: ("learn", "mean", "error"),
    "missing_regressors": lambda: ("auto", True, False),
}
_COUNTS = {
    "max_depth": (0, True),
    "max_leaf_nodes": (1, True),
    "max_split_features": (1, True),
    "n_starts": (1, False),
    "max_iter": (1, False),
    "em_sample": (16, True),
    "clip_min_samples": (0, False),
    "max_memory": (1, True),
}
_COUNTS_OR_FRACTIONS = ("min_samples_split", "min_samples_leaf")


def check_parameters(model: Any) -> None:
    """Refuse parameters that mean nothing, and say what is allowed."""

    def refuse(name: str, allowed: str) -> None:
        raise InvalidParameterError(  # both a ValueError and a TypeError
            f"The {name!r} parameter of {type(model).__name__} must be {allowed}. "
            f"Got {getattr(model, name)!r} instead."
        )

    for name, choices in _CHOICES.items():
        value, allowed = getattr(model, name), tuple(choices())
        plain = isinstance(value, str | bool | np.bool_)
        if not any(
            value is choice or (plain and value == choice) for choice in allowed
        ):
            refuse(name, "one of " + ", ".join(map(repr, allowed)))
    if model.leaf == "em" and model.criterion != "gini":
        refuse("leaf", "'em' only with criterion='gini': no other fits a mixture")
    gates = model.refine in ("blend", "soft")
    if gates and model.ccp_alpha is not None:
        refuse("refine", "'hard' or None with ccp_alpha. Leave ccp_alpha=None")
    if gates and model.prune not in ("auto", "holdout", "cross-validation"):
        refuse(
            "refine",
            f"'hard' or None with prune={model.prune!r}: gates need rows that did not "
            "grow the tree. Set prune='auto', 'holdout' or 'cross-validation'",
        )
    for name, (least, may_be_none) in _COUNTS.items():
        value = getattr(model, name)
        if value is None and may_be_none:
            continue
        if not (is_integer(value) and value >= least):
            other = " or None" if may_be_none else ""
            refuse(name, f"an int of at least {least}{other}")
    for name in _COUNTS_OR_FRACTIONS:
        value = getattr(model, name)
        if isinstance(value, str) and value == "auto":
            continue
        if is_integer(value):
            if value < 1:
                refuse(name, "'auto', an int of at least 1 or a float in (0, 1)")
        elif not is_real(value) or not 0 < value < 1:
            refuse(name, "'auto', an int of at least 1 or a float in (0, 1)")
    if not is_real(model.validation_fraction) or not 0 < model.validation_fraction < 1:
        refuse("validation_fraction", "a float in (0, 1)")
    if not is_real(model.tol) or not 0 <= model.tol < np.inf:
        refuse("tol", "a float of at least 0")
    if model.clip_margin is not None and (
        not is_real(model.clip_margin) or not 0 <= model.clip_margin < np.inf
    ):
        refuse("clip_margin", "a float of at least 0 or None")
    if model.ccp_alpha is not None:
        if not is_real(model.ccp_alpha) or not 0 <= model.ccp_alpha < np.inf:
            refuse("ccp_alpha", "a float of at least 0 or None")
        if model.prune not in (None, "auto"):
            raise ValueError(
                f"ccp_alpha={model.ccp_alpha!r} and prune={model.prune!r} are two ways "
                "to choose one subtree. Set prune=None to prune by ccp_alpha alone, or "
                "leave ccp_alpha=None."
            )
    if model.device is not None and not isinstance(model.device, str):
        refuse("device", "the name of a device like 'cpu' or 'gpu:1', or None")
    if not isinstance(model.verbose, Integral):
        refuse("verbose", "an int")


def is_integer(value: Any) -> TypeGuard[int]:
    """Whether a value is an integer and no boolean."""
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


def is_real(value: Any) -> TypeGuard[float]:
    """Whether a value is a real number and no boolean."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)
