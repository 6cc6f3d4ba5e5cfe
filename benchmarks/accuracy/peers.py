"""The models of other packages that ours are compared with, each as a function.

Peers that need no rows to choose their size train on the training and the pruning rows
together. Every peer gets the encoding of discrete columns that suits it best: ridge
indicators; the others numbers where the column holds numbers, whatever the paper takes
for discrete (indicators double the error of CART and LightGBM on auto_mpg), and for
text indicators, or in LightGBM and EBM their own categories. Missing cells of text are
a category, but for these two, which take them as they are; missing numbers stay missing
where the peer takes them (CART, LightGBM, EBM, Cubist), for the others they are means,
with indicators of having been missing.
"""

from __future__ import annotations

import bisect
import collections
import functools
import importlib
import importlib.metadata
import json
import re
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from benchmarks.accuracy.data import not_numeric
from benchmarks.accuracy.reading import (
    numbers_of_cubist,
    numbers_of_ebm,
    numbers_of_lightgbm,
    numbers_of_pilot,
)
from benchmarks.shared import Experiment


class Outcome(NamedTuple):
    """What one fit gave: predictions for the test rows, leaves or rules, seconds.

    And the numbers that a reader has to read, where they are counted.
    """

    prediction: np.ndarray
    leaves: int
    seconds: float
    numbers: int | None = None


class Candidate(NamedTuple):
    """A model to be compared.

    Attributes
    ----------
    name : str
    key : str
        Versions and settings: results of other keys are never mixed with its own.
    run : callable
        Takes an `Experiment`, gives an `Outcome`.
    """

    name: str
    key: str
    run: Callable[[Experiment], Outcome]


class Encoded(NamedTuple):
    """An experiment as peers take it; ``both`` are the rows to train and to prune."""

    X_train: Any
    X_prune: Any
    X_both: Any
    X_test: Any
    y_train: np.ndarray
    y_prune: np.ndarray
    y_both: np.ndarray
    seed: int


class Fitted(NamedTuple):
    """A fitted peer: how it predicts, leaves (of all trees) or rules, numbers."""

    predict: Callable[[Any], np.ndarray]
    leaves: int
    numbers: int | None = None


def peers(
    names: Sequence[str], hrt: Path | None, threads: int | None
) -> list[Candidate]:
    """The peers whose packages are there; for the others a line on standard error."""
    found = []
    for name in names:
        peer = _PEERS[name]
        try:
            version = _version(peer.package, hrt)
        except ImportError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
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


def _version(package: str, hrt: Path | None) -> str:
    """Version of a peer's package; ImportError, in words, where it is absent."""
    if package == "hrt":
        if hrt is None:
            raise ImportError("name the folder that holds its package hrt with --hrt")
        sys.path.insert(0, str(hrt))
    try:
        importlib.import_module(_MODULES.get(package, package))
    except ImportError as error:
        where = str(hrt) if package == "hrt" else f"pip install {package}"
        raise ImportError(f"{error} ({where})") from None
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "0+unknown"


def _run(peer: _Peer, threads: int | None, experiment: Experiment) -> Outcome:
    data = _ENCODINGS[peer.encoding](experiment)
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


def _indicators(experiment: Experiment) -> Encoded:
    """Numbers as they are, a 0/1 column for each category seen before the test."""
    seen = _categories(experiment)

    def encode(X: Any) -> np.ndarray:
        numeric = [column for column in X.columns if column not in seen]
        blocks = [X[numeric].to_numpy(np.float64)]
        for column, values in seen.items():
            blocks.append((_cells(X[column])[:, None] == values).astype(np.float64))
        return np.hstack(blocks)

    return _encoded(experiment, encode, np.vstack)


def _numbers(experiment: Experiment) -> Encoded:
    """Numbers wherever a column holds them, indicators of text."""
    return _indicators(_text_only(experiment))


