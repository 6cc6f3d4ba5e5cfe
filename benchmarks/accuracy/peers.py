"""The models of other packages that ours are compared with, by name.

How a peer gets its columns is in `encoding.py`. Peers that need no rows to choose their
size train on the training and the pruning rows together. Numbers are counted alike for
all: one for each threshold or set of categories, each constant and each coefficient;
ours by `secret_jax.inspect.equations`.
"""

from __future__ import annotations

import bisect
import functools
import importlib
import importlib.metadata
import json
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from benchmarks.accuracy.data import not_numeric
from benchmarks.accuracy.encoding import ENCODINGS, Encoded, filled
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


class Fitted(NamedTuple):
    """A fitted peer: how it predicts, leaves (of all trees) or rules, numbers."""

    predict: Callable[[Any], np.ndarray]
    leaves: int
    numbers: int | None = None


def ridge(data: Encoded, *, weakest: float, strongest: float) -> Fitted:
    """Least squares with a penalty by leave-one-out cross-validation."""
    penalties = np.geomspace(weakest, strongest, 33)
    line = RidgeCV(penalties)
    model = make_pipeline(filled(), StandardScaler(), line)
    model.fit(*data.both)
    coefficients = int(np.count_nonzero(np.asarray(line.coef_, np.float64)))
    return Fitted(model.predict, 1, 1 + coefficients)


def cart(data: Encoded, *, sizes: int, refit: bool) -> Fitted:
    """Cost-complexity pruning (Breiman et al. 1984) to the size that prunes best.

    The size is chosen on the pruning rows; if it is refitted, all rows then give a tree
    of at most so many leaves.
    """
    seed = data.seed % 2**31

    def grow(X: Any, y: np.ndarray, alpha: float) -> DecisionTreeRegressor:
        return DecisionTreeRegressor(ccp_alpha=alpha, random_state=seed).fit(X, y)

    def alphas_of(X: Any, y: np.ndarray) -> np.ndarray:
        tree = DecisionTreeRegressor(random_state=seed)
        path = tree.cost_complexity_pruning_path(X, y)
        return np.unique(np.maximum(path.ccp_alphas, 0.0))

    def error(tree: DecisionTreeRegressor) -> float:
        return float(np.mean((tree.predict(data.prune.X) - data.prune.y) ** 2))

    train, both = data.train, data.both
    alphas = alphas_of(*train)
    # The few large ones make small trees, so they are all tried.
    last = np.unique(np.geomspace(1, len(alphas), sizes).astype(int))
    chosen = min((grow(*train, float(alphas[-i])) for i in last), key=error)
    n_leaves = chosen.get_n_leaves()
    if not refit:
        return Fitted(chosen.predict, int(n_leaves), int(chosen.tree_.node_count))
    alphas = alphas_of(*both)
    # Leaves fall as the penalty rises, and the last penalty leaves only the root.
    which = bisect.bisect_left(
        alphas, -n_leaves, key=lambda alpha: -grow(*both, float(alpha)).get_n_leaves()
    )
    best = grow(*both, float(alphas[which]))
    return Fitted(best.predict, int(best.get_n_leaves()), int(best.tree_.node_count))


def lightgbm(
    data: Encoded,
    *,
    patience: int,
    shapes: list[dict[str, int]],
    refit: bool = False,
    **settings: Any,
) -> Fitted:
    """Boosting, stopped early by the pruning rows, perhaps refitted on all rows.

    The pruning rows also choose among some shapes of its trees.
    """
    package: Any = importlib.import_module("lightgbm")
    settings = {"random_state": data.seed % 2**31, "verbose": -1, **settings}

    def stopped(shape: dict[str, int]) -> Any:
        return package.LGBMRegressor(**settings, **shape).fit(
            data.train.X,
            data.train.y,
            eval_set=[tuple(data.prune)],
            callbacks=[package.early_stopping(patience, verbose=False)],
        )

    models = [stopped(shape) for shape in shapes]
    errors = [model.best_score_["valid_0"]["l2"] for model in models]
    which = int(np.argmin(errors))
    model = models[which]
    n_trees = max(model.best_iteration_, 1)
    if refit:
        settings["n_estimators"] = n_trees
        model = package.LGBMRegressor(**settings, **shapes[which])
        model.fit(*data.both)
    trees = model.booster_.dump_model(num_iteration=n_trees)["tree_info"]
    leaves = sum(tree["num_leaves"] for tree in trees)
    return Fitted(model.predict, leaves, numbers_of_lightgbm(trees))


