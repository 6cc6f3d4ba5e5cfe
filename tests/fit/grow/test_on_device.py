"""Trees that grow on an accelerator are those that grow on the host.

Processors stand for the accelerator: the programs are the same.
"""

from __future__ import annotations

import jax
import numpy as np
import pandas as pd
import pytest
from configurations import crease, encoded, planes, shop
from traceable_finder import VarianceSplits

from benchmarks.device.counting import as_on_accelerator
from secret_jax import SecretRegressor, SecretSplits
from secret_jax.data import fallback, kernels
from secret_jax.fit.grow import on_device
from secret_jax.fit.grow.execution import GrowOptions, no_splits
from secret_jax.fit.grow.frontier import Frontier, Places, Root
from secret_jax.fit.grow.grower import grown
from secret_jax.fit.grow.level_programs import unpacked
from secret_jax.fit.grow.on_device import OnDevice
from secret_jax.fit.grow.on_host import OnHost
from secret_jax.tree.structure import SplitKind

N_ROWS = 700


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    """What there is room for at first, so that little makes it too little."""
    monkeypatch.setattr(on_device, "_NODES", 4)
    monkeypatch.setattr(on_device, "_FEWEST_NODES", 4)
    monkeypatch.setattr(on_device, "_FEWEST_ROWS", 1 << 10)


