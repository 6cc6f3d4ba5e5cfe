"""Roles, encoding, scaling, and tables of any shape, order, type and names."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from configurations import refusal
from schemas import learn_schema
from sklearn.model_selection import cross_val_score

from secret_jax import SecretClassifier, SecretRegressor
from secret_jax.data.columns import read_columns
from secret_jax.data.encoding import encode
from secret_jax.data.learning import ColumnOptions
from secret_jax.data.schema import Role, TableSchema
from secret_jax.data.validation import validated
from secret_jax.estimators.stream.batches import Wanted, as_batch, opened

N_ROWS = 6


def schema_of(X, **options) -> TableSchema:
    return learned(X, np.arange(len(X), dtype=float), np.ones(len(X)), **options)


def learned(X, y, weight, **options) -> TableSchema:
    return learn_schema(read_columns(X), y[:, None], weight, ColumnOptions(**options))


def shuffled_frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "grade": ["b", "a", "c", "a", "b", "b"],
            "length": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
            "new": [True, False, True, True, False, True],
            "count": [3, 1, 4, 1, 5, 9],
        }
    )


PANDAS_ROLES = {
    "float64": (pd.array([0.5, 1, 2, 3, 4, 5], "float64"), Role.REGRESSOR),
    "float32": (pd.array([0.5, 1, 2, 3, 4, 5], "float32"), Role.REGRESSOR),
    "int64": (pd.array([0, 1, 2, 3, 4, 5], "int64"), Role.REGRESSOR),
    "uint8": (pd.array([0, 1, 2, 3, 4, 5], "uint8"), Role.REGRESSOR),
    "Int64": (pd.array([0, 1, 2, 3, 4, 5], "Int64"), Role.REGRESSOR),
    "Float64": (pd.array([0, 1, 2, 3, 4, 5], "Float64"), Role.REGRESSOR),
    "bool": (pd.array([True, False] * 3, "bool"), Role.DISCRETE),
    "boolean": (pd.array([True, False] * 3, "boolean"), Role.DISCRETE),
    "str": (pd.Series(list("abcabc"), dtype="str"), Role.DISCRETE),
    "string": (pd.array(list("abcabc"), "string"), Role.DISCRETE),
    "object": (pd.Series(list("abcabc"), dtype="object"), Role.DISCRETE),
    "category of text": (pd.Categorical(list("abcabc")), Role.DISCRETE),
    "ordered category": (pd.Categorical(list("abcabc"), ordered=True), Role.SPLIT),
    "category of numbers": (pd.Categorical([1, 2, 3, 1, 2, 3]), Role.DISCRETE),
    "text of digits": (pd.Series(list("123123"), dtype="str"), Role.DISCRETE),
}


@pytest.mark.parametrize("dtype", PANDAS_ROLES)
def test_pandas_dtypes_decide_the_role(dtype):
    values, role = PANDAS_ROLES[dtype]
    assert schema_of(pd.DataFrame({"column": values})).roles == (role,)


@pytest.mark.parametrize(
    "chosen",
    [["count"], "count", [3], 3, [False, False, False, True], np.array([3])],
    ids=["name", "bare name", "position", "bare position", "mask", "array"],
)
@pytest.mark.parametrize("argument", ["categorical_features", "split_features"])
def test_arguments_override_the_dtypes(argument, chosen):
    frame = shuffled_frame()
    roles = schema_of(frame, **{argument: chosen}).roles
    expected = list(schema_of(frame).roles)
    expected[3] = Role.DISCRETE if argument == "categorical_features" else Role.SPLIT
    assert roles == tuple(expected)


def test_an_array_has_regressors_only_unless_it_holds_text():
    assert schema_of(np.eye(3)).roles == (Role.REGRESSOR,) * 3
    mixed = np.array([[1, "u"], [2, "v"], [3, "u"]], object)
    assert schema_of(mixed).roles == (Role.REGRESSOR, Role.DISCRETE)
    schema = schema_of(shuffled_frame(), use_regressors=False)
    assert schema.n_regressors == 0
    assert schema.roles == (Role.DISCRETE, Role.SPLIT, Role.DISCRETE, Role.SPLIT)


def test_regressors_come_first_and_codes_are_places_among_sorted_categories():
    frame = shuffled_frame()
    schema = schema_of(frame, split_features=["length"])
    assert (schema.continuous, schema.n_regressors) == ((3, 1), 1)
    table = encode(schema, frame)
    for position, name in enumerate(["count", "length"]):
        values = frame[name].to_numpy(float)
        expected = (values - values.mean()) / values.std()
        np.testing.assert_allclose(table.x[:, position], expected, rtol=1e-6)
    assert schema.discrete == (0, 2)
    assert schema.categories == (("a", "b", "c"), (False, True))
    assert table.x.dtype == np.float32
    assert table.codes.dtype == np.int32
    assert table.codes.T.tolist() == [[1, 0, 2, 0, 1, 1], [1, 0, 1, 1, 0, 1]]


def test_categories_and_columns_go_by_name_not_by_codes_or_places():
    frame = shuffled_frame()
    schema = schema_of(frame)
    expected = encode(schema, frame)
    backwards = pd.Categorical(frame["grade"], categories=["c", "b", "a", "never"])
    enum = pl.Series("grade", frame["grade"].tolist(), dtype=pl.Enum(["c", "b", "a"]))
    for other in (
        frame.assign(grade=backwards),
        pl.from_pandas(frame).with_columns(enum),
        pa.Table.from_pandas(frame),
        frame[["count", "new", "length", "grade"]].set_index(np.arange(N_ROWS)[::-1]),
        frame.astype({"length": "float32", "grade": "category"}),
        pl.from_pandas(frame).select("new", "grade", "count", "length"),
    ):
        found = encode(schema, other)
        np.testing.assert_array_equal(found.x, expected.x)
        np.testing.assert_array_equal(found.codes, expected.codes)


def test_rows_without_weight_bring_no_categories():
    frame = pd.DataFrame({"grade": ["a", "b", "only here"]})
    schema = learned(frame, np.arange(3.0), np.array([1.0, 1.0, 0.0]))
    assert schema.categories == (("a", "b"),)


def test_a_large_offset_does_not_eat_the_scale():
    values = 1e9 + np.array([[0.0], [1.0], [2.0], [3.0]])
    schema = schema_of(values)
    assert schema.scale[0] == np.std([0, 1, 2, 3])
    expected = (np.arange(4) - 1.5) / np.std([0, 1, 2, 3])
    assert np.array_equal(encode(schema, values).x[:, 0], expected.astype(np.float32))


def test_constants_keep_their_unit_and_far_values_saturate_instead_of_overflowing():
    schema = learned(np.full((3, 1), 7.5), np.full(3, -2.0), np.ones(3))
    assert (schema.center[0], schema.scale[0]) == (7.5, 1.0)
    assert (schema.target_center, schema.target_scale) == (-2.0, 1.0)
    assert not encode(schema, np.full((3, 1), 7.5)).x.any()
    schema = schema_of(np.array([[0.0], [1e-200], [2e-200]]))
    x = encode(schema, np.array([[1e300], [-1e300], [1e-200]])).x[:, 0]
    assert np.isfinite(x).all()
    assert x[0] > 1e29
    assert x[1] < -1e29
    assert x[2] == 0


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_every_column_and_output_has_a_scale_by_weight_and_comes_back(n_outputs):
    targets = np.array([[1e6, 0.25], [1e6 + 1, 0.5], [1e6 + 5, -3.0], [1e6, 7.0]])
    targets, names = targets[:, :n_outputs], ("rent", "share")[:n_outputs]
    weight = np.array([1.0, 2.0, 1.0, 3.0])
    options = ColumnOptions()
    columns = read_columns(1.0 * targets)
    schema = learn_schema(columns, targets, weight, options, names)
    assert schema.target_names == names
    mean = np.average(targets, axis=0, weights=weight)
    deviation = np.sqrt(np.average((targets - mean) ** 2, axis=0, weights=weight))
    np.testing.assert_allclose(schema.center, mean, rtol=1e-14)
    np.testing.assert_allclose(schema.scale, deviation, rtol=1e-9)
    np.testing.assert_allclose(schema.target_centers, mean, rtol=1e-14)
    np.testing.assert_allclose(schema.target_scales, deviation, rtol=1e-9)
    scaled = schema.scale_targets(targets)
    np.testing.assert_allclose(scaled, (targets - mean) / deviation, rtol=1e-9)
    given = targets if n_outputs == 2 else targets[:, 0]
    np.testing.assert_allclose(schema.restore_targets(scaled), given)
    if n_outputs == 1:
        values = np.array([[[0.0], [1.0]], [[-2.0], [0.5]]])  # of any shape
        restored = schema.restore_target(values)
        np.testing.assert_allclose(restored, mean + values * deviation)
        return
    for what in ("target_name", "target_center", "target_scale"):
        with refusal("has 2 outputs", "'rent', 'share'", "tree.output(i)"):
            getattr(schema, what)


MISSING = {
    "float NaN": pd.Series([1.0, np.nan, 2.0]),
    "float None": pl.Series([1.0, None, 2.0]),
    "int None": pl.Series([1, None, 2]),
    "Int64 NA": pd.array([1, pd.NA, 2], "Int64"),
    "object None": pd.Series(["a", None, "b"], dtype="object"),
    "str NaN": pd.Series(["a", np.nan, "b"], dtype="str"),
    "string NA": pd.array(["a", pd.NA, "b"], "string"),
    "object NA": pd.Series(["a", pd.NA, "b"], dtype="object"),
    "category NaN": pd.Categorical(["a", None, "b"]),
    "boolean NA": pd.array([True, pd.NA, False], "boolean"),
    "Boolean None": pl.Series([True, None, True]),
    "String None": pl.Series(["a", None, "b"]),
}


@pytest.mark.parametrize("kind", MISSING)
def test_a_missing_value_is_named_with_column_row_and_remedy(kind):
    values = MISSING[kind]
    library = pl if isinstance(values, pl.Series) else pd
    frame = library.DataFrame({"fine": [1.0, 2.0, 3.0], "holey": values})
    with pytest.raises(ValueError, match=r"NaN.*'holey', row 1\. .*[Ff]ill"):
        schema_of(frame)


LAZY = pl.DataFrame({"a": [1.0, 2.0]}).lazy()
WAVES = pd.DataFrame({"fine": [1.0, 2.0], "wave": [1.0 + 2.0j, 1.0]})
TWICE = pd.DataFrame(np.eye(2, 3), columns=["a", "b", "a"])


@pytest.mark.parametrize(
    ("X", "y", "error", "message"),
    [
        (LAZY, 1.0, TypeError, r"not read yet \(LazyFrame\).*X\.collect\(\)"),
        (WAVES, 1.0, ValueError, "column 'wave' holds complex numbers"),
        (TWICE, 1.0, ValueError, "'a'"),
        (np.array([[1e308], [-1e308]]), 1.0, ValueError, r"'x0' are too large \(1e"),
        (np.eye(2), 1e-300, ValueError, r"target 'y' are too small \(2e-300\).*Resc"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(X, y, error, message):
    with pytest.raises(error, match=message):
        learned(X, y * np.array([1.0, 2.0]), np.ones(2))


def test_the_index_of_a_dataframe_is_no_column_of_its_arrow_table():
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [3.0, 4.0]}, index=[7, 3])
    table = pa.Table.from_pandas(frame)
    assert table.column_names == ["a", "y", "__index_level_0__"]
    model = SecretRegressor()
    assert validated(model, table, reset=True).column_names == ["a", "y"]
    assert model.feature_names_in_.tolist() == ["a", "y"]
    wanted = Wanted(("y",))
    assert list(as_batch(table, wanted, "batch 0").columns) == ["a"]
    (batch,) = opened(table, wanted).batches()
    assert list(batch.columns) == ["a"]


# Columns keep their types, whatever holds them and whatever they are called


def sizes(n_rows: int = 300) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers beside categories of text, of numbers and of truth values, and dates."""
    rng = np.random.default_rng(0)
    area, new = rng.normal(size=n_rows), rng.random(n_rows) < 0.4
    size, zone = rng.integers(0, 3, n_rows), rng.integers(1, 5, n_rows)
    days = pd.to_timedelta(rng.integers(0, 900, n_rows), unit="D")
    frame = pd.DataFrame(
        {
            "area": area,
            "size": pd.Categorical.from_codes(size, ["S", "M", "L"], ordered=True),
            "zone": pd.Categorical(zone),
            "new": new,
            "sold": pd.Timestamp("2023-01-01") + days,
        }
    )
    y = 2.0 * area + 3.0 * (size > 0) + np.array([0, 4, -3, 1.0])[zone - 1] + 2.0 * new
    return frame, y + 0.1 * rng.normal(size=n_rows)


