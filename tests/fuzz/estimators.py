"""Random estimators of every public class, with random parameters."""

from collections.abc import Callable
from typing import Any

import numpy as np

import secret_jax as sj
from secret_jax.models.glm import ClassFrequencies

Rng = np.random.Generator
_GATES = sj.SoftGates(max_steps=32, chunk=8, batch_size=16)
# Values of parameters; about a third of the parameters is set in an estimator.
_TREE = {
    **{"max_leaf_nodes": [1, 2, 4, 9], "max_depth": [0, 1, 3], "distill": [False]},
    **{"pruning_tolerance": [0.0, 0.5], "equation_tolerance": [0.0, 0.3]},
    **{"min_samples_leaf": [1, 5, 0.1], "min_samples_split": [2, 0.3]},
    **{"oblique": [True, False], "missing_values": ["mean"]},
}
_FINDERS = ["secret", "cart", "conjunctive"]
_RULES = ["holdout", "cross-validation", "aic", "bic", "cart", None]
_MORE_RULES = [sj.HoldOut(refit=False), sj.CostComplexity(alpha=0.01), "guide", "m5"]
_SAMPLED = [sj.RssSplits(max_samples=2), sj.SecretSplits(max_samples=2)]
_RIDGES = [sj.Ridge(clip_margin=None, tail_share=0.1), sj.Ridge(indicators=True)]
_NUMBERS = {
    "splits": [*_FINDERS, "guide", "m5", "retis", "support", "phd", *_SAMPLED],
    "leaf": ["linear", "constant", "simple", "m5", *_RIDGES],
    "prune": [*_RULES, "caic", "icomp", *_MORE_RULES],
    "refine": ["tao", "blend"],
}
_SHARES = ["constant", "auto", ClassFrequencies(impurity="gini", prior=0.0)]
_CLASSES = {
    **{"splits": [*_FINDERS, *_SAMPLED], "leaf": _SHARES, "prune": _RULES},
    **{"refine": ["tao", "blend"], "class_weight": ["balanced"]},
}
_BOOSTER = {
    **{"max_leaf_nodes": [2, 5], "learning_rate": [0.5, 1.0], "max_iter": [0, 1, 4]},
    **{"early_stopping": [False], "subsample": [0.5, 1.0], "ensemble": [False]},
}
_FOREST = {
    **{"max_features": [1, 0.5, "sqrt", None], "min_samples_leaf": [1, 5, 0.1]},
    **{"max_leaf_nodes": [3], "oblique": [True], "bootstrap": [False]},
}
_LOSSES = ["absolute", sj.Quantile(level=0.8)]
_OF_COUNTS = ["poisson", "auto"]
_LEARNERS = ["cart", "guide", "m5", "retis", "support"]


def _drawn(rng: Rng, choices: dict[str, list[Any]]) -> dict[str, Any]:
    chosen = {name: some for name, some in choices.items() if rng.random() < 0.3}
    return {name: some[rng.integers(len(some))] for name, some in chosen.items()}


def _one(rng: Rng, values: list[Any]) -> Any:
    return values[rng.integers(len(values))]


def _loss(rng: Rng, losses: list[Any]) -> Any:
    chosen = _drawn(rng, _TREE | {"prune": ["holdout", None]})
    return sj.SecretRegressor(**chosen, loss=_one(rng, losses))


def _booster(rng: Rng, kind: Any) -> Any:
    return kind(**{"max_iter": 3, "n_folds": 3} | _drawn(rng, _BOOSTER))


def _inner(rng: Rng, kind: Any) -> Any:
    """A tree for an estimator that is composed of one, or none."""
    losses = {"loss": [*_LOSSES, "auto"]} if kind is sj.SecretRegressor else {}
    more = {"leaf": ["constant"], "splits": ["cart"]} | losses
    return None if rng.random() < 0.3 else kind(**_drawn(rng, _TREE | more))


def _kernel(rng: Rng, kind: Any, tree: Any) -> Any:
    heads = ["kernel", "local", "rbf", "gp", "auto"]
    search = {"search": "greedy"} if rng.random() < 0.1 else {}
    return kind(_inner(rng, tree), head=_one(rng, heads), **search)


_R, _C = sj.SecretRegressor, sj.SecretClassifier
NUMBERS: dict[str, Callable[[Rng], Any]] = {
    "tree": lambda rng: _R(**_drawn(rng, _TREE | _NUMBERS)),
    "paper": lambda rng: _R.paper(),
    "learner": lambda rng: _R.literature(_one(rng, _LEARNERS)),
    "accurate": lambda rng: _R.accurate(gates=False, **_drawn(rng, _TREE)),
    "loss": lambda rng: _loss(rng, _LOSSES),
    "soft": lambda rng: _R(**_drawn(rng, _TREE) | {"refine": _GATES}),
    "booster": lambda rng: _booster(rng, sj.SecretBoostingRegressor),
    "forest": lambda rng: sj.SecretForestRegressor(
        n_estimators=int(rng.integers(1, 5)), **_drawn(rng, _FOREST)
    ),
    "kernel": lambda rng: _kernel(rng, sj.KernelTreeRegressor, _R),
}
COUNTS = {"counts": lambda rng: _loss(rng, _OF_COUNTS)}
CLASSES: dict[str, Callable[[Rng], Any]] = {
    "classes": lambda rng: _C(**_drawn(rng, _TREE | _CLASSES)),
    "accurate classes": lambda rng: _C.accurate(gates=False, **_drawn(rng, _TREE)),
    "booster of classes": lambda rng: _booster(rng, sj.SecretBoostingClassifier),
    "ordinal": lambda rng: sj.SecretOrdinalClassifier(_inner(rng, _R)),
    "kernel of classes": lambda rng: _kernel(rng, sj.KernelTreeClassifier, _C),
}
SEVERAL = {"tree", "paper", "learner", "forest", "booster", "kernel"}  # outputs
ALL = NUMBERS | COUNTS | CLASSES