@pytest.fixture(scope="module")
def table():
    """Numbers with gaps, a colour and a shape; encoded, with their schema."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N_ROWS, 4))
    colour, shape = rng.choice(list("rgbyw"), N_ROWS), rng.choice(list("ox"), N_ROWS)
    y = np.where(colour == "r", 3 * x[:, 0], x[:, 1] ** 2) + np.abs(x[:, 2])
    y += (shape == "o") * x[:, 3] + 0.1 * rng.normal(size=N_ROWS)
    x[rng.random(N_ROWS) < 0.1, 3] = np.nan
    X = pd.DataFrame(x, columns=list("abcd")).assign(colour=colour, shape=shape)
    return encoded(X, y, missing="mean")


def root_of(rows, **changes):
    options = {"min_split_weight": 20.0, "min_leaf_weight": 8.0} | changes
    return Root(rows=rows, **options)


def several_roots():
    """Roots of other rows, some of them twice, of other weights and other targets."""
    rng = np.random.default_rng(1)
    some = rng.permutation(N_ROWS)[:300]
    few = rng.integers(0, N_ROWS, 100)
    return [
        root_of(np.arange(N_ROWS)),
        root_of(some, weight=rng.uniform(0.5, 2.0, 300), max_leaf_nodes=4),
        root_of(few, targets=rng.normal(size=(100, 1)), min_leaf_weight=3.0),
    ]


def both(table, options, roots):
    """Trees of the host and of the device."""
    rows, schema = table
    on_host = grown(rows, schema, options, roots)
    with as_on_accelerator():
        return on_host, grown(rows, schema, options, roots)


def assert_alike(on_host, there):
    for own, other in zip(on_host, there, strict=True):
        for name in ("left", "right", "kind", "attribute", "goes_left", "stop_reason"):
            found, expected = (getattr(each.tree, name) for each in (other, own))
            np.testing.assert_array_equal(found, expected, err_msg=name)
        np.testing.assert_array_equal(other.tree.threshold, own.tree.threshold)
        np.testing.assert_allclose(other.tree.gain, own.tree.gain, rtol=1e-3, atol=1e-3)
    assert max(each.tree.n_leaves for each in there) > 4


LIMITS = {
    "all rows": {"sample": None},
    "samples": {"sample": 128},
    "to a depth": {"sample": None, "max_depth": 3},
    "best first": {"sample": 128, "max_leaf_nodes": 12},
    "in batches": {"sample": 64, "max_leaf_nodes": 12, "in_batches": True},
    "few attributes": {"sample": None, "max_features": 2},
}


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
def test_trees_are_those_of_the_host(table, limits):
    options = GrowOptions(finder=VarianceSplits(), min_gain=0.0, **limits)
    assert_alike(*both(table, options, several_roots()))


def test_splits_of_categories_alone_have_no_directions():
    X = pd.DataFrame({"colour": list("rgbrgb"), "shape": list("oxoxox")})
    _, schema = encoded(X, np.arange(6.0), missing="mean")
    template = no_splits(1, schema, VarianceSplits())
    size = sum(leaf.size for leaf in jax.tree.leaves(template))
    found = unpacked(np.ones((4, size)), template)
    assert found.direction.shape == (4, 0)
    assert found.goes_left.shape == (4, 3)
    assert (found.gain == 1).all()


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_nodes_are_where_they_are_on_the_host(table, seed):
    """After splits of all kinds, made at different times, and one that is not made."""
    rows, schema = table
    rng = np.random.default_rng(seed)
    roots = [root_of(rng.permutation(N_ROWS)[: 300 + 100 * i]) for i in range(3)]
    options = GrowOptions(finder=VarianceSplits(), sample=None)
    here = OnHost(Places.of(rows, roots), schema, options)
    places = Places.of(rows, roots)
    level = Frontier.of(roots, places, schema)
    there = OnDevice(places, schema, options, level)
    most = 0
    for _ in range(5):
        splits = random_splits(rng, len(level.node), schema)
        goes = rng.random(len(level.node)) < 0.8
        others = level.take(~goes)
        sides = [
            each.divide(level.take(goes), splits.take(goes), others)
            for each in (here, there)
        ]
        for own, other in zip(*sides, strict=True):
            np.testing.assert_allclose(other, own, rtol=1e-6)
        parents, (middle, left, right) = level.take(goes), sides[0]
        made = np.minimum(left, right) > 0
        weight = np.stack([left, right], axis=1)[made].ravel()
        node = np.arange(2 * made.sum())
        level = parents.take(made).children(node, middle[made], weight)
        keep = rng.random(len(others.node)) < 0.9
        joined = zip(level, others.take(keep), strict=True)
        level = Frontier(*(np.concatenate(pair) for pair in joined))
        statistics_agree(level, here, there)
        most = max(most, len(level.node))
    assert most > 4  # more than there was room for


def random_splits(rng, n_nodes, schema):
    splits = no_splits(n_nodes, schema, VarianceSplits())
    splits.kind[:] = rng.choice([1, 2, 3], n_nodes)
    for node, kind in enumerate(splits.kind):
        if kind == SplitKind.DISCRETE:
            splits.attribute[node] = rng.integers(len(schema.discrete))
            splits.goes_left[node] = rng.random(splits.goes_left.shape[1]) < 0.5
        elif kind == SplitKind.AXIS:
            splits.direction[node, rng.integers(schema.n_columns)] = 1.0
        else:
            splits.direction[node] = rng.normal(size=schema.n_columns)
        splits.threshold[node] = 0.5 * rng.normal()
    # One has nothing on its right.
    splits.kind[-1], splits.direction[-1], splits.threshold[-1] = 2, 0.0, 1.0
    return splits


def statistics_agree(level, here, there):
    length = level.stop - level.start
    found, own = (each.statistics(level, length) for each in (there, here))
    np.testing.assert_allclose(found.weight, own.weight, rtol=1e-6)
    np.testing.assert_allclose(found.mean, own.mean, atol=1e-6)
    size = np.einsum("nii->ni", own.scatter) + 1e-6
    size = np.sqrt(size[:, :, None] * size[:, None, :])
    assert (np.abs(found.scatter - own.scatter) < 1e-5 * size).all()
    np.testing.assert_array_equal(found.lower, own.lower)
    np.testing.assert_array_equal(found.upper, own.upper)


def test_far_from_zero_scatter_keeps_its_digits(table):
    """It is summed about rows of the node: about zero ten percent would be rounding."""
    rows, schema = table
    rng = np.random.default_rng(0)
    far = rows._replace(targets=1000.0 + rng.normal(size=(N_ROWS, 1)))
    roots = [root_of(np.arange(N_ROWS)), root_of(np.arange(100, 400))]
    places = Places.of(far, roots)
    level = Frontier.of(roots, places, schema)
    options = GrowOptions(finder=VarianceSplits(), sample=None)
    there = OnDevice(places, schema, options, level)
    found = there.statistics(level, level.stop - level.start).scatter[:, -1, -1]
    own = (far.targets[root.rows].astype(np.float32).astype(float) for root in roots)
    expected = [len(values) * values.var() for values in own]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_of_stretches_of_a_table_the_targets_alone_are_sent(table, monkeypatch):
    """The device names their rows, and knows weights of one."""
    sent, program = [], on_device.laid_out

    def noted(*arguments, **static):
        small = (array.size for array in arguments if isinstance(array, np.ndarray))
        sent.append(sum(small))
        return program(*arguments, **static)

    monkeypatch.setattr(on_device, "laid_out", noted)
    every, shuffled = np.arange(N_ROWS), np.arange(N_ROWS)
    shuffled[1:-1] = shuffled[-2:0:-1]  # its ends are those of a stretch
    roots = [[root_of(every)], [root_of(every[5:90]), root_of(every)]]
    roots += [[root_of(shuffled)], [root_of(every, weight=1.5 * np.ones(N_ROWS))]]
    options = GrowOptions(finder=VarianceSplits(), sample=64, min_gain=0.0, max_depth=2)
    for own in roots:
        on_host, there = both(table, options, own)
        for expected, found in zip(on_host, there, strict=True):
            np.testing.assert_allclose(found.tree.gain, expected.tree.gain, rtol=1e-3)
    n, few = 1 << 10, 2 * on_device._NODES * on_device._MORE
    assert sent == [n + few, n + few, 2 * n + few, 2 * n + few]


def test_unseen_categories_go_to_the_larger_side(table):
    rows, schema = table
    codes = rows.table.codes.copy()
    codes[::7] = -1
    rows = rows._replace(table=rows.table._replace(codes=codes))
    options = GrowOptions(finder=VarianceSplits(), sample=None, min_gain=0.0)
    on_host, there = both((rows, schema), options, several_roots())
    assert_alike(on_host, there)
    assert (on_host[0].tree.kind == SplitKind.DISCRETE).any()


def test_one_search_serves_all_levels_and_sizes(table):
    """Programs know the table's shape, and how many nodes there is room for."""
    rows, schema = table
    options = GrowOptions(finder=VarianceSplits(), sample=64, min_gain=0.0, max_depth=2)
    counts = []
    for n_rows in (500, 400, 350, 700):
        from secret_jax.fit.grow import level_programs as programs

        with as_on_accelerator():
            grown(rows, schema, options, [root_of(np.arange(n_rows))])
        several = (programs.divided, programs.samples, programs.searched)
        counts.append([each.n_compiled for each in several])
    assert all(count == counts[0] for count in counts)


