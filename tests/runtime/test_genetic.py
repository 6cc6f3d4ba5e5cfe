"""Genetic search: its distributions, and its end."""

from __future__ import annotations

import numpy as np

from secret_jax.runtime.genetic import children, random_genes

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
