"""Every argument of every public function, with values of every wrong kind.

What comes back is a result, or a refusal that was meant; never an error from the depths
of NumPy or JAX, and never a changed estimator.
"""

from __future__ import annotations

import copy
import datetime
import inspect
import re
from contextlib import suppress
from functools import cache
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from configurations import refusal, regressor, shop
from refusals import assert_meant, only_deserved_warnings

from secret_jax import (
    CostComplexity,
    CrossValidation,
    SecretClassifier,
    SecretRegressor,
    datasets,
)
from secret_jax.estimators.parameters import NAMED

pytestmark = pytest.mark.usefixtures("as_users_run_it")

JUNK: dict[str, Any] = {
    "None": None,
    "True": True,
    "zero": 0,
    "one": 1,
    "minus one": -1,
    "a NumPy number": np.int64(2),
    "a huge number": 10**30,
    "a fraction": 1.5,
    "NaN": np.nan,
    "infinity": -np.inf,
    "a complex number": 1j,
    "no text": "",
    "text": "no such thing",
    "a column": "width",
    "bytes": b"width",
    "an empty list": [],
    "a list": [0, "colour"],
    "a list of lists": [[1.0, 2.0], [3.0]],
    "an empty array": np.empty((0, 3)),
    "an array": np.arange(3.0),
    "a table": np.ones((4, 3)),
    "a wide table": np.ones((4, 7)),
    "a cube": np.ones((2, 2, 2)),
    "an array of objects": np.array([[{}, [], None]], object),
    "a scalar array": np.array(1.0),
    "masks": np.array([True, False, True]),
    "dates": np.array([["2020-02-02"]], "datetime64[D]"),
    "an empty frame": pd.DataFrame(),
    "another frame": pd.DataFrame({"width": [1.0], "other": [2.0]}),
    "a column twice": pd.DataFrame(np.ones((2, 2)), columns=["width", "width"]),
    "a frame with levels": pd.DataFrame(
        np.ones((2, 2)), columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])
    ),
    "a series": pd.Series([1.0, 2.0, 3.0], name="width"),
    "a dict": {"width": 1.0},
    "a set": {"width"},
    "a pair": (np.ones((2, 3)), np.ones(2)),
    "a triple": (1, 2, 3),
    "a function": len,
    "a class": SecretRegressor,
    "an object": object(),
    "a date": datetime.date(2020, 2, 2),
}
# Trees of folds teach the second growth, of two folds as of the default's ten.
FOLDS = CrossValidation(n_folds=2, n_repeats=1)
# What would take hours or gigabytes, and is no mistake.
_LAVISH = {"resolution", "n_samples", "n_features", "max_samples", "n_starts"}


@cache
def model() -> SecretRegressor:
    """A tree of a few leaves over width, colour and height; calibrated."""
    X, y = shop(64)
    fitted = regressor("default", prune=None, max_depth=2).fit(X, y)
    assert fitted.n_leaves_ > 2
    return fitted.conformalize(X, y + 1.0)


@cache
def stump() -> SecretRegressor:
    return regressor("default", prune=None, max_depth=1).fit(*shop(64))


@cache
def soft_model() -> SecretRegressor:
    fitted = regressor("default", refine="blend", prune="holdout")
    return fitted.fit(*shop(128))


def check_junk(name: str, use, /, **other: Any) -> None:
    """Give an argument every kind of junk, beside good values of the others."""
    failures = []
    for kind, value in JUNK.items():
        if name in _LAVISH and kind == "a huge number":
            continue
        try:
            with only_deserved_warnings():
                use(**(other | {name: value}))
        except Exception as error:
            try:
                assert_meant(error)
            except AssertionError as story:
                failures.append(f"{name} = {kind}: {str(story).splitlines()[0]}")
        finally:
            plt.close("all")
    assert not failures, "\n" + "\n".join(failures)


PARAMETERS = sorted(SecretRegressor().get_params(deep=False))


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_parameters(parameter):
    X, y = shop(20)

    def fit(**parameters):
        # A single node, whatever its parameters: nothing is compiled.
        single = {"max_depth": 0, "min_samples_split": 1000}
        fitted = SecretRegressor(**(single | parameters)).fit(X, y)
        assert np.isfinite(fitted.predict(X)).all()

    check_junk(parameter, fit)


# Of every value there is, with how it is reached.
FIELDS = [
    (parameter, type(value), field)
    for parameter, values in NAMED.items()
    for value in [
        *filter(None, values.values()),
        *([CostComplexity()] * (parameter == "prune")),
    ]
    for field in value.get_params()
]


