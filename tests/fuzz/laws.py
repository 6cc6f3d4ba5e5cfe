"""Laws that hold for every estimator: functions of a case, named as they say."""

import copy
import pickle
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import clone

from secret_jax import HoldOut
from secret_jax.learners import M5Linear
from secret_jax.runtime import parallel
from tests.fuzz.cases import Case
from tests.helpers import exported_code as run
from tests.helpers import random_tables as tables
from tests.helpers.refusals import assert_meant


def other_ways_to_the_same_fit_predict_the_same(case: Case) -> None:
    ways = [*_ways(case)]
    for chosen in case.rng.permutation(len(ways))[:3]:
        way, make, factor, tolerance = ways[chosen]
        case.near(case.said_by(make()) / factor, tolerance=tolerance, what=way)


def _ways(case: Case) -> Iterator[tuple[str, Callable[[], Any], float, float]]:
    """Names of ways, their fits, what these multiply targets by, and tolerances."""
    X, y, weight, groups = case.data
    yield "again", case.fit, 1.0, 0.0
    yield "without threads", lambda: _without_threads(case), 1.0, 1e-12
    order = case.rng.permutation(len(X))
    if "copy" not in X:
        yield "rows in another order", lambda: case.fit(order), 1.0, 1e-6
    wide = X.astype({name: np.float64 for name in X if X[name].dtype.kind in "fi"})
    yield "wider numbers", lambda: case.fit(X=wide), 1.0, 1e-6
    if not case.has_classes and case.kind != "counts":
        yield "a unit of the target", lambda: case.fit(y=8.0 * y), 8.0, 1e-6
    counts = weight is not None and weight.dtype.kind == "i"
    if weight is not None:
        more = {"sample_weight": 8.0 * weight}
        yield "a unit of weights", lambda: case.fit(**more), 1.0, 1e-6
    rows = np.repeat(np.arange(len(X)), weight if counts else 1)
    known = vars(case.model)
    draws = known.get("bootstrap", False) or known.get("subsample", 1) < 1
    # Rows that repeat are copies of one where no two of them could agree by chance.
    told = any(X[name].dtype.kind == "f" and X[name].is_unique for name in X)
    if counts and told and not draws and set(y[rows].flat) == set(y.flat):
        yield "copies", lambda: case.fit(rows, sample_weight=None), 1.0, 2e-4
    exact = weight is None and groups is None  # others are rounded in parts
    if hasattr(case.model, "fit_stream") and exact:
        yield "a stream", lambda: _streamed(case), 1.0, 1e-6
    table = pa.Table.from_pandas(X, preserve_index=False)
    yield "Arrow's columns", lambda: case.fit(X=table), 1.0, 0.0
    if hasattr(case.model, "prune") and _can_be_refitted(case.model):
        again = lambda: case.fitted.refit(X, y, weight)  # noqa: E731
        yield "its own rows again", again, 1.0, 1e-4


def _can_be_refitted(model: Any) -> bool:
    """Whether the models of its leaves are those of all rows and of its splits."""
    plain = not getattr(model, "refine", None) and model.distill is False
    held = isinstance(model.prune, HoldOut) and not model.prune.refit
    grown = model.leaf == "m5" or isinstance(model.leaf, M5Linear)  # of what was cut
    return plain and not held and not grown and model.leaf != "implied"


def _without_threads(case: Case) -> Any:
    ours = [module for name, module in sys.modules.items() if "secret_jax" in name]
    ours = [module for module in ours if hasattr(module, "N_WORKERS")]
    before, parallel._THREAD.works = parallel.N_WORKERS, True
    try:
        for module in ours:
            module.N_WORKERS = 5 if before == 1 else 1
        return case.fit()
    finally:
        parallel._THREAD.works = False
        for module in ours:
            module.N_WORKERS = before


def _streamed(case: Case) -> Any:
    X, y, weight, _ = case.data
    weight = np.ones(len(X)) if weight is None else weight
    parts = [(X[s], y[s], weight[s]) for s in (slice(9), slice(9, None))]
    names = ["a", "b"] if case.several else ["y"]
    found = clone(case.model).fit_stream(lambda: iter(parts), names)
    # Streams keep the roles of columns that a fit may have moved to the splits.
    moved = found.tree_.schema.roles != case.fitted.tree_.schema.roles
    return case.fitted if moved else found


def copies_say_the_same(case: Case) -> None:
    model = case.fitted
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model"))
        loaded = type(model).load(Path(folder, "model"))
    for same in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), loaded):
        assert np.array_equal(case.said_by(same), case.expected)
        assert repr(same.get_params()) == repr(model.get_params())


