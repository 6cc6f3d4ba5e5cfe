"""Plain numbers of splits: few digits, and every row keeps its way."""

from __future__ import annotations

import dataclasses
import re
from decimal import Decimal

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from random_trees import encode, random_rows, random_tree

from secret_jax import SecretRegressor
from secret_jax.data.row_programs import encoded_block
from secret_jax.data.rows import Table
from secret_jax.data.schema import Role
from secret_jax.inspect.equations import LinearSplit, conditions_at, rounded_split
from secret_jax.tree.plain import _factors, plain_number, with_plain_splits
from secret_jax.tree.routing import apply, paths_of
from secret_jax.tree.structure import SplitKind, Tree
from secret_jax.tree.totals import in_order, in_slices

MARGIN = 0.1  # of the gap between the rows on the two sides


@pytest.mark.parametrize("seed", range(8))
def test_no_row_changes_its_way(seed):
    tree = random_tree(seed, 12)
    table = encode(random_rows(seed, 400))
    assert with_plain_splits(random_tree(0, 1), table).n_nodes == 1
    plain = with_plain_splits(tree, table)
    np.testing.assert_array_equal(paths_of(plain, table), paths_of(tree, table))
    assert not np.array_equal(plain.threshold, tree.threshold)
    # Only thresholds and directions are touched, and no split gets other columns.
    for name in ("left", "right", "kind", "attribute", "goes_left", "coefficient"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(tree, name))
    assert not ((plain.direction != 0) & (tree.direction == 0)).any()
    # A second time changes no way, and no number that is read.
    twice = with_plain_splits(plain, table)
    np.testing.assert_array_equal(paths_of(plain, table), paths_of(twice, table))
    for node in gaps(plain, table):
        numbers = [
            rounded_split(conditions_at(t, node)[0]).threshold for t in (plain, twice)
        ]
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-9)


def gaps(tree: Tree, table: Table) -> dict[int, tuple[float, float]]:
    """Between which values an axis split lies, in the units of the data."""
    path, schema, found = paths_of(tree, table), tree.schema, {}
    for node in np.flatnonzero(tree.kind == SplitKind.AXIS):
        here = path[tree.depth[node]] == node
        if not here.any():
            continue
        attribute = tree.attribute[node]
        value = schema.center[attribute] + schema.scale[attribute] * table.x[
            here, attribute
        ].astype(float)
        left = path[tree.depth[node] + 1][here] == tree.left[node]
        if left.any() and not left.all():
            found[int(node)] = float(value[left].max()), float(value[~left].min())
    return found


@pytest.mark.parametrize("seed", range(6))
def test_thresholds_are_the_shortest_decimals_between_the_rows(seed):
    tree = random_tree(seed, 12, kinds=(SplitKind.AXIS,))
    table = encode(random_rows(seed, 300))
    plain = with_plain_splits(tree, table)
    between = gaps(plain, table)
    assert len(between) >= 4
    for node, (low, high) in between.items():
        split = conditions_at(plain, node)[0]
        assert isinstance(split, LinearSplit)
        at, gap = rounded_split(split).threshold, high - low
        # Far enough from both sides, but for the rounding of float32.
        close = 1e-6 * tree.schema.scale[tree.attribute[node]]
        assert low + MARGIN * gap - close <= at <= high - MARGIN * gap + close
        # No decimal with one place less lies there.
        exponent = Decimal(repr(at)).normalize().as_tuple().exponent
        assert isinstance(exponent, int)
        step = 10.0 ** (exponent + 1)
        shorter = np.ceil((low + MARGIN * gap + close) / step) * step
        assert shorter > high - MARGIN * gap - close


