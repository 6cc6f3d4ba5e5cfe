"""Which child a row goes to, case by case, for both kinds of arrays."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secret_jax.tree.comparisons import goes_left

# Projection, threshold, on a discrete attribute, code, listed, larger left: goes left.
CASES = [
    (*case, expected)
    for case in itertools.product(
        (-np.inf, -1.0, 0.0, 0.5, np.inf, np.nan),
        (0.0, 0.5),
        (False, True),
        (-1, 0, 3),
        (False, True),
        (False, True),
    )
    for projection, threshold, discrete, code, listed, larger_left in [case]
    for expected in [
        (larger_left if code < 0 else listed) if discrete else projection <= threshold
    ]
]


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
def test_every_case(xp):
    kinds = (np.float32, np.float32, bool, np.int32, bool, bool)
    *columns, expected = zip(*CASES, strict=True)
    arrays = [xp.asarray(np.array(c, k)) for c, k in zip(columns, kinds, strict=True)]
    found = goes_left(*arrays, xp)
    assert isinstance(found, np.ndarray if xp is np else jax.Array)
    assert found.dtype == bool
    assert found.tolist() == list(expected)
    assert {True, False} == set(expected)
