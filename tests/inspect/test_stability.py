"""Stability: tables whose best tree is known, and what draws of rows must add up to."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from secret_jax import SecretClassifier, SecretRegressor
from secret_jax.datasets import make_fried
from secret_jax.inspect.stability import frequencies, resampled

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
    return model.stability(*jumps(), n_resamples=8, random_state=1)


def test_splits_that_every_resample_must_find_are_in_all_of_them(found):
    assert found.index.tolist() == ["size", "colour"]  # none on noise
    size, colour = found.loc["size"], found.loc["colour"]
    assert size[["resamples", "at_root", "in_tree"]].tolist() == [1.0, 1.0, True]
    assert colour[["resamples", "at_root", "in_tree"]].tolist() == [1.0, 0.0, True]
    assert 0.4 < size["low"] <= size["median"] <= size["high"] < 0.6
    assert np.isnan(colour["median"])
    # Two splits a tree, each apart from the others: by red or by the other two.
    assert (size["categories"], colour["categories"]) == ("", "red")
    assert found.attrs["n_leaves"] == [4] * 8
    assert found.attrs["same_root"] == 1.0
    assert found.attrs["deviation"][0] < 1e-3


def test_predictions_that_differ_are_measured_against_the_target():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(N, 3)), random.normal(size=N)
    mean = SecretRegressor(**SMALL | {"max_depth": 0}).fit(X, y)
    found = mean.stability(X, y, n_resamples=60, random_state=0)
    # The standard error of a mean.
    assert found.attrs["deviation"][0] == pytest.approx(N**-0.5, rel=0.25)
    assert found.empty
    assert found.attrs["same_root"] == 1.0


def test_what_is_counted_is_what_the_tables_of_trees_say(model):
    X, y = jumps()
    others = [SecretRegressor(**SMALL).fit(X[i:], y[i:]) for i in (60, 90, 150)]
    found = frequencies(model.tree_, [one.tree_ for one in others])
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


@pytest.mark.parametrize("weight", [np.ones(50), np.arange(50.0), np.full(50, 0.5)])
def test_draws_add_up(weight):
    random = np.random.default_rng(0)
    drawn, used = resampled(weight, random), weight > 0
    count = drawn[used] / weight[used]
    assert count.sum() == used.sum()
    assert (count % 1 == 0).all()
    assert not drawn[~used].any()
    assert (drawn > weight).any()
    draws = np.mean([resampled(weight, random) for _ in range(2000)], axis=0)
    assert (np.abs(draws - weight) <= 5 * weight / 2000**0.5).all()


@pytest.mark.parametrize("weight", [np.ones(50), np.arange(50.0), np.full(50, 0.5)])
def test_groups_are_drawn_with_all_of_their_rows(weight):
    group = np.arange(50) // 5
    drawn = resampled(weight, np.random.default_rng(0), group)
    count = drawn[weight > 0] / weight[weight > 0]
    assert (count % 1 == 0).all()
    assert [len(set(count[group[weight > 0] == one])) for one in range(10)] == [1] * 10
    assert np.bincount(group[weight > 0], count).sum() > 0


def test_what_holds_for_no_other_person_is_not_found_again():
    random = np.random.default_rng(0)
    who = np.repeat(np.arange(50), 6)
    known, level = random.uniform(size=(2, 50))
    X, y = np.column_stack([known[who], random.normal(size=300)]), level[who]
    model = SecretRegressor(**{"oblique": False, "leaf": "constant"}).fit(X, y)
    draws = {"n_resamples": 4, "random_state": 0}
    careless = model.stability(X, y, **draws).attrs["n_leaves"]
    found = model.stability(X, y, groups=who, **draws).attrs["n_leaves"]
    assert max(found) < min(careless)


def test_bootstrap_samples_do_not_grow_trees_on_copies():
    X, y = make_fried(300, random_state=0)
    model = SecretRegressor(oblique=False, distill=False).fit(X, y)
    found = model.stability(X, y, n_resamples=3, random_state=0)
    assert max(found.attrs["n_leaves"]) <= model.n_leaves_


def test_weights_and_several_outputs():
    X, y = jumps()
    both = np.stack([y, -3 * y], axis=1)
    model = SecretRegressor(**SMALL).fit(X, both)
    weight = np.where(X["colour"] == "blue", 0, 2)  # nothing is blue
    options = {"n_resamples": 3, "random_state": 0}
    found = model.stability(X, both, sample_weight=weight, **options)
    assert len(found.attrs["deviation"]) == 2
    assert found["resamples"].to_dict() == {"size": 1.0, "colour": 1.0}
    assert found.loc["colour", "categories"] in ("red", "green")


def test_classes_are_compared_by_probabilities_and_predictions():
    X, y = jumps()
    y = np.where(y > 9, "large", "small")
    options = {name: value for name, value in SMALL.items() if name != "leaf"}
    model = SecretClassifier(**options, leaf="constant").fit(X, y)
    found = model.stability(X, y, n_resamples=2, random_state=0)
    assert found.attrs["same_class"] == 1.0  # a jump that every tree finds
    assert 0 <= found.attrs["deviation"][0] < 0.05  # of the probability itself


def test_predicted_classes_are_those_of_least_cost():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(N, 2)), random.integers(2, size=N)
    costs = [[0, 100], [1, 0]]  # nobody dares to say 1
    model = SecretClassifier(**SMALL).set_params(costs=costs).fit(X, y)
    assert not model.predict(X).any()
    found = model.stability(X, y, n_resamples=2, random_state=0)
    assert found.attrs["same_class"] == 1.0


def test_the_same_seed_draws_the_same_rows(model, found):
    again = model.stability(*jumps(), n_resamples=8, random_state=1)
    pd.testing.assert_frame_equal(again, found)
    other = model.stability(*jumps(), n_resamples=8, random_state=2)
    assert other.attrs["deviation"] != found.attrs["deviation"]


def test_progress_counts_the_resamples(model, capsys):
    model.set_params(verbose=1).stability(*jumps(), n_resamples=2, random_state=0)
    model.set_params(verbose=0)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("00:00 fitting on resamples")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_resamples": 1}, "n_resamples is 1; give at least 2"),
        ({"y": np.zeros((N, 2))}, r"y has 2 output\(s\), but the tree has 1"),
    ],
)
def test_what_means_nothing_is_refused(model, changes, message):
    X, y = jumps()
    arguments = {"y": y} | changes
    with pytest.raises(ValueError, match=message):
        model.stability(X, **arguments)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["low", "low", "mid"], "no row of the class 'high'.*Give rows of every class"),
        (["low", "top", "mid"], "no row of the class 'high'"),
        (["low", "high", "mid", "top"], "holds the class 'top', which.*Leave its rows"),
        (["low", "high", "mid"], "in the order 'high', 'low', 'mid'.*ordered categor"),
    ],
)
def test_rows_of_other_classes_are_refused_by_name(names, message):
    X, _ = jumps()
    order = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
    y = pd.Series(np.resize(["low", "mid", "high"], N), dtype=order)
    model = SecretClassifier(**SMALL).fit(X, y)
    with pytest.raises(ValueError, match=message):
        model.stability(X, np.resize(names, N), n_resamples=2)


def test_a_model_that_was_not_fitted_has_no_tree_to_compare_with():
    with pytest.raises(NotFittedError):
        SecretRegressor().stability(*jumps())
