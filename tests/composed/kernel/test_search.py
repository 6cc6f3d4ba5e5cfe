"""Searches of columns, kernels and smoothers, and the criteria that they compare."""

from __future__ import annotations

import numpy as np
import pytest

from secret_jax import KernelTreeRegressor, SecretRegressor
from secret_jax.composed.base import Given
from secret_jax.composed.kernel import (
    GaussianProcess,
    GeneticSearch,
    GreedySearch,
    RadialBasis,
    Smoothing,
)
from secret_jax.composed.kernel import search as criteria
from secret_jax.composed.kernel.interface import HeadFit, Regions
from secret_jax.composed.kernel.search import children, random_genes
from secret_jax.composed.kernel.trees import HEADS

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

    *_, last = search.results(RadialBasis(), 5, score, 1)
    assert last.head == BEST
    assert last.criterion == 0.0
    assert last.n_scored == len(asked) == len(set(asked))


def test_heads_that_differ_by_rounding_are_equal():
    better = dict.fromkeys(RadialBasis().kernels, 4781.82251) | {"cauchy": 4781.82250}
    head = RadialBasis(columns=(0,))
    scores = head, 1, lambda head: better[head.kernel], 0
    *_, last = GreedySearch().results(*scores)
    assert last.head == head


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


def test_bad_searches_and_heads_are_refused():
    X, y = table()
    with pytest.raises(ValueError, match="'search' parameter of KernelTreeRegressor"):
        KernelTreeRegressor(TREE, search="random").fit(X, y)
    with pytest.raises(ValueError, match="'criterion' parameter of GreedySearch"):
        KernelTreeRegressor(TREE, search=GreedySearch(criterion="mse")).fit(X, y)
    with pytest.raises(ValueError, match=r"semi-definite\. Give one of 'gaussian'"):
        GaussianProcess(kernel="sigmoid").check()
    with pytest.raises(ValueError, match="'smoother' parameter of RadialBasis"):
        RadialBasis(smoother="flat").check()
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
        known[HEADS[head]] = criteria.of_numbers("icomp", fit, rows)
    assert model.head_ == min(known, key=known.__getitem__)


RNG = np.random.default_rng(0)


def test_complexity_is_equation_3_32():
    variance, n = np.array([0.5, 2.0, 1.5]), np.array([10.0, 30.0, 7.0])
    inverse = np.diag(np.ravel([variance / n, 2 * variance**2 / n]))  # (3.31)
    q = len(inverse)
    c1 = q / 2 * np.log(np.trace(inverse) / q) - 0.5 * np.linalg.slogdet(inverse)[1]
    np.testing.assert_allclose(criteria.complexity(variance, n), c1)
    # Expanded as its last line is, with n² in the determinant.
    k = len(n)
    expanded = k * np.log(((variance + 2 * variance**2) / n).sum() / (2 * k))
    expanded -= 0.5 * (np.log(2 * variance**3 / n**2)).sum()
    np.testing.assert_allclose(criteria.complexity(variance, n), expanded)
    assert criteria.complexity(np.array([0.5]), np.array([4.0])) == 0.0  # σ² = 2 σ⁴


def case():
    leaf = np.repeat([3, 4, 7], [12, 20, 8])
    target = RNG.normal(size=(40, 1))
    rows = Regions(
        RNG.normal(size=(40, 2)), leaf, target, np.zeros((40, 1)), np.ones(40)
    )
    left_out = 0.5 * target + 0.1 * RNG.normal(size=(40, 1))
    fitted = left_out + 0.2 * (target - left_out)  # every row says a fifth of itself
    return rows, HeadFit(None, np.arange(40), fitted, left_out)


def added(name, k, variance, n):
    """What a criterion adds to twice the negative log-likelihood of 40 rows."""
    return {
        "aic": 2 * k,
        "bic": np.log(40) * k,
        "caic": (np.log(40) + 1) * k,
        "icomp": 2 * criteria.complexity(np.array(variance), np.array(n)),
    }[name]


