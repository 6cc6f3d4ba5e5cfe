"""Synthetic sets against closed forms; loading from folders, and from a fake OpenML."""

import os
from types import SimpleNamespace

import jax
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from secret_jax import datasets
from secret_jax.datasets import (
    DISCRETE,
    OPENML,
    available,
    load,
    make_3dsin,
    make_cart,
    make_fried,
)

DATA = os.environ.get("SECRET_JAX_DATA", "")
needs_data = pytest.mark.skipif(
    not DATA, reason="SECRET_JAX_DATA names no folder of real data sets"
)
GENERATORS = (make_3dsin, make_fried, make_cart)
N = 50_000
everywhere = pytest.mark.parametrize("device", [None, "cpu"])
# The formulas of float32 columns, in float32.
TOLERANCE = {None: {"rtol": 1e-12, "atol": 1e-12}, "cpu": {"rtol": 0, "atol": 4e-5}}


def made(make, device, **options):
    """Rows of NumPy or of JAX, in float64."""
    return [np.asarray(a, np.float64) for a in make(N, device=device, **options)]


def assert_independent(*columns):
    """Sample correlations are within five of their standard errors (p < 1e-6)."""
    correlation = np.corrcoef(columns)
    off_diagonal = correlation[~np.eye(len(correlation), dtype=bool)]
    assert np.abs(off_diagonal).max() <= 5 / np.sqrt(N)


def assert_uniform(X, low, high):
    """Columns are uniform, by Kolmogorov and Smirnov, and independent."""
    for x in X.T:
        assert low <= x.min() < x.max() <= high
        assert stats.kstest(x, stats.uniform(low, high - low).cdf).pvalue > 1e-6
    assert_independent(*X.T)


def assert_normal(noise, X):
    """Noise has a standard normal distribution, and is that of no attribute."""
    assert stats.kstest(noise, "norm").pvalue > 1e-6
    assert_independent(noise, *X.T)


# Synthetic sets


@everywhere
@pytest.mark.parametrize("make", GENERATORS)
def test_seeds_draw_the_same_rows_whatever_jax_is_set_to(make, device):
    X, y = make(device=device)
    assert X.shape == (16384, 2 if make is make_3dsin else 10)
    assert X.dtype == y.dtype == (np.float32 if device else np.float64)
    assert isinstance(X, jax.Array) == bool(device)
    random = np.random.default_rng(3)
    first, again, other = (
        make(50, random_state=seed, device=device) for seed in (3, random, random)
    )
    with (
        jax.default_prng_impl("rbg"),
        jax.threefry_partitionable(False),
        jax.enable_x64(True),
        jax.numpy_dtype_promotion("strict"),
    ):
        set_otherwise = make(50, random_state=3, device=device and f"{device}:0")
    for a, *same, c in zip(first, again, set_otherwise, other, strict=True):
        for b in same:
            np.testing.assert_array_equal(a, b)
        assert not np.array_equal(a, c)


@everywhere
def test_3dsin_is_its_formula_without_noise(device):
    X, y = made(make_3dsin, device, random_state=0)
    np.testing.assert_allclose(y, 3 * np.prod(np.sin(X), axis=1), **TOLERANCE[device])
    assert_uniform(X, -3, 3)


@everywhere
def test_fried_is_its_formula_and_noise(device):
    X, y = made(make_fried, device, random_state=0)
    assert_uniform(X, 0, 1)
    without = made(make_fried, device, noise=0, random_state=0)[1]
    assert_normal(y - without, X)
    expected = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 5 * (
        4 * (X[:, 2] - 0.5) ** 2 + 2 * X[:, 3] + X[:, 4]
    )
    np.testing.assert_allclose(without, expected, **TOLERANCE[device])
    assert make_fried(9, n_features=12, device=device)[0].shape == (9, 12)