@pytest.mark.parametrize(
    ("parameter", "kind", "field"),
    dict.fromkeys(FIELDS),
    ids=lambda given: getattr(given, "__name__", given),
)
def test_fields_of_values(parameter, kind, field):
    X, y = shop(20)
    plain = SecretRegressor(max_depth=0, min_samples_split=1000, prune=FOLDS)
    plain.set_params(**{parameter: kind()})
    before = plain.get_params().keys()

    def fit(**fields):
        (given,) = fields.values()
        single = copy.copy(plain).set_params(**{f"{parameter}__{field}": given})
        assert not single.get_params().keys() - before
        assert np.isfinite(single.fit(X, y).predict(X)).all()

    check_junk(field, fit)


@pytest.mark.parametrize("argument", ["X", "y", "sample_weight", "eval_set"])
def test_fit(argument):
    X, y = shop(20)

    def fit(**arguments):
        fresh = SecretRegressor(max_depth=0)
        try:
            fresh.fit(**arguments)
        except Exception:
            assert vars(fresh) == fresh.get_params(deep=False)
            raise
        assert np.isfinite(fresh.predict(arguments["X"])).all()

    check_junk(argument, fit, X=X, y=y)


@pytest.mark.parametrize("argument", ["X", "y", "sample_weight"])
def test_other_uses_of_training_rows(argument):
    X, y = shop(64)
    fresh = SecretRegressor(max_depth=0)
    check_junk(argument, fresh.cost_complexity_pruning_path, X=X, y=y)
    before = model().conformity_scores_.copy()
    calibrated = model().smaller(gates=False)
    check_junk(argument, calibrated.conformalize, X=X, y=y + 1.0)
    check_junk(argument, model().score, X=X, y=y)
    assert np.array_equal(model().conformity_scores_, before)


@pytest.mark.parametrize(
    "verb", ["predict", "apply", "decision_path", "predict_interval", "explain"]
)
def test_rows_to_predict(verb):
    X, y = shop(64)
    for fitted in (model(), soft_model()):
        use = getattr(fitted.conformalize(X, y + 1.0), verb)
        check_junk("X", use)


OPTIONS = {
    "export_text": ["max_depth", "precision", "max_categories"],
    "to_dataframe": ["output"],
    "export_code": ["language", "function_name", "table"],
    "plot_tree": ["max_depth"],
}


@pytest.mark.parametrize("verb", OPTIONS)
def test_options_of_exports(verb):
    # Pictures take long, and soft trees are another case in text only.
    for fitted in [stump()] if verb == "plot_tree" else [model(), soft_model()]:
        for option in OPTIONS[verb]:
            check_junk(option, getattr(fitted, verb))
    if verb == "export_code":
        check_junk("table", model().export_code, language="sql")
        check_junk("max_depth", model().export_code, language="dot")


@pytest.mark.parametrize("argument", ["x", "y", "at", "data", "ax"])
def test_pictures_of_slices(argument):
    check_junk(argument, model().plot_partition, x="width", y="height")


def test_leaves_intervals_and_loaders_of_data(tmp_path):
    check_junk("node", model().plot_leaf)
    check_junk("coverage", model().predict_interval, X=shop(4)[0])
    (tmp_path / "houses.csv").write_text("size,price\n1,10\n2,30\n")
    check_junk("name", datasets.load, data_home=tmp_path)
    check_junk("data_home", datasets.load, name="houses")
    check_junk("data_home", datasets.available)


def test_paths_of_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # text is a name of a file
    for use in (model().save, SecretRegressor.load):
        for value in JUNK.values():
            with suppress(OSError, TypeError, ValueError):  # which are meant
                use(value)


def test_constructors():
    with pytest.raises(TypeError, match="depth"):
        SecretRegressor(depth=3)
    with refusal("depth", "Valid parameters"):
        SecretRegressor().set_params(depth=3)
    for value in JUNK.values():
        SecretRegressor(**dict.fromkeys(PARAMETERS, value))


@pytest.mark.parametrize("estimator", [SecretRegressor, SecretClassifier])
def test_what_beginners_turn_comes_first_and_rows_have_a_name(estimator):
    parameters = list(inspect.signature(estimator).parameters)
    assert parameters[:4] == [
        "max_leaf_nodes",
        "max_depth",
        "pruning_tolerance",
        "equation_tolerance",
    ]
    assert parameters[-3:] == ["random_state", "device", "verbose"]
    if estimator is SecretRegressor:  # the other refers to its text
        text = inspect.getdoc(estimator)
        text = text.partition("\nAttributes\n")[0]
        said = re.findall(r"(?m)^([a-z_]+(?:, [a-z_]+)*) : ", text)
        assert [name for names in said for name in names.split(", ")] == parameters
    for verb in ("fit", "predict", "score"):
        given = inspect.signature(getattr(estimator, verb)).parameters
        assert given["X"].annotation != "Any"
