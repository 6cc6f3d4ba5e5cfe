"""Groups of rows choose the size of a tree together."""

from itertools import product

import numpy as np
import pytest
from configurations import persons
from sklearn.linear_model import LinearRegression

from secret_jax import (
    Distillation,
    HoldOut,
    KernelTreeClassifier,
    KernelTreeRegressor,
    SecretBoostingRegressor,
    SecretClassifier,
    SecretOrdinalClassifier,
    SecretRegressor,
)
from secret_jax.data.hashes import measured_again
from secret_jax.fit.prepare import parts_of
from secret_jax.fit.refine import tao
from secret_jax.fit.refine.tao import Tao


def test_parts_hold_whole_groups_of_similar_weight():
    rng = np.random.default_rng(1)
    group, weight = rng.integers(0, 60, 400), rng.uniform(0.5, 1.5, 400)
    parts = parts_of(weight, 5, 2, group)
    assert len(parts) == 10
    for repeat in (parts[:5], parts[5:]):
        assert (np.sum(repeat, axis=0) == 1).all()
        for part in repeat:
            assert not set(group[part]) & set(group[~part])
            assert 0.1 < weight[part].sum() / weight.sum() < 0.3


@pytest.mark.parametrize("prune", ["cross-validation", HoldOut(refit=False)])
def test_what_holds_for_no_other_person_is_not_learned(prune):
    X, y, who = persons()
    model = SecretRegressor(oblique=False, leaf="constant", distill=False, prune=prune)
    assert model.fit(X, y).n_leaves_ > 20
    honest = model.fit(X, y, groups=who).predict(X)
    assert model.n_leaves_ < 10
    order = np.random.default_rng(2).permutation(len(y))
    again = model.fit(X[order], y[order], groups=who[order]).predict(X)
    np.testing.assert_array_equal(again, honest)


@pytest.mark.parametrize(
    ("prune", "distill"),
    [("cross-validation", False), ("cross-validation", True), (HoldOut(), False)],
)
def test_passes_are_judged_by_other_persons(prune, distill, monkeypatch):
    X, y, who = persons()
    grew, judged = [], []
    fit, errors = tao.fit_models, tao.row_errors

    def fitted(trees, parts, *others):
        grew.extend(part.group for part in parts)
        return fit(trees, parts, *others)

    def erring(tree, rows):
        judged.append(rows.group)
        return errors(tree, rows)

    monkeypatch.setattr(tao, "fit_models", fitted)
    monkeypatch.setattr(tao, "row_errors", erring)
    taught = Distillation(most_rise=100.0) if distill else False
    model = SecretRegressor(oblique=False, distill=taught, prune=prune, refine=Tao())
    model.fit(X, y, groups=who)
    assert not set(grew[0]) & set(judged[0])
    assert len(set(grew[0]) | set(judged[0])) == len(set(who))
    assert 0.15 < len(judged[0]) / len([*grew[0], *judged[0]]) < 0.35


def test_one_group_one_row_and_large_shares_of_a_few_are_fitted_others_refused():
    X, y, who = persons(20)
    for prune in ("cross-validation", HoldOut(), HoldOut(fraction=0.7)):
        for groups in (np.zeros(len(y)), who // 5):
            model = SecretRegressor(prune=prune).fit(X, y, groups=groups)
            assert np.isfinite(model.predict(X)).all()
    model = SecretRegressor.accurate(gates=False).fit([[1.0]], [2.0])
    assert model.predict([[5.0]]) == 2.0
    with pytest.raises(ValueError, match="groups or eval_set"):
        SecretRegressor().fit(X, y, groups=who, eval_set=(X, y))
    with pytest.raises(ValueError, match="120 names"):
        SecretRegressor().fit(X, y, groups=who[:9])


def test_boosters_judge_themselves_on_other_persons():
    X, y, who = persons()
    model = SecretBoostingRegressor(max_leaf_nodes=8, max_iter=30)
    careless = model.fit(X, y).validation_error_
    assert careless < 0.5 * model.fit(X, y, groups=who).validation_error_
    found = [set(model._rows.group[part]) for part in model._boosted.parts]
    assert sum(map(len, found)) == len(set.union(*found)) == 50
    alone = model.fit(X, y, groups=np.zeros(len(y)))
    assert np.isfinite(alone.predict(X)).all()


@pytest.mark.parametrize(
    "model",
    [
        KernelTreeRegressor(SecretRegressor(oblique=False, leaf="constant")),
        KernelTreeClassifier(SecretClassifier(oblique=False, leaf="constant")),
        SecretOrdinalClassifier(SecretRegressor(oblique=False, leaf="constant")),
    ],
    ids=lambda model: type(model).__name__,
)
def test_the_tree_of_a_composed_estimator_is_judged_on_other_persons(model):
    X, y, who = persons()
    y = np.digitize(y, [0.5]) if hasattr(model, "predict_proba") else y
    careless = model.fit(X, y).tree_.n_leaves_
    assert model.fit(X, y, groups=who).tree_.n_leaves_ < 0.6 * careless


def subjects(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of subjects, of whom each is measured twenty times."""
    random = np.random.default_rng(seed)
    X = np.column_stack([random.normal(size=(n, 2)), random.uniform(20, 80, n)])
    level = 0.5 * X[:, 0] + 0.02 * X[:, 2] + random.normal(size=n)
    return np.repeat(X, 20, axis=0), np.repeat(level, 20) + random.normal(size=20 * n)


@pytest.mark.parametrize("seed", range(3))
def test_repeated_measures_of_a_subject_do_not_judge_each_other(seed):
    (X, y), new = subjects(seed, 80), subjects(99, 2000)
    line = LinearRegression().fit(X, y).score(*new)
    model = SecretRegressor().fit(X, y)
    assert model.score(*new) > line - 0.06
    assert model.n_leaves_ < 6


def grouped(numbers, codes, y) -> np.ndarray | None:
    codes = np.zeros((len(y), 0), np.int32) if codes is None else codes[:, None]
    return measured_again(list(np.transpose(numbers)), codes, y[:, None])


def test_rows_are_repeated_measures_by_what_their_columns_hold():
    random = np.random.default_rng(0)
    X, y = subjects(0, 80)
    who = np.repeat(np.arange(80, dtype=np.int32), 20)
    group = grouped(X, None, y)
    assert group is not None
    pairs = np.unique(np.column_stack([group, who]), axis=0)
    assert len(pairs) == len(np.unique(group)) == 80
    assert grouped(X, who % 2, y) is not None
    assert grouped(X, who, y) is None  # a category names them: its effect is wanted
    assert grouped(X, None, who + 0.0) is None  # copies
    assert grouped(X[:100], None, y[:100]) is None  # five subjects
    unlike = X + (np.arange(1600) % 20)[:, None]
    assert grouped(unlike, None, y) is None
    truth = random.integers(0, 2, (1600, 5))
    levels = np.column_stack([random.integers(0, 60, 1600), truth[:, 0]])
    design = np.array(list(product(range(4), range(5), range(4))))
    for table in (truth, levels, levels[:, :1], np.repeat(design, 20, axis=0)):
        assert grouped(table.astype(float), None, y) is None
