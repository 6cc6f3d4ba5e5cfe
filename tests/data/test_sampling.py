"""Which rows, by their content alone: an order, a sample, a hold-out part."""

import struct
from collections import defaultdict

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secret_jax.data.hashes import (
    content_hash,
    repeats_of,
    sampling_factors,
    sampling_hash,
    sampling_limit,
)
from secret_jax.data.rows import (
    Rows,
    Table,
    all_one,
    hold_out,
    join,
    merged,
    shuffled,
    unweighted,
)
from secret_jax.fit.prepare import parts_of


def test_hash_is_of_the_content_the_seed_and_the_places_of_columns(rng):
    columns = [rng.normal(size=5000), rng.integers(0, 50, 5000), np.arange(5000.0)]
    hashed = content_hash(columns, 3)
    assert hashed.dtype == np.uint64
    assert len(np.unique(hashed)) == 5000
    for rows in (rng.permutation(5000), slice(7)):
        part = content_hash([column[rows] for column in columns], 3)
        assert np.array_equal(part, hashed[rows])
    assert not np.isin(content_hash(columns, 4), hashed).any()
    for changed in range(3):
        other = [c + 1 if k == changed else c for k, c in enumerate(columns)]
        assert not (content_hash(other, 3) == hashed).any()
    assert not (content_hash(columns[::-1], 3) == hashed).any()
    numbers = [np.array([0.0, 1.0]), np.array([2.0, 3.0])]
    signed = [np.array([-0.0, 1.0]), np.array([2, 3], np.int32)]
    assert np.array_equal(content_hash(numbers, 0), content_hash(signed, 0))


# A sample


def sampled(values, share):
    hashed = sampling_hash(values.T, sampling_factors(values.shape[1]))
    return hashed < sampling_limit(share)


@pytest.mark.parametrize("compiled", [False, True])
def test_one_hash_on_the_host_and_on_a_device(rng, compiled):
    awkward = [0.0, -0.0, 1.0, -1.0, 1e-40, -1e-45, 3e38, np.inf, -np.inf]
    values = np.concatenate(
        [rng.normal(size=500), 1e6 * rng.standard_cauchy(500), awkward, range(491)]
    ).astype(np.float32)
    values = values.reshape(-1, 3)
    values[:2] = [[0.0, 1.0, 2.0], [-0.0, 1.0, 2.0]]
    factors = sampling_factors(3)
    there = jax.jit(sampling_hash) if compiled else sampling_hash
    found = there(jnp.asarray(values), factors)
    assert isinstance(found, jax.Array)
    here = sampling_hash(values.T, factors)
    assert isinstance(here, np.ndarray)
    assert here.dtype == found.dtype == np.uint32
    assert np.array_equal(found, here)
    assert here[0] == here[1]  # zero has one hash, whatever its sign
    assert len(np.unique(here)) == len(here) - 1


@pytest.mark.parametrize("kind", ["normal", "heavy", "whole numbers"])
def test_a_sample_is_a_share_of_any_numbers(rng, kind):
    n_rows = 20_000
    values = {
        "normal": rng.normal(size=(n_rows, 3)),
        # All but a few rows lie within a thousandth of the deviation.
        "heavy": rng.standard_cauchy(size=(n_rows, 3)) ** 5 / 1e12,
        "whole numbers": rng.integers(0, 500, (n_rows, 3)),
    }[kind].astype(np.float32)
    for share in (0.01, 0.25, 0.8):
        found = sampled(values, share)
        # Five standard deviations of a binomial count.
        most = 5 * np.sqrt(n_rows * share * (1 - share))
        assert abs(found.sum() - n_rows * share) < most
        # Five standard errors of a mean; the middle of heavy tails is their rank.
        rank = np.argsort(np.argsort(values[:, 0])) / n_rows
        assert abs(rank[found].mean() - 0.5) < 5 * np.sqrt(1 / 12 / found.sum())


def test_samples_are_nested_and_every_column_counts(rng):
    values = rng.normal(size=(500, 3)).astype(np.float32)
    assert not (sampled(values, 0.2) & ~sampled(values, 0.5)).any()
    factors = sampling_factors(3)
    assert (factors % 2 == 1).all()
    assert len(set(factors.tolist())) == 3
    hashed = sampling_hash(values.T, factors)
    for column in range(3):
        changed = values.copy()
        changed[:, column] = np.nextafter(changed[:, column], np.float32(9))
        assert not (sampling_hash(changed.T, factors) == hashed).any()
    assert not (sampling_hash(values.T[::-1], factors) == hashed).any()
    assert sampling_limit(0.0) == sampling_limit(-1.0) == 0
    assert sampling_limit(1.0) == sampling_limit(7.0) == 2**32 - 1