@everywhere
def test_cart_is_its_formula_and_noise(device):
    X, y = made(make_cart, device, random_state=1)
    for column, values in zip(X.T, [[-1, 1], *[[-1, 0, 1]] * 9], strict=True):
        found, counts = np.unique(column, return_counts=True)
        assert found.tolist() == values
        assert stats.chisquare(counts).pvalue > 1e-6
    assert_independent(*X.T)
    x = dict(enumerate(X.T, start=1))
    left = -3 + 3 * x[5] + 2 * x[6] + x[7]
    noise = y - np.where(x[1] == 1, 3 + 3 * x[2] + 2 * x[3] + x[4], left)
    assert_normal(noise, X)
    more = made(make_cart, device, noise=np.sqrt(2), random_state=1)[1]
    doubled = more - (y - noise)
    np.testing.assert_allclose(doubled, np.sqrt(2) * noise, **TOLERANCE[device])


@pytest.mark.parametrize(
    ("make", "argument", "value"),
    [
        *((make, "n_samples", value) for make in GENERATORS for value in (0, 2.0, "9")),
        (make_fried, "n_features", 4),
        *((make, "noise", v) for make in GENERATORS[1:] for v in (-1, np.nan, "1")),
        (make_cart, "device", 3),
    ],
)
def test_bad_arguments_are_named(make, argument, value):
    with pytest.raises(ValueError, match=f"'{argument}' parameter of {make.__name__}"):
        make(**{argument: value})


def test_a_device_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="device='card' names no device"):
        make_fried(50, device="card")


