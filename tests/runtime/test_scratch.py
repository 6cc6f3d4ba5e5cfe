"""Memory that threads keep for arrays."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from secret_jax.runtime.scratch import scratch


def test_memory_of_a_name_grows_and_is_used_again():
    first = scratch("a test", (10, 3))
    again = scratch("a test", (3, 4), np.int32)
    assert np.shares_memory(first, again)
    larger = scratch("a test", (1000, 3), np.float64)
    assert larger.shape == (1000, 3)
    assert larger.dtype == np.float64
    assert np.shares_memory(larger, scratch("a test", (10, 3)))


def test_names_and_threads_have_memory_of_their_own():
    here = scratch("a test", (10,))
    assert not np.shares_memory(here, scratch("another test", (10,)))
    with ThreadPoolExecutor(1) as pool:
        there = pool.submit(scratch, "a test", (10,)).result()
    assert not np.shares_memory(here, there)
    assert scratch("an empty one", (0, 3)).shape == (0, 3)
