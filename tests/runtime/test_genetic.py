"""Genetic search: its distributions, and its end."""

from __future__ import annotations

import numpy as np

from secret_jax.runtime.genetic import children, evolve, random_genes

N_VALUES = np.array([2, 3, 5, 2])


def distance(genes):
    """Rugged: a sum of what differs, and of what two neighbours say together."""
    target = np.array([1, 2, 3, 0])
    return 5.0 * (genes != target).sum(axis=1) + 2.0 * (genes[:, 0] == genes[:, 3])


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
    score = np.random.default_rng(1).permutation(n_rows).astype(float)
    made = children(genes, score, np.full(4, n_rows), uniform(n_children, 14))
    share = np.bincount(made.ravel(), minlength=n_rows) / made.size
    rank = np.argsort(np.argsort(score))
    expected = 0.08 * 0.92**rank / (1 - 0.92**n_rows)
    expected = 0.98 * expected + 0.02 / n_rows  # and what mutates
    np.testing.assert_allclose(share, expected, atol=0.004)
    # Both parents are asked alike: half of the neighbouring genes are of one of them.
    same = (made[:, 1:] == made[:, :-1]).mean()
    alike = (expected**2).sum()
    np.testing.assert_allclose(same, 0.5 + 0.5 * alike, atol=0.04)


def test_the_best_is_found_kept_and_the_same_for_one_seed():
    every = list(evolve(distance, N_VALUES, seed=3, n_rows=20, n_kept=4))
    best = [population.score[0] for population in every]
    assert best == sorted(best, reverse=True)
    assert every[-1].genes[0].tolist() == [1, 2, 3, 0]
    for population in every:
        assert np.array_equal(population.score, distance(population.genes))
        assert (np.diff(population.score) >= 0).all()
    *_, again = evolve(distance, N_VALUES, seed=3, n_rows=20, n_kept=4)
    assert np.array_equal(again.genes, every[-1].genes)
    other = next(evolve(distance, N_VALUES, seed=4, n_rows=20, n_kept=4))
    assert not np.array_equal(other.genes, every[0].genes)


def test_it_ends_when_best_and_worst_are_alike_and_ignores_what_has_no_score():
    assert len(list(evolve(lambda genes: np.ones(len(genes)), N_VALUES, seed=0))) == 1
    options = {"seed": 5, "max_generations": 9, "tolerance": 0.0}
    every = list(evolve(distance, N_VALUES, **options))
    assert [population.generation for population in every] == list(range(10))

    def some(genes):
        return np.where(genes[:, 0] == 0, np.nan, distance(genes))

    *_, last = evolve(some, N_VALUES, seed=0, max_generations=12)
    assert last.genes[0].tolist() == [1, 2, 3, 0]
    assert not np.isnan(last.score).any()