# Holding out


def test_hold_out_keeps_the_share_of_the_weight(rng):
    for fraction in (0.25, 0.3, 0.5, 0.01, 0.7):  # 1 - 0.7 is more than 0.3
        assert hold_out(np.ones(100), fraction) == 100 - round(100 * fraction)
    assert hold_out(np.ones(1), 0.25) == 1
    for _ in range(200):
        weight = rng.uniform(0.5, 30.0, 12)
        fraction = rng.uniform(0.05, 0.6)
        cut = hold_out(weight, fraction)
        share = np.cumsum(weight) / weight.sum()
        # As much as asked for stays in training, and not a row more.
        assert share[cut - 1] >= 1 - fraction - 1e-9
        assert cut == 1 or share[cut - 2] < 1 - fraction


@pytest.mark.parametrize("kind", ["heavy tails", "a gross error"])
def test_hold_out_has_its_share_of_rows_that_round_alike(kind):
    """Rows are told apart by their exact content where the rounded one is the same."""
    for seed in range(8):
        values = np.random.default_rng(seed).normal(size=(2000, 3))
        if kind == "heavy tails":
            values = np.exp(5 * values)
        else:
            values[0] = 1e6
        values = (values - values.mean(axis=0)) / values.std(axis=0)
        alike = np.unique(np.rint(1024 * values), axis=0)
        assert len(alike) < 1000  # most of them
        x, y = values[:, :2].astype(np.float32), values[:, 2:]
        rows = Rows(Table(x, np.zeros((2000, 0), np.int32)), y, np.ones(2000))
        found = merged(rows).rows
        cut = hold_out(found.weight, 0.25)
        # Float32 makes a few rows identical.
        assert 1500 <= found.weight[:cut].sum() < 1500 + found.weight.max()
        # Held-out rows are as any others: five standard errors of a mean rank.
        rank = np.argsort(np.argsort(found.table.x[:, 0])) / found.n_rows
        assert abs(rank[cut:].mean() - 0.5) < 5 * np.sqrt(1 / 12 / 500)


# Rows that repeat others: observations, or copies of one


def number_of(x, y, codes=None, **more) -> np.ndarray | None:
    """Observations that every given row stands for, or None if no row repeats."""
    codes = np.zeros((len(y), 0), np.int32) if codes is None else codes
    found = repeats_of([*x.T], codes, y.reshape(len(y), -1), **more)
    if found is None:
        return None
    rows = np.column_stack([x, codes, y])
    np.testing.assert_array_equal(rows[found.first][found.member], rows)
    assert (np.diff(found.first) > 0).all()
    return found.number[found.member]


def measured(rng, n: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.normal(size=(n, 3))
    return x, x[:, 0] + rng.normal(size=n)


def test_measurements_are_copies_of_one_however_they_come_to_repeat(rng):
    x, y = measured(rng, 300)
    assert number_of(x, y) is None
    bootstrap = rng.integers(0, 300, 300)
    oversampled = np.r_[np.arange(300), np.flatnonzero(y > 1).repeat(4)]
    for rows in (bootstrap, oversampled, np.r_[np.arange(300), 7]):
        assert (number_of(x[rows], y[rows]) == 1).all()
        assert (number_of(x[rows], (y > 0)[rows]) == 1).all()  # classes
    x[::9, 0] = np.nan  # what is missing is the same in every row
    assert number_of(x, y) is None
    assert (number_of(x[bootstrap], y[bootstrap]) == 1).all()
    # Equal rows of two groups are two.
    group = np.repeat([0.0, 1.0], 300)
    assert number_of(np.tile(x, (2, 1)), np.tile(y, 2), group=group) is None
    x[1::40] = x[::40]  # a few pairs of other targets, as if by chance
    assert (number_of(x[bootstrap], y[bootstrap]) == 1).all()


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["truths", "categories", "counts"])
def test_truths_categories_and_counts_are_observations(rng, noise, kind):
    levels = {"truths": 2, "categories": 30, "counts": 8}[kind]
    x = rng.integers(0, levels, (5000, 2))
    y = (x[:, 0] > x[:, 1]) ^ (rng.random(5000) < noise)
    none = np.zeros((5000, 0))
    found = number_of(none, y, x) if kind == "categories" else number_of(x, y)
    _, where, seen = np.unique(
        np.c_[x, y], axis=0, return_inverse=True, return_counts=True
    )
    np.testing.assert_array_equal(found, seen[where.ravel()])
    hour = np.round(rng.uniform(0, 24, 5000), 1)[:, None]  # each with several y
    assert number_of(hour, rng.poisson(1 + hour[:, 0] / 12)).max() > 5