def by_all_rows(
    tree: Tree, node: int, x: np.ndarray, left: np.ndarray, reach: np.ndarray
):
    """Round a sum by all rows of its node, digit by digit; what it was if none fits."""
    schema, given = tree.schema, tree.direction[node].astype(np.float64)
    used = np.flatnonzero(given)
    used = used[np.argsort(-np.abs(given[used]), kind="stable")]
    center, scale = schema.center[used], schema.scale[used]
    unit = abs(given[used[0]] / scale[0])
    factor = given[used] / scale / unit
    value = center + scale * x[:, used].astype(np.float64)
    for digits in range(1, 6):
        step = 10.0**-digits * np.linalg.norm(factor * scale) / scale
        places = -np.floor(np.log10(step)).astype(int)
        plain = np.array(list(map(round, factor.tolist(), places.tolist())))
        plain[0] = factor[0]
        total = value @ plain
        low, high = total[left].max(), total[~left].min()
        # Eight roundings of float32.
        terms = np.abs(given[used]) / unit + np.abs(plain - factor) * scale
        if high - low > 2.0**-21 * (terms @ reach[used]):
            margin, size = MARGIN * (high - low), np.linalg.norm(plain * scale)
            at = plain_number(low + margin, high - margin)
            new = np.zeros(len(given), np.float32)
            new[used] = plain * scale / size
            threshold = np.float32((at - plain @ center) / size)
            if np.array_equal(x @ new <= threshold, left):
                return new, threshold
    return tree.direction[node], tree.threshold[node]


HARD = {  # numbers of a column, its center and its scale
    "usual": (lambda rng, n: rng.normal(size=n), 0.5, 0.1),
    "ties": (lambda rng, n: rng.integers(-2, 3, n), 3.0, 1.0),
    "far": (lambda rng, n: rng.normal(size=n), 1e6, 1e-3),
    "tiny": (lambda rng, n: rng.normal(size=n), -3e-9, 1e-12),
    "huge": (lambda rng, n: rng.standard_t(1, size=n), 4e9, 3e8),
    "constant": (lambda _, n: np.full(n, 0.3), 7.0, 2.0),
    "rare": (lambda rng, n: 30.0 * (rng.random(n) < 0.01), 0.0, 0.03),
}
CASES = [
    ("usual", "usual", "usual", "usual", "usual"),
    ("ties", "ties", "usual", "constant", "ties"),
    ("far", "tiny", "huge", "usual", "rare"),
    ("huge", "rare", "constant", "ties", "tiny"),
    ("far", "far", "ties", "constant", "constant"),
]