NAMES = {
    "whole numbers": range(5),
    "whole numbers in no order": [7, 3, 1, 9, 2],
    "pairs": pd.MultiIndex.from_product([["house"], list("abcde")]),
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES.keys())
def test_names_that_are_no_text_change_no_column(names):
    frame, y = sizes()
    expected = SecretRegressor(equation_tolerance=0).fit(frame, y)
    other = frame.set_axis(names, axis=1)
    read = read_columns(other)
    assert isinstance(read, list)
    for column, named in zip(read, read_columns(frame).values(), strict=True):
        assert type(column) is type(named)
        np.testing.assert_array_equal(column, named)
    assert read[1].levels == ("S", "M", "L")
    model = SecretRegressor(equation_tolerance=0).fit(other, y)
    np.testing.assert_array_equal(model.predict(other), expected.predict(frame))
    # Without names, columns are told by their order.
    np.testing.assert_array_equal(
        model.predict(other.to_numpy()), expected.predict(frame)
    )


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_rows_of_a_list_are_those_of_a_table():
    frame, y = sizes()
    frame = frame[["area", "new", "size", "zone"]].astype({"size": str, "zone": int})
    rows = [list(row) for row in frame.itertuples(index=False)]
    model, expected = SecretRegressor().fit(rows, y), SecretRegressor().fit(frame, y)
    assert model.score(rows, y) > 0.9
    for given in (rows, rows[:1]):
        predicted = expected.predict(frame[: len(given)])
        np.testing.assert_array_equal(expected.predict(given), predicted)
        np.testing.assert_array_equal(model.predict(given), predicted)


