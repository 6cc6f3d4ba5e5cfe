"""The models of other packages that ours are compared with, by name.

How a peer gets its data is in `encoding.py`, how it is fitted in `fitting.py`; here are
its settings, and what is done where its package is absent.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from benchmarks.accuracy import fitting
from benchmarks.accuracy.encoding import ENCODINGS
from benchmarks.accuracy.fitting import Fitted
from benchmarks.shared import Experiment, say


class Outcome(NamedTuple):
    """What one fit gave: predictions for the test rows, and what it is and took."""

    prediction: np.ndarray
    leaves: int  # or rules
    seconds: float
    numbers: int | None = None  # that a reader has to read, where they are counted


class Candidate(NamedTuple):
    """A model to be compared."""

    name: str
    key: str  # versions and settings: results of two keys are never mixed
    run: Callable[[Experiment], Outcome]
    parameters: Mapping[str, Any] = {}  # of a grid
    is_tree: bool = False  # one of ours: only these gain by growing together


def peers(names: Sequence[str], threads: int | None) -> list[Candidate]:
    """The peers whose packages are there; for the others a line on standard error."""
    found = []
    for name in names:
        peer = _PEERS[name]
        try:
            version = _version(peer.package)
        except ImportError as error:
            say(f"{name} is left out: {error}")
            continue
        key = f"{peer.package} {version} {peer.encoding} {json.dumps(peer.settings)}"
        run = functools.partial(_run, peer, threads)
        found.append(Candidate(name, key, run))
    return found


class _Peer(NamedTuple):
    package: str
    encoding: Literal["indicators", "numbers", "categories", "text"]
    fit: Callable[..., Fitted]
    settings: dict[str, Any]


def _version(package: str) -> str:
    """Version of a peer's package; ImportError, in words, where it is absent."""
    try:
        importlib.import_module(_MODULES.get(package, package))
    except ImportError as error:
        raise ImportError(f"{error} (pip install {package})") from None
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "0+unknown"


def _run(peer: _Peer, threads: int | None, experiment: Experiment) -> Outcome:
    data = ENCODINGS[peer.encoding](experiment)
    settings = dict(peer.settings)
    if threads and peer.package in _THREADS:
        settings[_THREADS[peer.package]] = threads
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs, about names of columns and the like
        started = time.perf_counter()
        fitted = peer.fit(data, **settings)
        seconds = time.perf_counter() - started
        prediction = np.asarray(fitted.predict(data.X_test), np.float64).ravel()
    return Outcome(prediction, fitted.leaves, seconds, fitted.numbers)


_MODULES = {
    "fast-model-trees": "pilot",
    "interpret-core": "interpret",
    "scikit-learn": "sklearn",
}
_THREADS = {
    "catboost": "thread_count",
    "interpret-core": "n_jobs",
    "lightgbm": "n_jobs",
}
# Its defaults, and smaller trees with smaller leaves for tables of some hundred rows.
_SHAPES = [
    {"num_leaves": 31, "min_child_samples": 20},
    {"num_leaves": 8, "min_child_samples": 5},
]
_BOOSTING = {"learning_rate": 0.05, "n_estimators": 5000, "patience": 50}
_BOOSTING |= {"shapes": _SHAPES}
_REFITTED, _LINEAR = _BOOSTING | {"refit": True}, _BOOSTING | {"linear_tree": True}
_CATBOOST = {"iterations": 5000, "patience": 50, "shapes": [{"depth": 6}, {"depth": 4}]}
_sklearn = functools.partial(_Peer, "scikit-learn")
_lightgbm = functools.partial(_Peer, "lightgbm", fit=fitting.lightgbm)
_cubist = functools.partial(
    _Peer, "cubist", fit=fitting.cubist, settings={"n_committees": 1}
)
_trees = functools.partial(_Peer, "fast-model-trees")
_PEERS = {
    "ridge": _sklearn("indicators", fitting.ridge, {"weakest": 1e-4, "strongest": 1e4}),
    "cart": _sklearn("numbers", fitting.cart, {"sizes": 40, "refit": True}),
    "lightgbm": _lightgbm(encoding="categories", settings=_BOOSTING),
    "lightgbm_refitted": _lightgbm(encoding="categories", settings=_REFITTED),
    "lightgbm_refitted_on_indicators": _lightgbm(
        encoding="indicators", settings=_REFITTED
    ),
    "lightgbm_linear": _lightgbm(encoding="categories", settings=_LINEAR),
    "lightgbm_linear_refitted": _lightgbm(
        encoding="categories", settings=_LINEAR | {"refit": True}
    ),
    "catboost_refitted": _Peer("catboost", "text", fitting.catboost, _CATBOOST),
    "cubist": _cubist(encoding="numbers"),
    "cubist_on_indicators": _cubist(encoding="indicators"),
    "cubist_on_text": _cubist(encoding="text"),
    "pilot": _trees("numbers", fitting.pilot, {"max_depth": 20}),
    "raffle": _trees("categories", fitting.raffle, {"n_estimators": 100}),
    "ebm": _Peer("interpret-core", "categories", fitting.ebm, {}),
}
PEER_NAMES = tuple(_PEERS)
