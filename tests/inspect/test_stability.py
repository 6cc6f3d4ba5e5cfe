"""Stability: tables whose best tree is known, and the weights of resamples."""

import numpy as np
import pandas as pd
import pytest
from configurations import persons
from sklearn.exceptions import NotFittedError

from secret_jax import SecretClassifier, SecretRegressor
from secret_jax.datasets import make_fried
from secret_jax.inspect.stability import _frequencies

N = 200
SMALL = {
    "splits": "cart",
    "leaf": "constant",
    "oblique": False,
    "prune": None,
    "max_depth": 2,
    "random_state": 0,
}


def jumps() -> tuple[pd.DataFrame, np.ndarray]:
    """A jump of 10 in ``size`` between 0.4 and 0.6, and one of 2 for the red ones."""
    random = np.random.default_rng(0)
    size = np.r_[np.linspace(0, 0.4, N // 2), np.linspace(0.6, 1, N // 2)]
    X = pd.DataFrame(
        {
            "size": size,
            "noise": random.normal(size=N),
            "colour": random.permutation(np.resize(["red", "green", "blue"], N)),
        }
    )
    return X, 10.0 * (size > 0.5) + 2.0 * (X["colour"] == "red").to_numpy()


@pytest.fixture(scope="module")
def model() -> SecretRegressor:
    return SecretRegressor(**SMALL).fit(*jumps())


@pytest.fixture(scope="module")
def found(model):
    return model.stability(*jumps(), n_resamples=8, random_state=1, verbose=0)


def test_splits_that_every_resample_must_find_are_in_all_of_them(found):
    assert found.index.tolist() == ["size", "colour"]  # none on noise
    size, colour = found.loc["size"], found.loc["colour"]
    assert size[["resamples", "at_root", "in_tree"]].tolist() == [1.0, 1.0, True]
    assert colour[["resamples", "at_root", "in_tree"]].tolist() == [1.0, 0.0, True]
    assert 0.4 < size["low"] <= size["median"] <= size["high"] < 0.6
    assert np.isnan(colour["median"])
    assert found.attrs["n_leaves"] == [4] * 8


def test_what_is_counted_is_what_the_tables_of_trees_say(model):
    X, y = jumps()
    others = [SecretRegressor(**SMALL).fit(X[i:], y[i:]) for i in (60, 90, 150)]
    found = _frequencies([one.tree_ for one in (model, *others)])
    tables = [one.to_dataframe() for one in others]
    every = pd.concat(tables)
    for name in ("size", "noise", "colour"):
        used = np.mean([name in set(one["attribute"]) for one in tables])
        at_root = np.mean([one["attribute"][0] == name for one in tables])
        if not used and name not in set(model.to_dataframe()["attribute"]):
            assert name not in found.index
            continue
        row = found.loc[name]
        assert (row["resamples"], row["at_root"]) == (used, at_root)
        cuts = every["threshold"][every["attribute"] == name].dropna()
        if len(cuts):
            ends = np.quantile(cuts, [0.1, 0.5, 0.9])
            np.testing.assert_allclose(row[["low", "median", "high"]].tolist(), ends)
    assert found["resamples"].is_monotonic_decreasing


class Noted(SecretRegressor):
    """A regressor that notes the weights of its fits."""

    weights: list[np.ndarray] = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None, **options):
        self.weights.append(np.asarray(sample_weight))
        return super().fit(X, y, sample_weight, **options)


@pytest.mark.parametrize("grouped", [False, True])
def test_weights_are_those_of_the_bayesian_bootstrap(grouped):
    """Of n draws the shares have the variance of Rubin (1981), (n - 1) / n²(n + 1)."""
    given = np.tile([0.0, 1.0, 2.0, 3.5], 10)
    group = np.arange(40) // 4 if grouped else np.arange(40)
    X, y = np.arange(40.0)[:, None], np.zeros(40)
    model = Noted(**SMALL | {"max_depth": 0}).fit(X, y)
    Noted.weights.clear()
    groups = group if grouped else None
    options = {"n_resamples": 400, "random_state": 0, "verbose": 0}
    found = model.stability(X, y, sample_weight=given, groups=groups, **options)
    assert found.empty
    drawn = np.array(Noted.weights)
    assert not drawn[:, given == 0].any()
    factor = drawn[:, given > 0] / given[given > 0]
    _, first, member = np.unique(
        group[given > 0], return_index=True, return_inverse=True
    )
    # Rows of a group have one factor.
    np.testing.assert_allclose(factor, factor[:, first][:, member])
    share = factor[:, first] / factor[:, first].sum(axis=1, keepdims=True)
    n = share.shape[1]
    assert share.var() == pytest.approx((n - 1) / (n**2 * (n + 1)), rel=0.1)


def test_what_holds_for_no_other_person_is_not_found_again():
    X, y, who = persons(noise=0.0)
    model = SecretRegressor(**{"oblique": False, "leaf": "constant"}).fit(X, y)
    draws = {"n_resamples": 4, "random_state": 0, "verbose": 0}
    careless = model.stability(X, y, **draws).attrs["n_leaves"]
    found = model.stability(X, y, groups=who, **draws).attrs["n_leaves"]
    assert max(found) < min(careless)


def test_resamples_do_not_grow_trees_on_copies():
    X, y = make_fried(300, random_state=0)
    model = SecretRegressor(oblique=False, distill=False).fit(X, y)
    found = model.stability(X, y, n_resamples=3, random_state=0, verbose=0)
    assert max(found.attrs["n_leaves"]) <= 1.5 * model.n_leaves_


def test_classes_several_outputs_and_rows_of_no_weight():
    X, y = jumps()
    options = {"n_resamples": 3, "random_state": 0, "verbose": 0}
    names = np.where(y > 9, "large", "small")
    classes = SecretClassifier(**SMALL).fit(X, names)
    assert classes.stability(X, names, **options).loc["size", "at_root"] == 1.0
    both = np.stack([y, -3 * y], axis=1)
    model = SecretRegressor(**SMALL).fit(X, both)
    weight = np.where(X["size"] > 0.5, 0, 2)  # nothing is large
    found = model.stability(X, both, sample_weight=weight, **options)
    assert found.loc["colour", ["resamples", "at_root"]].tolist() == [1.0, 1.0]


def test_the_same_seed_draws_the_same_rows_and_progress_is_shown(capsys):
    X, y = np.random.default_rng(0).normal(size=(2, 100, 3))
    model = SecretRegressor(**SMALL).fit(X, y[:, 0])
    one, again, other = (
        model.stability(X, y[:, 0], n_resamples=3, random_state=seed, verbose=verbose)
        for seed, verbose in ((1, 0), (1, 1), (2, 0))
    )
    pd.testing.assert_frame_equal(one, again)
    assert not one.equals(other)
    (line,) = capsys.readouterr().err.splitlines()  # unless it shall not
    assert line.startswith("00:00 fitting on resamples")


def test_what_means_nothing_is_refused(model):
    X, y = jumps()
    with pytest.raises(ValueError, match="n_resamples is 1; give at least 2"):
        model.stability(X, y, n_resamples=1)
    with pytest.raises(ValueError, match="groups must name one of each row"):
        model.stability(X, y, groups=[1, 2], verbose=0)
    with pytest.raises(NotFittedError):
        SecretRegressor().stability(X, y)