def _native(experiment: Experiment) -> Encoded:
    """DataFrames with pandas' categories for text; unseen ones become missing."""
    import pandas

    experiment = _text_only(experiment)
    seen = _categories(experiment)

    def encode(X: Any) -> Any:
        X = X.copy()
        # LightGBM refuses names with punctuation; columns keep their order.
        names = {column: f"c{i}" for i, column in enumerate(X.columns)}
        for column, values in seen.items():
            known = [value for value in values if value is not None]
            cells = X[column].where(X[column].isin(known))
            X[column] = pandas.Categorical(cells, categories=known)
        return X.rename(columns=names)

    return _encoded(experiment, encode, pandas.concat)


def _text(experiment: Experiment) -> Encoded:
    """DataFrames whose names and categories are letters and digits.

    A category that the test part alone has becomes the commonest one.
    """
    import pandas

    experiment = _text_only(experiment)
    seen = _categories(experiment)
    known = pandas.concat([experiment.train.X, experiment.prune.X])

    def encode(X: Any) -> Any:
        columns = {}
        for i, column in enumerate(X.columns):
            if column in seen:
                codes = {value: f"v{code}" for code, value in enumerate(seen[column])}
                cells = map(codes.get, _cells(known[column]))
                commonest = collections.Counter(cells).most_common(1)[0][0]
                found = [codes.get(cell, commonest) for cell in _cells(X[column])]
                columns[f"x{i}"] = np.array(found, object)
            else:
                columns[f"x{i}"] = X[column].to_numpy(np.float64)
        return pandas.DataFrame(columns)

    return _encoded(experiment, encode, pandas.concat)


_ENCODINGS = {
    "indicators": _indicators,
    "numbers": _numbers,
    "categories": _native,
    "text": _text,
}


def _text_only(experiment: Experiment) -> Experiment:
    return experiment._replace(discrete=not_numeric(experiment.train.X))


def _categories(experiment: Experiment) -> dict[str, np.ndarray]:
    """Values of discrete columns before the test; None where cells are missing."""
    parts = (experiment.train.X, experiment.prune.X)
    seen = {}
    for column in experiment.discrete:
        values = {value for X in parts for value in _cells(X[column])}
        seen[column] = np.array(sorted(values, key=str), object)
    return seen


def _cells(column: Any) -> np.ndarray:
    """A column of a DataFrame as objects, those that are missing as None."""
    cells = column.to_numpy(object, copy=True)
    cells[column.isna().to_numpy()] = None
    return cells


def _encoded(experiment: Experiment, encode: Callable, join: Callable) -> Encoded:
    train, prune, test = (encode(part.X) for part in experiment[:3])
    return Encoded(
        X_train=train,
        X_prune=prune,
        X_both=join([train, prune]),
        X_test=test,
        y_train=experiment.train.y,
        y_prune=experiment.prune.y,
        y_both=np.concatenate([experiment.train.y, experiment.prune.y]),
        seed=experiment.seed,
    )


def _ridge(data: Encoded, *, weakest: float, strongest: float) -> Fitted:
    """Least squares with a penalty by leave-one-out cross-validation."""
    penalties = np.geomspace(weakest, strongest, 33)
    ridge = RidgeCV(penalties)
    model = make_pipeline(_filled(), StandardScaler(), ridge)
    model.fit(data.X_both, data.y_both)
    coefficients = int(np.count_nonzero(np.asarray(ridge.coef_, np.float64)))
    return Fitted(model.predict, 1, 1 + coefficients)


def _filled() -> SimpleImputer:
    """Means where numbers are missing, and columns that say where."""
    return SimpleImputer(add_indicator=True, keep_empty_features=True)


def _cart(data: Encoded, *, sizes: int, refit: bool) -> Fitted:
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
        return float(np.mean((tree.predict(data.X_prune) - data.y_prune) ** 2))

    train, both = (data.X_train, data.y_train), (data.X_both, data.y_both)
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


