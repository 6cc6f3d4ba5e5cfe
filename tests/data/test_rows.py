"""Encoded rows: put together, put in order, and identical ones as one."""

import numpy as np
import pytest

from secret_jax.data.rows import Rows, Table, join, merged, shuffled
from secret_jax.data.sampling import hold_out
from secret_jax.fit.prepare import parts_of


def random_rows(rng, n_rows: int) -> Rows:
    x = rng.normal(size=(n_rows, 2)).astype(np.float32)
    codes = rng.integers(0, 3, (n_rows, 1)).astype(np.int32)
    weight = rng.uniform(0.5, 2.0, n_rows)
    return Rows(Table(x, codes), rng.normal(size=(n_rows, 2)), weight)


def together(rows: Rows) -> np.ndarray:
    """Content and weight of every row, float64."""
    (x, codes), targets, weight, _ = rows
    return np.column_stack([x, codes, targets, weight])


def test_parts_are_joined_in_their_order(rng):
    parts = [random_rows(rng, n_rows) for n_rows in (5, 1, 0, 7)]
    whole = join(parts)
    assert whole.n_rows == 13
    assert np.array_equal(together(whole), np.vstack([together(p) for p in parts]))
    assert join(parts[:1]) is parts[0]


def test_a_shuffle_is_of_the_content_and_the_seed(rng):
    rows = random_rows(rng, 400)
    first = shuffled(rows, 1)
    assert sorted(map(tuple, together(first))) == sorted(map(tuple, together(rows)))
    again = shuffled(rows.take(rng.permutation(400)), 1)
    assert np.array_equal(together(again), together(first))
    other = shuffled(rows, 2)
    place = [np.argsort(r.targets[:, 0]) for r in (rows, first, other)]
    # The correlation of independent orders has a deviation of 1 / sqrt(400).
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(place[a], place[b])[0, 1]) < 5 / np.sqrt(400)


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
    found, _, seen, place = merged(copies, 3)
    np.testing.assert_array_equal(found.take(place).table.x, copies.table.x)
    np.testing.assert_array_equal(found.take(place).targets, copies.targets)
    assert found.n_rows == 200
    assert seen.sum() == len(which)
    assert np.array_equal(found.targets, shuffled(found, 3).targets)
    expected: dict[tuple, float] = {}
    for *content, weight in map(tuple, together(copies)):
        expected[tuple(content)] = expected.get(tuple(content), 0.0) + weight
    got = {tuple(content): weight for *content, weight in map(tuple, together(found))}
    assert got.keys() == expected.keys()
    for content, weight in expected.items():
        assert got[content] == pytest.approx(weight, rel=1e-12)


def interleaved(content: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of weight one, interleaved; the content of each, and its weight."""
    n_rows = len(content)
    table = Table(content.astype(np.float32)[:, None], np.zeros((n_rows, 0), np.int32))
    found = merged(Rows(table, np.zeros((n_rows, 1)), np.ones(n_rows)), 0).interleaved()
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