@pytest.mark.parametrize("case", CASES, ids="-".join)
@pytest.mark.parametrize("n_rows", [40, 3000])
def test_sums_are_rounded_as_by_all_rows(case, n_rows):
    """Only rows near a threshold are looked at, and no other one would matter."""
    seed = CASES.index(case)
    rng, tree = np.random.default_rng(seed), random_tree(seed, 12, kinds=(2,))
    columns, center, scale = zip(*(HARD[name] for name in case), strict=True)
    x = np.stack([draw(rng, n_rows) for draw in columns], axis=1).astype(np.float32)
    direction = tree.direction.copy()
    direction[::3, 1:3] = 0.0
    direction[1::4, 3] *= 1e-3
    schema = dataclasses.replace(
        tree.schema, center=np.array(center), scale=np.array(scale)
    )
    tree = dataclasses.replace(tree, schema=schema, direction=direction)
    table = Table(x, np.zeros((n_rows, 2), np.int32))
    threshold = tree.threshold.copy()
    for node in np.flatnonzero(~tree.is_leaf)[::2]:  # rows lie at the very threshold
        here = paths_of(tree, table)[tree.depth[node]] == node
        if here.any():
            projection = x[here] @ direction[node]
            last = [0, here.sum() // 2, here.sum() - 2][node % 3]
            threshold[node] = np.sort(projection)[max(last, 0)]
            tree = dataclasses.replace(tree, threshold=threshold)
    path, n_rounded = paths_of(tree, table), 0
    plain, reach = with_plain_splits(tree, table), np.abs(x).max(axis=0)
    for node in np.flatnonzero(~tree.is_leaf):
        here = path[tree.depth[node]] == node
        left = path[tree.depth[node] + 1][here] == tree.left[node]
        expected = tree.direction[node], tree.threshold[node]
        if left.any() and not left.all():
            expected = by_all_rows(tree, int(node), x[here], left, reach)
        np.testing.assert_array_equal(plain.direction[node], expected[0])
        assert plain.threshold[node] == expected[1]
        n_rounded += bool(plain.threshold[node] != tree.threshold[node])
    assert n_rounded or case[:2] == ("far", "far")
    np.testing.assert_array_equal(paths_of(plain, table), path)


def test_sparse_sums_of_a_wide_table_are_rounded_as_by_all_rows():
    """Columns that no sum uses may have any scale, or none."""
    rng, n = np.random.default_rng(7), 90
    tree, unused = random_tree(7, 12, kinds=(2,)), (11, 50)
    direction = np.zeros((tree.n_nodes, n), np.float32)
    for own in direction:
        columns = rng.choice(np.delete(np.arange(n), unused), 4, replace=False)
        own[columns] = rng.normal(size=4)
    center, scale = rng.normal(size=n), rng.uniform(0.1, 9.0, n)
    scale[list(unused)] = 0.0, np.inf
    positions = tuple(range(n))
    schema = dataclasses.replace(
        tree.schema,
        names=tuple(f"x{i}" for i in range(n)),
        roles=(Role.REGRESSOR,) * n,
        continuous=positions,
        n_regressors=n,
        discrete=(),
        categories=(),
        center=center,
        scale=scale,
    )
    coefficient = np.zeros((tree.n_nodes, 1, 1 + n))
    tree = dataclasses.replace(
        tree, schema=schema, direction=direction, coefficient=coefficient
    )
    x = rng.normal(size=(2000, n)).astype(np.float32)
    table = Table(x, np.zeros((len(x), 0), np.int32))
    plain, path = with_plain_splits(tree, table), paths_of(tree, table)
    n_rounded, reach = 0, np.abs(x).max(axis=0)
    for node in np.flatnonzero(~tree.is_leaf).tolist():
        here = path[tree.depth[node]] == node
        left = path[tree.depth[node] + 1][here] == tree.left[node]
        if left.any() and not left.all():
            direction, threshold = by_all_rows(tree, node, x[here], left, reach)
            np.testing.assert_array_equal(plain.direction[node], direction)
            assert plain.threshold[node] == threshold
            n_rounded += bool((direction != tree.direction[node]).any())
    assert n_rounded >= 5


def test_no_row_moves_further_than_the_window_says():
    tree, windows = random_tree(3, 12, kinds=(2,)), []
    reach = np.array([3.0, 0.5, 7.0, 2.0, 1e-3], np.float32)
    for effect in tree.direction[~tree.is_leaf].astype(np.float64):
        used = np.argsort(-np.abs(effect))
        effect, most = effect[used], reach[used]
        center, scale = tree.schema.center[used], tree.schema.scale[used]
        factors, window, _ = _factors(effect, center, scale, most)
        unit = abs(effect[0]) / scale[0]
        exact = effect / scale / unit
        for factor, far in zip(factors, window, strict=True):
            # Of two rows as far apart as can be, in units of the direction.
            row = most * np.sign(factor - exact)
            moved = (factor - exact) @ (2.0 * row * scale) * unit
            assert moved < far < moved + 1e-3
        windows.append(window)
    assert (np.diff(windows, axis=1) < 0).mean() > 0.9


@pytest.mark.parametrize(("gap", "rounded"), [(5e-7, False), (1e-3, True)])
def test_a_sum_is_kept_where_float32_might_close_the_gap(gap, rounded):
    """A device that adds up in another order sends rows beside it as processors do."""
    tree = random_tree(1, 2, kinds=(2,))
    direction, threshold = np.zeros_like(tree.direction), tree.threshold.copy()
    direction[0, 0], threshold[0] = 1.0, gap / 4
    tree = dataclasses.replace(tree, direction=direction, threshold=threshold)
    x = np.ones((20, direction.shape[1]), np.float32)
    x[:, 0] = np.linspace(-3, 3, len(x))
    x[9:11, 0] = -gap / 2, gap / 2
    plain = with_plain_splits(tree, Table(x, np.zeros((len(x), 2), np.int32)))
    assert (plain.threshold[0] != threshold[0]) == rounded


@pytest.mark.parametrize("fraction", [0.0, 0.25])
def test_a_column_is_whole_only_if_all_of_its_rows_are(fraction):
    tree, table = random_tree(0, 4), encode(random_rows(0, 300))
    schema, x = tree.schema, table.x.copy()
    value = np.arange(len(x)) % 40.0
    value[200] += fraction  # long after the first rows
    x[:, 4] = (value - schema.center[4]) / schema.scale[4]
    whole = with_plain_splits(tree, table._replace(x=x)).schema.whole
    assert (schema.continuous[4] in whole) == (fraction == 0)


def whole_table(n_rows: int = 400) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, n_rows)
    size = np.round(rng.normal(size=n_rows), 3)
    y = np.where(age <= 41, 3.0, -3.0) + size + 0.1 * rng.normal(size=n_rows)
    return pd.DataFrame({"age": age, "size": size}), y


