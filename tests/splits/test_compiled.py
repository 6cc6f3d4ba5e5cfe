"""What the compiled programs of the finders hold."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from secret_jax import RssSplits, SecretSplits
from secret_jax.grow.program import find_splits
from secret_jax.learners import (
    CartSplits,
    GuideSplits,
    PhdSplits,
    RetisSplits,
    SupportSplits,
)
from secret_jax.splits.interface import Columns, Node

N_NODES, N_ROWS, N_COLUMNS = 2, 256, 3


def nodes_for(finder, n_outputs):
    shape = (N_NODES, N_ROWS)
    return Node(
        x=np.zeros((*shape, N_COLUMNS), np.float32),
        codes=np.zeros((*shape, 1), np.int32),
        targets=np.zeros((*shape, n_outputs), np.float32),
        weight=np.zeros(shape, np.float32),
        min_weight=np.zeros(N_NODES, np.float32),
        random=np.zeros((N_NODES, finder.n_random(N_COLUMNS)), np.float32),
        coefficient=np.zeros((N_NODES, n_outputs, 1 + N_COLUMNS), np.float32),
        degrees=np.zeros(N_NODES, np.float32),
        oblique=np.ones(N_NODES, bool),
        allowed=np.ones((N_NODES, N_COLUMNS + 1), bool),
        extra={},
        columns=Columns(n_regressors=N_COLUMNS, n_categories=4),
    )


@pytest.mark.parametrize(
    ("finder", "n_outputs"),
    [
        (RssSplits(), 2),
        (SecretSplits(), 2),
        (CartSplits(), 2),
        (GuideSplits(), 2),
        (GuideSplits(n_bootstraps=2), 1),
        (RetisSplits(), 2),
        (SupportSplits(), 2),
        (PhdSplits(), 2),
    ],
    ids=lambda value: getattr(type(value), "__name__", value),
)
def test_no_batched_lapack_call_is_compiled(finder, n_outputs):
    """Two of them at once can wait for each other for ever on the CPU."""
    arrays, structure = jax.tree.flatten(nodes_for(finder, n_outputs))

    def search(arrays):
        nodes = jax.tree.unflatten(structure, arrays)
        plain = find_splits.__wrapped__
        return plain(nodes, N_NODES, finder=finder, together=True)

    text = jax.jit(search).lower(arrays).as_text()
    assert "stablehlo" in text
    assert "lapack" not in text
    assert "triangular_solve" not in text
