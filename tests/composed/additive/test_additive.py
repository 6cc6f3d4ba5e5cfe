"""Trees behind curves: what they predict, say and refuse."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sum_of_effects import sum_of_effects

from secret_jax import SecretAdditiveRegressor, SecretRegressor
from secret_jax.tree.archive import ModelFileError

TREE = SecretRegressor(oblique=False, distill=False)


def with_an_interaction(n, seed):
    """A sum of effects with one interaction, of columns of all kinds."""
    X, y, random = sum_of_effects(n, seed)
    y += 2.0 * (X["number"] > 0) * X["gaps"].fillna(0)
    return X, (y + 0.1 * random.normal(size=n)).rename("effect")


@pytest.fixture(scope="module")
def rows():
    return with_an_interaction(500, 0)


@pytest.fixture(scope="module")
def model(rows):
    return SecretAdditiveRegressor(TREE).fit(*rows)


def test_prediction_is_the_curves_and_the_tree(rows, model):
    X, _ = rows
    table = model._table(X)
    # The curves by hand: straight between their points.
    total = np.full(len(X), model.intercept_)
    for (terms, missing, _), said in zip(
        model.curves_, model.contributions(X).T, strict=True
    ):
        points = terms.values[:, 0]
        if terms.attribute >= 0:
            by_code = dict(zip(terms.at, points, strict=True))
            value = np.array([by_code[code] for code in table.codes[:, 0]])
        else:
            value = np.interp(table.x[:, terms.column], terms.at, points)
        if terms.indicator >= 0:
            value[table.x[:, terms.indicator] > 0] = missing
        np.testing.assert_allclose(said, value, atol=1e-12)
        total += value
    rest, deviation = model.tree_.predict(X, return_std=True)
    np.testing.assert_allclose(model.predict(X), total + rest)
    found = model.predict(X, return_std=True)
    np.testing.assert_array_equal(found[1], deviation)
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(X) == found[0]).all()


def test_curves_help_where_effects_add_up(rows, model):
    others, truth = with_an_interaction(2000, 1)
    plain = TREE.fit(*rows)
    usual, error = (np.mean((m.predict(others) - truth) ** 2) for m in (plain, model))
    assert error < 0.5 * usual
    copy = pickle.loads(pickle.dumps(model)).conformalize(others[::2], truth[::2])
    low, high = copy.predict_interval(others[1::2], coverage=0.8)
    assert 0.75 < np.mean((low <= truth[1::2]) & (truth[1::2] <= high)) < 0.85
    unseen = others[:3].assign(kind="never")
    with pytest.warns(UserWarning, match="never"):
        assert np.isfinite(model.predict(unseen)).all()


def test_weights_are_copies(rows):
    X, y = rows[0][:200].drop(columns="day"), rows[1][:200]
    weight = np.random.default_rng(0).integers(0, 3, 200)
    index = np.repeat(np.arange(200), weight)
    tree = SecretRegressor(max_depth=1, oblique=False, prune=None)
    one = SecretAdditiveRegressor(tree).fit(X, y, weight.astype(float))
    other = SecretAdditiveRegressor(tree).fit(X.iloc[index], y.iloc[index])
    np.testing.assert_allclose(one.predict(X), other.predict(X), atol=1e-4)


def test_the_text_tells_the_curves_first(model):
    text = model.export_text()
    first, _, tree = text.partition("\n\nrest of effect: ")
    assert first.startswith("effect = ")
    for words in ("kind (+- ", "day (weekday) (+- ", "missing: +", "numbers to read"):
        assert words in first
    assert "rest of effect = " in tree
    assert "\neffect = " not in tree


def test_pictures(model):
    axes = model.plot_curves().axes
    assert len(axes) == len(model.curves_)
    top = max(model.curves_, key=lambda curve: np.ptp(curve.value))
    assert min(ax.get_ylim()[0] for ax in axes) <= top.value.min()
    assert axes[0].yaxis.get_major_formatter()(150_000) == "150k"
    assert len(model.plot_curves(max_curves=2).axes) == 2
    nothing = SecretAdditiveRegressor(TREE).fit(np.zeros((30, 1)), np.arange(30.0))
    with pytest.raises(ValueError, match="no curves"):
        nothing.plot_curves()


def test_what_cannot_be_is_refused(rows):
    X, y = rows
    with pytest.raises(ValueError, match="single output"):
        SecretAdditiveRegressor(TREE).fit(X, np.c_[y, y])
    with pytest.raises(ValueError, match="'tree' parameter of SecretAdditiveReg"):
        SecretAdditiveRegressor("m5").fit(X, y)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="'n_folds' parameter"):
        SecretAdditiveRegressor(n_folds=1).fit(X, y)


def test_files_keep_curves_and_tree(rows, model, tmp_path):
    X, y = rows
    copy = pickle.loads(pickle.dumps(model)).conformalize(X[:50], y[:50])
    copy.save(tmp_path / "sum")
    again = SecretAdditiveRegressor.load(tmp_path / "sum")
    assert (again.predict(X) == model.predict(X)).all()
    assert again.export_text() == model.export_text()
    assert again.tree.get_params() == TREE.get_params()
    np.testing.assert_array_equal(
        again.predict_interval(X[:9]), copy.predict_interval(X[:9])
    )
    copy.note_ = "of the user"
    copy.fit(X[:100], y[:100])
    assert copy.note_ == "of the user"
    assert not hasattr(copy, "conformity_scores_")
    with pytest.raises(ModelFileError, match="Read it with SecretAdditiveRegressor"):
        SecretRegressor.load(tmp_path / "sum")
    model.tree_.save(tmp_path / "tree")
    with pytest.raises(ModelFileError, match="Read it with SecretRegressor"):
        SecretAdditiveRegressor.load(tmp_path / "tree")


def test_bad_rows_are_refused_and_leave_it_as_it_was(rows):
    X, y = rows[0][["number", "gaps"]].to_numpy(float), rows[1].to_numpy()
    model = SecretAdditiveRegressor(TREE)
    with pytest.raises(NotFittedError, match="SecretAdditiveRegressor instance"):
        model.predict(X)
    with pytest.raises(ValueError, match="row 3 is nan"):
        model.fit(X, np.where(np.arange(len(y)) == 3, np.nan, y))
    before = model.fit(X, y).predict(X)
    with pytest.raises(ValueError, match="1 features, but SecretAdditiveRegressor"):
        model.predict(X[:, :1])
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X[:, :1], np.full(len(y), np.nan))
    assert np.array_equal(model.predict(X), before)
