"""Stability: tables whose best tree is known, and what draws of rows must add up to."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from secret_jax import SecretClassifier, SecretRegressor
from secret_jax.datasets import make_fried
from secret_jax.inspect.resamples import resampled
from secret_jax.inspect.stability import SplitColumns

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
    assert found.names == ("size", "noise", "colour")
    assert len(found.resamples) == 8
    assert found.used.tolist() == [1.0, 0.0, 1.0]
    assert all(one.depths == [{0}, set(), {1}] for one in found.resamples)
    assert found.equal_roots == 1.0
    assert found.in_original.tolist() == [True, False, True]
    assert (found.n_leaves == 4).all()
    assert found.original.n_leaves == 4
    thresholds = found.thresholds("size")
    assert len(thresholds) == 8
    assert ((thresholds > 0.4) & (thresholds < 0.6)).all()
    # Two splits a tree, each apart from the others: by red or by the other two.
    assert found.sets("colour") == [(("red",), 16)]
    assert found.deviation[0] < 1e-3


def test_predictions_that_differ_are_measured_against_the_target():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(N, 3)), random.normal(size=N)
    mean = SecretRegressor(**SMALL | {"max_depth": 0}).fit(X, y)
    found = mean.stability(X, y, n_resamples=60, random_state=0)
    # The standard error of a mean.
    assert found.deviation[0] == pytest.approx(N**-0.5, rel=0.25)
    assert not found.used.any()
    assert found.equal_roots == 1.0
    assert "no tree splits on any column" in str(found)


def test_what_a_tree_splits_on_is_what_its_table_says(model):
    nodes = model.to_dataframe()
    own = SplitColumns.of(model.tree_)
    inner = nodes[nodes["kind"] != "leaf"]
    for position, name in enumerate(model.feature_names_in_):
        depths = set(inner[inner["attribute"] == name]["depth"])
        assert own.depths[position] == depths
        axis = inner[(inner["attribute"] == name) & (inner["kind"] == "axis")]
        np.testing.assert_allclose(own.thresholds.get(name, []), axis["threshold"])


@pytest.mark.parametrize("weight", [np.ones(50), np.arange(50.0), np.full(50, 0.5)])
def test_draws_add_up(weight):
    random = np.random.default_rng(0)
    whole = bool((weight % 1 == 0).all())
    total = weight.sum() if whole else len(weight)
    boot, _ = resampled(weight, random)
    part, _ = resampled(weight, random, "subsample", 0.6)
    for drawn, share in ((boot, 1.0), (part, 0.6)):
        count = drawn if whole else drawn / weight
        assert count.sum() == round(share * total)
        assert (count % 1 == 0).all()
        assert not drawn[weight == 0].any()
    assert (part <= weight).all()
    assert (boot > weight).any()
    draws = np.mean([resampled(weight, random)[0] for _ in range(2000)], axis=0)
    np.testing.assert_allclose(draws, weight, atol=0.2 * weight.max() ** 0.5)


def test_rows_that_are_drawn_twice_are_one_row():
    random = np.random.default_rng(0)
    weight = np.r_[np.ones(50), np.full(3, 200.0)]
    _, different = resampled(weight, random)
    assert (different[:50] == 1).all()
    # As many as there are draws leave 1 / e of them out.
    np.testing.assert_allclose(different[50:], 200 * (1 - np.exp(-1)), atol=15)
    part, different = resampled(weight, random, "subsample")
    assert (different == np.maximum(part, 1)).all()
    _, different = resampled(0.5 * weight[:50], random)
    assert (different == 1).all()


def test_bootstrap_samples_do_not_grow_trees_on_copies():
    X, y = make_fried(300, random_state=0)
    model = SecretRegressor(oblique=False, distill=False).fit(X, y)
    found = model.stability(X, y, n_resamples=3, random_state=0)
    assert found.n_leaves.max() <= model.n_leaves_


def test_subsamples_and_weights_and_several_outputs():
    X, y = jumps()
    both = np.stack([y, -3 * y], axis=1)
    model = SecretRegressor(**SMALL).fit(X, both)
    weight = np.where(X["colour"] == "blue", 0, 2)  # nothing is blue
    found = model.stability(
        *(X, both),
        sample_weight=weight,
        n_resamples=3,
        method="subsample",
        random_state=0,
    )
    assert found.deviation.shape == (2,)
    assert found.used.tolist() == [1.0, 0.0, 1.0]
    sets = {value for chosen, _ in found.sets("colour") for value in chosen}
    assert sets <= {"red", "green"}
    assert str(found).count("predictions of") == 2


def test_classes_are_compared_by_probabilities_and_predictions():
    X, y = jumps()
    y = np.where(y > 9, "large", "small")
    options = {name: value for name, value in SMALL.items() if name != "leaf"}
    model = SecretClassifier(**options, leaf="constant").fit(X, y)
    found = model.stability(X, y, n_resamples=2, random_state=0)
    assert found.equal_classes == 1.0  # a jump that every tree finds
    assert 0 <= found.deviation[0] < 0.05  # of the probability itself
    assert "for 100% of the rows" in str(found)
    assert "probability of small: it differs between the trees by" in str(found)
    assert "percentage points" in str(found)
    assert "standard deviation" not in str(found)


def test_predicted_classes_are_those_of_least_cost():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(N, 2)), random.integers(2, size=N)
    costs = [[0, 100], [1, 0]]  # nobody dares to say 1
    model = SecretClassifier(**SMALL).set_params(costs=costs).fit(X, y)
    assert not model.predict(X).any()
    found = model.stability(X, y, n_resamples=2, random_state=0)
    assert found.equal_classes == 1.0


def test_the_same_seed_draws_the_same_rows(model, found):
    again = model.stability(*jumps(), n_resamples=8, random_state=1)
    assert np.array_equal(again.thresholds("size"), found.thresholds("size"))
    other = model.stability(*jumps(), n_resamples=8, random_state=2)
    assert not np.array_equal(other.thresholds("size"), found.thresholds("size"))


def test_the_summary_names_columns_shares_and_places(found):
    lines = str(found).splitlines()
    assert lines[0].startswith("8 resamples")
    assert lines[1].startswith("size: 4 to 4 leaves")
    assert lines[2].endswith("100%")
    size, colour = (
        next(line for line in lines if line.startswith(f"{name} "))
        for name in ("size", "colour")
    )
    assert size.split()[1:4] == ["100%", "100%", "yes"]
    assert "median 0.5; the tree's 0.5" in size
    assert colour.split()[1:4] == ["100%", "0%", "yes"]
    assert colour.endswith("{red} 16x")
    assert not any(line.startswith("noise ") for line in lines)


def test_the_picture_has_a_bar_for_each_share_and_a_line_for_each_threshold(found):
    frequencies, size = found.plot().axes
    widths = [bar.get_width() for bar in frequencies.patches]
    assert widths == [1.0, 1.0, 1.0, 0.0]  # anywhere, then at the root
    labels = [label.get_text() for label in frequencies.get_yticklabels()]
    assert labels == ["size", "colour"]
    assert sum(bar.get_height() for bar in size.patches) == 8
    (line,) = size.lines
    assert line.get_xdata()[0] == pytest.approx(found.original.thresholds["size"][0])


def test_thresholds_between_the_same_values_are_one_place_in_the_picture(found):
    # They differ by the rounding of float32, which an axis would show as its range.
    around = 2023.5 + 1e-4 * np.linspace(-1, 1, 8)
    original = found.original._replace(thresholds={"size": [2023.5 + 1e-5]})
    trees = [found.original._replace(thresholds={"size": [one]}) for one in around]
    same = replace(found, resamples=trees, original=original)
    _, size = same.plot().axes
    assert [bar.get_height() for bar in size.patches if bar.get_height()] == [8]
    (line,) = size.lines
    assert list(line.get_xdata()) == [2023.5, 2023.5]
    assert np.ptp(size.get_xlim()) > 0.5


def test_progress_counts_the_resamples(model, capsys):
    model.set_params(verbose=1).stability(*jumps(), n_resamples=2, random_state=0)
    model.set_params(verbose=0)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("00:00 fitting on resamples")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_resamples": 1}, "n_resamples is 1; give at least 2"),
        ({"method": "jackknife"}, "method is 'jackknife'; choose 'bootstrap' or"),
        ({"fraction": 1.0}, r"fraction must be a float in \(0, 1\)"),
        ({"y": np.zeros((N, 2))}, r"y has 2 output\(s\), but the tree has 1"),
    ],
)
def test_what_means_nothing_is_refused(model, changes, message):
    X, y = jumps()
    arguments = {"y": y} | changes
    with pytest.raises(ValueError, match=message):
        model.stability(X, **arguments)


def test_a_model_that_was_not_fitted_has_no_tree_to_compare_with():
    with pytest.raises(NotFittedError):
        SecretRegressor().stability(*jumps())