def _lightgbm(
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
    lightgbm: Any = importlib.import_module("lightgbm")
    settings = {"random_state": data.seed % 2**31, "verbose": -1, **settings}

    def stopped(shape: dict[str, int]) -> Any:
        return lightgbm.LGBMRegressor(**settings, **shape).fit(
            data.X_train,
            data.y_train,
            eval_set=[(data.X_prune, data.y_prune)],
            callbacks=[lightgbm.early_stopping(patience, verbose=False)],
        )

    models = [stopped(shape) for shape in shapes]
    errors = [model.best_score_["valid_0"]["l2"] for model in models]
    which = int(np.argmin(errors))
    model = models[which]
    n_trees = max(model.best_iteration_, 1)
    if refit:
        settings["n_estimators"] = n_trees
        model = lightgbm.LGBMRegressor(**settings, **shapes[which])
        model.fit(data.X_both, data.y_both)
    trees = model.booster_.dump_model(num_iteration=n_trees)["tree_info"]
    leaves = sum(tree["num_leaves"] for tree in trees)
    return Fitted(model.predict, leaves, numbers_of_lightgbm(trees))


def _catboost(
    data: Encoded, *, patience: int, shapes: list[dict[str, int]], **settings: Any
) -> Fitted:
    """Boosted symmetric trees, stopped by the pruning rows, refitted on all rows."""
    catboost: Any = importlib.import_module("catboost")
    text = not_numeric(data.X_both)
    settings |= {"cat_features": text, "random_seed": data.seed % 2**31}
    settings |= {"verbose": False, "allow_writing_files": False}
    models = []
    for shape in shapes:
        model = catboost.CatBoostRegressor(**settings, **shape)
        model.fit(
            data.X_train,
            data.y_train,
            eval_set=(data.X_prune, data.y_prune),
            early_stopping_rounds=patience,
        )
        models.append(model)
    errors = [model.get_best_score()["validation"]["RMSE"] for model in models]
    which = int(np.argmin(errors))
    settings["iterations"] = models[which].get_best_iteration() + 1
    model = catboost.CatBoostRegressor(**settings, **shapes[which])
    model.fit(data.X_both, data.y_both)
    return Fitted(model.predict, int(np.sum(model.get_tree_leaf_counts())))


def _cubist(data: Encoded, **settings: Any) -> Fitted:
    """Rules with linear models (Quinlan)."""
    cubist: Any = importlib.import_module("cubist")
    model = cubist.Cubist(**settings, random_state=data.seed % 4096)
    model.fit(data.X_both, data.y_both)
    text = str(getattr(model, "model_", ""))
    rules = re.findall(r'rules="(\d+)"', text)
    return Fitted(model.predict, sum(map(int, rules)), numbers_of_cubist(text))


def _pilot(data: Encoded, **settings: Any) -> Fitted:
    """Linear model trees with BIC (Raymaekers, Rousseeuw, Verdonck & Yao 2024)."""
    pilot: Any = importlib.import_module("pilot")
    model = pilot.PILOT(**settings)
    filled = _filled().fit(data.X_both)
    model.train(filled.transform(data.X_both), data.y_both)
    summary = model.tree_summary()
    return Fitted(
        lambda X: model.predict(filled.transform(X)),
        list(summary["node_type"]).count("con"),
        numbers_of_pilot(summary),
    )


def _raffle(data: Encoded, **settings: Any) -> Fitted:
    """A random forest of trees of PILOT (Raymaekers et al. 2025)."""
    pilot: Any = importlib.import_module("pilot")
    model = pilot.RaFFLE(**settings, random_state=data.seed)
    filled = _filled().fit(data.X_both)
    model.fit(filled.transform(data.X_both), data.y_both)
    summaries = [tree.tree_summary() for tree in model.estimators]
    return Fitted(
        lambda X: model.predict(filled.transform(X)),
        sum(list(summary["node_type"]).count("con") for summary in summaries),
        sum(map(numbers_of_pilot, summaries)),
    )


def _ebm(data: Encoded, **settings: Any) -> Fitted:
    """Sums of functions of one and two columns (Nori, Jenkins, Koch & Caruana 2019).

    Boosted and stopped early on rows that it holds out of each of its bags.
    """
    glassbox: Any = importlib.import_module("interpret.glassbox")
    text = set(not_numeric(data.X_both))
    kinds = ["nominal" if c in text else "continuous" for c in data.X_both.columns]
    model = glassbox.ExplainableBoostingRegressor(
        feature_types=kinds, random_state=data.seed % 2**31, **settings
    )
    model.fit(data.X_both, data.y_both)
    cells = sum(int(np.count_nonzero(rows)) for rows in model.bin_weights_)
    return Fitted(model.predict, cells, numbers_of_ebm(model))


def _hrt(data: Encoded, *, depths: list[int], **settings: Any) -> Fitted:
    """Hinge regression trees on standardised columns, depth by the pruning rows."""
    hrt: Any = importlib.import_module("hrt")
    scaler = make_pipeline(_filled(), StandardScaler()).fit(data.X_train)
    train, prune = scaler.transform(data.X_train), scaler.transform(data.X_prune)
    best, lowest = None, np.inf
    for depth in depths:
        model = hrt.HRTRegressor(
            max_depth=depth, random_state=data.seed % 10**6, **settings
        ).fit(train, data.y_train)
        error = float(np.mean((model.predict(prune) - data.y_prune) ** 2))
        if best is None or error < lowest:
            best, lowest = model, error
    assert best is not None
    return Fitted(
        lambda X: best.predict(scaler.transform(X)), int(best.root_node.count_leaves())
    )


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
_PEERS = {
    "ridge": _Peer(
        "scikit-learn", "indicators", _ridge, {"weakest": 1e-4, "strongest": 1e4}
    ),
    "cart": _Peer("scikit-learn", "numbers", _cart, {"sizes": 40, "refit": True}),
    "lightgbm": _Peer("lightgbm", "categories", _lightgbm, _BOOSTING),
    "lightgbm_refitted": _Peer(
        "lightgbm", "categories", _lightgbm, {**_BOOSTING, "refit": True}
    ),
    "lightgbm_refitted_on_indicators": _Peer(
        "lightgbm", "indicators", _lightgbm, {**_BOOSTING, "refit": True}
    ),
    "lightgbm_linear": _Peer(
        "lightgbm", "categories", _lightgbm, {**_BOOSTING, "linear_tree": True}
    ),
    "lightgbm_linear_refitted": _Peer(
        "lightgbm",
        "categories",
        _lightgbm,
        {**_BOOSTING, "linear_tree": True, "refit": True},
    ),
    "catboost_refitted": _Peer(
        "catboost",
        "text",
        _catboost,
        {"iterations": 5000, "patience": 50, "shapes": [{"depth": 6}, {"depth": 4}]},
    ),
    "cubist": _Peer("cubist", "numbers", _cubist, {"n_committees": 1}),
    "cubist_on_indicators": _Peer("cubist", "indicators", _cubist, {"n_committees": 1}),
    "cubist_on_text": _Peer("cubist", "text", _cubist, {"n_committees": 1}),
    "pilot": _Peer("fast-model-trees", "numbers", _pilot, {"max_depth": 20}),
    "raffle": _Peer("fast-model-trees", "numbers", _raffle, {"n_estimators": 100}),
    "ebm": _Peer("interpret-core", "categories", _ebm, {}),
    "hrt": _Peer(
        "hrt",
        "numbers",
        _hrt,
        {"depths": [0, 1, 2, 3, 4, 5, 6], "threshold": 0, "ridge_alpha": 1}
        | {"step_size": "auto"},
    ),
}
PEER_NAMES = tuple(_PEERS)
