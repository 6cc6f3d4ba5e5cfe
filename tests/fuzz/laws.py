"""Laws that hold for every estimator, and the random case that they look at."""

from __future__ import annotations

import copy
import pickle
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone, is_classifier

from secret_jax.runtime import parallel
from tests.fuzz import estimators, tables
from tests.helpers.exported_code import (
    by_node,
    by_sql,
    compiled,
    records,
    run_c,
    run_javascript,
    run_onnx,
    run_python,
)
from tests.helpers.refusals import assert_meant

TIGHT, LOOSE = 1e-6, 2e-4


@dataclass(eq=False)
class Case:
    """An estimator and a table for it, all drawn from one seed."""

    kind: str
    seed: int

    def __post_init__(self) -> None:
        self.rng = rng = np.random.default_rng([self.seed, len(self.kind)])
        n_rows = int(rng.integers(30, 160))
        X, signal = tables.table(rng, n_rows)
        self.model = estimators.ALL[self.kind](rng)
        if "random_state" in self.model.get_params():
            self.model.set_params(random_state=int(rng.integers(9)))
        if self.kind in estimators.CLASSES:
            y = tables.classes(rng, signal, int(rng.integers(2, 4)))
        else:
            several = self.kind in estimators.SEVERAL and rng.random() < 0.2
            positive = self.kind in estimators.COUNTS
            y = tables.numbers(rng, signal, 2 if several else 1, positive)
        names = [*X]
        if "split_features" in self.model.get_params() and rng.random() < 0.2:
            name = names[rng.integers(len(names))]
            asked = ("split_features", "categorical_features")[rng.integers(2)]
            self.model.set_params(**{asked: [name]})
        weight = tables.weights(rng, n_rows)
        self.data = tables.Data(X, y, weight, tables.groups(rng, n_rows))
        self.directions = self._constrained() if rng.random() < 0.15 else {}

    def _constrained(self) -> dict[str, int]:
        if self.kind not in estimators.MONOTONE:
            return {}
        numbers = [n for n in self.data.X if n.rpartition(" ")[0] in tables.PLAIN]
        found = {name: int(self.rng.choice([-1, 1])) for name in numbers[:2]}
        self.model.set_params(monotonic_cst=found)
        return found

    def fit(self, *rows: Any, groups: Any = "own") -> Any:
        """Fit a clone, to the case's rows or to others: X, y and weights."""
        groups = self.data.groups if isinstance(groups, str) else groups
        return clone(self.model).fit(*(rows or self.data[:3]), groups=groups)

    @cached_property
    def fitted(self) -> Any:
        return self.fit()

    @cached_property
    def expected(self) -> np.ndarray:
        return said(self.fitted, self.data.X)

    @cached_property
    def scale(self) -> float:
        """What differences are measured by: 1 of probabilities."""
        if is_classifier(self.model):
            return 1.0
        return float(np.std(self.data.y)) or 1.0

    def near(self, found: Any, expected: Any = None, tolerance: float = TIGHT) -> None:
        expected = self.expected if expected is None else expected
        size = self.scale + 1e-3 * tolerance * np.abs(expected).max(initial=0)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=tolerance * size)


def said(model: Any, X: Any) -> np.ndarray:
    """Probabilities of classes, or predictions of numbers."""
    said_by = model.predict_proba if is_classifier(model) else model.predict
    return np.asarray(said_by(X), np.float64)


def state(model: Any) -> dict[str, Any]:
    return dict(vars(model))


def fitting_twice_is_equal(case: Case) -> None:
    assert np.array_equal(said(case.fit(), case.data.X), case.expected)


def the_order_of_rows_does_not_matter(case: Case) -> None:
    if "copy" in case.data.X:
        return
    order = case.rng.permutation(len(case.data.X))
    X, y, weight, groups = case.data
    own = None if groups is None else groups[order]
    shuffled = case.fit(
        X.iloc[order], y[order], None if weight is None else weight[order], groups=own
    )
    case.near(said(shuffled, X))


def the_unit_of_weights_does_not_matter(case: Case) -> None:
    X, y, weight, _ = case.data
    if weight is not None and weight.dtype.kind == "f":
        case.near(said(case.fit(X, y, 8.0 * weight), X))


def a_weight_is_a_number_of_copies(case: Case) -> None:
    X, y, weight, groups = case.data
    if weight is None or weight.dtype.kind != "i" or _resamples(case.model):
        return
    rows = np.repeat(np.arange(len(X)), weight)
    if is_classifier(case.model) and len(set(y[rows])) < len(set(y)):
        return
    own = None if groups is None else groups[rows]
    case.near(said(case.fit(X.iloc[rows], y[rows], groups=own), X), tolerance=LOOSE)


