"""Memory that steps use again."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from secret_jax.runtime.scratch import Scratch


def test_memory_of_a_name_grows_and_is_used_again():
    scratch = Scratch()
    first = scratch.array("a test", (10, 3), np.float32)
    again = scratch.array("a test", (3, 4), np.int32)
    assert np.shares_memory(first, again)
    larger = scratch.array("a test", (1000, 3), np.float64)
    assert larger.shape == (1000, 3)
    assert larger.dtype == np.float64
    assert np.shares_memory(larger, scratch.array("a test", (10, 3), np.float32))


def test_names_and_threads_have_memory_of_their_own():
    scratch, shape = Scratch(), ((10,), np.float32)
    here = scratch.array("a test", *shape)
    assert not np.shares_memory(here, scratch.array("another test", *shape))
    with ThreadPoolExecutor(1) as pool:
        there = pool.submit(scratch.array, "a test", *shape).result()
    assert not np.shares_memory(here, there)
    assert scratch.array("an empty one", (0, 3), np.float32).shape == (0, 3)
