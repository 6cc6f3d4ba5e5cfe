"""Dates, times of zones and ordered categories, in fit, predict, text and code."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from exported_code import by_sql, run_onnx, run_python
from schemas import learn_schema
from sklearn.base import clone

from secret_jax import SecretRegressor
from secret_jax.data.columns import UnseenCategoryWarning, read_columns
from secret_jax.data.dates import calendar, on_the_wall
from secret_jax.data.learning import ColumnOptions
from secret_jax.data.schema import Attributes, Role, TableSchema

SIZES = ["small", "medium", "large"]
HOURS = {"oblique": False, "splits": "cart", "leaf": "constant", "distill": False}


def make_table(n_rows: int = 400) -> tuple[pd.DataFrame, pd.Series]:
    """A step in the middle of every year, a trend, and a step from medium to large."""
    rng = np.random.default_rng(0)
    days = pd.to_timedelta(rng.integers(0, 700, n_rows), unit="D")
    frame = pd.DataFrame(
        {
            "sold": pd.Timestamp("2019-01-01") + days,
            "a": rng.normal(size=n_rows),
            "size": pd.Categorical(rng.choice(SIZES, n_rows), SIZES, ordered=True),
        }
    )
    late = (frame["sold"].dt.month > 6).to_numpy(float)
    y = 40 * late + 8 * (frame["size"] == "large") + 0.01 * days.days + frame["a"]
    return frame, y.rename("price")


def schema_of(X, **options) -> TableSchema:
    table = read_columns(X)
    n_rows = len(X)
    y = np.arange(float(n_rows))[:, None]
    return learn_schema(table, y, np.ones(n_rows), ColumnOptions(**options))


@pytest.fixture(scope="module")
def fitted() -> SecretRegressor:
    model = SecretRegressor(**HOURS | {"leaf": "linear"}, max_leaf_nodes=4)
    return model.fit(*make_table())


def test_parts_are_those_of_the_calendar():
    rng = np.random.default_rng(1)
    stamps = pd.to_datetime(rng.integers(-3e9, 6e9, 1000), unit="s")
    found = calendar("t", stamps.to_numpy().astype("datetime64[s]"))
    expected = {
        "t (year)": stamps.year,
        "t (month)": stamps.month,
        "t (weekday)": stamps.day_of_week + 1,
        "t (hour)": stamps.hour + stamps.minute / 60 + stamps.second / 3600,
        "t (days since 1970)": [stamp.toordinal() - 719163 for stamp in stamps],
    }
    for name, values in expected.items():
        assert np.allclose(found[name], np.asarray(values, float)), name
    parts = tuple(found)
    dates = Attributes(names=parts, named=True, roles=(), dates=(("t", parts),))
    days = found["t (days since 1970)"].astype(int).tolist()
    written = [dates.place_written(4, day)[1] for day in days]
    assert written == stamps.strftime("%Y-%m-%d").tolist()


def test_weekdays_are_said_in_words():
    """Pandas counts Monday as 0, and others as 1."""
    X = pd.DataFrame({"sold": pd.date_range("2024-01-01", periods=420)})
    weekday = X["sold"].dt.day_of_week
    model = SecretRegressor(max_leaf_nodes=2, leaf="constant", oblique=False)
    text = model.fit(X, 10.0 * (weekday >= 5)).export_text()
    for word, days in (("if", "Mon..Fri"), ("else", "Sat..Sun")):
        assert f"[0] {word} sold (weekday) in {days}\n" in text
    why = str(model.explain(X[weekday == 6][:1]))
    assert "sold (weekday) in Sat..Sun" in why
    assert "sold (weekday) = Sun" in why


def test_a_column_of_dates_is_chosen_as_a_whole_or_by_its_parts():
    frame = make_table(40)[0]
    schema = schema_of(frame)
    parts = ("year", "month", "weekday", "hour", "days since 1970")
    assert schema.names[:5] == tuple(f"sold ({part})" for part in parts)
    assert schema.input_names == ("sold", "a", "size")
    assert schema.roles[:5] == (*[Role.SPLIT] * 4, Role.REGRESSOR)
    assert [schema.origin(i).part for i in range(5)] == list(parts)
    assert set(schema_of(frame, split_features=["sold"]).roles[:5]) == {Role.SPLIT}
    assert schema_of(frame, split_features=[0]).roles[4] is Role.SPLIT
    schema = schema_of(frame, categorical_features=["sold (month)", "size"])
    assert schema.roles[1] is Role.DISCRETE
    assert schema.categories[1] == ("large", "medium", "small")
    with pytest.raises(ValueError, match=r"unknown column 'sale'.* 'sold', 'a', 'size"):
        schema_of(frame, split_features=["sale"])
    with pytest.raises(ValueError, match=r"times of column 'sold' need .*\(year\)"):
        schema_of(frame.assign(**{"sold (year)": 1.0}))


def test_files_keep_the_order(fitted, tmp_path):
    frame, y = make_table()
    frame.assign(price=y).to_parquet(tmp_path / "table.parquet", row_group_size=150)
    stream = clone(fitted).fit_stream(tmp_path / "table.parquet", "price")
    assert stream.tree_.schema.roles == fitted.tree_.schema.roles
    np.testing.assert_allclose(stream.predict(frame), fitted.predict(frame), 1e-9)


@pytest.mark.parametrize("ordered", [False, True])
def test_arrow_categories_may_be_missing_and_differ_between_chunks(ordered):
    def chunk(places: list, known: list) -> pa.DictionaryArray:
        places = pa.array(places, pa.int8())
        return pa.DictionaryArray.from_arrays(places, known, ordered=ordered)

    parts = [chunk([0, None, 1], ["s", "m"]), chunk([1, 0, None], ["m", "l"])[1:]]
    column = read_columns(pa.table({"size": pa.chunked_array(parts)}))["size"]
    assert column.tolist() == ["s", None, "m", "m", None]
    assert getattr(column, "levels", ()) == (("s", "m", "l") if ordered else ())


def as_objects(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(sold=frame["sold"].dt.date, size=frame["size"].astype(str))


SAME = {
    "polars": pl.from_pandas,
    "pyarrow": pa.Table.from_pandas,
    "polars dates": lambda f: pl.from_pandas(f).with_columns(
        pl.col("sold").cast(pl.Date)
    ),
    "text and objects": as_objects,
    "periods": lambda f: f.assign(sold=f["sold"].dt.to_period("D")),
    "another order of columns": lambda f: f[["size", "sold", "a"]],
}


@pytest.mark.parametrize("kind", SAME)
def test_the_same_dates_and_levels_of_any_kind_are_the_same(fitted, kind):
    frame, y = make_table()
    expected = fitted.predict(frame)
    assert np.array_equal(fitted.predict(SAME[kind](frame)), expected)
    if kind in ("polars", "pyarrow", "periods"):
        again = clone(fitted).fit(SAME[kind](frame), y.to_numpy())
        np.testing.assert_allclose(again.predict(frame), expected, rtol=1e-6)


def test_dates_without_names_and_in_arrays():
    frame, y = make_table()
    model = SecretRegressor(**HOURS | {"leaf": "linear"}, max_depth=1)
    dates = np.stack([frame["sold"].to_numpy()] * 2, axis=1)
    assert "x0 (month) <= 6" in model.fit(dates, y).export_text()
    expected = model.predict(dates)
    assert np.array_equal(model.predict(dates.astype("datetime64[D]")), expected)
    of_python = dates.astype("datetime64[us]").astype(object)  # of nanoseconds: numbers
    assert np.array_equal(model.predict(of_python), expected)
    assert model.n_features_in_ == 2
    assert model.feature_importances_.shape == (2,)


def test_texts_and_files_name_months_levels_and_days(fitted, tmp_path):
    days = pd.date_range("2021-01-01", periods=200, freq="D")
    model = SecretRegressor(**HOURS, max_depth=1)
    text = model.fit(pd.DataFrame({"day": days}), days > "2021-04-10").export_text()
    assert "if day <= 2021-04-10" in text  # the last one below
    assert "else day > 2021-04-10" in text
    text = fitted.export_text()
    assert "if sold (month) <= 6" in text
    assert "if size <= medium" in text
    assert "else size > medium" in text
    frame, _ = make_table()
    why = str(fitted.explain(frame[:1]))
    day, size = frame["sold"].iloc[0], frame["size"].iloc[0]
    assert f"sold (days since 1970) = {day:%Y-%m-%d}" in why
    assert f"size = {size}" in why
    assert len(fitted.feature_importances_) == len(fitted.feature_names_in_) == 3
    assert fitted.feature_importances_[0] > 0.8
    fitted.save(tmp_path / "dates.model")
    loaded = SecretRegressor.load(tmp_path / "dates.model")
    assert np.array_equal(loaded.predict(frame), fitted.predict(frame))
    assert loaded.export_text() == fitted.export_text()


def test_missing_dates_and_unknown_levels_count_as_missing(fitted):
    frame, _ = make_table()
    nothing = frame[:5].assign(sold=pd.NaT, size=None)
    expected = fitted.predict(nothing)
    assert np.isfinite(expected).all()
    assert np.array_equal(fitted.predict(nothing.assign(sold=None)), expected)
    with pytest.warns(UnseenCategoryWarning, match="'size' .* 'huge'.* no place"):
        found = fitted.predict(nothing.assign(size="huge"))
    assert np.array_equal(found, expected)


def test_what_is_no_date_any_more_or_never_was_is_refused(fitted):
    frame, _ = make_table()
    with pytest.raises(ValueError, match=r"'sold' held dates .* 'Monday'.*to_datetime"):
        fitted.predict(frame.assign(sold="Monday"))
    with pytest.raises(ValueError, match=r"'a' holds dates or times, and held none"):
        fitted.predict(frame.assign(a=frame["sold"]))
    with pytest.raises(ValueError, match=r"X lacks 'sold'\. .* 'sold', 'a', 'size'"):
        fitted.predict(frame.drop(columns="sold"))


def test_programs_take_dates_and_levels(fitted):
    frame, _ = make_table()
    frame.loc[3, "sold"], frame.loc[4, "size"] = pd.NaT, None
    expected = fitted.predict(frame)
    # Python takes the dates themselves, also as text.
    code = fitted.export_code()
    found = run_python(code, frame.to_dict("records"))
    assert np.allclose(found, expected, atol=1e-4)
    texts = frame.assign(sold=frame["sold"].dt.strftime("%Y-%m-%d"))
    assert np.array_equal(run_python(code, texts.to_dict("records")), found)
    # Elsewhere parts of dates are columns; a model takes these as well.
    parts = calendar("sold", frame.pop("sold").to_numpy("datetime64[s]"))
    frame = frame.assign(**parts)
    note = "Numbers to compute from sold: sold (year), sold (month)"
    assert fitted.export_code("sql").startswith(f"-- {note}")
    assert note in fitted.export_code("onnx").graph.doc_string
    (again,) = run_onnx(fitted.export_code("onnx"), frame)
    np.testing.assert_allclose(again, found, atol=1e-9)
    again = by_sql(fitted.tree_, frame.astype({"size": object}))
    np.testing.assert_allclose(again, found, atol=1e-9)


OPENS = [datetime.time(6 + i // 60, i % 60) for i in range(200)]
TIMES = {
    "pandas": lambda t: pd.DataFrame({"opens": t}),
    "polars": lambda t: pl.DataFrame({"opens": t}),
    "pyarrow": lambda t: pa.table({"opens": t}),
}


@pytest.mark.parametrize("kind", TIMES)
def test_times_of_day_are_minutes_that_are_written_as_times(kind, tmp_path):
    make, y = TIMES[kind], np.array([time >= datetime.time(7, 30) for time in OPENS])
    model = SecretRegressor(**HOURS, max_depth=1).fit(make(OPENS), 1.0 * y)
    assert model.tree_.schema.names == ("opens (minutes since midnight)",)
    text = model.export_text()
    assert "if opens <= '7:29'" in text
    assert "else opens > '7:29'" in text
    np.testing.assert_allclose(model.predict(make(OPENS)), y, atol=1e-6)
    assert "opens" in str(model.explain(make(OPENS)[:1]))
    model.save(tmp_path / "times")
    again = SecretRegressor.load(tmp_path / "times")
    missing = make([None, *OPENS[1:]])
    np.testing.assert_array_equal(
        again.predict(missing)[1:], model.predict(missing)[1:]
    )
    code = model.export_code()
    for form in (str, datetime.time.isoformat, lambda time: time):
        found = run_python(code, [{"opens": form(time)} for time in OPENS])
        np.testing.assert_allclose(found, y, atol=1e-6)
    with pytest.raises(ValueError, match=r"'opens' held times of day .* 'noon'"):
        model.predict(make(["noon"]))


def test_numbers_of_128_bits_are_numbers():
    x = np.arange(60, dtype=np.longdouble)[:, None]
    y = (x[:, 0] > 30).astype(np.longdouble)
    model = SecretRegressor(**HOURS).fit(x, y)
    expected = model.predict(x.astype(float))
    np.testing.assert_array_equal(model.predict(x), expected)
    named = pd.DataFrame({"x": x[:, 0]})
    found = SecretRegressor(**HOURS).fit(named, y).predict(named)
    np.testing.assert_array_equal(found, expected)


# Times of a zone: an instant is the same one in every zone


def hours(zone: str | None = "Europe/Berlin") -> tuple[pd.DataFrame, np.ndarray]:
    """Hours of some weeks around the end of summer time, and what clocks tell."""
    sold = pd.date_range("2024-10-01", periods=1200, freq="h", tz="Europe/Berlin")
    y = np.where(sold.hour < 12, 0.0, 9.0)
    sold = sold.tz_localize(None) if zone is None else sold.tz_convert(zone)
    return pd.DataFrame({"sold": sold}), y


SAME_INSTANTS = {
    "another zone": lambda f: f.assign(sold=f["sold"].dt.tz_convert("Asia/Tokyo")),
    "Greenwich": lambda f: f.assign(sold=f["sold"].dt.tz_convert("UTC")),
    "an offset": lambda f: f.assign(
        sold=f["sold"].dt.tz_convert(datetime.timezone(datetime.timedelta(hours=-3.5)))
    ),
    "polars": lambda f: pl.from_pandas(f).with_columns(
        pl.col("sold").dt.convert_time_zone("America/New_York")
    ),
    "Arrow": lambda f: pa.Table.from_pandas(
        f.assign(sold=f["sold"].dt.tz_convert("+05:30"))
    ),
    "objects": lambda f: f.assign(
        sold=pd.Series(f["sold"].dt.to_pydatetime(), dtype=object)
    ),
}


@pytest.mark.parametrize("kind", SAME_INSTANTS)
def test_an_instant_in_another_zone_is_the_same(kind, tmp_path):
    frame, y = hours()
    model = SecretRegressor(**HOURS, max_depth=1).fit(frame, y)
    assert model.tree_.schema.zones == (("sold", "Europe/Berlin"),)
    assert "sold (hour)" in model.export_text()
    code, instants = model.export_code(), frame["sold"].dt.tz_convert("UTC")
    found = run_python(code, [{"sold": one} for one in instants])
    np.testing.assert_allclose(found, y, atol=1e-6)
    np.testing.assert_allclose(model.predict(frame), y, atol=1e-6)
    other = SAME_INSTANTS[kind](frame)
    np.testing.assert_allclose(model.predict(other), y, atol=1e-6)
    # The zone is that of the fit, also of a stream and in a file.
    model = SecretRegressor(**HOURS).fit(other, y)
    expected = model.predict(other)
    np.testing.assert_array_equal(model.predict(frame), expected)
    model.save(tmp_path / "model")
    again = SecretRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(frame), expected)
    parts = np.array_split(np.arange(len(y)), 3)
    several = [
        (SAME_INSTANTS[kind](frame.iloc[part].reset_index(drop=True)), y[part])
        for part in parts
    ]
    streamed = SecretRegressor(**HOURS).fit_stream(several)
    np.testing.assert_allclose(streamed.predict(frame), expected, atol=1e-9)


@pytest.mark.parametrize("fitted_in", ["Europe/Berlin", None])
def test_times_with_and_without_a_zone_are_not_mixed(fitted_in):
    frame, y = hours(fitted_in)
    other, _ = hours(None if fitted_in else "UTC")
    model = SecretRegressor(**HOURS).fit(frame, y)
    call = r"dt\.tz_localize\('Europe/Berlin'\)" if fitted_in else r"tz_localize\(None"
    with pytest.raises(ValueError, match=rf"'sold' now holds .*\['sold'\]\..*{call}"):
        model.predict(other)
    with pytest.raises(ValueError, match="In batch 1: Column 'sold' now holds times"):
        SecretRegressor().fit_stream([(frame, y), (other, y)])
    assert np.isfinite(model.predict(frame.assign(sold=pd.NaT))).all()
    cells = frame["sold"].astype(object)
    cells.iloc[7] = pd.Timestamp("2024-10-01", tz=None if fitted_in else "UTC")
    with pytest.raises(ValueError, match=r"with a time zone and times without one"):
        SecretRegressor().fit(frame.assign(sold=cells), y)


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe"]
)
def test_clocks_on_walls_are_those_of_pandas(zone):
    instants = pd.date_range("1969-12-20", "2030-01-01", freq="7h11min", tz="UTC")
    found = on_the_wall(instants.tz_localize(None).to_numpy("M8[s]"), zone)
    expected = instants.tz_convert(zone).tz_localize(None).to_numpy("M8[s]")
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="no time zone 'Middle/Earth'"):
        on_the_wall(np.zeros(1, "M8[s]"), "Middle/Earth")


def test_the_first_row_does_not_choose_among_several_zones():
    frame, y = hours()
    offsets = [datetime.datetime.fromisoformat(t.isoformat()) for t in frame["sold"]]
    assert len({each.tzinfo for each in offsets}) == 2  # of summer and of winter
    mixed = pd.DataFrame({"sold": pd.Series(offsets, dtype=object)})
    first = SecretRegressor(**HOURS).fit(mixed, y)
    last = SecretRegressor(**HOURS).fit(mixed[::-1], y[::-1])
    np.testing.assert_allclose(first.predict(mixed), last.predict(mixed), atol=1e-6)