def test_truth_values_beside_gaps_are_truth_values_in_every_type():
    frame, y = sizes()
    gaps = np.arange(len(frame)) % 9 == 0
    given = frame["new"].astype("boolean").mask(gaps)
    frame = frame[["area"]].assign(new=given)
    objects = given.astype(object)
    others = [
        frame.assign(new=objects.where(~gaps, None)),
        frame.assign(new=objects.where(~gaps, np.nan)),
        frame.astype({"new": "bool[pyarrow]"}),
    ]
    model = SecretRegressor().fit(frame, y)
    assert "[new = True]" in model.export_text()
    for other in others:
        np.testing.assert_array_equal(model.predict(other), model.predict(frame))
        again = SecretRegressor().fit(other, y)
        np.testing.assert_array_equal(again.predict(frame), model.predict(frame))


# A column of text that holds nothing in training is one of categories.
EMPTY = {
    "object": lambda n: pd.Series([None] * n, dtype=object),
    "object of NaN": lambda n: pd.Series([np.nan] * n, dtype=object),
    "str": lambda n: pd.Series([None] * n, dtype="str"),
    "string": lambda n: pd.Series([pd.NA] * n, dtype="string"),
    "category": lambda n: pd.Series([None] * n, dtype="category"),
    "ordered": lambda n: pd.Series(pd.Categorical([None] * n, [], ordered=True)),
}


