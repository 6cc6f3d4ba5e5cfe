"""Times of a zone: an instant is the same one in every zone."""

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from secret_jax import SecretRegressor
from secret_jax.data.dates import on_the_wall

HOURS = {"oblique": False, "splits": "cart", "leaf": "constant", "distill": False}


def table(zone: str | None = "Europe/Berlin") -> tuple[pd.DataFrame, np.ndarray]:
    """Hours of some weeks around the end of summer time, and what clocks tell."""
    sold = pd.date_range("2024-10-01", periods=1200, freq="h", tz="Europe/Berlin")
    y = np.where(sold.hour < 12, 0.0, 9.0)
    sold = sold.tz_localize(None) if zone is None else sold.tz_convert(zone)
    return pd.DataFrame({"sold": sold}), y


def as_objects(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(sold=pd.Series(frame["sold"].dt.to_pydatetime(), dtype=object))


SAME = {
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
    "objects": as_objects,
}


@pytest.mark.parametrize("kind", SAME)
def test_an_instant_in_another_zone_is_the_same(kind):
    frame, y = table()
    model = SecretRegressor(**HOURS, max_depth=1).fit(frame, y)
    assert model.tree_.schema.zones == (("sold", "Europe/Berlin"),)
    assert "sold (hour)" in model.export_text()
    np.testing.assert_allclose(model.predict(frame), y, atol=1e-6)
    np.testing.assert_allclose(model.predict(SAME[kind](frame)), y, atol=1e-6)


@pytest.mark.parametrize("kind", ["polars", "Arrow", "an offset", "objects"])
def test_the_zone_is_that_of_the_fit(kind, tmp_path):
    frame, y = table()
    parts = np.array_split(np.arange(len(y)), 3)
    model = SecretRegressor(**HOURS).fit(SAME[kind](frame), y)
    expected = model.predict(SAME[kind](frame))
    np.testing.assert_array_equal(model.predict(frame), expected)
    model.save(tmp_path / "model")
    again = SecretRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(frame), expected)
    several = [SAME[kind](frame.iloc[part].reset_index(drop=True)) for part in parts]
    pairs = [(part, y[rows]) for part, rows in zip(several, parts, strict=True)]
    streamed = SecretRegressor(**HOURS).fit_stream(pairs)
    np.testing.assert_allclose(streamed.predict(frame), expected, atol=1e-9)


@pytest.mark.parametrize("fitted_in", ["Europe/Berlin", None])
def test_times_with_and_without_a_zone_are_not_mixed(fitted_in):
    frame, y = table(fitted_in)
    other, _ = table(None if fitted_in else "UTC")
    model = SecretRegressor(**HOURS).fit(frame, y)
    call = r"dt\.tz_localize\('Europe/Berlin'\)" if fitted_in else r"tz_localize\(None"
    with pytest.raises(ValueError, match=rf"'sold' now holds .*\['sold'\]\..*{call}"):
        model.predict(other)
    with pytest.raises(ValueError, match="In batch 1: Column 'sold' now holds times"):
        SecretRegressor().fit_stream([(frame, y), (other, y)])
    assert np.isfinite(model.predict(frame.assign(sold=pd.NaT))).all()


def test_one_column_with_and_without_zones_is_refused():
    frame, y = table()
    cells = frame["sold"].astype(object)
    cells.iloc[7] = pd.Timestamp("2024-10-01")
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
    assert str(ZoneInfo(zone)) == zone


def test_an_unknown_zone_is_named():
    with pytest.raises(ValueError, match="no time zone 'Middle/Earth'"):
        on_the_wall(np.zeros(1, "M8[s]"), "Middle/Earth")


def test_the_first_row_does_not_choose_among_several_zones():
    frame, y = table()
    offsets = [datetime.datetime.fromisoformat(t.isoformat()) for t in frame["sold"]]
    assert len({each.tzinfo for each in offsets}) == 2  # of summer and of winter
    mixed = pd.DataFrame({"sold": pd.Series(offsets, dtype=object)})
    first = SecretRegressor(**HOURS).fit(mixed, y)
    last = SecretRegressor(**HOURS).fit(mixed[::-1], y[::-1])
    np.testing.assert_allclose(first.predict(mixed), last.predict(mixed), atol=1e-6)