@pytest.mark.parametrize("in_batches", [False, True])
def test_of_small_trees_of_ensembles_a_search_has_room_for_few(
    in_batches, table, monkeypatch
):
    """One for all of their growths, the first too, of single leaves."""
    monkeypatch.setattr(on_device, "_NODES", 64)
    rooms, options = [], {"max_leaf_nodes": 4, "in_batches": in_batches}
    laid_out, samples = on_device.laid_out, on_device.samples

    def noted(program, which):
        def call(*arguments, **static):
            rooms.append(len(arguments[which]))
            return program(*arguments, **static)

        return call

    monkeypatch.setattr(on_device, "laid_out", noted(laid_out, 5))
    monkeypatch.setattr(on_device, "samples", noted(samples, 1))
    options = GrowOptions(finder=VarianceSplits(), sample=64, min_gain=0.0, **options)
    for most in (1, None):
        roots = [root_of(np.arange(n), max_leaf_nodes=most) for n in (700, 400)]
        with as_on_accelerator():
            found = grown(*table, options, roots)
        assert {each.tree.n_leaves for each in found} == {most or 4}
    assert set(rooms) == ({4 * 8, 8} if in_batches else {4 * 64, 64})


def test_a_finder_that_is_not_compiled_runs_on_the_host(table):
    class OnTheHost(VarianceSplits):
        compiled = False

    rows, schema = table
    options = GrowOptions(finder=OnTheHost(), sample=None, min_gain=0.0)
    on_host, there = both((rows, schema), options, [root_of(np.arange(N_ROWS))])
    assert_alike(on_host, there)