@pytest.mark.parametrize("times", [2, 3])
def test_a_table_of_which_every_row_is_repeated_is_the_table(rng, times):
    x, y = rng.integers(0, 3, (2000, 5)), rng.integers(0, 4, 2000)
    once = number_of(x, y)
    rows = rng.permutation(np.tile(np.arange(2000), times))
    np.testing.assert_array_equal(number_of(x[rows], y[rows]), once[rows])
    given = np.full(2000, times)
    np.testing.assert_array_equal(number_of(x, y, times=given), once)
    # Of few cells all may be seen as often as the others.
    few = np.tile([[0, 0], [0, 1], [1, 0], [1, 1]], (100, 1))
    assert (number_of(few, few[:, 0] != few[:, 1]) == 100).all()


# Encoded rows: put together, put in order, and identical ones as one


def random_rows(rng, n_rows: int) -> Rows:
    x = rng.normal(size=(n_rows, 2)).astype(np.float32)
    codes = rng.integers(0, 3, (n_rows, 1)).astype(np.int32)
    weight = rng.uniform(0.5, 2.0, n_rows)
    return Rows(Table(x, codes), rng.normal(size=(n_rows, 2)), weight)


def together(rows: Rows) -> np.ndarray:
    """Content and weight of every row, float64."""
    (x, codes), targets, weight, *_ = rows
    return np.column_stack([x, codes, targets, weight])


def test_rows_that_are_taken_are_those_of_their_places(rng):
    x, targets = rng.normal(size=(70_000, 3)).astype("f4"), rng.normal(size=(70_000, 2))
    codes = np.zeros((len(x), 0), np.int32)
    rows = Rows(Table(x, codes), np.asfortranarray(targets), unweighted(len(x)))
    index = rng.integers(len(x), size=90_000)
    for some in (index, x[:, 0] > 0, slice(7, 700)):
        found = rows.take(some)
        np.testing.assert_array_equal(found.table.x, x[some])
        np.testing.assert_array_equal(found.targets, targets[some])
        assert all_one(found.weight)
        assert len(found.weight) == len(found.targets)
    with pytest.raises(IndexError):
        rows.take(np.array([3, len(x)]))


def test_targets_beside_rows_on_a_device_come_without_the_room_behind_them(rng):
    x, targets = (jnp.asarray(rng.normal(size=(64, k)), jnp.float32) for k in (3, 1))
    codes = np.zeros((50, 0), np.int32)
    found = Rows(Table(x, codes), targets, np.ones(50)).on_host()
    assert isinstance(found.targets, np.ndarray)
    np.testing.assert_array_equal(found.targets, targets[:50])
    assert found.table.x.shape == (50, 3)


def test_parts_are_joined_in_their_order(rng):
    parts = [random_rows(rng, n_rows) for n_rows in (5, 1, 0, 7)]
    whole = join(parts)
    assert whole.n_rows == 13
    assert np.array_equal(together(whole), np.vstack([together(p) for p in parts]))
    assert join(parts[:1]) is parts[0]


def test_a_shuffle_is_of_the_content(rng):
    rows = random_rows(rng, 400)
    first = shuffled(rows)
    assert sorted(map(tuple, together(first))) == sorted(map(tuple, together(rows)))
    again = shuffled(rows.take(rng.permutation(400)))
    assert np.array_equal(together(again), together(first))
    # Multiples of 1/256: of no other content the last digit may move a row.
    x = np.round(rows.table.x * 256) / 256
    targets = np.round(rows.targets * 256) / 256
    plain, nudged = (
        rows._replace(table=rows.table._replace(x=each), targets=targets)
        for each in (x, np.nextafter(x, x + 1))
    )
    assert np.array_equal(shuffled(nudged).targets, shuffled(plain).targets)
    place = [np.argsort(r.targets[:, 0]) for r in (rows, first)]
    # The correlation of independent orders has a deviation of 1 / sqrt(400).
    assert abs(np.corrcoef(*place)[0, 1]) < 5 / np.sqrt(400)


