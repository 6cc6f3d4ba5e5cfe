"""Random estimators of every public class, with random parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from secret_jax import (
    CostComplexity,
    HoldOut,
    Huber,
    KernelTreeClassifier,
    KernelTreeRegressor,
    Quantile,
    SecretAdditiveRegressor,
    SecretBoostingClassifier,
    SecretBoostingRegressor,
    SecretClassifier,
    SecretForestRegressor,
    SecretOrdinalClassifier,
    SecretRegressor,
    SoftGates,
    Tweedie,
)

Rng = np.random.Generator
GATES = SoftGates(
    max_steps=32,
    chunk=8,
    screen_steps=8,
    n_kept=2,
    n_committee=2,
    distil_steps=16,
    batch_size=16,
)
_SPLITS = ["rss", "rss", "secret", "cart", "guide", "m5", "retis", "support", "phd"]
# Choices by parameter; each is drawn for one estimator in three.
_TREE: dict[str, list[Any]] = {
    "max_leaf_nodes": [1, 2, 4, 9],
    "max_depth": [0, 1, 3],
    "pruning_tolerance": [0.0, 0.5],
    "equation_tolerance": [0.0, 0.3],
    "oblique": [True, False],
    "distill": [False],
    "min_samples_leaf": [1, 5, 0.1],
    "min_samples_split": [2, 0.3],
    "missing_values": ["mean", "learn"],
}
_NUMBERS = {
    "splits": [*_SPLITS, "conjunctive"],
    "leaf": ["linear", "constant", "simple", "m5"],
    "prune": [
        *("holdout", "cross-validation", "aic", "bic", "caic", "icomp"),
        *("cart", "guide", "m5", None),
        *(HoldOut(refit=False), CostComplexity(alpha=0.01)),
    ],
    "refine": ["tao", "blend"],
}
_CLASSES = {
    "splits": ["rss", "secret", "cart", "conjunctive"],
    "leaf": ["constant", "auto"],
    "prune": ["holdout", "cross-validation", "aic", "bic", "cart", None],
    "refine": ["tao", "blend"],
    "class_weight": ["balanced"],
}
_BOOSTER = {
    "max_leaf_nodes": [2, 5],
    "learning_rate": [0.1, 0.5, 1.0],
    "max_iter": [0, 1, 4],
    "early_stopping": [False],
    "subsample": [0.5, 1.0],
    "n_folds": [2],
    "ensemble": [False],
    "missing_values": ["mean"],
}
_LOSSES = ["absolute", "huber", Quantile(level=0.8), Huber()]
_OF_COUNTS = ["poisson", "tweedie", "auto", Tweedie(power=1.2)]
_FOREST = {
    "max_features": [1, 0.5, "sqrt", None],
    "min_samples_leaf": [1, 5, 0.1],
    "max_leaf_nodes": [3],
    "oblique": [True],
    "bootstrap": [False],
}


def _drawn(rng: Rng, *choices: dict[str, list[Any]], share: float = 0.3) -> dict:
    found = {}
    for name, values in {k: v for part in choices for k, v in part.items()}.items():
        if rng.random() < share:
            found[name] = values[rng.integers(len(values))]
    return found


def _tree(rng: Rng) -> SecretRegressor:
    return SecretRegressor(**_drawn(rng, _TREE, _NUMBERS))


def _accurate(rng: Rng, kind: Any) -> Any:
    return kind.accurate(gates=False, **_drawn(rng, _TREE))


def _preset(rng: Rng) -> SecretRegressor:
    names = ("paper", "cart", "guide", "m5", "retis", "support")
    return getattr(SecretRegressor, names[rng.integers(len(names))])()


def _loss(rng: Rng, losses: list[Any]) -> SecretRegressor:
    loss = losses[rng.integers(len(losses))]
    chosen = _drawn(rng, _TREE, {"prune": ["holdout", "bic", None]})
    return SecretRegressor(**chosen | {"loss": loss})


def _soft(rng: Rng) -> SecretRegressor:
    return SecretRegressor(**_drawn(rng, _TREE) | {"refine": GATES})


def _classes(rng: Rng) -> SecretClassifier:
    return SecretClassifier(**_drawn(rng, _TREE, _CLASSES))


def _booster(rng: Rng, kind: Any) -> Any:
    few = {"max_iter": 3, "n_folds": 3}
    return kind(**few | _drawn(rng, _BOOSTER))


def _forest(rng: Rng) -> SecretForestRegressor:
    return SecretForestRegressor(
        n_estimators=int(rng.integers(1, 5)), **_drawn(rng, _FOREST)
    )


def _small(rng: Rng, kind: Any) -> Any:
    """A tree for what is composed of one, or none."""
    chosen = _drawn(rng, _TREE, {"leaf": ["constant"], "splits": ["cart"]})
    if kind is SecretRegressor and rng.random() < 0.3:
        chosen["loss"] = ["absolute", "huber", "auto"][rng.integers(3)]
    return None if rng.random() < 0.3 else kind(**chosen)


def _kernel(rng: Rng, kind: Any, of: Any, heads: list[str]) -> Any:
    head = heads[rng.integers(len(heads))]
    search = {"search": "greedy"} if rng.random() < 0.1 else {}
    return kind(_small(rng, of), head=head, **search)


def _additive(rng: Rng) -> SecretAdditiveRegressor:
    knots = _drawn(rng, {"n_knots": [0, 3], "n_folds": [2]})
    return SecretAdditiveRegressor(_small(rng, SecretRegressor), **knots)


# Estimators by kind, and what they predict.
NUMBERS: dict[str, Callable[[Rng], Any]] = {
    "tree": _tree,
    "preset": _preset,
    "accurate": lambda rng: _accurate(rng, SecretRegressor),
    "loss": lambda rng: _loss(rng, _LOSSES),
    "soft": _soft,
    "booster": lambda rng: _booster(rng, SecretBoostingRegressor),
    "forest": _forest,
    "additive": _additive,
    "kernel": lambda rng: _kernel(
        rng,
        KernelTreeRegressor,
        SecretRegressor,
        ["kernel", "local", "rbf", "gp", "stack", "auto"],
    ),
}
COUNTS = {"counts": lambda rng: _loss(rng, _OF_COUNTS)}
CLASSES: dict[str, Callable[[Rng], Any]] = {
    "classes": _classes,
    "accurate classes": lambda rng: _accurate(rng, SecretClassifier),
    "booster of classes": lambda rng: _booster(rng, SecretBoostingClassifier),
    "ordinal": lambda rng: SecretOrdinalClassifier(_small(rng, SecretRegressor)),
    "kernel of classes": lambda rng: _kernel(
        rng, KernelTreeClassifier, SecretClassifier, ["gp", "rbf", "kernel", "local"]
    ),
}
# Those that can keep directions, and those that take several outputs.
MONOTONE = {
    "tree",
    "loss",
    "counts",
    "booster",
    "forest",
    "classes",
    "booster of classes",
}
SEVERAL = {"tree", "preset", "forest", "booster", "kernel"}
ALL = NUMBERS | COUNTS | CLASSES