def catboost(
    data: Encoded, *, patience: int, shapes: list[dict[str, int]], **settings: Any
) -> Fitted:
    """Boosted symmetric trees, stopped by the pruning rows, refitted on all rows.

    Its own learning rate depends on the rounds: that of the refit is larger.
    """
    package: Any = importlib.import_module("catboost")
    text = not_numeric(data.both.X)
    settings |= {"cat_features": text, "random_seed": data.seed % 2**31}
    settings |= {"verbose": False, "allow_writing_files": False}
    models = []
    for shape in shapes:
        model = package.CatBoostRegressor(**settings, **shape)
        model.fit(
            data.train.X,
            data.train.y,
            eval_set=tuple(data.prune),
            early_stopping_rounds=patience,
        )
        models.append(model)
    errors = [model.get_best_score()["validation"]["RMSE"] for model in models]
    which = int(np.argmin(errors))
    settings["iterations"] = models[which].get_best_iteration() + 1
    model = package.CatBoostRegressor(**settings, **shapes[which])
    model.fit(*data.both)
    return Fitted(model.predict, int(np.sum(model.get_tree_leaf_counts())))


def cubist(data: Encoded, **settings: Any) -> Fitted:
    """Rules with linear models (Quinlan)."""
    package: Any = importlib.import_module("cubist")
    model = package.Cubist(**settings, random_state=data.seed % 4096)
    model.fit(*data.both)
    text = str(getattr(model, "model_", ""))
    rules = re.findall(r'rules="(\d+)"', text)
    return Fitted(model.predict, sum(map(int, rules)), numbers_of_cubist(text))


def pilot(data: Encoded, **settings: Any) -> Fitted:
    """Linear model trees with BIC (Raymaekers, Rousseeuw, Verdonck & Yao 2024)."""
    package: Any = importlib.import_module("pilot")
    model = package.PILOT(**settings)
    means = filled().fit(data.both.X)
    model.train(means.transform(data.both.X), data.both.y)
    summary = model.tree_summary()
    return Fitted(
        lambda X: model.predict(means.transform(X)),
        list(summary["node_type"]).count("con"),
        numbers_of_pilot(summary),
    )


def raffle(data: Encoded, **settings: Any) -> Fitted:
    """A random forest of trees of PILOT (Raymaekers et al. 2025)."""
    package: Any = importlib.import_module("pilot")
    text = [column in not_numeric(data.both.X) for column in data.both.X.columns]

    def labelled(X: Any) -> np.ndarray:
        pairs = zip(X.columns, text, strict=True)
        # Gaps are the category 0: it crashes on negative ones.
        columns = [X[name].cat.codes + 1 if coded else X[name] for name, coded in pairs]
        return np.column_stack(columns).astype(np.float64)

    model = package.RaFFLE(**settings, random_state=data.seed)
    means = filled().fit(labelled(data.both.X))
    X = means.transform(labelled(data.both.X))
    model.fit(X, data.both.y, categorical_idx=np.flatnonzero(text))
    summaries = [tree.tree_summary() for tree in model.estimators]
    return Fitted(
        lambda X: model.predict(means.transform(labelled(X))),
        sum(list(summary["node_type"]).count("con") for summary in summaries),
        sum(map(numbers_of_pilot, summaries)),
    )


def ebm(data: Encoded, **settings: Any) -> Fitted:
    """Sums of functions of one and two columns (Nori, Jenkins, Koch & Caruana 2019).

    Boosted and stopped early on rows that it holds out of each of its bags.
    """
    glassbox: Any = importlib.import_module("interpret.glassbox")
    text = set(not_numeric(data.both.X))
    kinds = ["nominal" if c in text else "continuous" for c in data.both.X.columns]
    model = glassbox.ExplainableBoostingRegressor(
        feature_types=kinds, random_state=data.seed % 2**31, **settings
    )
    model.fit(*data.both)
    cells = sum(int(np.count_nonzero(rows)) for rows in model.bin_weights_)
    return Fitted(model.predict, cells, numbers_of_ebm(model))