@pytest.fixture(scope="module")
def whole():
    X, y = whole_table()
    model = SecretRegressor(oblique=False, max_leaf_nodes=4, prune=None)
    return model.fit(X, y), X, y


def test_whole_numbers_are_split_where_every_view_says(whole):
    model, X, _ = whole
    tree = model.tree_
    assert tree.schema.whole == (0,)
    assert tree.attribute[0] == 0
    threshold = conditions_at(tree, 0)[0].threshold
    last = round(threshold)
    assert last < threshold < last + 0.001
    assert f"[0] if age <= {last}\n" in model.export_text()
    assert f"[0] else age > {last}\n" in model.export_text()
    assert model.to_dataframe()["threshold"][0] == last
    assert re.search(rf"row\['age'\] (<=|>) {last}\.000\d+:", model.export_code())
    # Other values go by the printed number, too.
    other = X.head(4).assign(age=[last, last + 0.01, last + 0.6, last + 1])
    below = model.apply(X[X["age"] <= last])
    assert np.isin(model.apply(other), below).tolist() == [True, False, False, False]


@pytest.mark.parametrize("first", [0, 1990, -40, 500_000])
def test_rows_at_a_whole_threshold_go_left_however_they_are_encoded(first):
    values = np.repeat(first + np.arange(30.0), 4)
    y = np.where(values <= first + 12, 0.0, 1.0)
    model = SecretRegressor(leaf="constant", oblique=False, prune=None, max_depth=1)
    tree = model.fit(values[:, None], y).tree_
    assert round(conditions_at(tree, 0)[0].threshold) == first + 12
    center, scale = tree.schema.center, tree.schema.scale
    x = np.asarray(
        encoded_block(
            jnp.asarray(values[:, None]), (center, scale, *tree.schema.saturation)
        )
    )
    on_host = model.apply(values[:, None])
    on_device = apply(tree, Table(x, np.zeros((len(x), 0), np.int32)))
    assert set(on_host[values <= first + 12]).isdisjoint(on_host[values > first + 12])
    np.testing.assert_array_equal(on_device, on_host)


def test_gates_keep_rows_on_their_sides_and_lie_between_whole_numbers():
    tree, table = (
        random_tree(0, 2, kinds=(SplitKind.AXIS,)),
        encode(random_rows(0, 300)),
    )
    column = int(tree.attribute[0])
    center, scale = tree.schema.center[column], tree.schema.scale[column]
    x = table.x.copy()
    x[:, column] = (np.rint(center + scale * x[:, column]) - center) / scale
    table = table._replace(x=x)
    width = np.where(tree.is_leaf, 0, 0.5).astype(np.float32)
    soft = dataclasses.replace(tree, gate_width=width)
    at = {}
    for name, each in (("hard", tree), ("soft", soft)):
        plain = with_plain_splits(each, table)
        assert tree.schema.input_columns[column] in plain.schema.whole
        np.testing.assert_array_equal(paths_of(plain, table), paths_of(tree, table))
        at[name] = center + scale * plain.threshold[0]
    ((low, high),) = gaps(soft, table).values()
    assert at["hard"] == pytest.approx(np.rint(at["hard"]), abs=1e-2)
    margin = MARGIN * (high - low)
    assert low + margin <= at["soft"] <= high - margin


@pytest.mark.parametrize("n_rows", [500, 1 << 16, 1 << 18])
def test_rows_of_every_node_are_a_slice(n_rows):
    tree = random_tree(5, 9)
    leaves = np.flatnonzero(tree.is_leaf)
    last = in_order(tree)[-1]  # no row comes there: its slice starts at the end
    leaf = np.random.default_rng(0).choice(leaves[leaves != last], n_rows)
    order, start, stop = in_slices(tree, leaf)
    above = leaf.copy()
    for _ in range(tree.max_depth + 1):
        for node in np.unique(above[above >= 0]).tolist():
            here = np.sort(order[start[node] : stop[node]])
            assert np.isin(np.flatnonzero(above == node), here).all()
        above = np.where(above >= 0, tree.parent[above], -1)
    assert start[last] == stop[last] == stop[0] == n_rows
    assert (stop - start).sum() == (tree.depth[leaf] + 1).sum()