def test_too_little_memory_names_what_there_is_too_much_of(table, monkeypatch):
    import jax

    def fails(*_, **__):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: 1 GB")

    monkeypatch.setattr(on_device, "divided", fails)
    rows, schema = table
    options = GrowOptions(finder=VarianceSplits())
    with (
        as_on_accelerator(),
        pytest.raises(MemoryError, match=r"700 rows of 6 columns.*device='cpu'"),
    ):
        grown(rows, schema, options, [root_of(np.arange(N_ROWS))])


def fit_on_both(X, y, **options):
    model = SecretRegressor(random_state=0, **options)
    on_host = model.fit(X, y).predict(X), model.tree_
    with as_on_accelerator():
        there = model.fit(X, y).predict(X), model.tree_
    return on_host, there


def with_gaps(n_rows=256):
    """Numbers, a colour and a shape, of which some are not known."""
    X, y = shop(n_rows)
    rng = np.random.default_rng(3)
    X = X.assign(shape=rng.choice(list("ox"), n_rows), depth=rng.normal(size=n_rows))
    X.loc[rng.random(n_rows) < 0.2, "height"] = np.nan
    X.loc[rng.random(n_rows) < 0.1, "depth"] = np.nan
    return X, y + 2.0 * X["height"].isna() + (X["shape"] == "o") * X["depth"].fillna(1)


def of_two_outputs(n_rows=256):
    """Planes that meet, and their squares."""
    X, y = crease(n_rows)
    return X, np.column_stack([y, y**2])


TABLES = {
    "gaps and categories": with_gaps,
    "paper's splits": crease,
    "numbers": crease,
    "a colour": shop,
    "no noise": planes,
    "two outputs": of_two_outputs,
    "few rows": lambda: with_gaps(60),
}


# Each compiles a search of its own.
@pytest.mark.parametrize(
    "name",
    [
        *[*TABLES][:2],
        *(pytest.param(name, marks=pytest.mark.device) for name in [*TABLES][2:]),
    ],
)
def test_fits_are_those_of_the_host(name):
    X, y = TABLES[name]()
    y, options = np.asarray(y), {"prune": None, "max_leaf_nodes": 6}
    if name == "paper's splits":
        options |= {"splits": SecretSplits(n_starts=1, n_attempts=1), "oblique": True}
    (expected, own), (found, other) = fit_on_both(X, y, **options)
    assert np.array_equal(other.kind, own.kind)
    assert np.array_equal(other.attribute, own.attribute)
    assert np.array_equal(other.goes_left, own.goes_left)
    assert np.abs(found - expected).max() <= 1e-3 * y.std()


def test_a_fit_goes_on_where_a_kernel_fails(monkeypatch):
    """On a card that is pretended, after kernels were right in the trial."""

    def fails(*_):
        raise NotImplementedError("no such instruction")

    monkeypatch.setattr(fallback, "runs_triton", lambda device: True)
    monkeypatch.setattr(fallback, "_WORKS", {jax.devices("cpu")[0]: True})
    monkeypatch.setattr(kernels, "sums_of_tiles", fails)
    X, y = crease()
    options = {"prune": None, "max_leaf_nodes": 6, "oblique": True}
    options["splits"] = SecretSplits(n_starts=1, n_attempts=1)
    with pytest.warns(UserWarning, match="does not work on .*no such instruction"):
        (expected, own), (found, other) = fit_on_both(X, y, **options)
    assert np.array_equal(other.kind, own.kind)
    assert np.abs(found - expected).max() <= 1e-3 * y.std()


def test_programs_of_a_level_take_one_array_of_the_host(table, monkeypatch):
    """Every array is a transfer of its own."""
    import jax

    from secret_jax.runtime.programs import Program

    rows, schema = table
    call, sent = Program.__call__, {}

    def counted(self, *arguments, **static):
        leaves = jax.tree.leaves(arguments)
        own = sum(isinstance(leaf, np.ndarray | np.generic) for leaf in leaves)
        sent.setdefault(self.__name__, set()).add(own)
        return call(self, *arguments, **static)

    monkeypatch.setattr(Program, "__call__", counted)
    options = GrowOptions(finder=VarianceSplits(), sample=128, min_gain=0.0)
    with as_on_accelerator():
        grown(rows, schema, options, several_roots())
    assert {sent[name] == {1} for name in ("divided", "samples", "searched")} == {True}
