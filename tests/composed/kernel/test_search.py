"""Searches of columns, kernels and smoothers."""

from __future__ import annotations

import numpy as np
import pytest

from secret_jax import KernelTreeRegressor, SecretRegressor
from secret_jax.composed.base import Given
from secret_jax.composed.kernel import GeneticSearch, GreedySearch, RadialBasis
from secret_jax.composed.kernel.criteria import of_numbers
from secret_jax.composed.kernel.search import Heads

TREE = SecretRegressor(splits="cart", oblique=False, prune=None, leaf="constant")
TREE.set_params(max_depth=3)


def table():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 5))
    return X, np.sin(3 * X[:, 0]) + X[:, 2] ** 2 + 0.05 * rng.normal(size=300)


def separable(head):
    """A criterion whose least value is known: columns 0 and 3, cauchy, csce."""
    off = len({0, 3} ^ set(head.columns)) + (head.kernel != "cauchy")
    return 10.0 * (off + (head.smoother != "csce")) if head.columns else np.inf


BEST = RadialBasis(kernel="cauchy", smoother="csce", columns=(0, 3))


@pytest.mark.parametrize("search", [GeneticSearch(max_generations=60), GreedySearch()])
def test_the_best_head_is_found_and_none_is_fitted_twice(search):
    asked = []

    def score(head):
        asked.append(head)
        return separable(head)

    *_, last = search.turns(Heads(RadialBasis(), 5, score), 1)
    assert last.head == BEST
    assert last.criterion == 0.0
    assert last.n_scored == len(asked) == len(set(asked))


def test_heads_that_differ_by_rounding_are_equal():
    better = dict.fromkeys(RadialBasis().kernels, 4781.82251) | {"cauchy": 4781.82250}
    heads = Heads(RadialBasis(columns=(0,)), 1, lambda head: better[head.kernel])
    *_, last = GreedySearch().turns(heads, 0)
    assert last.head == RadialBasis(columns=(0,))


@pytest.mark.parametrize("search", ["genetic", "greedy"])
def test_columns_of_noise_are_left_out_and_errors_fall(search, tmp_path):
    X, y = table()
    plain = KernelTreeRegressor(TREE, head="rbf").fit(X[:200], y[:200])
    few = GeneticSearch(n_heads=16, n_kept=4, max_generations=6)
    model = KernelTreeRegressor(
        TREE, head="rbf", search=few if search == "genetic" else search
    ).fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > plain.score(X[200:], y[200:])
    assert {0, 2} <= set(model.head_.columns)
    assert model.search_.head == model.head_
    model.save(tmp_path / "model")
    again = KernelTreeRegressor.load(tmp_path / "model")
    assert again.search_.criterion == model.search_.criterion
    assert np.array_equal(again.predict(X), model.predict(X))


def test_a_fit_that_fails_keeps_the_last_search(monkeypatch):
    def fails(*given):
        raise KeyboardInterrupt

    model = KernelTreeRegressor(TREE, head="rbf", search="greedy").fit(*table())
    before = dict(vars(model.set_params(search=None)))
    monkeypatch.setattr(RadialBasis, "fit", fails)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*table())
    assert vars(model) == before


def test_bad_searches_are_refused():
    X, y = table()
    with pytest.raises(ValueError, match="'search' parameter of KernelTreeRegressor"):
        KernelTreeRegressor(TREE, search="random").fit(X, y)
    with pytest.raises(ValueError, match="'criterion' parameter of GreedySearch"):
        KernelTreeRegressor(TREE, search=GreedySearch(criterion="mse")).fit(X, y)
    with pytest.raises(ValueError, match="names the column 7; the tree has 5"):
        KernelTreeRegressor(TREE, head=RadialBasis(columns=(0, 7))).fit(X, y)


@pytest.mark.parametrize(("head", "search"), [("auto", None), ("rbf", "greedy")])
def test_a_constant_target_has_criteria(head, search):
    X, y = table()[0][:40], np.zeros(40)  # warnings, as of log(0), are errors
    model = KernelTreeRegressor(TREE, head=head, search=search).fit(X, y)
    assert np.array_equal(model.predict(X), y)


def test_the_head_of_the_least_criterion_is_taken():
    X, y = table()
    model = KernelTreeRegressor(TREE, head="auto").fit(X[:200], y[:200])
    known, given = {}, Given(X[:200], y[:200], None, None)
    for head in ("kernel", "local", "rbf", "gp"):
        # A search of no turns scores nothing, so the criterion is asked for itself.
        one = KernelTreeRegressor(TREE, head=head)
        _, rows, fit = one._with_head(model.tree_, given, y[:200, None])
        known[one._heads[0]] = of_numbers("icomp", fit, rows)
    assert model.head_ == min(known, key=known.__getitem__)