def hinge(n: int = 300) -> tuple[pd.DataFrame, np.ndarray]:
    random = np.random.default_rng(0)
    X = pd.DataFrame({"x": random.normal(size=n)})
    return X, np.maximum(X["x"].to_numpy(), 0) + 0.1 * random.normal(size=n)


@pytest.mark.parametrize("kind", EMPTY)
def test_text_may_come_later(kind):
    X, y = hinge()
    with_text = X.assign(note=EMPTY[kind](len(X)))
    model = SecretRegressor().fit(with_text, y)
    assert model.tree_.schema.roles[1] is Role.DISCRETE
    for of in (pl.from_pandas, pa.Table.from_pandas) if kind == "string" else ():
        other = SecretRegressor().fit(of(with_text), y)
        assert other.tree_.schema.roles[1] is Role.DISCRETE
        assert np.isfinite(other.predict(of(X.assign(note="sold")))).all()
    expected = model.predict(with_text)
    np.testing.assert_array_equal(model.predict(X.assign(note="sold")), expected)
    assert model.score(with_text, y) > 0.9


def test_streams_that_begin_without_a_value():
    X, y = hinge()
    first = X[:150].assign(note=EMPTY["object"](150))
    later = X[150:].assign(note="sold")
    model = SecretRegressor().fit_stream([(first, y[:150]), (later, y[150:])])
    assert model.tree_.schema.categories == (("sold", None),)


def test_numbers_without_a_value_stay_numbers():
    X, y = hinge()
    for gaps in (np.nan, pd.Series([pd.NA] * len(X), dtype="Int64")):
        model = SecretRegressor().fit(X.assign(n=gaps), y)
        assert model.tree_.schema.roles[1] is not Role.DISCRETE
        assert np.isfinite(model.predict(X.assign(n=3.0))).all()
    array = np.column_stack([X["x"].astype(object), np.full(len(X), np.nan, object)])
    assert SecretRegressor().fit(array, y).tree_.schema.roles[1] is not Role.DISCRETE


def test_a_field_that_began_lately_has_no_folds_without_a_score():
    X, y = hinge()
    note = np.where(np.arange(len(X)) < 250, None, "new")
    X = X.assign(note=pd.Series(note, dtype=object))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        scores = cross_val_score(SecretRegressor(), X, y, cv=6, error_score="raise")
        assert np.isfinite(scores).all()
        model = SecretClassifier().fit(X[:200], y[:200] > 0.3)
        assert np.isfinite(model.predict_proba(X)).all()