def weighed(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Different rows in an order of their own, and the weight of each."""
    content = together(rows)[:, :-1]
    different, member = np.unique(content, axis=0, return_inverse=True)
    return different, np.bincount(member.ravel(), rows.weight)


def test_identical_rows_are_merged_and_nothing_else(rng):
    distinct = random_rows(rng, 50)
    # Another target, another category, another last digit: other rows.
    x, codes = distinct.table
    others = [
        distinct._replace(targets=distinct.targets * 2),
        distinct._replace(table=Table(x, codes + 1)),
        distinct._replace(table=Table(np.nextafter(x, x + 1), codes)),
    ]
    whole = join([distinct, *others])
    which = np.repeat(np.arange(200), rng.integers(1, 5, 200))
    copies = whole.take(rng.permutation(which))
    copies = copies._replace(weight=rng.uniform(0.5, 2.0, len(which)))
    of_copies = merged(copies)
    found, seen, place = of_copies.rows, of_copies.seen, of_copies.place
    np.testing.assert_array_equal(found.take(place).table.x, copies.table.x)
    np.testing.assert_array_equal(found.take(place).targets, copies.targets)
    assert found.n_rows == 200
    assert seen.sum() == len(which)
    assert np.array_equal(found.targets, shuffled(found).targets)
    for own, other in zip(weighed(found), weighed(copies), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-12)


def in_hash_order(rows: Rows) -> list[int]:
    """The order of rows, written as it is told, with Python's numbers."""

    def mixed(value: int) -> int:  # splitmix64
        value = (value + 0x9E3779B97F4A7C15) % 2**64
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
        return value ^ value >> 31

    def hashed(row: list[float]) -> int:
        state = mixed(0)
        for value in row:
            bits = struct.pack("d", value or 0.0)  # zero has one sign
            state = mixed(state ^ struct.unpack("Q", bits)[0])
        return state

    content = np.column_stack([*rows.table, rows.targets.astype("f4")])
    exact = [hashed(row) for row in content.tolist()]
    rounded = [hashed([round(1024 * v) for v in row]) for row in content.tolist()]
    alike = defaultdict(set)
    for own, other in zip(rounded, exact, strict=True):
        alike[own].add(other)
    key = [
        (mixed(own ^ mixed(other)) if len(alike[own]) > 1 else own, other, weight)
        for own, other, weight in zip(rounded, exact, rows.weight, strict=True)
    ]
    return sorted(range(rows.n_rows), key=key.__getitem__)


@pytest.mark.parametrize("kind", ["measured", "truths", "heavy tails", "copies"])
def test_the_order_is_that_of_plain_hashes(rng, kind):
    n_rows = 300
    x = {
        "measured": rng.normal(size=(n_rows, 2)),
        "truths": rng.integers(0, 2, (n_rows, 2)),
        "heavy tails": rng.standard_cauchy((n_rows, 2)) ** 3 / 1e6,
        "copies": rng.normal(size=(90, 2))[rng.integers(0, 90, n_rows)],
    }[kind]
    # Multiples of 1/4096, so that rounding is exact; both signs of zero.
    x = (np.round(x * 4096) / 4096).astype(np.float32)
    x[::7, 0], x[1::7, 0] = 0.0, -0.0
    codes = rng.integers(-1, 2, (n_rows, 1)).astype(np.int32)
    targets = np.round(x[:, 1:] + 0.25 * codes, 2)
    rows = Rows(Table(x, codes), targets, rng.uniform(0.5, 2.0, n_rows))
    order = in_hash_order(rows)
    found = merged(rows)
    np.testing.assert_array_equal(found.order, order)
    content = together(rows)[:, :-1]
    assert found.rows.n_rows == len(np.unique(content, axis=0))
    np.testing.assert_array_equal(found.rows.take(found.place).targets, targets)
    if found.rows.n_rows == n_rows:
        assert found.interleaved() is found.rows
    assert (found.rows.n_rows == n_rows) == (kind == "measured")


def interleaved(content: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of weight one, interleaved; the content of each, and its weight."""
    n_rows = len(content)
    table = Table(content.astype(np.float32)[:, None], np.zeros((n_rows, 0), np.int32))
    found = merged(Rows(table, np.zeros((n_rows, 1)), np.ones(n_rows))).interleaved()
    return found.table.x[:, 0].astype(int), found.weight


@pytest.mark.parametrize("n_parts", [2, 4, 5, 10])
def test_every_part_holds_its_share_of_the_rows_that_are_alike(rng, n_parts):
    seen = np.array([3, 47, 1000, 12, 7, 1, 2000, 301])
    content, weight = interleaved(rng.permutation(np.repeat(np.arange(8), seen)))
    assert (np.bincount(content) == np.minimum(seen, 50)).all()
    np.testing.assert_allclose(np.bincount(content, weight), seen, rtol=1e-12)
    heaviest = np.maximum(seen / 50, 1)
    for part in parts_of(weight, n_parts, n_repeats=2):
        held = np.bincount(content[part], weight[part], 8)
        # A piece more or less on either side of each of its stretches.
        n_stretches = np.count_nonzero(np.diff(np.r_[0, part, 0]) == 1)
        assert (np.abs(held - seen / n_parts) < (1 + n_stretches) * heaviest).all()
    cut = hold_out(weight, 0.25)
    held = np.bincount(content[cut:], weight[cut:], 8)
    assert (np.abs(held - seen / 4) < 2 * heaviest).all()
