"""Columns that are worth their place are told before a tree is grown."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import f_oneway
from sklearn.linear_model import LinearRegression

from secret_jax import (
    Ridge,
    RssSplits,
    SecretBoostingRegressor,
    SecretClassifier,
    SecretRegressor,
)
from secret_jax.data.schema import Role
from secret_jax.fit.useful import squared_differences
from secret_jax.splits.axis import gain_of_order


def wide(n, n_columns, seed=0):
    """Rows of many columns, of which the first four matter."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, n_columns))
    y = 2.0 * np.maximum(x[:, 0], 0.0) + x[:, 1] + np.where(x[:, 2] > 0, x[:, 3], 0.0)
    return x, y + 0.3 * random.normal(size=n)


def noisy_categories(n, n_levels, n_columns=1, seed=0):
    """Four numbers that matter, and columns of categories that do not."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame(random.normal(size=(n, 4)), columns=list("abcd"))
    y = 2.0 * table["a"] - table["b"] * (table["c"] > 0) + random.normal(size=n)
    for i in range(n_columns):
        codes = random.integers(0, n_levels, n)
        table[f"group{i}"] = [f"L{code}" for code in codes]
    return table, y.to_numpy()


@pytest.mark.parametrize("n_columns", [150, 400])
def test_few_useful_columns_are_found_among_more_columns_than_rows(n_columns):
    n = 300
    x, y = wide(n + 1000, n_columns)
    model = SecretRegressor().fit(x[:n], y[:n])
    known = LinearRegression().fit(x[:n, :4], y[:n])
    assert model.score(x[n:], y[n:]) > known.score(x[n:, :4], y[n:])
    unused = {*model.tree_.schema.of_role(Role.UNUSED)}
    assert len(unused) > 0.8 * n_columns
    assert not unused & {0, 1, 3}


def test_what_is_read_of_a_tree_knows_columns_that_were_left_out(tmp_path):
    x, y = wide(200, 120)
    names = [f"c{i}" for i in range(120)]
    table = pd.DataFrame(x, columns=names)
    model = SecretRegressor().fit(table, y)
    kept = 120 - len(model.tree_.schema.of_role(Role.UNUSED))
    assert f"{kept} of 120 columns were looked at" in model.export_text()
    expected = model.predict(table)
    model.save(tmp_path / "wide.model")
    again = SecretRegressor.load(tmp_path / "wide.model")
    np.testing.assert_array_equal(again.predict(table), expected)
    np.testing.assert_array_equal(again.predict(table[names[::-1]]), expected)
    code: dict = {}
    exec(model.export_code(), code)
    found = [code["predict"](row) for row in table[:20].to_dict("records")]
    np.testing.assert_allclose(found, expected[:20], rtol=1e-5)
    assert model.feature_importances_.shape == (120,)
    plain = SecretRegressor().fit(x, y)
    one_by_one = [plain.predict(row[None])[0] for row in x[:20]]
    np.testing.assert_allclose(one_by_one, plain.predict(x[:20]), rtol=1e-6)


def test_the_order_of_rows_chooses_no_columns():
    x, y = wide(150, 200, seed=1)
    order = np.random.default_rng(3).permutation(len(x))
    first = SecretRegressor().fit(x, y)
    second = SecretRegressor().fit(x[order], y[order])
    assert first.tree_.schema.roles == second.tree_.schema.roles
    np.testing.assert_allclose(first.predict(x), second.predict(x), rtol=1e-5)


def test_classes_of_many_columns_are_told_apart_and_all_stay_if_none_may_be_dropped():
    x, y = wide(300, 300, seed=2)
    model = SecretClassifier().fit(x[:200], y[:200] > 0.5)
    assert model.score(x[200:], y[200:] > 0.5) > 0.75
    x, y = wide(60, 40)
    model = SecretRegressor(leaf=Ridge(drops_regressors=False)).fit(x, y)
    assert not model.tree_.schema.of_role(Role.UNUSED)


@pytest.mark.parametrize(("n_levels", "n_columns"), [(60, 1), (20, 4)])
def test_categories_that_say_nothing_cost_nothing(n_levels, n_columns):
    ratios = []
    for seed in range(3):
        table, y = noisy_categories(4000, n_levels, n_columns, seed)
        rows, unseen = slice(2000), slice(2000, None)
        errors = []
        for columns in (list("abcd"), list(table)):
            model = SecretRegressor().fit(table[columns][rows], y[rows])
            residual = model.predict(table[columns][unseen]) - y[unseen]
            errors.append(np.sqrt(np.mean(residual**2)))
        ratios.append(errors[1] / errors[0])
    assert np.mean(ratios) < 1.02


def test_categories_that_tell_something_stay_in_the_equations():
    table, y = noisy_categories(2000, 8)
    shift = table["group0"].map({f"L{i}": float(i) for i in range(8)}).to_numpy()
    model = SecretRegressor().fit(table, y + 0.5 * shift)
    assert len(model.tree_.schema.indicators) == 8


def test_levels_are_compared_as_by_analysis_of_variance():
    random = np.random.default_rng(0)
    level = random.integers(0, 5, 300)
    values = random.normal(size=300) + 0.2 * level
    values -= values.mean()
    expected = f_oneway(*(values[level == k] for k in range(5))).statistic
    found = squared_differences(level, values, np.ones(300)) / 4
    assert found == pytest.approx(expected, rel=1e-10)
    # The unit of the weights has no part in it.
    scaled = squared_differences(level, values, np.full(300, 30.0)) / 4
    assert scaled == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("n_levels", [20, 60, 150])
def test_what_an_order_of_noise_gains_is_foreseen(n_levels):
    random = np.random.default_rng(n_levels)
    n, gains, foreseen = 10 * n_levels, [], []
    for _ in range(100):
        code, score = random.integers(0, n_levels, n), random.normal(size=n)
        weight = np.bincount(code, minlength=n_levels).astype(float)
        moment = np.bincount(code, score - score.mean(), n_levels)
        order = np.argsort(moment / np.maximum(weight, 1))
        left, total = np.cumsum(weight[order])[:-1], np.cumsum(moment[order])[:-1]
        gains.append(np.max(total**2 / left + total**2 / (n - left)))
        square = np.sum((score - score.mean()) ** 2)
        foreseen.append(float(gain_of_order(weight, np.array(square))))
    # Less what the best threshold of a number gains.
    assert 0.0 < np.mean(gains) - np.mean(foreseen) < 6.0


def test_many_levels_that_say_nothing_are_not_looked_at():
    table, y = noisy_categories(1000, 40, 2)
    random = np.random.default_rng(5)
    table["slope"] = [f"S{code}" for code in random.integers(0, 20, len(table))]
    steep = table["slope"].map({f"S{i}": float(i % 2) for i in range(20)}).to_numpy()
    model = SecretRegressor().fit(table, y + 3.0 * (steep - 0.5) * table["d"])
    roles = dict(zip(table, model.tree_.schema.roles, strict=True))
    assert roles["group0"] is roles["group1"] is Role.UNUSED
    assert roles["slope"] is Role.DISCRETE  # its slopes differ, its means do not
    unseen = table.assign(group0="never seen")
    np.testing.assert_array_equal(model.predict(unseen), model.predict(table))


@pytest.fixture(scope="module")
def left_out():
    """Rows of which a fit leaves out categories and, of many numbers, the last one."""
    table, y = noisy_categories(500, 20)
    numbers, z = wide(100, 60)
    numbers = pd.DataFrame(numbers, columns=[f"c{i}" for i in range(60)])
    for X, target, name in ((table, y, "group0"), (numbers, z, "c59")):
        schema = SecretRegressor(max_leaf_nodes=3).fit(X, target).tree_.schema
        assert schema.roles[schema.names.index(name)] is Role.UNUSED
    return (table, y), (numbers, z)


def test_a_column_that_says_nothing_can_be_split_on_by_hand(left_out):
    (table, y), (numbers, z) = left_out
    for X, target, split, words in (
        (table, y, ("group0", ["L1", "L2"]), "group0 in {L1, L2}"),
        (numbers, z, ("c0", 0.0, ("c59", 0.25), None), "c59 <= 0.25"),
    ):
        finder = RssSplits(fixed_splits=split)
        model = SecretRegressor(splits=finder, max_leaf_nodes=4).fit(X, target)
        assert words in model.export_text()


def test_a_column_that_says_nothing_may_have_a_direction_but_is_not_drawn(left_out):
    _, (numbers, z) = left_out
    order = {"c59": 1, "c1": 1}
    model = SecretRegressor(monotonic_cst=order, max_leaf_nodes=3).fit(numbers, z)
    rows = numbers.iloc[[0] * 9].assign(c1=np.linspace(-3.0, 3.0, 9))
    assert (np.diff(model.predict(rows)) > 0).all()
    moved = model.predict(numbers.assign(c59=7.0))
    np.testing.assert_array_equal(moved, model.predict(numbers))
    pytest.importorskip("matplotlib")
    with pytest.raises(ValueError, match="'c59' was left out of the fit"):
        model.plot_partition("c0", "c59")


def test_a_table_of_one_column_that_says_nothing_is_fitted():
    random = np.random.default_rng(0)
    table = pd.DataFrame({"group": [f"L{v}" for v in random.integers(0, 20, 300)]})
    y = random.normal(size=300)
    for model in (SecretRegressor(), SecretBoostingRegressor(max_iter=3)):
        assert np.ptp(model.fit(table, y).predict(table)) < 1.0
    assert SecretClassifier().fit(table, y > 0).predict_proba(table).shape == (300, 2)


def test_categories_are_judged_together_and_beside_the_columns_that_stay():
    random = np.random.default_rng(0)
    first, second = random.integers(0, 12, (2, 3000))
    table = pd.DataFrame({"first": first, "second": second}).astype(str)
    y = 1.0 * ((first < 6) ^ (second < 6)) + 0.1 * random.normal(size=3000)
    model = SecretRegressor().fit(table.assign(x=random.normal(size=3000)), y)
    assert not model.tree_.schema.of_role(Role.UNUSED)
    random = np.random.default_rng(4)
    x, level = random.normal(size=(150, 300)), random.integers(0, 12, 150)
    table = pd.DataFrame(x).add_prefix("c").assign(group=[f"L{v}" for v in level])
    effect = random.normal(size=12)[level]
    schema = SecretRegressor().fit(table, effect + 0.7 * random.normal(size=150)).tree_
    assert schema.schema.roles[-1] is Role.DISCRETE
