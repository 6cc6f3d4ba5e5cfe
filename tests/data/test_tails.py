"""Columns with far tails are flat beyond bounds, and everything that reads says so."""

import numpy as np
import pandas as pd
import pytest
from exported_code import assert_predicts, by_python, by_sql
from schemas import learn_schema

from secret_jax import Ridge, SecretRegressor, SoftGates
from secret_jax.data.columns import read_columns
from secret_jax.data.learning import ColumnOptions
from secret_jax.data.rows import unweighted
from secret_jax.data.scaling import column_sums, left_out_residuals, with_flat_tails

N_ROWS = 1200


def table(seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Incomes with a far upper tail; their logarithm would be a straight line."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "income": np.round(rng.lognormal(3.0, 1.2, N_ROWS), 1),
            "age": rng.integers(18, 70, N_ROWS).astype(float),
            "home": rng.choice(["own", "rent"], N_ROWS),
        }
    )
    frame.loc[::11, "income"] = np.nan
    useful = np.minimum(frame["income"].fillna(20.0), 150.0)
    y = 0.1 * useful + 0.05 * frame["age"] + 3.0 * (frame["home"] == "own")
    return frame, (y + 0.3 * rng.normal(size=N_ROWS)).to_numpy()


def bounds_of(values: np.ndarray, weight: np.ndarray, share: float = 0.01):
    columns = values[:, None]
    options = ColumnOptions(missing="mean")
    schema = learn_schema(read_columns(columns), weight[:, None], weight, options)
    unrelated = np.zeros((len(values), 1))
    return with_flat_tails(schema, [values], unrelated, weight, share)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("gaps", [False, True])
def test_sums_are_those_of_what_is_there(rng, monkeypatch, dtype, gaps):
    """Of blocks that only have gaps no column is looked at as a whole again."""
    x = rng.normal([0, 1e5, 3], [1, 2, 1e-3], (40_000, 3)).astype(dtype)
    if gaps:
        x[rng.random(x.shape) < 0.1] = np.nan
    x[:5, 0] = np.nan if gaps else 3.0
    weight = rng.integers(0, 3, 40_000) * 0.5
    monkeypatch.setattr("secret_jax.data.scaling.numbers", None)
    for given in (weight, np.ones(40_000), unweighted(40_000)):
        found = column_sums([*x.T], "abc", given, allow_missing=gaps)
        there = np.isfinite(x) * np.longdouble(given)[:, None]
        mass, values = there.sum(axis=0), np.nan_to_num(np.longdouble(x))
        mean = (there * values).sum(axis=0) / mass
        scatter = (there * (values - mean) ** 2).sum(axis=0)
        used = np.where(there > 0, x.astype(float), np.nan)
        ends = np.nanmin(used, axis=0), np.nanmax(used, axis=0)
        missing = given.sum() - mass
        expected = [mass, mean, scatter, *ends, missing]
        for own, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(own, np.float64(other), rtol=1e-9, atol=1e-9)


def test_bounds_are_quantiles_and_scales_those_of_flat_values(rng):
    values = np.round(rng.standard_t(1.5, 999), 3)
    schema = bounds_of(values, np.ones(999))
    low, high = np.quantile(values, [0.01, 0.99], method="inverted_cdf")
    ((column, *bounds),) = schema.tails
    assert column == 0
    np.testing.assert_allclose(bounds, [low, high])
    flat = np.clip(values, low, high)
    np.testing.assert_allclose(schema.center, flat.mean())
    np.testing.assert_allclose(schema.scale, flat.std())


def test_a_tail_on_one_side_has_one_bound():
    values = np.append(np.arange(990.0), np.geomspace(1e4, 1e6, 10))
    weight = np.ones(1000)
    assert bounds_of(values, weight, 0.001).tails == ()  # the largest value itself
    values = np.maximum(values, 20.0)
    assert bounds_of(values, weight).tails == ((0, -np.inf, 1e4),)
    assert bounds_of(-values, weight).tails == ((0, -1e4, np.inf),)


def test_weights_count_as_copies_and_missing_values_for_nothing(rng):
    values = np.append(rng.standard_cauchy(300), [np.nan] * 50)
    weight = rng.integers(0, 4, 350).astype(float)
    one = bounds_of(values, weight)
    other = bounds_of(np.repeat(values, weight.astype(int)), np.ones(int(weight.sum())))
    assert one.tails == other.tails != ()
    np.testing.assert_allclose(one.scale, other.scale)


