"""What is timed: this package, its peers, and the exhaustive search.

Every contestant is a function of training rows that gives a way to predict and a number
of leaves. The growth of a tree alone stops at 1 % of the rows for ours and for the
exhaustive search alike, as in the paper. That search is RETIS's on our grower: every
threshold, scored by the residuals of two linear models, from sums that run along the
sorted attribute. It is n log n in the rows, where that of 2002 was quadratic.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from benchmarks.accuracy.ours import Setting
from benchmarks.shared import say
from secret_jax.learners import GuideSplits, RetisSplits

Fitted = tuple[Callable[[np.ndarray], np.ndarray], int]
_LEAVES = 64


class Contestant(NamedTuple):
    """A model to be timed: what fits it, its package, and our setting if it is ours."""

    fit: Callable[..., Fitted]
    package: str
    setting: Setting | None = None

    def key(self) -> str | None:
        """Version and settings, which tell its times apart; None if it is absent."""
        if self.setting is not None:
            return self.setting.key
        try:
            return f"{self.package} {importlib.metadata.version(self.package)}"
        except importlib.metadata.PackageNotFoundError:
            say(f"{self.package} is not installed: left out.")
            return None


def _ours(setting: Setting) -> Contestant:
    def fit(X: np.ndarray, y: np.ndarray) -> Fitted:
        model = setting.build().set_params(random_state=0).fit(X, y)
        return model.predict, getattr(model, "n_leaves_", 0)

    return Contestant(fit, "secret-jax", setting)


def _linear(X: np.ndarray, y: np.ndarray) -> Fitted:
    return LinearRegression().fit(X, y).predict, 1


def _cart(X: np.ndarray, y: np.ndarray) -> Fitted:
    tree = DecisionTreeRegressor(max_leaf_nodes=_LEAVES, random_state=0).fit(X, y)
    return tree.predict, int(tree.get_n_leaves())


def _lightgbm(X: np.ndarray, y: np.ndarray, **settings: Any) -> Fitted:
    """A tree with constant leaves, unless settings say otherwise."""
    package: Any = importlib.import_module("lightgbm")
    own = {"n_estimators": 1, "learning_rate": 1, "num_leaves": _LEAVES, "verbose": -1}
    booster = package.LGBMRegressor(**own | settings).fit(X, y).booster_
    return booster.predict, sum(
        tree["num_leaves"] for tree in booster.dump_model()["tree_info"]
    )


_ROUNDS = {"n_estimators": 100, "learning_rate": 0.1, "num_leaves": 31}
_PAPER = "SecretRegressor.paper"
_BOOSTER, _FOREST = "SecretBoostingRegressor", "SecretForestRegressor"
_GROWTH: dict[str, Any] = {"prune": None, "min_samples_split": 0.01}
# The literature's searches on our grower look at all rows of a node.
_RIVAL = _GROWTH | {"oblique": False, "leaf": "linear"}


def _rival(finder: Any, thresholds: Any) -> Setting:
    splits = finder(thresholds=thresholds, max_samples=None)
    return Setting(_RIVAL | {"splits": splits})


# Names say what is timed: the growth of a tree, or a whole fit with its pruning.
_OURS = {
    "growth axis": Setting(_GROWTH | {"oblique": False}),
    "growth oblique": Setting(_GROWTH | {"oblique": True}),
    "paper growth axis": Setting(_GROWTH | {"oblique": False}, _PAPER),
    "paper growth oblique": Setting(_GROWTH | {"oblique": True}, _PAPER),
    "growth guide": _rival(GuideSplits, "all"),
    "growth guide(s)": _rival(GuideSplits, 0.01),
    "exhaustive": _rival(RetisSplits, "all"),
    "sampled": _rival(RetisSplits, 0.01),
    "fit": Setting(),
    "fit axis": Setting({"oblique": False}),
    "paper fit axis": Setting({"oblique": False}, _PAPER),
    "paper fit oblique": Setting({"oblique": True}, _PAPER),
    "accurate": Setting({}, "SecretRegressor.accurate"),
    "booster": Setting({}, _BOOSTER),
    "forest": Setting({"n_estimators": 60}, _FOREST),
}
CONTESTANTS = {name: _ours(setting) for name, setting in _OURS.items()} | {
    "linear": Contestant(_linear, "scikit-learn"),
    "cart": Contestant(_cart, "scikit-learn"),
    "lightgbm tree": Contestant(_lightgbm, "lightgbm"),
    "lightgbm tree, one thread": Contestant(partial(_lightgbm, n_jobs=1), "lightgbm"),
    "lightgbm": Contestant(partial(_lightgbm, **_ROUNDS), "lightgbm"),
}
_ON_REQUEST = ("guide", "accurate", "booster", "forest", "lightgbm")
DEFAULT = tuple(
    name
    for name in CONTESTANTS
    if not name.split("(")[0].removeprefix("growth ").startswith(_ON_REQUEST)
    or name.startswith("lightgbm tree")
)