def _resamples(model: Any) -> bool:
    return (
        bool(getattr(model, "bootstrap", False)) or getattr(model, "subsample", 1) < 1
    )


def the_unit_of_the_target_does_not_matter(case: Case) -> None:
    if case.kind not in estimators.NUMBERS:
        return
    X, y, weight, _ = case.data
    case.near(said(case.fit(X, 8.0 * y, weight), X) / 8.0)


def the_dtype_of_numbers_does_not_matter(case: Case) -> None:
    X = case.data.X
    wide = X.astype({name: np.float64 for name in X if X[name].dtype.kind in "fi"})
    case.near(said(case.fit(wide, *case.data[1:3]), X))
    case.near(said(case.fitted, wide))


def the_number_of_threads_does_not_matter(case: Case) -> None:
    holders = [m for n, m in sys.modules.items() if n.startswith("secret_jax")]
    holders = [m for m in holders if hasattr(m, "N_WORKERS")]
    before = parallel.N_WORKERS
    try:
        for module in holders:
            module.N_WORKERS = 5 if before == 1 else 1
        parallel._THREAD.works = True
        case.near(said(case.fit(), case.data.X), tolerance=1e-12)
    finally:
        parallel._THREAD.works = False
        for module in holders:
            module.N_WORKERS = before


def streams_fit_the_same(case: Case) -> None:
    X, y, weight, groups = case.data
    if not hasattr(case.model, "fit_stream") or groups is not None:
        return
    cut = int(case.rng.integers(1, len(X) - 1))
    weight = np.ones(len(X)) if weight is None else weight
    parts = [(X[s], y[s], weight[s]) for s in (slice(cut), slice(cut, None))]
    names = ["y"] if np.ndim(y) == 1 else ["a", "b"]
    case.near(said(clone(case.model).fit_stream(lambda: iter(parts), names), X))


def rows_to_prune_on_are_taken(case: Case) -> None:
    X, y, weight, groups = case.data
    if groups is not None or "eval_set" not in case.model.fit.__code__.co_varnames:
        return
    cut = len(X) // 2
    if is_classifier(case.model) and len(set(y[:cut])) < len(set(y)):
        return
    part = (X[:cut], y[:cut]) + (() if weight is None else (weight[:cut],))
    other = (X[cut:], y[cut:]) + (() if weight is None else (weight[cut:],))
    if hasattr(case.model, "prune"):
        case.model.set_params(prune="auto")
    found = clone(case.model).fit(*part, eval_set=other)
    assert np.isfinite(said(found, X)).all()
    if hasattr(found, "refit"):
        found.refit(*part)


def resamples_tell_how_stable_a_tree_is(case: Case) -> None:
    X, y, weight, groups = case.data
    if hasattr(case.fitted, "stability"):
        table = case.fitted.stability(
            X, y, sample_weight=weight, groups=groups, n_resamples=2, random_state=0
        )
        assert table is not None


def trees_learn_from_boosters(case: Case) -> None:
    if not hasattr(case.fitted, "distill") or not callable(case.fitted.distill):
        return
    tree = case.fitted.distill()
    assert np.isfinite(said(tree, case.data.X)).all()
    assert tree.export_text()
    assert tree.export_code()


def effects_are_finite(case: Case) -> None:
    if not hasattr(case.fitted, "effect"):
        return
    several = case.expected.ndim > 1 and case.kind not in estimators.CLASSES
    output = {"output": 1} if several else {}
    if case.kind in estimators.CLASSES and case.expected.shape[1] > 2:
        output = {"output": case.fitted.classes_.tolist()[1]}
    for name in case.data.X:
        case.fitted.effect(name, **output)
    for pair in case.fitted.interactions(n_rows=10, **output):
        assert np.isfinite(pair.share)
    assert np.isfinite(case.fitted.feature_importances_).all()


def copies_say_the_same(case: Case) -> None:
    X, model = case.data.X, case.fitted
    for same in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert np.array_equal(said(same, X), case.expected)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        model.save(path)
        loaded = type(model).load(path)
        assert np.array_equal(said(loaded, X), case.expected)
        loaded.save(path)
        assert np.array_equal(said(type(model).load(path), X), case.expected)
    given, kept = (repr(each.get_params(deep=False)) for each in (model, loaded))
    assert given == kept or "object at" in given, (given, kept)


def predictions_are_finite(case: Case) -> None:
    X = case.data.X
    far = X.assign(**{n: X[n] * 1e6 - 1e9 for n in X if X[n].dtype.kind == "f"})
    for rows in (X, far):
        values = said(case.fitted, rows)
        assert np.isfinite(values).all()
        if is_classifier(case.model):
            np.testing.assert_allclose(values.sum(axis=1), 1, atol=1e-5)
            assert (values >= 0).all()
            assert set(case.fitted.predict(rows)) <= set(case.data.y)
    if case.kind in estimators.COUNTS:
        assert (case.expected >= 0).all()


