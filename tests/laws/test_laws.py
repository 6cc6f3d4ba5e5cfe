"""What must not change a fit: units, signs, row order, repetition, padding, noise-free
truth. Numbers are multiples of 1/64, so their sums are exact in any unit.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from configurations import (
    DECIMALS,
    assert_same_tree,
    crease,
    every_configuration,
    planes,
    regressor,
    shop,
    tree_bytes,
)

from secret_jax import LeastSquares, Ridge, UnseenCategoryWarning
from secret_jax.tree.structure import SplitKind

N_EXACT = 128  # a power of two: means of multiples of 1/64 are exact


# A decimal of other units may pass by rows that were held out of the training.
ALL_TRAIN: dict[str, dict] = {"default": {}, "secret": {}, "paper": {"prune": None}}


def fitted(configuration, X, y, weight=None, eval_set=None, **changes):
    model = regressor(configuration, **changes)
    return model.fit(X, y, weight, eval_set=eval_set)


def assert_same_but_for_decimals(found, expected):
    """Bit for bit, but for splits: they are decimals in the units of the data."""
    found, expected = tree_bytes(found.tree_), tree_bytes(expected.tree_)
    for name in set(expected) - set(DECIMALS):
        assert found[name] == expected[name], name


@every_configuration
def test_powers_of_two_change_no_bit_and_other_units_roundings_only(configuration):
    X, y = crease(N_EXACT)
    model = fitted(configuration, X, y, **ALL_TRAIN[configuration])
    units = np.array([4.0, 0.125, 1024.0])
    other = fitted(configuration, X * units, y * 8, **ALL_TRAIN[configuration])
    assert_same_but_for_decimals(other, model)
    assert np.array_equal(other.apply(X * units), model.apply(X))
    assert np.array_equal(other.predict(X * units), 8 * model.predict(X))
    moved, expected = (
        X * [3.7, 0.01, 1e5] + [1.0, -2.0, 3.0],
        7.7 * model.predict(X) - 3,
    )
    other = fitted(configuration, moved, 7.7 * y - 3, **ALL_TRAIN[configuration])
    assert_same_tree(other.tree_, model.tree_, skip=DECIMALS)
    assert np.array_equal(other.apply(moved), model.apply(X))
    np.testing.assert_allclose(other.predict(moved), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("configuration", "dtype"),
    [("default", "f8"), ("default", "f4"), ("secret", "f8"), ("paper", "f4")],
)
def test_offsets_shift_the_predictions_and_nothing_else(configuration, dtype):
    X, y = crease(N_EXACT)
    y = np.round(y * 16) / 16  # what float32 resolves at a million
    model = fitted(configuration, X, y)
    far_X, far_y = (X + 1e4).astype(dtype), (y + 1e6).astype(dtype)
    assert np.array_equal(far_X.astype(float) - 1e4, X)
    assert np.array_equal(far_y.astype(float) - 1e6, y)
    other = fitted(configuration, far_X, far_y)
    assert_same_but_for_decimals(other, model)
    assert np.array_equal(other.apply(far_X), model.apply(X))
    np.testing.assert_allclose(other.predict(far_X) - 1e6, model.predict(X), atol=1e-6)


def test_an_offset_of_the_target_moves_no_row_into_the_holdout():
    # Rounding may change the last digit of a standardised value here and there.
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20_000, 2)), rng.normal(size=20_000)
    options = {"max_depth": 0}  # the paper's mode keeps what it holds out
    model = fitted("paper", X, y, **options).tree_
    other = fitted("paper", X, y + 1e6, **options).tree_
    assert other.weight[0] == model.weight[0] == 12_500
    np.testing.assert_allclose(other.coefficient, model.coefficient, atol=1e-8)


@pytest.mark.parametrize(
    ("sign", "target_sign"),
    [([-1, 1, 1], 1), ([-1, -1, -1], 1), ([1, 1, 1], -1)],
    ids=["one feature", "all features", "target"],
)
def test_signs_mirror_the_tree(sign, target_sign):
    # A mirrored row has another hash: neither a hold-out nor random starts (which
    # small nodes need) would be the same.
    X, y = crease(N_EXACT)
    X_prune, y_prune = crease(seed=7)
    options = {"min_samples_split": 0.2, "splits__start": "component"}
    model = fitted("paper", X, y, eval_set=(X_prune, y_prune), **options)
    other = fitted(
        "paper",
        X * sign,
        y * target_sign,
        eval_set=(X_prune * sign, y_prune * target_sign),
        **options,
    )
    assert model.n_leaves_ > 1
    assert other.n_leaves_grown_ == model.n_leaves_grown_
    assert sorted(other.tree_.weight) == sorted(model.tree_.weight)
    np.testing.assert_allclose(
        other.predict(X * sign), target_sign * model.predict(X), atol=1e-4
    )


@every_configuration
def test_the_order_of_the_rows_does_not_matter(configuration):
    for X, y in (crease(), shop()):
        y = np.asarray(y)
        other = np.random.default_rng(3).permutation(len(y))
        shuffled = X.iloc[other] if hasattr(X, "iloc") else X[other]
        model = fitted(configuration, X, y)
        again = fitted(configuration, shuffled, y[other])
        assert_same_tree(again.tree_, model.tree_, tolerance=1e-9)


@pytest.mark.parametrize(
    ("configuration", "table", "options"),
    [
        *(("default", "numbers", {"prune": rule}) for rule in ("holdout", None)),
        ("secret", "numbers", {"prune": "holdout"}),
        ("secret", "numbers", {"prune": None, "splits__n_starts": 4}),
        ("paper", "numbers", {"prune": None}),
        *(("default", "categories", {}), ("default", "gaps", {})),
        *(("secret", "gaps", {}), ("paper", "categories", {})),
    ],
)
def test_a_weight_of_two_is_two_rows(configuration, table, options):
    # Indicators need 30 rows a category and 30 gaps.
    X, y = shop(240)
    if table == "gaps":
        gone = np.random.default_rng(5).random((len(X), 2)) < 0.25
        X[["width", "height"]] = X[["width", "height"]].mask(gone)
    if table == "numbers":
        X, y = map(pd.DataFrame, crease(80))
    weight = np.random.default_rng(1).integers(1, 3, len(y)) + (table != "numbers")
    repeat = np.repeat(np.arange(len(y)), weight)
    options = options | {"min_samples_split": 0.15}  # in few rows rounding decides
    weighted = fitted(configuration, X, y.squeeze(), weight, **options)
    again = X.iloc[repeat], y.iloc[repeat].squeeze()
    repeated = fitted(configuration, *again, **options)
    schema, other = weighted.tree_.schema, repeated.tree_.schema
    assert schema.labels == other.labels
    if configuration == "default":
        assert len(schema.indicators) == 4 or table != "categories"
        assert len(schema.missing_modelled) == (2 if table == "gaps" else 0)
    assert dict(schema.missing_shares) == pytest.approx(dict(other.missing_shares))
    # A row of weight two is one row, of that weight.
    assert_same_tree(weighted.tree_, repeated.tree_, skip=("n_rows",))
    assert weighted.n_leaves_grown_ == repeated.n_leaves_grown_ > 1
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-4)


@pytest.mark.parametrize("prune", ["auto", "holdout"])
def test_rows_of_a_prune_set_that_train_are_rows(prune):
    X, y = shop()
    own = (X["colour"] != "white") & (np.arange(len(X)) % 3 > 0)
    share = np.where(own, 0.0, 0.3)[:, None]
    X = X.mask(np.random.default_rng(5).random(X.shape) < share)
    # Rows that are held out say which columns are regressors.
    how = {"prune": prune, "leaf": Ridge(drops_regressors=prune == "auto")}

    def parted(X, y, own, weight=None):
        first, pruning = (X[own], y[own]), (X[~own], y[~own])
        if weight is not None:
            first, pruning = (*first, weight[own]), (*pruning, weight[~own])
        return fitted("default", *first, eval_set=pruning, **how).tree_

    tree, together = parted(X, y, own), fitted("default", X, y, **how).tree_
    schema = tree.schema
    assert schema.categories == together.schema.categories
    assert schema.categories[0][-2:] == ("white", None)
    assert schema.labels == together.schema.labels
    np.testing.assert_allclose(schema.center, together.schema.center, atol=1e-12)
    np.testing.assert_allclose(schema.scale, together.schema.scale, rtol=1e-12)
    if prune == "auto":  # cross-validates both together
        assert_same_tree(tree, together)
    weight = np.random.default_rng(6).integers(1, 3, len(X))
    repeat = np.repeat(np.arange(len(X)), weight)
    repeated = parted(*(part.iloc[repeat] for part in (X, y, own)))
    assert_same_tree(parted(X, y, own, weight), repeated, skip=("n_rows",))


def test_weights_of_both_parts_have_one_unit():
    X, y = crease()
    weight = np.random.default_rng(4).uniform(0.5, 1.5, len(y))
    parts = (weight[:80], weight[80:]), (8 * weight[:80], 8 * weight[80:])
    trees = [
        fitted("default", X[:80], y[:80], a, eval_set=(X[80:], y[80:], b)).tree_
        for a, b in parts
    ]
    assert tree_bytes(trees[0]) == tree_bytes(trees[1])
    assert_same_tree(trees[0], fitted("default", X, y, weight).tree_)


def test_rows_that_only_prune_bring_no_category():
    X, y = shop()
    pruning = X.assign(colour="violet"), y
    with pytest.warns(UnseenCategoryWarning, match="violet"):
        model = fitted("paper", X, y, eval_set=pruning)
    assert "violet" not in model.tree_.schema.categories[0]


@every_configuration
def test_a_row_without_weight_is_no_row(configuration):
    frame, y = shop()
    weight = np.random.default_rng(2).integers(0, 2, len(y))
    # Not even its category is seen.
    frame.loc[frame.index[weight == 0][0], "colour"] = "only without weight"
    model = fitted(configuration, frame, y, weight)
    other = fitted(configuration, frame[weight > 0], y[weight > 0])
    assert tree_bytes(model.tree_) == tree_bytes(other.tree_)


@pytest.mark.parametrize("prune", ["auto", "holdout"])
def test_five_seeds_give_one_tree(prune):
    """Samples, folds and points of a second growth follow from the rows alone."""
    X, y = crease()
    first, *others = (
        tree_bytes(fitted("default", X, y, prune=prune, random_state=seed).tree_)
        for seed in (0, 1, 2, 3, None)
    )
    assert others == [first] * 4


def test_random_starts_follow_the_seed():
    X, y = crease()
    options = {"splits__start": "rows", "prune": None}
    trees = [
        tree_bytes(fitted("secret", X, y, random_state=seed, **options).tree_)
        for seed in (0, 0, 1)
    ]
    assert trees[0] == trees[1] != trees[2]


@every_configuration
def test_constant_and_duplicated_columns_bring_nothing_and_harm_nothing(configuration):
    X, y = crease()
    X = X[:, :1]
    y = np.round(np.abs(4 * X[:, 0]) * 64) / 64 + y / 64
    model = fitted(configuration, np.c_[X, X, np.full(len(X), 7.0)], y)
    assert model.n_leaves_ > 1
    fresh = np.linspace(-1, 1, 21)
    table = np.c_[fresh, fresh, np.full(21, 7.0)]
    np.testing.assert_allclose(model.predict(table), np.abs(4 * fresh), atol=0.8)
    assert (model.tree_.attribute[model.tree_.kind == SplitKind.AXIS] != 2).all()
    # A constant column has no slope: a change of it changes nothing.
    moved = np.c_[fresh, fresh, np.full(21, 107.0)]
    np.testing.assert_allclose(model.predict(moved), model.predict(table), atol=1e-4)


@every_configuration
def test_discrete_columns_are_enough(configuration):
    frame, _ = shop(64)
    effect = frame["colour"].map(
        {"red": 5.0, "white": 4.0, "green": -4.0, "blue": -5.0}
    )
    y = effect + np.tile([0.25, -0.25], 32)
    # With indicators the equation of the root says it all.
    options = {"min_samples_leaf": 1, "prune": None}
    if configuration != "paper":
        options["leaf__indicators"] = False
    model = fitted(configuration, frame[["colour"]], y, **options)
    assert set(model.tree_.kind) == {SplitKind.LEAF, SplitKind.DISCRETE}
    assert model.score(frame[["colour"]], y) > 0.9
    leaf = model.apply(frame[["colour"]])
    for node in np.unique(leaf):
        mean = y[leaf == node].mean()
        np.testing.assert_allclose(
            model.predict(frame[["colour"]])[leaf == node], mean, atol=0.5
        )


@every_configuration
def test_planes_that_are_far_apart_are_recovered_without_noise(configuration):
    options: dict = {"leaf": LeastSquares(clip_margin=None)}
    if configuration == "paper":  # all rows grow: of a part others may be likelier
        options = {"prune": None}
    model = fitted(configuration, *planes(), **options)
    X, y = planes(seed=1)
    assert model.n_leaves_ <= 4
    assert model.score(X, y) > 0.99
    if configuration == "paper":
        assert model.n_leaves_ == 2
        np.testing.assert_allclose(model.predict(X), y, atol=1e-3)