@pytest.mark.parametrize("name", criteria.CRITERIA)
def test_criteria_of_numbers_are_likelihoods_and_penalties(name):
    rows, fit = case()
    said = fit.left_out if name == "icomp" else fit.fitted
    log_likelihood, variance, n = 0.0, [], []
    for leaf in (3, 4, 7):
        error = (rows.target - said)[rows.leaf == leaf, 0]
        variance.append(np.mean(error**2))
        n.append(len(error))
        normal = -0.5 * np.log(2 * np.pi * variance[-1]) - error**2 / (2 * variance[-1])
        log_likelihood += normal.sum()  # (3.22)
    found = criteria.of_numbers(name, fit, rows)
    expected = -2 * log_likelihood + added(name, 0.2 * 40 + 3, variance, n)
    np.testing.assert_allclose(found, expected)


def test_degrees_are_the_trace_of_a_smoother():
    rows, _ = case()
    network = RadialBasis(kernel="gaussian", smoother="mle").fit(rows)
    # Refitted with a target moved, the network says how much a row says of itself,
    # unless it chooses otherwise.
    trace = 0.0
    for row in range(40):
        target = rows.target.copy()
        target[row] += 1e-5
        moved = RadialBasis(kernel="gaussian", smoother="mle").fit(
            rows._replace(target=target)
        )
        trace += 1e5 * (moved.fitted - network.fitted)[row, 0]
    found = criteria.degrees_of(network, rows.target, rows.weight)
    np.testing.assert_allclose(found, trace, rtol=0.3)


def test_spreads_of_classes_are_equation_3_36():
    x = RNG.normal(size=(30, 2))
    member = np.eye(3)[RNG.integers(0, 3, 30)]
    head = Smoothing(kernel="gaussian", smoother="identity")
    found = criteria.class_spreads(head, x, member, np.ones(30))
    for g in range(3):
        own = x[member[:, g] > 0]
        square = ((own - own.mean(axis=0)) ** 2).sum(axis=1)
        kernel = np.exp(-square / (2 * 2))  # a bandwidth of the root of two columns
        np.testing.assert_allclose(found[g], 2 * np.mean(1 - kernel))


@pytest.mark.parametrize("name", criteria.CRITERIA)
def test_criteria_of_classes(name):
    member = np.eye(3)[RNG.integers(0, 3, 40)]
    probability = RNG.dirichlet(np.ones(3), 40)
    rows, fit = case()
    rows = rows._replace(target=member)
    fit = HeadFit(None, fit.row, 0.2 * member + 0.8 / 3, np.full((40, 3), 1 / 3))
    head = RadialBasis(kernel="gaussian")
    found = criteria.of_classes(name, fit, rows, probability, member, head)
    deviance = -2 * np.log(probability[member > 0]).sum()
    spread = criteria.class_spreads(head, rows.x, member, rows.weight)
    more = added(name, 0.2 * 40 * 3, spread, member.sum(axis=0))
    np.testing.assert_allclose(found, deviance + more)


N_VALUES = np.array([2, 3, 5, 2])


def uniform(*shape):
    return np.random.default_rng(0).random(shape)


def test_genes_are_uniform():
    genes = random_genes(uniform(6000, 4), N_VALUES)
    for gene, n_values in zip(genes.T, N_VALUES, strict=True):
        count = np.bincount(gene, minlength=n_values) * n_values / 6000
        assert len(count) == n_values
        np.testing.assert_allclose(count, 1.0, atol=0.1)
    most = random_genes(np.full((1, 4), np.nextafter(np.float32(1), 0)), N_VALUES)
    assert most.tolist() == [(N_VALUES - 1).tolist()]


def test_parents_follow_the_geometric_distribution_of_ranks():
    # Rows that carry their own number in every gene tell their parents.
    n_rows, n_children = 10, 40_000
    genes = np.repeat(np.arange(n_rows)[:, None], 4, axis=1)
    made = children(genes, np.full(4, n_rows), uniform(n_children, 14))
    share = np.bincount(made.ravel(), minlength=n_rows) / made.size
    expected = 0.08 * 0.92 ** np.arange(n_rows) / (1 - 0.92**n_rows)
    expected = 0.98 * expected + 0.02 / n_rows  # and what mutates
    np.testing.assert_allclose(share, expected, atol=0.004)
    # Both parents are asked alike: half of the neighbouring genes are of one of them.
    same = (made[:, 1:] == made[:, :-1]).mean()
    alike = (expected**2).sum()
    np.testing.assert_allclose(same, 0.5 + 0.5 * alike, atol=0.04)