def rows_alone_say_what_they_say_among_others(case: Case) -> None:
    rows = case.rng.permutation(len(case.data.X))[:7]
    case.near(said(case.fitted, case.data.X.iloc[rows]), case.expected[rows])
    alone = [said(case.fitted, case.data.X.iloc[[row]])[0] for row in rows[:2]]
    case.near(alone, case.expected[rows[:2]])


def columns_are_found_by_name(case: Case) -> None:
    case.near(said(case.fitted, case.data.X.iloc[:, ::-1]))


def parts_sum_to_the_whole(case: Case) -> None:
    X, model = case.data.X, case.fitted
    several = np.ndim(case.data.y) > 1
    if hasattr(model, "contributions"):
        curves = model.intercept_ + model.contributions(X).sum(axis=1)
        case.near(curves + model.tree_.predict(X), tolerance=1e-5)
    elif case.kind.startswith("kernel"):
        assert str(model.explain(X.iloc[:3]))
    elif hasattr(model, "explain"):
        why = model.explain(X, **{"output": 1} if several else {})
        total = why.baseline + why.contributions.sum(axis=1) + why.clipping
        np.testing.assert_allclose(total, why.prediction, rtol=1e-9, atol=1e-9)
        if case.kind in estimators.NUMBERS:
            case.near(total, case.expected[:, 1] if several else None, LOOSE)
        assert len(why.to_dataframe()) == len(X)
        assert str(why)


def stages_end_in_the_whole(case: Case) -> None:
    name = "staged_predict_proba" if is_classifier(case.model) else "staged_predict"
    if not hasattr(case.fitted, name) or case.fitted.ensemble:
        return
    *_, last = getattr(case.fitted, name)(case.data.X)
    case.near(last)


def programs_predict_the_same(case: Case) -> None:
    model, X = case.fitted, case.data.X
    if not hasattr(model, "export_code") or any(X.dtypes == "datetime64[ns]"):
        return
    X = X.drop(columns=[n for n in X if X[n].dtype.kind == "M"])
    if X.shape != case.data.X.shape:
        return
    loose = LOOSE if getattr(model, "refine", None) else 1e-4
    rows = X.astype({n: float for n in X if X[n].dtype.kind in "fi"})
    if is_classifier(model):
        return _programs_of_classes(case, rows)
    several = case.expected.ndim > 1
    output = {"output": 1} if several else {}
    expected = case.expected[:, 1] if several else case.expected
    if not several:
        (found,) = run_onnx(model.to_onnx(), rows)
        case.near(found, expected, loose)
    for language, run in (
        ("python", run_python),
        ("c", run_c),
        ("javascript", run_javascript),
    ):
        found = run(model.export_code(language, **output), records(rows))
        case.near(found, expected, loose)
    if hasattr(model, "refine") and not model.tree_.is_soft:
        case.near(by_sql(model.tree_, rows, **output), expected, loose)


def _programs_of_classes(case: Case, X: pd.DataFrame) -> None:
    model, rows = case.fitted, records(X)
    scope: dict = {}
    exec(model.export_code(), scope)
    case.near([[*scope["predict_proba"](row).values()] for row in rows], None, LOOSE)
    text = isinstance(case.fitted.classes_[0], str)
    predict = compiled(model.export_code("c"), len(model.classes_), text=text)
    case.near([predict(row)[0] for row in rows], None, LOOSE)
    call = "[...predict_proba(row).values()]"
    case.near(by_node(model.export_code("javascript"), rows, call), None, LOOSE)
    case.near(run_onnx(model.to_onnx(), X)[1], None, LOOSE)


def a_tree_can_be_read(case: Case) -> None:
    model = case.fitted
    if not hasattr(model, "to_dataframe"):
        return
    assert len(model.to_dataframe()) >= model.tree_.n_nodes
    assert model.export_dot()
    assert model.export_text()
    assert model.summary()
    if case.data.X.shape[1] < 4:
        assert model.to_html()
    assert np.isfinite(model.feature_importances_).all()
    assert model.apply(case.data.X).shape == (len(case.data.X),)
    smaller = copy.deepcopy(model).smaller(1)
    assert np.isfinite(said(smaller, case.data.X)).all()
    again = copy.deepcopy(model).refit(*case.data[:3])
    assert np.isfinite(said(again, case.data.X)).all()


def directions_are_kept(case: Case) -> None:
    for name, direction in case.directions.items():
        values = np.sort(case.data.X[name].to_numpy(float))
        row = case.data.X.iloc[[case.rng.integers(len(values))] * len(values)]
        found = said(case.fitted, row.assign(**{name: values}))
        found = found[:, 1] if is_classifier(case.model) else found
        steps = np.diff(found, axis=0) * direction
        assert steps.min() >= -TIGHT * case.scale, (name, direction, steps.min())


