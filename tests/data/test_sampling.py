"""The order of rows: hashing, holding out, partitioning, padding."""

from __future__ import annotations

import numpy as np
import pytest

from secret_jax.data.rows import (
    bucket,
    content_hash,
    hold_out,
    in_blocks,
    mix,
    next_power_of_two,
    partition,
    slice_positions,
    uniform,
)


def test_sizes():
    powers = [2**k for k in range(12)]
    for n in range(1, 1025):
        assert next_power_of_two(n) == min(p for p in powers if p >= n)
        assert bucket(n, smallest=8) == min(8 * 4**k for k in range(6) if 8 * 4**k >= n)
    assert next_power_of_two(0) == 1


# Hashing


def test_mix_is_splitmix64():
    """Its published first outputs for the seed 0."""
    golden = 0x9E3779B97F4A7C15
    state = np.array([k * golden % 2**64 for k in range(3)], np.uint64)
    assert [hex(v) for v in mix(state)] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]


def test_uniform():
    numbers = uniform(np.arange(100_000))
    assert numbers.dtype == np.float64
    assert 0 <= numbers.min() < 1e-4
    assert 1 - 1e-4 < numbers.max() < 1
    histogram = np.bincount((numbers * 20).astype(int), minlength=20)
    # Five standard deviations of a binomial count.
    assert np.abs(histogram - 5000).max() < 5 * np.sqrt(5000)
    assert np.array_equal(numbers[:10], uniform(np.arange(10)))


@pytest.fixture
def columns(rng):
    return [rng.normal(size=5000), rng.integers(0, 50, 5000), np.arange(5000.0)]


def test_hash_is_of_the_content_alone(columns, rng):
    hashed = content_hash(columns, 3)
    assert hashed.dtype == np.uint64
    assert len(np.unique(hashed)) == 5000
    shuffle = rng.permutation(5000)
    moved = content_hash([column[shuffle] for column in columns], 3)
    assert np.array_equal(moved, hashed[shuffle])
    part = content_hash([column[:7] for column in columns], 3)
    assert np.array_equal(part, hashed[:7])


def test_hash_depends_on_seed_and_on_every_column(columns):
    hashed = content_hash(columns, 3)
    assert not np.isin(content_hash(columns, 4), hashed).any()
    for changed in range(3):
        other = [c + 1 if k == changed else c for k, c in enumerate(columns)]
        assert not (content_hash(other, 3) == hashed).any()
    assert not (content_hash(columns[::-1], 3) == hashed).any()


def test_equal_numbers_hash_equal():
    columns = [np.array([0.0, 1.0]), np.array([2.0, 3.0])]
    signed = [np.array([-0.0, 1.0]), np.array([2, 3], np.int32)]
    assert np.array_equal(content_hash(columns, 0), content_hash(signed, 0))


def test_hash_order_is_a_shuffle(columns):
    """Sorted rows are well mixed, and otherwise for another seed."""
    place = [np.argsort(np.argsort(content_hash(columns, seed))) for seed in (0, 1)]
    for a, b in ((place[0], np.arange(5000)), (place[1], place[0])):
        # The correlation of independent orders has a deviation of 1 / sqrt(5000).
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(5000)


# Holding out


def test_hold_out_fraction():
    distinct = np.arange(100).astype(np.uint64)
    for fraction in (0.25, 0.3, 0.5, 0.01, 0.7):  # 1 - 0.7 is more than 0.3
        cut = hold_out(distinct, np.ones(100), fraction)
        assert cut == 100 - round(100 * fraction)


def test_hold_out_never_splits_identical_rows(rng):
    for _ in range(200):
        copies = rng.integers(1, 30, 12)
        hashed = np.repeat(np.arange(12), copies).astype(np.uint64)
        weight = rng.uniform(0.5, 2.0, len(hashed))
        fraction = rng.uniform(0.05, 0.6)
        cut = hold_out(hashed, weight, fraction)
        assert not np.isin(hashed[cut:], hashed[:cut]).any()
        kept = weight[:cut].sum() / weight.sum()
        last = hashed[:cut] < hashed[cut - 1]
        before = weight[:cut][last].sum() / weight.sum()
        # As much as asked for stays in training, and not a group of rows more.
        assert before < 1 - fraction <= kept + 1e-9


def test_hold_out_of_rows_that_are_all_alike():
    assert hold_out(np.zeros(9, np.uint64), np.ones(9), 0.25) == 9
    assert hold_out(np.zeros(1, np.uint64), np.ones(1), 0.25) == 1


def test_hold_out_weight_equals_repetition(rng):
    hashed = np.sort(rng.integers(0, 2**63, 60).astype(np.uint64))
    times = rng.integers(1, 6, 60)
    cut = hold_out(hashed, times.astype(float), 0.25)
    repeated = hold_out(np.repeat(hashed, times), np.ones(times.sum()), 0.25)
    assert repeated == times[:cut].sum()


# Partition


def test_partition_is_stable_and_stays_in_the_nodes(rng):
    order = rng.permutation(100)
    before = order.copy()
    starts, stops = np.array([60, 5, 30, 90]), np.array([80, 30, 31, 90])
    goes_left = rng.random(100) < 0.4  # by row id
    go_left = goes_left[order[slice_positions(starts, stops)]]
    middle = partition(order, starts, stops, go_left)
    for start, cut, stop in zip(starts, middle, stops, strict=True):
        rows = before[start:stop]
        left, right = rows[goes_left[rows]], rows[~goes_left[rows]]
        assert np.array_equal(order[start:cut], left)
        assert np.array_equal(order[cut:stop], right)
    outside = np.setdiff1d(np.arange(100), slice_positions(starts, stops))
    assert np.array_equal(order[outside], before[outside])


@pytest.mark.parametrize("side", [True, False])
def test_partition_to_one_side(side):
    order = np.arange(10)[::-1].copy()
    starts, stops = np.array([2, 6]), np.array([6, 9])
    middle = partition(order, starts, stops, np.full(7, side))
    assert np.array_equal(middle, stops if side else starts)
    assert np.array_equal(order, np.arange(10)[::-1])


def test_partition_of_nothing():
    order = np.arange(4)
    nothing = np.empty(0, int)
    assert len(partition(order, nothing, nothing, np.empty(0, bool))) == 0
    assert np.array_equal(order, np.arange(4))


def test_slice_positions():
    starts, stops = np.array([4, 0, 9, 7]), np.array([6, 0, 12, 8])
    parts = [np.arange(a, b) for a, b in zip(starts, stops, strict=True)]
    expected = np.concatenate(parts)
    assert np.array_equal(slice_positions(starts, stops), expected)


@pytest.mark.parametrize("n_rows", [0, 1, 64, 65, 512, 1300])
def test_blocks_cover_all_rows_in_order(n_rows):
    found = list(in_blocks(lambda rows: np.arange(rows.start, rows.stop), n_rows, 64))
    assert len(found) == max(1, -(-n_rows // 64))
    assert np.array_equal(np.concatenate(found), np.arange(n_rows))


def test_an_error_in_a_block_is_raised():
    def fail(rows):
        if rows.start == 128:
            raise ValueError("the third block")

    with pytest.raises(ValueError, match="the third block"):
        list(in_blocks(fail, 300, 64))