@pytest.mark.parametrize("values", ["normal", "uniform", "few"])
def test_tails_that_are_near_and_counts_stay(values, rng):
    columns = {
        "normal": rng.normal(size=2000),
        "uniform": rng.uniform(size=2000),
        "few": rng.choice([0.0, 1.0, 50.0], 2000, p=[0.98, 0.015, 0.005]),
    }
    assert bounds_of(columns[values], np.ones(2000)).tails == ()


@pytest.fixture(scope="module")
def fitted():
    X, y = table()
    return SecretRegressor(random_state=0).fit(X, y), X, y


def test_rows_beyond_a_bound_are_as_rows_at_it(fitted):
    model, X, _ = fitted
    ((column, low, high),) = model.tree_.schema.tails
    assert column == 0
    assert X["income"].min() < low < 2 < 150 < high < X["income"].max()
    far, at = X[:50].assign(income=1e9), X[:50].assign(income=high)
    np.testing.assert_array_equal(model.predict(far), model.predict(at))
    assert (model.predict(far) > model.predict(X[:50].assign(income=20.0))).all()
    told = (
        "in sums, values beyond these bounds count as the bound: income at least "
        f"{low:g} and at most {high:g}\n"
    )
    assert told in model.export_text()
    bare = SecretRegressor(leaf=Ridge(tail_share=0.0), random_state=0)
    assert bare.fit(X, fitted[2]).tree_.schema.tails == ()


GATES = SoftGates(max_steps=256)


@pytest.mark.parametrize("refine", [None, GATES], ids=["hard", "soft"])
def test_code_knows_the_bounds(refine):
    X, y = table(1)
    X["debt"] = X["income"] * np.random.default_rng(3).lognormal(0, 1, N_ROWS)
    y = y + 3.0 * np.tanh(X["debt"].fillna(20.0) / 20.0)
    model = SecretRegressor(refine=refine, pruning_tolerance=0.0, random_state=0)
    model.fit(X, y)
    assert model.tree_.is_soft == (refine is GATES)
    far = X[:80].copy()
    far.loc[::2, "income"] *= 100.0
    far.loc[::3, "debt"] *= -100.0
    for predicted in (by_python,) if refine else (by_python, by_sql):
        assert_predicts(predicted(model.tree_, far), model.predict(far), model.tree_)


def test_a_single_row_and_a_stream_have_the_same_bounds(fitted):
    model, X, y = fitted
    source = [X.assign(y=y)[i : i + 256] for i in range(0, N_ROWS, 256)]
    streamed = SecretRegressor(random_state=0).fit_stream(source)
    assert streamed.tree_.schema.tails == model.tree_.schema.tails
    numbers = X[["age", "income"]].fillna(5.0).to_numpy()
    plain = SecretRegressor(random_state=0).fit(numbers, y)
    assert plain.tree_.schema.tails
    far = numbers[:1] * [[1.0, 1e6]]
    single, several = plain.predict(far), plain.predict(np.repeat(far, 3, axis=0))
    np.testing.assert_allclose(single, several[:1], rtol=1e-6)


def test_a_line_in_columns_as_they_are_keeps_their_tails(rng):
    shares = rng.dirichlet([0.3, 0.3, 0.5, 5.0], 900)
    X, rest = shares[:, :3], shares[:, 3]
    exact = SecretRegressor(random_state=0).fit(X, rest)
    assert exact.tree_.schema.tails == ()
    assert exact.score(X, rest) > 1 - 1e-5
    bent = np.minimum(X, np.quantile(X, 0.9, axis=0)).sum(axis=1)
    assert len(SecretRegressor(random_state=0).fit(X, bent).tree_.schema.tails) == 3
    # The logarithm of the mean is no line.
    y = (X.sum(axis=1) + 0.01) * rng.gamma(5.0, 0.2, 900)
    logarithmic = SecretRegressor(loss="gamma", random_state=0).fit(X, y)
    assert len(logarithmic.tree_.schema.tails) == 3


@pytest.mark.parametrize("are_whole", [True, False])
def test_residuals_are_of_rows_left_out_however_heavy(rng, are_whole):
    x, y = rng.standard_t(2, (20, 3)), rng.normal(size=(20, 2))
    weight = 1.0 * rng.integers(1, 6, 20) if are_whole else rng.uniform(0.2, 4.0, 20)
    found = left_out_residuals(x, y, weight, 0.01)
    for row in range(20):
        rest = np.where(np.arange(20) == row, 0.0, weight)[:, None]
        gram = (rest * x).T @ x + 0.01 * weight.sum() * np.eye(3)
        line = np.linalg.solve(gram, (rest * x).T @ y)
        np.testing.assert_allclose(found[row], y[row] - x[row] @ line, rtol=1e-9)
