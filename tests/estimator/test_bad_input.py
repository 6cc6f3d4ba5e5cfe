"""Every refusal names the column, the value and the remedy, and costs no old fit."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from configurations import every_configuration, refusal, regressor, shop

from secret_jax import SecretRegressor
from secret_jax.data.columns import UnseenCategoryWarning
from secret_jax.tree.structure import SplitKind

N_ROWS = 60


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
        ["'width'", "row 2", "'wide'", "discrete_features"],
    ),
    "no rows": (lambda f: f[:0], ["0 sample(s)", "empty"]),
    "no rows in an array": (lambda f: np.empty((0, 3)), ["0 sample(s)"]),
    "one dimension": (lambda f: np.arange(3.0), ["2D array", "reshape"]),
    "complex numbers": (lambda f: np.full((60, 3), 1j), ["Complex data"]),
    "no table": (lambda f: "prices.csv", ["2D array"]),
    "dates": (
        lambda f: f.assign(width=pd.Timestamp("2020-02-02")),
        ["'width'", "dates", "number"],
    ),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_table_is_refused_at_fit(case, frame, price):
    spoil, fragments = BAD_TABLES[case]
    X = spoil(frame)
    model = regressor("paper", missing_values="error")
    with refusal(*fragments):
        model.fit(X, price[: len(X)])
    assert not hasattr(model, "tree_")
    assert not hasattr(model, "n_features_in_")


# scikit-learn remarks first that an array has no names.
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_table_is_refused_at_predict(case, frame, model):
    spoil, fragments = BAD_TABLES[case]
    with refusal(*fragments):
        model.predict(spoil(frame))


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
    with refusal("prune_set", *fragments):
        regressor("paper").fit(frame, price, prune_set=(change(frame), price))


BAD_PRUNING_SETS = {
    "no pair": (lambda X, y: X, ["pair (X, y)", "DataFrame"]),
    "no rows": (lambda X, y: (X[:0], y[:0]), ["0 sample(s)"]),
    "lengths": (lambda X, y: (X, y[:3]), ["[60, 3]"]),
    "NaN": (
        lambda X, y: (holding(X, "width", 4, np.nan), y),
        ["NaN", "'width'", "row 4"],
    ),
    "NaN target": (lambda X, y: (X, y.where(y.index != 8)), ["row 8"]),
}


@pytest.mark.parametrize("case", BAD_PRUNING_SETS)
def test_a_bad_pruning_set_is_named_as_such(case, frame, price):
    spoil, fragments = BAD_PRUNING_SETS[case]
    with refusal("prune_set", *fragments):
        regressor("paper", missing_values="error").fit(
            frame, price, prune_set=spoil(frame, price)
        )


def test_an_array_with_other_columns_is_refused_as_a_pruning_set():
    X = np.eye(60, 3)
    y = np.arange(60.0)
    with pytest.raises(ValueError, match=r"prune_set.*2 features.*3 features"):
        regressor("paper").fit(X, y, prune_set=(X[:, :2], y))


BAD_TARGETS = {
    "NaN": (lambda y: y.where(y.index != 3), ["row 3", "nan", "Drop"]),
    "infinity": (lambda y: y.where(y.index != 3, np.inf), ["row 3", "inf"]),
    "words": (lambda y: ["dear"] * N_ROWS, ["y must hold numbers", "dear"]),
    "None": (lambda y: None, ["requires y"]),
    "length": (lambda y: y[:-1], ["[60, 59]"]),
    "two columns": (lambda y: np.c_[y, y], ["1d array", "(60, 2)"]),
    "complex numbers": (lambda y: y * 1j, ["Complex data"]),
    "too large": (lambda y: y * 1e300, ["the target", "too large", "Rescale"]),
}


@pytest.mark.parametrize("case", BAD_TARGETS)
def test_a_bad_target_is_refused(case, frame, price):
    spoil, fragments = BAD_TARGETS[case]
    with refusal(*fragments):
        regressor("paper").fit(frame, spoil(price))


@pytest.mark.parametrize(
    ("weight", "match"),
    [
        (-np.ones(N_ROWS), "Negative"),
        (np.zeros(N_ROWS), "non-zero"),
        (np.full(N_ROWS, np.nan), "NaN"),
        (np.ones(3), r"\(3,\).*\(60,\)"),
    ],
    ids=["negative", "zero", "NaN", "length"],
)
def test_bad_weights_are_refused(weight, match, frame, price):
    with pytest.raises(ValueError, match=match):
        regressor("paper").fit(frame, price, weight)


def test_the_target_among_the_features_is_noticed(frame, price):
    with pytest.warns(UserWarning, match=r"'cost' .*target.*[Dd]rop") as caught:
        regressor("paper", max_depth=0).fit(frame.assign(cost=price), price)
    assert len(caught) == 1


@pytest.mark.parametrize("argument", ["discrete_features", "split_features"])
@pytest.mark.parametrize("chosen", [["hue"], [3], [True], 1.5])
def test_unknown_columns_in_roles_are_refused(argument, chosen, frame, price):
    with pytest.raises(ValueError, match=argument):
        regressor("paper", **{argument: chosen}).fit(frame, price)


def test_a_column_with_two_roles_is_refused(frame, price):
    roles = {"discrete_features": ["width"], "split_features": ["width"]}
    with pytest.raises(ValueError, match="'width' is named in both"):
        regressor("paper", **roles).fit(frame, price)


def test_text_cannot_be_made_continuous(frame, price):
    with pytest.raises(ValueError, match=r"'colour'.*no number"):
        regressor("paper", split_features=["colour"]).fit(frame, price)


BAD_PARAMETERS = {
    "oblique": [2, "sometimes"],
    "leaf": ["quadratic", None],
    "criterion": ["entropy"],
    "gini_gain": ["exact"],
    "prune": ["cost", True],
    "ccp_alpha": [-0.1, np.inf, "auto", True],
    "refine": ["firm", True],
    "validation_fraction": [0, 1.0, 5, "0.5"],
    "min_samples_split": [0, -3, 0.0, 1.0, "few", None, True],
    "min_samples_leaf": [0, 1.5, None],
    "max_depth": [-1, 2.5, "deep"],
    "max_leaf_nodes": [0, 1.5],
    "clip_margin": [-0.1, np.inf, "none"],
    "n_starts": [0, 1.5, None],
    "em_start": ["k-means"],
    "max_iter": [0, None],
    "tol": [-1e-3, np.nan],
    "em_sample": [0, 1.5],
    "verbose": ["loud"],
}
BAD_PARAMETER_VALUES = [
    (name, value) for name, values in BAD_PARAMETERS.items() for value in values
]


@pytest.mark.parametrize(("name", "value"), BAD_PARAMETER_VALUES)
def test_a_bad_parameter_is_named_with_its_value_and_what_is_allowed(name, value):
    message = (
        rf"'{name}' parameter .* must be .*\. Got {re.escape(repr(value))} instead"
    )
    with pytest.raises(ValueError, match=message):
        SecretRegressor(**{name: value}).fit(np.eye(4), np.arange(4.0))


@pytest.mark.parametrize("value", ["seed", -1, 1.5])
def test_a_bad_seed_is_refused(value):
    with pytest.raises(ValueError, match=r"[Ss]eed"):
        SecretRegressor(random_state=value).fit(np.eye(4), np.arange(4.0))


def test_leaves_from_the_mixture_need_the_criterion_that_fits_one():
    with pytest.raises(ValueError, match=r"leaf.*'em'.*criterion.*'gini'"):
        SecretRegressor(leaf="em", criterion="rss").fit(np.eye(4), np.arange(4.0))


def test_a_failed_fit_leaves_the_old_one(frame, price, model):
    before = model.predict(frame)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(frame.rename(columns={"width": "breadth"}), price * np.nan)
    assert model.feature_names_in_.tolist() == ["width", "colour", "height"]
    assert np.array_equal(model.predict(frame), before)


@every_configuration
def test_unseen_categories_get_one_warning_and_finite_predictions(configuration):
    X, y = shop()
    model = regressor(configuration, prune=None).fit(X, y)
    assert SplitKind.DISCRETE in model.tree_.kind
    with pytest.warns(UnseenCategoryWarning) as caught:
        prediction = model.predict(X.assign(colour="violet"))
    assert len(caught) == 1
    assert "'colour'" in str(caught[0].message)
    assert "'violet'" in str(caught[0].message)
    assert np.isfinite(prediction).all()


def test_every_column_with_unseen_categories_is_named_once(frame, price):
    model = regressor("paper", max_depth=0)
    model.fit(frame.assign(size=frame["colour"]), price)
    with pytest.warns(UnseenCategoryWarning) as caught:
        model.predict(frame.assign(size="huge", colour="violet"))
    columns = [re.findall(r"'(\w+)' holds", str(w.message))[0] for w in caught]
    assert columns == ["colour", "size"]


def test_unseen_categories_in_the_pruning_set_are_only_a_warning(frame, price):
    with pytest.warns(UnseenCategoryWarning, match="'violet'"):
        model = regressor("paper", max_depth=0).fit(
            frame, price, prune_set=(frame.assign(colour="violet"), price)
        )
    assert model.n_leaves_ == 1
