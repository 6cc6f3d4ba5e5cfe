"""What is timed: this package, its peers, and the exhaustive search.

Every contestant is a function of training rows that gives a fitted model, ready on the
host. The growth of a tree alone stops at 1 % of the rows for ours and for the
exhaustive search alike, as in the paper.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from benchmarks.accuracy.ours import code_version
from benchmarks.scaling.exhaustive import exhaustive_tree
from benchmarks.shared import say
from secret_jax import SecretRegressor
from secret_jax.grow import trees as growing
from secret_jax.learners import GuideSplits, RetisSplits

Predict = Callable[[np.ndarray], np.ndarray]


class Fitted(NamedTuple):
    """A fitted model.

    Attributes
    ----------
    predict : callable
    leaves : int
    search_seconds : float or None
        Of the time of the fit, that of the level loop (ours only).
    """

    predict: Predict
    leaves: int
    search_seconds: float | None = None


class Contestant(NamedTuple):
    """A model to be timed.

    Attributes
    ----------
    name : str
    key : str
        Version and settings: results of other keys are never mixed with its own.
    fit : callable
        Of ``X``, ``y`` and the seconds that it may take; raises `OutOfTimeError`
        where it can be stopped.
    compiles : bool
        Whether its first call compiles and is timed apart.
    """

    name: str
    key: str
    fit: Callable[[np.ndarray, np.ndarray, float], Fitted]
    compiles: bool


class _Ours(NamedTuple):
    paper: bool
    parameters: dict[str, Any]


_GROWTH: dict[str, Any] = {"prune": None, "min_samples_split": 0.01}
# The literature's searches on our grower look at all rows of a node.
_RIVAL: dict[str, Any] = {
    **_GROWTH,
    "oblique": False,
    "leaf": "linear",
}
# Names say what is timed: the growth of a tree, or a whole fit with its pruning.
_OURS = {
    "growth axis": _Ours(False, {**_GROWTH, "oblique": False}),
    "growth oblique": _Ours(False, {**_GROWTH, "oblique": True}),
    "paper growth axis": _Ours(True, {**_GROWTH, "oblique": False}),
    "paper growth oblique": _Ours(True, {**_GROWTH, "oblique": True}),
    "growth retis": _Ours(False, {**_RIVAL, "splits": RetisSplits(max_samples=None)}),
    "growth retis(s)": _Ours(
        False, {**_RIVAL, "splits": RetisSplits(thresholds=0.01, max_samples=None)}
    ),
    "growth guide": _Ours(
        False, {**_RIVAL, "splits": GuideSplits(thresholds="all", max_samples=None)}
    ),
    "growth guide(s)": _Ours(
        False, {**_RIVAL, "splits": GuideSplits(thresholds=0.01, max_samples=None)}
    ),
    "fit": _Ours(False, {}),
    "fit axis": _Ours(False, {"oblique": False}),
    "fit oblique": _Ours(False, {"oblique": True}),
    "fit tao": _Ours(False, {"refine": "tao"}),
    "paper fit axis": _Ours(True, {"oblique": False}),
    "paper fit oblique": _Ours(True, {"oblique": True}),
}
_SEARCHES = {"exhaustive": 1.0, "sampled": 0.01}
_LEAVES = 64
GROWTH = tuple(name for name in _OURS if "growth" in name)
SEARCHES = tuple(_SEARCHES)
PEERS = (
    *("linear", "cart", "lightgbm tree", "lightgbm tree, one thread"),
    *("lightgbm two trees", "pilot"),
)
NAMES = (*_OURS, *_SEARCHES, *PEERS)
_ON_REQUEST = (
    *("fit tao", "growth retis", "growth retis(s)", "growth guide", "growth guide(s)"),
)
OF_FIGURES = tuple(name for name in NAMES if name not in _ON_REQUEST)
OF_MILLION = (
    *("fit", "fit tao", "lightgbm tree", "lightgbm tree, one thread"),
    *("lightgbm two trees", "cart", "linear"),
)


def contestants(names: Iterable[str], threads: int | None = None) -> list[Contestant]:
    """Those that can be made here; for the others a line on standard error."""
    found = []
    for name in names:
        try:
            found.append(_contestant(name, threads))
        except ImportError as error:
            say(f"{name} is left out: {error}")
    return found


def machine() -> str:
    """What the times belong to."""
    device = jax.devices()[0]
    kind = "" if device.platform == "cpu" else f", {device.device_kind}"
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors{kind}"
    )


def _contestant(name: str, threads: int | None) -> Contestant:
    if name in _OURS:
        key = f"secret_jax {code_version()} {_OURS[name].parameters}"
        return Contestant(name, key, functools.partial(_ours, name), True)
    if name in _SEARCHES:
        share = _SEARCHES[name]
        fit = functools.partial(_exhaustive, share)
        return Contestant(name, f"numpy {np.__version__} {share}", fit, False)
    package, fit = _PEERS[name]
    importlib.import_module(_MODULES.get(package, package))
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        version = "0+unknown"
    key = f"{package} {version} {threads} threads"
    return Contestant(name, key, functools.partial(fit, threads), False)


def _ours(name: str, X: np.ndarray, y: np.ndarray, seconds: float) -> Fitted:
    paper, parameters = _OURS[name]
    model = SecretRegressor.paper() if paper else SecretRegressor()
    model.set_params(random_state=0, **parameters)
    with search_timer() as spent:
        model.fit(X, y)
    return Fitted(model.predict, model.n_leaves_, sum(spent))


@contextmanager
def search_timer() -> Iterator[list[float]]:
    """Collect the seconds of every call of the level loop, from outside."""
    spent: list[float] = []
    inside = growing.grown

    @functools.wraps(inside)
    def timed(*arguments: Any, **named: Any) -> Any:
        started = time.perf_counter()
        try:
            return inside(*arguments, **named)
        finally:
            spent.append(time.perf_counter() - started)

    growing.grown = timed
    try:
        yield spent
    finally:
        growing.grown = inside


def _exhaustive(share: float, X: np.ndarray, y: np.ndarray, seconds: float) -> Fitted:
    tree = exhaustive_tree(X, y, share=share, seconds=seconds)
    return Fitted(tree.predict, tree.n_leaves)


def _linear(threads: int | None, X: np.ndarray, y: np.ndarray, _: float) -> Fitted:
    return Fitted(LinearRegression().fit(X, y).predict, 1)


def _cart(threads: int | None, X: np.ndarray, y: np.ndarray, _: float) -> Fitted:
    tree = DecisionTreeRegressor(max_leaf_nodes=_LEAVES, random_state=0).fit(X, y)
    return Fitted(tree.predict, int(tree.get_n_leaves()))


def _lightgbm(
    n_trees: int,
    one_thread: bool,
    threads: int | None,
    X: np.ndarray,
    y: np.ndarray,
    _: float,
) -> Fitted:
    """A tree with constant leaves, or the sum of that and one with linear models.

    The first tree of a ``linear_tree`` model has constant leaves as well; the second
    one fits what it leaves with linear models.
    """
    lightgbm: Any = importlib.import_module("lightgbm")
    model = lightgbm.LGBMRegressor(
        n_estimators=n_trees,
        learning_rate=1,
        num_leaves=_LEAVES,
        linear_tree=n_trees > 1,
        n_jobs=1 if one_thread else threads,
        verbose=-1,
    ).fit(X, y)
    trees = model.booster_.dump_model()["tree_info"]

    def predict(X: np.ndarray) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about names of columns
            return np.asarray(model.predict(X))

    return Fitted(predict, sum(tree["num_leaves"] for tree in trees))


def _pilot(threads: int | None, X: np.ndarray, y: np.ndarray, _: float) -> Fitted:
    """Linear model trees with BIC (Raymaekers, Rousseeuw, Verdonck & Yao 2024)."""
    pilot: Any = importlib.import_module("pilot")
    model = pilot.PILOT(max_depth=20)
    model.train(X, y)
    kinds = list(model.tree_summary()["node_type"])
    return Fitted(
        lambda X: np.asarray(model.predict(X)).ravel(), max(kinds.count("con"), 1)
    )


_MODULES = {"fast-model-trees": "pilot", "scikit-learn": "sklearn"}
_PEERS: dict[str, tuple[str, Callable[..., Any]]] = {
    "linear": ("scikit-learn", _linear),
    "cart": ("scikit-learn", _cart),
    "lightgbm tree": ("lightgbm", functools.partial(_lightgbm, 1, False)),
    "lightgbm tree, one thread": ("lightgbm", functools.partial(_lightgbm, 1, True)),
    "lightgbm two trees": ("lightgbm", functools.partial(_lightgbm, 2, False)),
    "pilot": ("fast-model-trees", _pilot),
}