def predictions_are_finite(case: Case) -> None:
    X = case.data.X
    far = X.assign(**{n: X[n] * 1e6 - 1e9 for n in X if X[n].dtype.kind == "f"})
    for rows in (X, far, tables.unlike(case.rng, X)):
        found = case.said_by(case.fitted, rows)
        assert np.isfinite(found).all()
        if case.has_classes:
            np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
            assert set(case.fitted.predict(rows)) <= set(case.data.y)
        assert case.kind != "counts" or (found >= 0).all()


def rows_and_columns_may_be_few_and_in_any_order(case: Case) -> None:
    for size in (7, 1):
        rows = case.rng.permutation(len(case.data.X))[:size]
        some = case.data.X.iloc[rows, ::-1]
        case.near(case.said_by(case.fitted, some), case.expected[rows])


def parts_sum_to_the_whole(case: Case) -> None:
    X, model = case.data.X, case.fitted
    if hasattr(model, "explain"):
        why = model.explain(X, **case.second)
        total = why.baseline + why.contributions.sum(axis=1) + why.clipping
        np.testing.assert_allclose(total, why.prediction, rtol=1e-9, atol=1e-9)
        assert len(why.to_dataframe()) == len(X)
        if not case.has_classes:
            if hasattr(model, "tree_"):  # whose equations may be of logarithms
                total = model.tree_.loss.prediction(total)
            case.near(total, case.of_second, 2e-4)
    if hasattr(model, "staged_predict") and not model.ensemble:
        says = model.staged_predict_proba if case.has_classes else model.staged_predict
        case.near([*says(X)][-1])


def programs_predict_the_same(case: Case) -> None:
    model, X = case.fitted, case.data.X
    if not hasattr(model, "export_code") or any(X[n].dtype.kind == "M" for n in X):
        return  # SQL and ONNX ask for the parts of dates
    X = X.astype({n: float for n in X if X[n].dtype.kind in "fi"})
    if getattr(model, "missing_values", "error") != "error":
        X = tables.unlike(case.rng, X)
    expected = case.said_by(model, X)
    expected = expected[:, 1] if case.several else expected
    rows, found, is_one = run.records(X), {}, not case.has_classes
    scope: dict = {}
    exec(model.export_code(**case.second), scope)
    if is_one:
        found["python"] = [scope["predict"](row) for row in rows]
    else:
        found["python"] = [[*scope["predict_proba"](row).values()] for row in rows]
    found["onnx"] = run.run_onnx(model.export_code("onnx", **case.second), X)[
        0 if is_one else 1
    ]
    if is_one and hasattr(model, "tree_") and not model.tree_.is_soft:
        found["sql"] = run.by_sql(model.tree_, X, **case.second)
    for predicted in found.values():
        case.near(predicted, expected, 2e-4)


def models_can_be_read(case: Case) -> None:
    model, (X, y, weight, groups) = case.fitted, case.data
    if callable(getattr(model, "distill", None)):
        assert np.isfinite(case.said_by(model.distill())).all()
    if hasattr(model, "to_dataframe"):
        for way in ("export_text", "summary", "to_html", "to_dataframe"):
            assert len(getattr(model, way)()) > 0
        assert model.export_code("dot").startswith("digraph")
        more = {"sample_weight": weight, "groups": groups}
        more |= {"n_resamples": 2, "verbose": 0}
        shares = model.stability(X, y, **more)
        assert len(shares.attrs["n_leaves"]) == 2
        assert shares["resamples"].between(0.0, 1.0).all()
        changed = [model.smaller(1), model.smaller(gates=False)]
        changed.append(changed[1].refit(X, y, weight))
        others = X.iloc[:20], y[:20], None if weight is None else weight[:20] + 1
        if getattr(model, "prune", None) in ("auto", "holdout"):
            changed.append(clone(model).fit(X, y, weight, eval_set=others))
        for one in changed:
            assert np.isfinite(case.said_by(one)).all()
        if model.n_leaves_ > 1 and changed[0].n_leaves_ == 1:
            case.near(case.said_by(model.smaller(at=[0])), case.said_by(changed[0]))
        path = model.decision_path(X)
        last = (path >= 0).sum(axis=1) - 1
        assert (path[np.arange(len(X)), last] == model.apply(X)).all()
        assert model.reading_cost_ > 0
        shares = model.feature_importances_
        assert (shares >= 0).all()
        assert shares.sum() < 1 + 1e-6
        path = model.cost_complexity_pruning_path(X, y, weight)
        assert (np.diff(path.ccp_alphas) > 0).all()
    if hasattr(model, "predict_interval"):
        deviation = model.predict(X, return_std=True)[1]
        assert ((deviation >= 0) & np.isfinite(deviation)).all()


