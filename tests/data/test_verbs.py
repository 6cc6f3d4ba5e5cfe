"""What sums over the rows of nodes, on both kinds of device, against loops."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from rows_of_nodes import Loops, in_tiles

from secret_jax.data.ragged import RaggedRows
from secret_jax.data.tiles import TiledRows

# One row, a tile, a row more, no multiple, so many that sums are made of pieces.
LENGTH = np.array([1, 64, 65, 700, 2, 9000, 63])
ROOM = 3  # nodes that a program has room for, and tiles
N = int(LENGTH.sum())


def _function(verb):
    return verb if callable(verb) else lambda rows, *a: getattr(rows, verb)(*a)


class Ragged:
    """Rows as they are on processors."""

    rows = RaggedRows(LENGTH)

    def put(self, values):
        return values

    def nodes(self, values):
        return values

    def rows_of(self, found, shape):
        return np.asarray(found)

    def call(self, verb, *arguments):
        """What a verb, or a function of the rows, comes to."""
        return jax.tree.map(np.asarray, _function(verb)(self.rows, *arguments))


class Tiled(Ragged):
    """Rows as they are on accelerators, with room for more of them."""

    def __init__(self, tile):
        self.tile = tile
        self.length = np.append(LENGTH, [0] * ROOM)
        self.n_tiles = int((-(-LENGTH // tile)).sum()) + ROOM
        self.rows = TiledRows.of(self.length, self.n_tiles, tile)

    def put(self, values):
        return in_tiles(values, LENGTH, self.n_tiles, self.tile)

    def nodes(self, values):
        return np.concatenate(
            [values, np.zeros((ROOM, *values.shape[1:]), values.dtype)]
        )

    def rows_of(self, found, shape):
        found = np.broadcast_to(found, (self.n_tiles, *shape, self.tile))
        found = np.moveaxis(found, 0, -2).reshape(*shape, -1)
        return found[..., np.asarray(self.rows.inside).ravel()]

    def call(self, verb, *arguments):
        function = _function(verb)
        found = jax.jit(lambda rows, *a: function(rows, *a))(self.rows, *arguments)
        return jax.tree.map(np.asarray, found)


class Shared(Tiled):
    """Rows of nodes on several devices, or a few of them; an axis of `vmap`."""

    def __init__(self, n_devices):
        super().__init__(64)
        inner = np.random.default_rng(n_devices).random((len(LENGTH), n_devices - 1))
        inner = (LENGTH[:, None] * np.sort(inner, axis=1)).astype(int)
        ends = np.zeros((len(LENGTH), 1), int), inner, LENGTH[:, None]
        self.lengths = np.diff(np.concatenate(ends, axis=1), axis=1).T
        lengths = np.pad(self.lengths, [(0, 0), (0, ROOM)])
        each = [TiledRows.of(own, self.n_tiles, 64, axis="devices") for own in lengths]
        self.rows = jax.tree.map(lambda *arrays: np.stack(arrays), *each)
        # First by nodes, then by devices, and the other way round.
        device = np.tile(np.arange(n_devices), len(LENGTH))
        self.device = np.repeat(device, self.lengths.T.ravel())
        self.back = np.argsort(np.argsort(self.device, kind="stable"))

    def put(self, values):
        pairs = ((values[..., self.device == i], n) for i, n in enumerate(self.lengths))
        return np.stack([in_tiles(*pair, self.n_tiles, self.tile) for pair in pairs])

    def nodes(self, values):
        return np.stack([super().nodes(values)] * len(self.lengths))

    def rows_of(self, found, shape):
        each = zip(found, self.rows.filled, strict=True)
        there = [
            np.moveaxis(
                np.broadcast_to(own, (self.n_tiles, *shape, 64)), 0, -2
            ).reshape(*shape, -1)[..., (np.arange(64) < filled[:, None]).ravel()]
            for own, filled in each
        ]
        return np.concatenate(there, axis=-1)[..., self.back]

    def call(self, verb, *arguments):
        each = jax.vmap(_function(verb), axis_name="devices")
        found = jax.tree.map(np.asarray, jax.jit(each)(self.rows, *arguments))

        def of_all(found):
            if found.shape[1] == self.n_tiles:
                return found
            np.testing.assert_array_equal(found, np.stack([found[0]] * len(found)))
            return found[0]

        return jax.tree.map(of_all, found)


KINDS = {
    "ragged": Ragged,
    "tiles of 64": lambda: Tiled(64),
    "tiles of 256": lambda: Tiled(256),
    "three devices": lambda: Shared(3),
    "eight devices": lambda: Shared(8),
}


@pytest.fixture(params=KINDS)
def here(request):
    """Rows of one kind, and how things come there and back."""
    return KINDS[request.param]()


@pytest.fixture
def loops():
    return Loops(LENGTH)


@pytest.fixture
def x(rng):
    """Numbers of the rows, (3, n_rows)."""
    return rng.normal([[0.0], [5.0], [-20.0]], 1.0, (3, N)).astype(np.float32)


def close(found, expected, magnitude):
    """Equal to seven digits of the sum of absolute values."""
    found = found[: len(expected)]
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    assert (np.abs(found - expected) <= 2e-6 * np.abs(magnitude) + 1e-30).all()


@pytest.mark.parametrize("shape", [(), (2,), (3, 4)])
def test_every_row_gets_what_its_node_has(here, loops, rng, shape):
    values = rng.normal(size=(len(LENGTH), *shape)).astype(np.float32)
    found = here.call("spread", here.nodes(values))
    np.testing.assert_array_equal(here.rows_of(found, shape), loops.spread(values))


@pytest.mark.parametrize(
    ("verb", "left", "right"),
    [
        *(("sums", shape, None) for shape in [(), (3,), (3, 2)]),
        *(("products", (3,), (2,)), ("products", (4, 3), (4, 3))),
    ],
)
def test_sums(here, loops, rng, verb, left, right):
    arrays = [
        rng.normal(3.0, 1.0, size=(*shape, N)).astype(np.float32)
        for shape in (left, right)
        if shape is not None
    ]
    found = here.call(verb, *map(here.put, arrays))
    expected = getattr(loops, verb)
    close(found, expected(*arrays), expected(*map(np.abs, arrays)))
    counted = here.call("sums", here.put(np.ones(N, np.int32)))
    np.testing.assert_array_equal(counted[: len(LENGTH)], LENGTH)


def test_sums_have_what_functions_make_of_rows_alone(here, loops, x):
    """The exponential of padding is one, and its logarithm infinite."""
    for function in (np.exp, np.log):
        positive = np.abs(x) + 1
        used = jax.numpy.exp if function is np.exp else jax.numpy.log
        found = here.call(lambda rows, v, f=used: rows.sums(f(v)), here.put(positive))
        expected = loops.sums(function(positive))
        np.testing.assert_allclose(found[: len(LENGTH)], expected, rtol=1e-5)


def test_smallest_values(here, loops, x):
    found = here.call("least", here.put(x))
    np.testing.assert_array_equal(found[: len(LENGTH)], loops.least(x))
    assert (found[len(LENGTH) :] == np.inf).all()


@pytest.mark.parametrize("n", [1, 4])
def test_rows_by_the_matrices_of_their_nodes(here, loops, x, rng, n):
    matrices = rng.normal(size=(len(LENGTH), n, 3)).astype(np.float32)
    found = here.call("transformed", here.nodes(matrices), here.put(x))
    found, expected = here.rows_of(found, (n,)), loops.transformed(matrices, x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("n_attributes", [0, 2])
def test_sums_by_code(here, loops, x, rng, n_attributes):
    code = rng.integers(0, 6, (n_attributes, N), dtype=np.int32)
    found = here.call(
        lambda rows, c, v: rows.sums_by_code(c, 6, v), here.put(code), here.put(x)
    )
    expected = loops.sums_by_code(code, 6, x)
    close(found, expected, loops.sums_by_code(code, 6, np.abs(x)))


def test_moments_of_values_below_cuts(here, loops, x, rng):
    # Of the first rows, as finders take them: a value that equals a cut is below it.
    cuts = np.sort(loops.head(x, 8), axis=-1)
    of = rng.normal(2.0, 1.0, (4, N)).astype(np.float32)
    weight = rng.uniform(size=N).astype(np.float32)
    given = here.put(x), here.nodes(cuts), here.put(of), here.put(weight)
    found, own = here.call("moments_below", *given)
    close(found, loops.sums_below(x, cuts, of), loops.sums_below(x, cuts, np.abs(of)))
    powers = np.stack([weight * x, weight * x**2], axis=1).reshape(6, N)

    def each_its_own(powers):
        sums = loops.sums_below(x, cuts, powers).reshape(len(LENGTH), 3, 3, 2, 8)
        return np.einsum("nddpc->ndpc", sums)

    close(own, each_its_own(powers), each_its_own(np.abs(powers)))


def test_values_that_nodes_choose(here, loops, x, rng):
    index = rng.integers(0, 3, (len(LENGTH), 2), dtype=np.int32)
    found = here.call("chosen", here.nodes(index), here.put(x))
    of_row = loops.spread(index)
    expected = np.take_along_axis(x, of_row, axis=0)
    np.testing.assert_array_equal(here.rows_of(found, (2,)), expected)


def test_tables_of_nodes(here, loops, rng):
    table = rng.normal(size=(len(LENGTH), 2, 6)).astype(np.float32)
    code = rng.integers(0, 6, (2, N), dtype=np.int32)
    found = here.call("looked_up", here.nodes(table), here.put(code))
    of_row = loops.spread(table)  # (2, 6, n_rows)
    expected = np.take_along_axis(of_row, code[:, None], axis=1)[:, 0]
    np.testing.assert_array_equal(here.rows_of(found, (2,)), expected)


@pytest.mark.parametrize("n", [16, 64, 100, 256])
def test_first_rows(here, loops, rng, x, n):
    code = rng.integers(0, 9, N, dtype=np.int32)
    for values in (x, code, x.reshape(3, 1, N)):
        found = here.call(lambda rows, v: rows.head(v, n), here.put(values))
        np.testing.assert_array_equal(found[: len(LENGTH)], loops.head(values, n))
        assert found.dtype == values.dtype
        assert not found[len(LENGTH) :].any()


def test_totals_of_what_a_function_makes_of_rows(here, loops, x, rng):
    """Mean squares about a centre of the node, and weights, as models of nodes do."""
    center = rng.normal(size=(len(LENGTH), 3)).astype(np.float32)
    weight = rng.uniform(size=N).astype(np.float32)

    def function(rows, node_values, row_arrays):
        (center,), (x, weight) = node_values, row_arrays
        offset = x - rows.spread(center)
        weighted = weight[..., None, :] * offset
        return rows.products(weighted, offset), rows.sums(weight)

    scatter, total = here.call(
        lambda rows, c, *arrays: rows.total(function, [c], arrays),
        *(here.nodes(center), here.put(x), here.put(weight)),
    )
    offset = x - loops.spread(center)
    expected = loops.products(weight * offset, offset)
    close(scatter, expected, loops.products(weight * abs(offset), abs(offset)))
    close(total, loops.sums(weight), loops.sums(weight))


def test_what_a_function_makes_of_each_row(here, loops, x, rng):
    center = rng.normal(size=(len(LENGTH), 3)).astype(np.float32)

    def function(rows, node_values, row_arrays):
        offset = row_arrays[0] - rows.spread(node_values[0])
        return offset, (offset**2).sum(axis=-2)

    offset, square = here.call(
        lambda rows, c, v: rows.each(function, [c], [v]),
        here.nodes(center),
        here.put(x),
    )
    expected = x - loops.spread(center)
    np.testing.assert_array_equal(here.rows_of(offset, (3,)), expected)
    found = here.rows_of(square, ())
    np.testing.assert_allclose(found, (expected**2).sum(axis=0), rtol=1e-6)


@pytest.mark.parametrize("kind", ["ragged", 64])
def test_a_node_has_the_same_sums_whatever_the_others_have(kind, x):
    """But for rounding: all but the third node are replaced by large numbers."""
    here = Ragged() if kind == "ragged" else Tiled(kind)
    other = np.repeat(np.arange(len(LENGTH)) != 2, LENGTH)
    y = np.where(other, np.float32(1e20), x)
    beyond = lambda rows, v: rows.products(v, v[..., :1, :])  # noqa: E731
    for verb in ("sums", "least", beyond):  # which is beyond all numbers
        with np.errstate(over="ignore"):
            alone, among = (here.call(verb, here.put(v)) for v in (x, y))
        np.testing.assert_allclose(among[2], alone[2], rtol=1e-6)
        assert not (np.abs(among[:2]) < 1e19).any()


def test_rows_at_shares_of_the_weight(here, rng):
    values = np.stack([np.arange(N), -np.arange(N)]).astype(np.float32)
    weight = rng.uniform(0.5, 2.0, N).astype(np.float32)
    weight[rng.random(N) < 0.2] = 0
    weight[0] = 1  # of the node of one row
    share = rng.random((len(LENGTH), 5)).astype(np.float32)
    share[:, 0], share[:, 1] = 2.0**-24, 1 - 2.0**-24
    given = here.put(values), here.put(weight), here.nodes(share)
    found = here.call("at_share", *given)[: len(LENGTH)]
    assert found.shape == (len(LENGTH), 2, 5)
    np.testing.assert_array_equal(found[:, 0], -found[:, 1])
    start = 0
    for node, length in enumerate(LENGTH):
        below = np.cumsum(np.float64(weight[start : start + length]))
        place = found[node, 0].astype(int) - start
        assert (weight[start + place] > 0).all()
        # As far as float32 tells shares of the whole weight apart.
        slack = 1e-5 * below[-1]
        wanted = share[node].astype(float) * below[-1]
        assert (below[place] >= wanted - slack).all()
        assert (below[place] - weight[start + place] <= wanted + slack).all()
        start += length


def test_rows_at_shares_are_the_nodes_own_however_weights_differ():
    weight = np.array([1e9] * 3 + [1e-9] * 3, np.float32)
    number = np.arange(6, dtype=np.float32)[None]
    share = np.full((2, 3), [0.1, 0.5, 0.9], np.float32)
    found = RaggedRows(np.array([3, 3])).at_share(number, weight, share)
    assert (found[0] <= 2).all()
    assert (found[1] >= 3).all()


# What rows on processors can do besides

UNEVEN = np.array([5, 1, 90_000, 300, 2, 7_000])
N_UNEVEN = int(UNEVEN.sum())


@pytest.mark.parametrize("going", [None, [0, 0, 1, 0, 0, 0], [1, 0, 0, 1, 1, 0]])
def test_nodes_that_are_not_needed_may_be_left_out(rng, going):
    values = rng.normal(size=(3, N_UNEVEN))
    seen = []

    def function(rows, node_values, row_arrays):
        seen.append(row_arrays[0].shape[-1])
        return (rows.sums(row_arrays[0] * rows.spread(node_values[0])),)

    factor = np.arange(1.0, 1 + len(UNEVEN))
    going = None if going is None else np.array(going, bool)
    (found,) = RaggedRows(UNEVEN).total(function, [factor], [values], going)
    loops = Loops(UNEVEN)
    expected = loops.sums(values * loops.spread(factor))
    chosen = np.ones(len(UNEVEN), bool) if going is None else going
    np.testing.assert_allclose(found[chosen], expected[chosen], rtol=1e-9, atol=1e-9)
    assert not found[~chosen].any()
    assert sum(seen) == UNEVEN[chosen].sum()
    assert max(seen) < 60_000  # a node of many rows comes in parts
    none = RaggedRows(UNEVEN).total(function, [factor], [values], ~chosen & chosen)
    assert none == () or not none[0].any()


@pytest.mark.parametrize("chosen", [[0], [4, 1, 2], [False, True, True] * 2])
def test_some_nodes(rng, chosen):
    values = rng.normal(size=(2, N_UNEVEN))
    rows, place = RaggedRows(UNEVEN).take(np.array(chosen))
    slices = Loops(UNEVEN).slices
    kept = np.flatnonzero(chosen) if chosen[0] is False else chosen
    expected = np.concatenate([values[:, slices[node]] for node in kept], axis=1)
    np.testing.assert_array_equal(values[:, place], expected)
    np.testing.assert_array_equal(rows.length, UNEVEN[kept])


def test_rows_in_the_order_of_attributes(rng):
    values = rng.integers(-9, 50, (3, N_UNEVEN)).astype(np.float32)  # many ties
    values[0, :3], values[1, 7], values[1, 9] = -0.0, np.inf, -np.inf
    order = RaggedRows(UNEVEN).sorted_by(values)
    for rows in Loops(UNEVEN).slices:
        for attribute, own in zip(values, order[:, rows], strict=True):
            expected = rows.start + np.argsort(attribute[rows], kind="stable")
            np.testing.assert_array_equal(own, expected)


@pytest.mark.parametrize("n_values", [0, 3])
def test_nodes_of_one_length_are_summed_as_each_alone(rng, n_values):
    length = np.array([5, 5, 5, 2, 4, 4])
    rows, last = RaggedRows(length), np.cumsum(length)
    left = rng.normal(size=(2, last[-1]))
    right, matrices = rng.normal(size=(n_values, last[-1])), rng.normal(size=(6, 2, 3))
    matrices = matrices[:, :, :n_values]
    found, turned = rows.products(left, right), rows.transformed(matrices, right)
    for node, own in enumerate(map(slice, last - length, last)):
        np.testing.assert_allclose(found[node], left[:, own] @ right[:, own].T)
        np.testing.assert_allclose(turned[:, own], matrices[node] @ right[:, own])


def test_sums_of_many_rows_keep_their_digits():
    """Added one after the other, a million times a tenth in float32 is 100,958."""
    rows = RaggedRows(np.array([1_000_000, 3]))
    found = rows.sums(np.full(1_000_003, 0.1, np.float32))
    np.testing.assert_allclose(found, [1e5, 0.3], rtol=1e-6)