def intervals_hold_the_calibration_rows(case: Case) -> None:
    model, (X, y, weight, _) = copy.deepcopy(case.fitted), case.data
    if not hasattr(model, "conformalize") or np.ndim(y) > 1:
        return
    model.conformalize(X, y, weight)
    if is_classifier(model):
        assert model.predict_set(X).shape == (len(X), len(model.classes_))
        return
    low, high = model.predict_interval(X, 0.8)
    assert (low <= high).all()
    seen = np.ones(len(X)) if weight is None else weight
    share = np.average((low - TIGHT <= y) & (y <= high + TIGHT), weights=seen)
    assert share > 0.8 - 1e-9, share


def bad_input_is_refused_and_changes_nothing(case: Case) -> None:
    model, (X, y, _, _) = copy.deepcopy(case.fitted), case.data
    bad = np.array(y, object if is_classifier(model) else float)
    bad[3] = None if is_classifier(model) else np.nan
    fits: list[Callable[[], Any]] = [
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
    before, number = state(model), int(case.rng.integers(len(fits)))
    try:
        fits[number]()
    except Exception as error:
        assert_meant(error)
    else:
        raise AssertionError(f"bad input {number} was taken")
    assert _same_state(state(model), before), f"bad input {number} left its traces"
    assert np.array_equal(said(model, X), case.expected)


def an_interrupted_fit_changes_nothing(case: Case) -> None:
    if getattr(case.model, "refine", None) or getattr(case.model, "search", None):
        return  # which keep what they have, as they say
    model, data = copy.deepcopy(case.fitted), case.data
    n_calls = 0

    def count(frame: Any, event: str, _: Any) -> None:
        nonlocal n_calls
        if event == "call" and "/secret_jax/" in frame.f_code.co_filename:
            n_calls += 1
            if n_calls == last:
                raise KeyboardInterrupt

    last = 0
    with _profiled(count):
        case.fit()
    last, n_calls = int(case.rng.integers(1, max(n_calls, 2))), 0
    before, other = state(model), data.X.iloc[::-1].rename(columns=lambda n: n + "!")
    model.set_params(**{"monotonic_cst": None} if case.directions else {})
    try:
        with _profiled(count):
            model.fit(other, data.y, groups=data.groups)
    except KeyboardInterrupt:
        model.set_params(**{k: before[k] for k in model.get_params(deep=False)})
        assert _same_state(state(model), before), f"call {last} left its traces"
        assert np.array_equal(said(model, data.X), case.expected)


@contextmanager
def _profiled(count: Callable[..., None]) -> Iterator[None]:
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)


def _same_state(found: dict[str, Any], before: dict[str, Any]) -> bool:
    return found.keys() == before.keys() and all(found[k] is before[k] for k in found)


LAWS: list[Callable[[Case], None]] = [
    fitting_twice_is_equal,
    the_order_of_rows_does_not_matter,
    the_unit_of_weights_does_not_matter,
    a_weight_is_a_number_of_copies,
    the_unit_of_the_target_does_not_matter,
    the_dtype_of_numbers_does_not_matter,
    the_number_of_threads_does_not_matter,
    streams_fit_the_same,
    rows_to_prune_on_are_taken,
    resamples_tell_how_stable_a_tree_is,
    trees_learn_from_boosters,
    effects_are_finite,
    copies_say_the_same,
    predictions_are_finite,
    rows_alone_say_what_they_say_among_others,
    columns_are_found_by_name,
    parts_sum_to_the_whole,
    stages_end_in_the_whole,
    programs_predict_the_same,
    a_tree_can_be_read,
    directions_are_kept,
    intervals_hold_the_calibration_rows,
    bad_input_is_refused_and_changes_nothing,
    an_interrupted_fit_changes_nothing,
]


def broken(kind: str, seed: int, n_laws: int = 6) -> list[tuple[str, Exception]]:
    """Laws that a random case breaks, of some drawn for it; none if it is refused."""
    case = Case(kind, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            case.expected  # noqa: B018
        except Exception as error:
            return _unmeant("fit", error)
        chosen, found = case.rng.permutation(len(LAWS))[:n_laws], []
        for law in (LAWS[number] for number in sorted(chosen)):
            try:
                law(case)
            except Exception as error:
                name = law.__name__.replace("_", " ")
                if not isinstance(error, AssertionError):
                    found += _unmeant(name, error)
                else:
                    found.append((name, error))
    return found


def _unmeant(name: str, error: Exception) -> list[tuple[str, Exception]]:
    try:
        assert_meant(error)
    except AssertionError:
        return [(name, error)]
    return []