# Folders


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with three CSV files; the environment variable names no other one."""
    monkeypatch.delenv("SECRET_JAX_DATA", raising=False)
    (tmp_path / "houses.csv").write_text(
        "size,colour,sold,rooms,price\n1.5,red,True,2,10\n2.5,blue,False,3,30\n"
    )
    (tmp_path / "auto_mpg.csv").write_text(
        "cylinders,weight,model_year,origin,mpg\n8,3504,70,1,18\n4,2130,71,3,27\n"
    )
    (tmp_path / "stock.csv").write_text("colour,value\nred,1\nblue,2\n")
    return tmp_path


def test_any_csv_can_be_loaded_and_goes_before_openml(
    folder, tmp_path_factory, monkeypatch
):
    houses = load("houses", folder)
    assert houses.target == "price"
    assert list(houses.X.columns) == ["size", "colour", "sold", "rooms"]
    assert houses.discrete == ("colour", "sold")
    np.testing.assert_array_equal(houses.y, [10.0, 30.0])
    assert houses.y.dtype == np.float64
    assert load("auto_mpg", folder).discrete == ("cylinders", "model_year", "origin")
    stock = load("stock", folder)  # has columns of its own
    assert (stock.target, stock.discrete) == ("value", ("colour",))
    other = tmp_path_factory.mktemp("other")
    (other / "houses.csv").write_text("size,cost\n1,5\n")
    monkeypatch.setenv("SECRET_JAX_DATA", str(other))
    assert load("houses").target == "cost"
    assert load("houses", folder).target == "price"


def test_available_lists_files_and_openml(folder):
    with_folder, without = available(folder), available()
    assert set(with_folder) - set(without) == {"houses"}
    assert {"abalone", "boston", "kin8nm", "auto_mpg", "stock", "ta"} <= set(without)
    assert "mumps_1968_2002" not in without  # OpenML does not have it
    assert list(with_folder) == sorted(with_folder)


@pytest.mark.parametrize("name", ["nothing", "mumps_1968_2002", "../houses"])
def test_unknown_names_list_the_known(folder, name):
    with pytest.raises(ValueError, match=r"Known are abalone, .*houses.*data_home"):
        load(name, folder)


def test_missing_folder_is_named(folder, monkeypatch):
    with pytest.raises(ValueError, match=r"no folder '.*gone', which data_home names"):
        load("houses", folder / "gone")
    monkeypatch.setenv("SECRET_JAX_DATA", str(folder / "gone"))
    with pytest.raises(ValueError, match="variable SECRET_JAX_DATA names"):
        available()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,kind\n1,4\n2,tall\n", "Column 'kind' .* row 1 holds 'tall'"),
        ("a,y\n1,4\n2,\n", "Column 'y' .* row 1 holds .*nan"),
        ("a,y\n1,inf\n", "Column 'y' .* row 0 holds .*inf"),
    ],
)
def test_bad_files_are_refused_with_a_reason(folder, text, message):
    (folder / "bad.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        load("bad", folder)


# OpenML


@pytest.fixture
def openml(folder, monkeypatch):
    """Stand-in for OpenML: a dict of data frames by id; no folder is named."""
    frames = {}

    def fetch(*, data_id, as_frame):
        assert as_frame
        return SimpleNamespace(frame=frames[data_id])

    monkeypatch.setattr(datasets, "fetch_openml", fetch)
    return frames


def test_openml_columns_are_renamed_and_typed(openml):
    openml[196] = pd.DataFrame(
        {
            "cylinders": pd.Categorical(["8", "4", "3"]),
            "displacement": [307.0, 98.0, 70.0],
            "horsepower": [130.0, np.nan, 97.0],
            "weight": [3504.0, 2046.0, 2330.0],
            "acceleration": [12.0, 19.0, 13.5],
            "model": pd.Categorical(["70", "71", "72"]),
            "origin": pd.Categorical(["1", "1", "3"]),
            "class": [18.0, 25.0, 19.0],
        }
    )
    cars = load("auto_mpg")
    assert cars.target == "mpg"
    np.testing.assert_array_equal(cars.y, [18.0, 19.0])  # the row with NaN is out
    assert cars.discrete == ("cylinders", "model_year", "origin")
    assert cars.X["model_year"].tolist() == [70, 72]
    assert cars.X.index.tolist() == [0, 1]


def test_unreachable_openml_points_to_a_folder(folder, monkeypatch):
    def fetch(**_):
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "fetch_openml", fetch)
    with pytest.raises(OSError, match=r"'stock' .*no route.*stock\.csv.*data_home"):
        load("stock")


# Real data

# name: rows, predictors, target's range, discrete columns, R² of one least-squares fit
REAL = {
    "abalone": (4177, 8, (1, 29), 1, 0.538),
    "auto_mpg": (392, 7, (9, 46.6), 3, 0.821),
    "baseball": (263, 22, (67.5, 2460), 6, 0.707),
    "baseball_log": (263, 22, (4.21, 7.81), 6, 0.720),
    "boston": (506, 13, (5, 50), 2, 0.741),
    "kin8nm": (8192, 8, (0.040, 1.459), 0, 0.414),
    "mumps_1968_2002": (1446, 3, (0, 9.73), 0, 0.530),
    "stock": (950, 9, (34, 62), 0, 0.874),
    "ta": (151, 5, (1, 3), 4, 0.174),
    "tecator": (240, 10, (0.9, 58.5), 0, 0.950),
    "tecator_absorbance": (240, 100, (0.9, 58.5), 0, 0.995),
}


@needs_data
@pytest.mark.data
@pytest.mark.parametrize("name", REAL)
def test_real_sets_are_what_they_are_known_to_be(name):
    n_rows, n_predictors, target_range, n_discrete, r_squared = REAL[name]
    X, y, _, discrete = load(name, DATA)
    assert X.shape == (n_rows, n_predictors)
    assert y.shape == (n_rows,)
    np.testing.assert_allclose([y.min(), y.max()], target_range, atol=5e-3)
    assert len(discrete) == n_discrete
    assert not X.isna().any(axis=None)
    indicators = pd.get_dummies(X, drop_first=True, dtype=float).to_numpy()
    design = np.column_stack([np.ones(n_rows), indicators])
    error = np.mean((y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) ** 2)
    assert abs(1 - error / y.var() - r_squared) <= 5e-4


@needs_data
@pytest.mark.data
@pytest.mark.parametrize("name", OPENML)
def test_openml_gives_what_the_file_gives(name, openml):
    expected = load(name, DATA)
    frame = expected.X.assign(**{expected.target: expected.y})
    for column in DISCRETE.get(name, ()):  # OpenML has categories of text
        frame[column] = frame[column].astype(str).astype("category")
    theirs = [each.partition("=")[0] for each in datasets._COLUMNS[name].split()]
    openml[OPENML[name]] = frame.set_axis(theirs, axis=1).assign(not_wanted=0)[::-1]

    loaded = load(name)
    assert loaded.target == expected.target
    assert loaded.discrete == expected.discrete
    pd.testing.assert_frame_equal(
        loaded.X[::-1].reset_index(drop=True), expected.X, check_dtype=False
    )
    np.testing.assert_allclose(loaded.y[::-1], expected.y, rtol=1e-12)
