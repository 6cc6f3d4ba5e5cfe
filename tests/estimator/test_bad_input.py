"""Every refusal names the column, the value and the remedy, and costs no old fit."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from configurations import refusal, regressor, shop

from secret_jax import (
    CostComplexity,
    CrossValidation,
    Distillation,
    HoldOut,
    KernelTreeClassifier,
    KernelTreeRegressor,
    RefinementWarning,
    Ridge,
    RssSplits,
    SecretRegressor,
    SoftGates,
)
from secret_jax.data.columns import UnseenCategoryWarning
from secret_jax.fit.prune.rules import InformationCriterion
from secret_jax.fit.refine.gates import Blend
from secret_jax.fit.refine.tao import Tao
from secret_jax.learners import (
    CartSplits,
    ConjunctiveSplits,
    GuideSplits,
    M5Linear,
    RetisSplits,
)

N_ROWS = 60
pytestmark = pytest.mark.usefixtures("as_users_run_it")


@pytest.fixture
def frame() -> pd.DataFrame:
    return shop(N_ROWS)[0]


@pytest.fixture
def price() -> pd.Series:
    return shop(N_ROWS)[1]


@pytest.fixture(scope="module")
def model() -> SecretRegressor:
    # A single leaf: what is refused never reaches the tree, and a leaf costs no time.
    model = regressor("paper", max_depth=0, missing_values="error")
    return model.fit(*shop(N_ROWS))


def holding(frame: pd.DataFrame, column: str, row: int, value: object) -> pd.DataFrame:
    values = frame[column].astype(object).tolist()
    values[row] = value
    dtype = object if isinstance(value, str) or value is None else None
    return frame.assign(**{column: pd.Series(values, index=frame.index, dtype=dtype)})


# What is done to a good table, and what the message must say.
BAD_TABLES = {
    "NaN": (
        lambda f: holding(f, "width", 7, np.nan),
        ["NaN", "'width'", "row 7", "fill the value in"],
    ),
    "infinity": (
        lambda f: holding(f, "height", 3, -np.inf),
        ["infinity", "'height'", "row 3", "Drop the row"],
    ),
    "missing category": (
        lambda f: holding(f, "colour", 5, None),
        ["'colour'", "row 5", "'missing'", "missing_values='learn'"],
    ),
    "word among numbers": (
        lambda f: holding(f, "width", 2, "wide"),
        ["'width'", "row 2", "'wide'", "categorical_features"],
    ),
    "no rows": (lambda f: f[:0], ["0 sample(s)", "empty"]),
    "no rows in an array": (lambda f: np.empty((0, 3)), ["0 sample(s)"]),
    "one dimension": (lambda f: np.arange(3.0), ["2D array", "reshape"]),
    "complex numbers": (lambda f: np.full((60, 3), 1j), ["Complex data"]),
    "no table": (lambda f: "prices.csv", ["2D array"]),
    "times": (
        lambda f: f.assign(width=pd.Timedelta("2h")),
        ["'width'", "times", "number"],
    ),
}


# scikit-learn remarks first that an array has no names.
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_table_is_refused(case, frame, price, model):
    spoil, fragments = BAD_TABLES[case]
    X = spoil(frame)
    with refusal(*fragments):
        model.predict(X)
    fresh = regressor("paper", missing_values="error")
    with refusal(*fragments):
        fresh.fit(X, price[: len(X)])
    assert not hasattr(fresh, "tree_")
    assert not hasattr(fresh, "n_features_in_")


@pytest.mark.parametrize(
    ("change", "fragments"),
    [
        (lambda f: f.drop(columns="colour"), ["lacks 'colour'", "'width'"]),
        (lambda f: f.assign(depth=1.0), ["unknown 'depth'"]),
        (
            lambda f: f.rename(columns={"width": "breadth"}),
            ["lacks 'width'", "unknown 'breadth'"],
        ),
    ],
    ids=["missing", "extra", "renamed"],
)
def test_other_columns_are_named_at_predict_and_in_the_pruning_set(
    change, fragments, frame, price, model
):
    with refusal(*fragments):
        model.predict(change(frame))
    with refusal("eval_set", *fragments):
        regressor("paper").fit(frame, price, eval_set=(change(frame), price))


# Targets, weights and rows to prune on, made of a table and its target.
BAD_ARGUMENTS = {
    "no pair": (lambda X, y: {"eval_set": X}, ["pair (X, y)", "DataFrame"]),
    "lengths": (lambda X, y: {"eval_set": (X, y[:3])}, ["eval_set", "[60, 3]"]),
    "a gap": (
        lambda X, y: {"eval_set": (holding(X, "width", 4, np.nan), y)},
        ["eval_set", "'width'", "row 4"],
    ),
    "NaN beside": (
        lambda X, y: {"eval_set": (X, y.where(y.index != 8))},
        ["eval_set", "row 8"],
    ),
    "other columns beside": (
        lambda X, y: {"X": np.eye(60, 3), "eval_set": (np.eye(60, 2), y)},
        ["eval_set", "2 features", "3 features"],
    ),
    "NaN": (lambda X, y: {"y": y.where(y.index != 3)}, ["row 3", "nan", "Drop"]),
    "infinity": (lambda X, y: {"y": y.where(y.index != 3, np.inf)}, ["row 3", "inf"]),
    "words": (lambda X, y: {"y": ["dear"] * N_ROWS}, ["y must hold numbers", "dear"]),
    "None": (lambda X, y: {"y": None}, ["requires y"]),
    "length": (lambda X, y: {"y": y[:-1]}, ["[60, 59]"]),
    "no columns": (
        lambda X, y: {"y": np.empty((N_ROWS, 0))},
        ["one column for each", "(60, 0)"],
    ),
    "a cube": (
        lambda X, y: {"y": np.zeros((N_ROWS, 2, 2))},
        ["one column for each", "dim 3"],
    ),
    "NaN in one of two columns": (
        lambda X, y: {"y": np.c_[y, y.where(y.index != 3)]},
        ["row 3"],
    ),
    "complex numbers": (lambda X, y: {"y": y * 1j}, ["Complex data"]),
    "too large": (
        lambda X, y: {"y": y * 1e300},
        ["the target", "too large", "Rescale"],
    ),
    "negative weights": (
        lambda X, y: {"sample_weight": -np.ones(N_ROWS)},
        ["negative numbers: row 0 is -1"],
    ),
    "no weights": (lambda X, y: {"sample_weight": np.zeros(N_ROWS)}, ["non-zero"]),
    "NaN weights": (
        lambda X, y: {"sample_weight": np.full(N_ROWS, np.nan)},
        ["NaN", "row 0 is nan"],
    ),
    "few weights": (lambda X, y: {"sample_weight": np.ones(3)}, ["(3,)", "(60,)"]),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_bad_targets_weights_and_rows_to_prune_on_are_refused(case, frame, price):
    spoil, fragments = BAD_ARGUMENTS[case]
    given = {"X": frame, "y": price} | spoil(frame, price)
    with refusal(*fragments):
        regressor("paper", missing_values="error").fit(**given)


COUNT_OR_SHARE = (
    "an int in the range [1, inf), a float in the range (0.0, 1.0) "
    "or a str among {'auto'}"
)
# What is allowed, in words, and what is not.
BAD_PARAMETERS = {
    "oblique": ("a str among {'auto'}", [2, "sometimes"]),
    "splits": ("'support'", ["entropy", None, RssSplits, Ridge()]),
    "leaf": ("'implied'", ["quadratic", None, RssSplits()]),
    "prune": ("'icomp'", ["cost", True, Blend()]),
    "refine": ("'tao'", ["firm", True, HoldOut(), "hard"]),
    "distill": ("Distillation", ["yes", None, 1, Tao()]),
    "min_samples_split": (COUNT_OR_SHARE, [0, -3, 0.0, 1.0, "few", None, True]),
    "min_samples_leaf": (COUNT_OR_SHARE, [0, 1.5, None]),
    "max_depth": ("an int in the range [0, inf) or None", [-1, 2.5, "deep", True]),
    "max_leaf_nodes": ("an int in the range [1, inf) or None", [0, 1.5]),
    "missing_values": ("'learn'", ["median", None]),
    "device": ("'str' or None", [0, True]),
    "verbose": ("an int in the range [0, inf)", ["loud", -1]),
}
# Ends of ranges, of each kind of range, and lists of words: a field says what it takes.
BAD_FIELDS = [
    ("splits", RssSplits, "max_split_features", "[1, inf) or None", [0, 1.5, "all"]),
    ("splits", RssSplits, "min_gain", "[0.0, inf)", [-0.5, np.inf, np.nan, None, True]),
    ("splits", RssSplits, "proposals", "tuple", [None, len]),
    ("splits", CartSplits, "max_samples", "[16, inf) or None", [0, 1.5, 15]),
    ("splits", RetisSplits, "thresholds", "'all'", [0, 1.0, -0.5, "median", None]),
    ("splits", ConjunctiveSplits, "scores", "RssSplits", ["rss", None]),
    ("leaf", Ridge, "clip_margin", "[0.0, inf) or None", [-0.1, np.inf, "none"]),
    ("leaf", M5Linear, "smoothing", "[0.0, inf)", [-1, np.nan, "auto", None]),
    ("prune", HoldOut, "fraction", "(0.0, 1.0)", [0, 1.0, 5, "0.5"]),
    ("prune", CrossValidation, "n_folds", "[2, inf)", [1, 2.5, True]),
    ("prune", InformationCriterion, "criterion", "'icomp'", ["BIC", None]),
    ("refine", Blend, "widths", "tuple", [0.5, (), ("wide",), (0.1, -1.0), (np.nan,)]),
    ("refine", SoftGates, "widths", "tuple", [None, (), (0,), (True,)]),
    ("distill", Distillation, "own_share", "[0.0, 1.0]", [-0.1, 1.1]),
]


@pytest.mark.parametrize(
    ("name", "allowed", "value"),
    [
        (name, allowed, value)
        for name, (allowed, values) in BAD_PARAMETERS.items()
        for value in values
    ],
)
def test_a_bad_parameter_is_named_with_its_value_and_what_is_allowed(
    name, allowed, value
):
    message = (
        rf"'{name}' parameter of SecretRegressor must be .*{re.escape(allowed)}.*\. "
        rf"Got {re.escape(repr(value))} instead"
    )
    with pytest.raises(ValueError, match=message):
        SecretRegressor(**{name: value}).fit(np.eye(4), np.arange(4.0))


@pytest.mark.parametrize(("part", "kind", "field", "allowed", "values"), BAD_FIELDS)
def test_a_bad_field_is_named_with_its_value_and_what_is_allowed(
    part, kind, field, allowed, values
):
    for value in values:
        message = (
            rf"'{field}' parameter of {kind.__name__} must be .*{re.escape(allowed)}.*"
            rf"\. Got {re.escape(repr(value))} instead"
        )
        given = kind(**{field: value})  # nothing is said before a fit
        nested = SecretRegressor(**{part: kind()})
        nested.set_params(**{f"{part}__{field}": value})
        for model in (SecretRegressor(**{part: given}), nested):
            with pytest.raises(ValueError, match=message):
                model.fit(np.eye(4), np.arange(4.0))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"random_state": "seed"}, "[Ss]eed"),
        ({"random_state": -1}, "[Ss]eed"),
        *(({"categorical_features": c}, "categ") for c in (["hue"], [3], [True], 1.5)),
        *(({"split_features": c}, "split_f") for c in (["hue"], [3], [True], 1.5)),
        ({"split_features": ["colour"]}, "'colour'.*no number"),
        (
            {"categorical_features": ["width"], "split_features": ["width"]},
            "'width' is named in both",
        ),
    ],
)
def test_seeds_and_roles_that_mean_nothing_are_refused(options, match, frame, price):
    with pytest.raises(ValueError, match=match):
        regressor("paper", **options).fit(frame, price)


@pytest.mark.parametrize("splits", ["rss", "cart", GuideSplits()])
def test_implied_models_need_the_splits_that_imply_them(splits):
    message = r"'leaf' parameter of SecretRegressor .*splits.*Got 'implied' instead"
    with pytest.raises(ValueError, match=message):
        SecretRegressor(leaf="implied", splits=splits).fit(np.eye(4), np.arange(4.0))


@pytest.mark.parametrize("prune", [None, CostComplexity()])
def test_blending_needs_rows_that_did_not_grow_the_tree(prune):
    X = np.arange(100.0)[:, None]
    model = SecretRegressor(refine=Blend(), prune=prune, max_depth=1, oblique=False)
    with pytest.warns(RefinementWarning, match="did not grow the tree.*'holdout'"):
        model.fit(X, np.where(X[:, 0] < 50, 1.0, 3.0))
    assert not model.tree_.is_soft


@pytest.mark.parametrize("prune", [None, "bic", "cross-validation", CostComplexity()])
def test_rows_to_prune_on_need_a_rule_that_uses_them(prune, frame, price):
    with refusal("eval_set", f"prune={prune!r} uses no such rows", "'holdout'"):
        SecretRegressor(prune=prune).fit(frame, price, eval_set=(frame, price))


def test_a_failed_fit_leaves_the_old_one(frame, price, model):
    before = model.predict(frame)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(frame.rename(columns={"width": "breadth"}), price * np.nan)
    assert model.feature_names_in_.tolist() == ["width", "colour", "height"]
    assert np.array_equal(model.predict(frame), before)


@pytest.mark.parametrize(
    "predict",
    [
        lambda X, y: (
            SecretRegressor().fit(X, y).conformalize(X, y + 1).predict_interval
        ),
        lambda X, y: KernelTreeRegressor().fit(X, y).predict,
        lambda X, y: KernelTreeClassifier().fit(X, y > 4).predict_proba,
    ],
)
def test_whatever_is_predicted_there_is_one_warning(predict):
    X, y = shop()
    predict = predict(X, y)
    with pytest.warns(UnseenCategoryWarning) as caught:
        predict(X.assign(colour="violet"))
    assert len(caught) == 1


def test_every_column_with_unseen_categories_is_named_once(frame, price):
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.choice(list("ab"), (400, 3)), columns=["one", "two", "no"])
    y = 4.0 * (X["one"] == "a") + 2.0 * (X["two"] == "a")
    model = SecretRegressor(
        oblique=False, splits="cart", leaf="constant", prune=None, max_depth=2
    ).fit(X, y)
    assert set(model.to_dataframe()["attribute"].dropna()) == {"one", "two"}
    with pytest.warns(UnseenCategoryWarning) as caught:
        model.predict(X.assign(one="huge", two="violet", no="new"))
    (warning,) = caught
    columns = re.findall(r"'(\w+)' holds '(\w+)'", str(warning.message))
    assert columns == [("one", "huge"), ("two", "violet")]
    assert warning.filename == __file__
    model.predict(X.assign(no="new"))  # no warning: nothing asks for the column


@pytest.mark.parametrize("way", ["table", "outputs", "stream"])
def test_the_target_among_the_features_is_noticed(way, frame, price):
    X, model = frame.assign(cost=price), regressor("default", max_depth=0)
    fit, given = model.fit, (X, price)
    if way == "outputs":
        given = X, np.column_stack([frame["height"] ** 2, price])
    elif way == "stream":
        fit, given = model.fit_stream, ([(X[:20], price[:20]), (X[20:], price[20:])],)
    with pytest.warns(UserWarning, match=r"'cost' .*target.*[Dd]rop") as caught:
        fit(*given)
    assert len(caught) == 1
