"""Threads: blocks in their order, errors raised, the caller's settings everywhere."""

from __future__ import annotations

from threading import get_ident

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from secret_jax.runtime.parallel import (
    N_WORKERS,
    in_blocks,
    one_thread_for_products,
    side_by_side,
)


@pytest.mark.parametrize("n_rows", [0, 1, 64, 65, 512, 1300])
def test_blocks_cover_all_rows_in_order(n_rows):
    found = list(in_blocks(lambda rows: np.arange(rows.start, rows.stop), n_rows, 64))
    assert len(found) == max(1, -(-n_rows // 64))
    assert np.array_equal(np.concatenate(found), np.arange(n_rows))


def test_an_error_in_a_block_is_raised():
    with pytest.raises(ZeroDivisionError):
        list(in_blocks(lambda rows: 1 // (128 - rows.start), 300, 64))


def test_no_more_than_a_few_blocks_wait_to_be_taken():
    begun = []
    blocks = in_blocks(lambda rows: begun.append(rows.start), 100_000, 10)
    next(blocks)
    assert len(begun) <= 2 * N_WORKERS + 1
    blocks.close()
    assert len(begun) <= 2 * N_WORKERS + 1


def test_jobs_side_by_side_are_all_done_and_raise_their_errors():
    done = []
    side_by_side(done.append, range(100))
    assert sorted(done) == list(range(100))
    for jobs in ([2, 1, 0], [0]):
        with pytest.raises(ZeroDivisionError):
            side_by_side(lambda job: 1 // job, jobs)


def test_blocks_within_blocks_are_done_by_the_thread_that_asks():
    def inner(rows):
        found = in_blocks(lambda part: (get_ident(), part.start), 40, 10)
        return get_ident(), list(found)

    # More of them than there are threads: none waits for another for ever.
    for caller, found in in_blocks(inner, 100 * N_WORKERS, 10):
        assert found == [(caller, start) for start in (0, 10, 20, 30)]


def test_products_get_their_threads_back_when_the_last_caller_is_done():
    libraries = ThreadpoolController().select(user_api="blas")

    def threads():
        return [library.num_threads for library in libraries.lib_controllers]

    with libraries.limit(limits=2):
        before = threads()
        first, second = one_thread_for_products(), one_thread_for_products()
        for step, inside in [
            (first.__enter__, True),
            (second.__enter__, True),
            (lambda: first.__exit__(None, None, None), True),
            (lambda: second.__exit__(None, None, None), False),
        ]:
            step()
            assert threads() == ([1] * len(before) if inside else before)