def directions_and_coverage_are_kept(case: Case) -> None:
    model, (X, y, weight, _) = copy.deepcopy(case.fitted), case.data
    for name, direction in case.directions.items():
        values = np.sort(X[name].to_numpy(float))
        row = X.iloc[[case.rng.integers(len(values))] * len(values)]
        found = case.said_by(model, row.assign(**{name: values}))
        found = found[:, 1] if case.has_classes else found
        case.near(np.minimum(np.diff(found, axis=0) * direction, 0.0), 0.0)
    if hasattr(model, "predict_interval") and not case.several:
        model.training_rows_ = None  # here rows of the fit are to be covered
        low, high = model.conformalize(X, y, weight).predict_interval(X, 0.8)
        near = 1e-6 * np.std(y)
        held = (low - near <= y) & (y <= high + near)
        assert np.average(held, weights=weight) > 0.8 - 1e-9


def bad_input_is_refused_and_changes_nothing(case: Case) -> None:
    model, (X, y, *_) = copy.deepcopy(case.fitted), case.data
    bad = np.array(y, object)
    bad[3] = None
    calls = [
        lambda: model.fit(X, bad),
        lambda: model.fit(X, y[:-1]),
        lambda: model.fit(X.iloc[:0], y[:0]),
        lambda: model.fit(X, y, -np.ones(len(y))),
        lambda: model.fit(X, y, np.zeros(len(y))),
        lambda: model.fit(X, y, groups=np.zeros(len(y) - 1)),
        lambda: model.fit(X.assign(bad=np.inf), y),
        lambda: model.fit(X.assign(bad=[[1, 2]] * len(y)), y),
        lambda: model.predict(X.iloc[:, 1:].assign(other=1)),
        lambda: model.predict(X.iloc[:0]),
    ]
    before, number = dict(vars(model)), int(case.rng.integers(len(calls)))
    try:
        calls[number]()
    except Exception as error:
        assert_meant(error)
    else:
        raise AssertionError(f"bad input {number} was taken")
    assert not _changed(model, before), f"bad input {number} left its traces"


def an_interrupted_fit_changes_nothing(case: Case) -> None:
    model, calls, last, known = copy.deepcopy(case.fitted), 0, 0, vars(case.model)
    if known.get("refine") or known.get("search"):
        return  # which keep what they have, as they say

    def count(frame: Any, event: str, _: Any) -> None:
        nonlocal calls
        calls += event == "call" and "/secret_jax/" in frame.f_code.co_filename
        if calls == last:
            raise KeyboardInterrupt

    def fit(one: Any) -> None:
        sys.setprofile(count)
        try:
            one.fit(case.data.X, case.data.y, groups=case.data.groups)
        finally:
            sys.setprofile(None)

    whole = copy.copy(model)
    fit(whole)
    late = case.rng.random() < 0.5
    last = int(case.rng.integers(max(1, calls - 40) if late else 1, calls + 1))
    before, calls = dict(vars(model)), 0
    try:
        fit(model)
    except KeyboardInterrupt:
        changed = _changed(model, before)  # nothing, or at the very end all
        few = changed and changed != _changed(whole, before)
        assert not few, f"interrupted at call {last}: changed {changed}"


def _changed(model: Any, before: dict[str, Any]) -> list[str]:
    now = vars(model)
    return sorted(n for n in {*now, *before} if now.get(n) is not before.get(n))


LAWS: list[Callable[[Case], None]] = [
    other_ways_to_the_same_fit_predict_the_same,
    copies_say_the_same,
    predictions_are_finite,
    rows_and_columns_may_be_few_and_in_any_order,
    parts_sum_to_the_whole,
    programs_predict_the_same,
    models_can_be_read,
    directions_and_coverage_are_kept,
    bad_input_is_refused_and_changes_nothing,
    an_interrupted_fit_changes_nothing,
]


def broken(kind: str, seed: int, laws: list = LAWS) -> list[tuple[str, Exception]]:
    """Laws that a random case breaks; a refusal with a reason breaks none."""
    case, found = Case(kind, seed), []
    for law in laws:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                law(case)
        except Exception as error:
            try:
                assert_meant(error)
            except AssertionError:
                found.append((law.__name__.replace("_", " "), error))
    return found
