"""What the compiled programs of the finders hold."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from node_batches import nodes_of
from secret_jax.grow.program import find_splits

from secret_jax import RssSplits
from secret_jax.learners import (
    CartSplits,
    GuideSplits,
    PhdSplits,
    RetisSplits,
    SupportSplits,
)
from secret_jax.splits.one_node import Columns


@pytest.mark.parametrize(
    ("finder", "n_outputs"),
    [
        (RssSplits(), 2),
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
    x, targets, codes = (np.zeros((2, 256, n)) for n in (3, n_outputs, 1))
    columns = Columns(n_regressors=3, n_categories=4)
    nodes = nodes_of(finder, x, targets, codes, columns)
    arrays, structure = jax.tree.flatten(nodes)

    def search(arrays):
        nodes = jax.tree.unflatten(structure, arrays)
        plain = find_splits.__wrapped__
        return plain(nodes, 2, finder=finder, together=True)

    text = jax.jit(search).lower(arrays).as_text()
    assert "stablehlo" in text
    assert "lapack" not in text
    assert "triangular_solve" not in text