def numbers_of_cubist(model: str) -> int:
    """Conditions, constants and coefficients in the text of Cubist's rules.

    Every rule is read on its own, so a condition counts in each rule that has it.
    """
    lines = model.splitlines()
    conditions = sum(line.startswith("type=") for line in lines)
    equations = (line for line in lines if line.startswith("coeff="))
    return conditions + sum(line.count("coeff=") for line in equations)


def numbers_of_lightgbm(trees: Sequence[dict[str, Any]]) -> int:
    """Thresholds, values and coefficients of LightGBM's dumped trees."""
    return sum(
        2 * tree["num_leaves"] - 1 + _coefficients(tree.get("tree_structure", {}))
        for tree in trees
    )


def _coefficients(node: dict[str, Any]) -> int:
    """Of linear trees, at and below a node of a dumped tree."""
    children = (node[side] for side in ("left_child", "right_child") if side in node)
    return len(node.get("leaf_coeff", ())) + sum(map(_coefficients, children))


def numbers_of_pilot(summary: Any) -> int:
    """Thresholds, constants and slopes of a `PILOT.tree_summary`, zeros left out.

    Each node counts once, although a leaf's equation is the sum of all above it.
    """
    names = ["intercept_left", "slope_left", "intercept_right", "slope_right"]
    values = summary[names].to_numpy(np.float64)
    splits = ~summary["node_type"].isin(["con", "lin"])
    return int(splits.sum() + np.count_nonzero(np.nan_to_num(values)))


def numbers_of_ebm(model: Any) -> int:
    """The constant, and of every term's table its bounds and the cells with rows."""
    total = 1
    for columns, rows in zip(model.term_features_, model.bin_weights_, strict=True):
        # A column's bins: those of its own term, then coarser ones for its pairs.
        bins = (model.bins_[column][: len(columns)][-1] for column in columns)
        total += sum(map(len, bins)) + int(np.count_nonzero(rows))
    return total


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
_THREADS = {"catboost": "thread_count"}
_THREADS |= {"interpret-core": "n_jobs", "lightgbm": "n_jobs"}
# Its defaults, and smaller trees with smaller leaves for tables of some hundred rows.
_SHAPES = [
    {"num_leaves": 31, "min_child_samples": 20},
    {"num_leaves": 8, "min_child_samples": 5},
]
_BOOSTING = {"learning_rate": 0.05, "n_estimators": 5000, "patience": 50}
_BOOSTING |= {"shapes": _SHAPES}
_REFITTED, _LINEAR = _BOOSTING | {"refit": True}, _BOOSTING | {"linear_tree": True}
_LINEAR_REFITTED = _LINEAR | {"refit": True}
_CATBOOST = {"iterations": 5000, "patience": 50, "shapes": [{"depth": 6}, {"depth": 4}]}
_RIDGE = {"weakest": 1e-4, "strongest": 1e4}
_ALONE = {"n_committees": 1}
# By name: the package, how it gets its columns, how it is fitted, with what settings.
_PEERS = {
    "ridge": _Peer("scikit-learn", "indicators", ridge, _RIDGE),
    "cart": _Peer("scikit-learn", "numbers", cart, {"sizes": 40, "refit": True}),
    "lightgbm": _Peer("lightgbm", "categories", lightgbm, _BOOSTING),
    "lightgbm_refitted": _Peer("lightgbm", "categories", lightgbm, _REFITTED),
    "lightgbm_refitted_on_indicators": _Peer(
        "lightgbm", "indicators", lightgbm, _REFITTED
    ),
    "lightgbm_linear": _Peer("lightgbm", "categories", lightgbm, _LINEAR),
    "lightgbm_linear_refitted": _Peer(
        "lightgbm", "categories", lightgbm, _LINEAR_REFITTED
    ),
    "catboost_refitted": _Peer("catboost", "text", catboost, _CATBOOST),
    "cubist": _Peer("cubist", "numbers", cubist, _ALONE),
    "cubist_on_indicators": _Peer("cubist", "indicators", cubist, _ALONE),
    "cubist_on_text": _Peer("cubist", "text", cubist, _ALONE),
    "pilot": _Peer("fast-model-trees", "numbers", pilot, {"max_depth": 20}),
    "raffle": _Peer("fast-model-trees", "categories", raffle, {"n_estimators": 100}),
    "ebm": _Peer("interpret-core", "categories", ebm, {}),
}
PEER_NAMES = tuple(_PEERS)
