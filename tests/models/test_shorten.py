"""Short equations and bounds: what they promise, on rows drawn by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from handmade import SHAPES, build_tree, tree_on_numbers

from secret_jax import LeastSquares, Ridge, SecretRegressor
from secret_jax.data.rows import Rows, Table
from secret_jax.data.schema import Role
from secret_jax.models.fitting import fit_models, node_statistics
from secret_jax.models.short_models import _backward, shortened
from secret_jax.tree.routing import paths_of, values
from secret_jax.tree.structure import SplitKind, Tree
from secret_jax.tree.totals import noise_variance

P = 6
FULL, RIDGE = LeastSquares(clip_margin=None), Ridge(clip_margin=None)
# Rows for which those of the parent count in the second moments.
BORROWED = 30.0


def rows_of(x: np.ndarray, targets: np.ndarray, weight=None) -> Rows:
    table = Table(x.astype(np.float32), np.zeros((len(x), 0), np.int32))
    targets = targets.reshape(len(x), -1)
    weight = np.ones(len(x)) if weight is None else np.asarray(weight, float)
    return Rows(table, targets, weight)


def noisy_rows(seed: int = 0, n_rows: int = 600, n_columns: int = P) -> Rows:
    """Correlated columns of falling use, and noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, n_columns))
    x = x @ (np.eye(n_columns) + 0.4 * rng.normal(size=(n_columns, n_columns)))
    slopes = 0.5 ** np.arange(n_columns)
    y = x @ slopes + np.abs(x[:, 0]) + 0.5 * rng.normal(size=n_rows)
    return rows_of(x, (y - y.mean()) / y.std())


def both(tree: Tree, rows: Rows, tolerance: float, leaf=FULL) -> tuple[Tree, Tree]:
    """With full and with short equations."""
    full = fit_models([tree], [rows], leaf)[0]
    return full, shortened(full, node_statistics(full, rows), tolerance, rows)


def second_moments(tree: Tree, rows: Rows) -> list[np.ndarray]:
    """Of the columns about their means in every node, the parents' as thirty rows."""
    path = paths_of(tree, rows.table)
    found: list[np.ndarray] = []
    for node in range(tree.n_nodes):
        inside = (path == node).any(axis=0)
        x, weight = rows.table.x[inside].astype(float), rows.weight[inside]
        own = np.cov(x.T, aweights=weight, ddof=0).reshape(x.shape[1], x.shape[1])
        if node:
            share = weight.sum() / (weight.sum() + BORROWED)
            own = share * own + (1 - share) * found[tree.parent[node]]
        found.append(own)
    return found


@pytest.mark.parametrize(
    ("leaf", "shape", "tolerance"),
    [
        (FULL, "root", 0.3),
        (FULL, "bushy", 0.03),
        (Ridge(clip_margin=None), "bushy", 0.003),
    ],
)
def test_what_is_left_unsaid_is_a_small_share_of_the_noise(leaf, shape, tolerance):
    rows = noisy_rows()
    full, short = both(tree_on_numbers(shape, 0, P), rows, tolerance, leaf)
    noise = noise_variance(full)
    tolerance *= 1.0 - noise[0, 0]  # what the tree explains
    spared = 0
    for node, moments in enumerate(second_moments(full, rows)):
        b, a = full.coefficient[node, 0, 1:], short.coefficient[node, 0, 1:]
        unsaid = (b - a) @ moments @ (b - a)
        assert unsaid <= tolerance * noise[node, 0] * (1 + 1e-6)
        # The slopes are those of the projection on the columns that are left.
        chosen = np.flatnonzero(a)
        inside = moments[np.ix_(chosen, chosen)]
        expected = np.linalg.solve(inside, (moments @ b)[chosen])
        np.testing.assert_allclose(a[chosen], expected, rtol=1e-4, atol=1e-6)
        # None of them can be spared.
        for out in chosen:
            rest = chosen[chosen != out]
            slopes = np.zeros(P)
            inside = moments[np.ix_(rest, rest)]
            slopes[rest] = np.linalg.solve(inside, (moments @ b)[rest])
            assert (b - slopes) @ moments @ (b - slopes) > tolerance * noise[node, 0]
        spared += P - len(chosen)
    assert spared > 0


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_the_mean_prediction_and_the_errors_of_every_node_are_right(n_outputs):
    rows = noisy_rows(3)
    rng = np.random.default_rng(3)
    more = rows.table.x[:, 1:2] * 2.0 + rng.normal(size=(len(rows.targets), 1))
    targets = np.hstack([rows.targets, more])[:, :n_outputs]
    rows = rows._replace(targets=targets)
    full, short = both(tree_on_numbers("bushy", 0, P, n_outputs), rows, 0.1)
    path = paths_of(full, rows.table)
    for node in range(full.n_nodes):
        inside = (path == node).any(axis=0)
        assert inside.any()
        design = np.column_stack([np.ones(inside.sum()), rows.table.x[inside]])
        before, after = (design @ t.coefficient[node].T for t in (full, short))
        np.testing.assert_allclose(after.mean(0), before.mean(0), atol=1e-6)
        error = np.mean((after - targets[inside]) ** 2, axis=0)
        np.testing.assert_allclose(short.train_error[node], error, rtol=1e-5)
    assert (short.coefficient == 0).sum() > (full.coefficient == 0).sum()
    np.testing.assert_array_equal(short.degrees, full.degrees)


def test_where_little_is_explained_little_is_left_out():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(3000, P))
    y = x @ (0.5 ** np.arange(P)) * 0.2 + rng.normal(size=3000)
    full, short = both(
        tree_on_numbers("root", 0, P), rows_of(x, (y - y.mean()) / y.std()), 0.03
    )
    explained = [1.0 - tree.train_error[0, 0] for tree in (full, short)]
    assert explained[0] < 0.1
    assert (short.coefficient == 0).any()
    assert explained[1] > 0.97 * explained[0]


@pytest.mark.parametrize("tolerance", [0.03, 0.5])
def test_what_is_exactly_linear_stays_exact(tolerance):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(300, P)).astype(np.float32).astype(float)
    rows = rows_of(x, x @ [1.0, 0.0, -0.01, 0.0, 1e-3, 0.5] + 2.0)
    _, short = both(tree_on_numbers("stump", 0, P), rows, tolerance)
    prediction = values(short, rows.table)
    np.testing.assert_allclose(prediction, rows.targets, atol=2e-5)


def test_order_and_units_of_the_columns_do_not_matter():
    rows = noisy_rows(8)
    tree = tree_on_numbers("root", 0, P)
    _, short = both(tree, rows, 0.1)
    order, units = np.random.default_rng(8).permutation(P), 2.0 ** np.arange(-2, P - 2)
    turned = rows_of(rows.table.x[:, order] * units, rows.targets)
    _, other = both(tree, turned, 0.1)
    for name in ("coefficient", "standard_error"):
        expected = getattr(short, name)[:, :, 1:][:, :, order] / units
        found = getattr(other, name)[:, :, 1:]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-9)
    assert 0 < (short.coefficient == 0).sum() < P


@pytest.mark.parametrize("shift", [0.0, 1e-5])
def test_a_copy_of_a_column_gets_no_term(shift):
    """Whose share of the slope least squares of least norm has given to it."""
    rng = np.random.default_rng(9)
    x = rng.normal(size=(400, 3))
    x = np.column_stack([x, x[:, 0] + shift * rng.normal(size=400)])
    rows = rows_of(x, 2 * x[:, 0] + x[:, 1] + 0.3 * rng.normal(size=400))
    _, short = both(tree_on_numbers("root", 0, 4), rows, 0.03, RIDGE)
    slopes = short.coefficient[0, 0, 1:]
    assert np.count_nonzero(slopes[[0, 3]]) == 1
    assert slopes[[0, 3]].sum() == pytest.approx(2, abs=0.1)


def colours(rng: np.random.Generator, n_rows: int) -> tuple[Tree, Rows]:
    """A split on a colour of four, whose indicators are the regressors beside one."""
    tree = build_tree(SHAPES["stump"], 0)
    schema = dataclasses.replace(
        tree.schema,
        names=("colour", "a"),
        roles=(Role.DISCRETE, Role.REGRESSOR),
        continuous=(1,),
        n_regressors=5,
        center=np.zeros(5),
        scale=np.ones(5),
        categories=(("red", "green", "blue", "white"),),
        indicators=tuple((0, code) for code in range(4)),
    )
    wide = np.zeros((3, 5))
    tree = dataclasses.replace(
        tree,
        schema=schema,
        kind=np.array([SplitKind.DISCRETE, 0, 0], np.int32),
        attribute=np.array([0, -1, -1], np.int32),
        direction=wide.astype(np.float32),
        goes_left=np.array([[1, 1, 0, 0], [0] * 4, [0] * 4], bool),
        coefficient=np.zeros((3, 1, 6)),
        center=wide,
        spread=wide,
    )
    code, a = rng.integers(0, 4, n_rows), rng.normal(size=n_rows)
    y = a + np.array([5.0, 5.0, -5.0, -2.0])[code] + 0.3 * rng.normal(size=n_rows)
    x = np.column_stack([a, np.eye(4)[code]]).astype(np.float32)
    return tree, Rows(Table(x, code[:, None]), y[:, None], np.ones(n_rows))


@pytest.mark.parametrize("n_rows", [40, 400])
def test_what_the_path_fixes_has_no_term(n_rows):
    """Neither the colours that went the other way nor the sum of those that did not."""
    tree, rows = colours(np.random.default_rng(1), n_rows)
    _, short = both(tree, rows, 0.03, RIDGE)
    left, right = short.coefficient[1:, 0, 1:]
    # Red and green are worth the same: of the indicators nothing is left to say.
    np.testing.assert_array_equal(left[1:], 0.0)
    # Blue and white differ by three: one of them says it.
    assert (right[1:3] == 0).all()
    assert np.count_nonzero(right[3:]) == 1
    assert right[4] - right[3] == pytest.approx(3.0, abs=0.5)


def test_levels_with_like_coefficients_are_one_term():
    tree, rows = colours(np.random.default_rng(2), 400)
    alone = dataclasses.replace(
        tree,
        left=np.full(3, -1, np.int32),
        right=np.full(3, -1, np.int32),
        kind=np.zeros(3, np.int32),
    )
    _, short = both(alone, rows, 0.05, RIDGE)
    of_colours = short.coefficient[0, 0, 2:]
    assert of_colours[0] == of_colours[1]
    assert len(set(of_colours.tolist())) == 3


def test_standard_errors_of_a_full_root_are_those_of_the_textbook():
    """sqrt(s² diag((X'X)⁻¹)), of the columns and of the mean; models stay."""
    rows = noisy_rows(11, 120)
    full, same = both(tree_on_numbers("root", 0, P), rows, 0.0)
    np.testing.assert_array_equal(same.coefficient, full.coefficient)
    x, y = rows.table.x.astype(float), rows.targets[:, 0]
    design = np.column_stack([np.ones(len(x)), x - x.mean(axis=0)])
    fitted = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    variance = np.sum((y - fitted) ** 2) / (len(x) - 1 - P)
    expected = np.sqrt(variance * np.diag(np.linalg.inv(design.T @ design)))
    np.testing.assert_allclose(same.standard_error[0, 0], expected, rtol=1e-5)


def test_a_slope_that_others_leave_open_has_no_standard_error():
    rng = np.random.default_rng(12)
    x = rng.normal(size=(200, 2))
    x = np.column_stack([x, x[:, 0]])
    rows = rows_of(x, x[:, 0] + rng.normal(size=200))
    _, same = both(tree_on_numbers("root", 0, 3), rows, 0.0, RIDGE)
    assert (same.coefficient[0, 0, [1, 3]] != 0).all()
    assert np.isnan(same.standard_error[0, 0, [1, 3]]).sum() == 1
    assert np.isfinite(same.standard_error[0, 0, [0, 2]]).all()


def test_near_copies_whose_moments_are_rounding_do_not_end_a_fit():
    gram = np.array([[1.0, 1.0 + 1e-9], [1.0 + 1e-9, 1.0]])  # no covariance at all
    one = gram[None], np.ones((1, 2)), np.array([[0, 1]]), np.ones(1)
    kept, inverse, _ = _backward(*one, limit=np.array([-1.0]))
    assert kept.tolist() == [[0, 1]]
    np.testing.assert_allclose(inverse[0] @ gram, np.eye(2), atol=1e-6)
    spared, inverse, slopes = _backward(*one, limit=np.array([0.1]))
    assert spared.tolist() == [[0, -1]]
    assert inverse.tolist() == [[[1.0, 0.0], [0.0, 0.0]]]
    assert slopes.tolist() == [[1.0, 0.0]]
    none, inverse, slopes = _backward(*one, limit=np.array([2.0]))
    assert none.tolist() == [[-1, -1]]
    assert not inverse.any()
    assert not slopes.any()


AXES = {"splits": "cart", "max_depth": 1, "prune": None}


def hours(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Many zeros, and none below."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(300, 2))
    level = X @ [2.0, 1.0] + 0.3 * random.normal(size=300)
    return X, 100.0 * np.maximum(level, 0.0) + 0.1


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_what_is_never_negative_is_not_predicted_to_be(loss, tmp_path):
    X, y = hours()
    far = 5.0 * np.random.default_rng(1).normal(size=(2000, 2))
    model = SecretRegressor(loss=loss, leaf="linear", **AXES).fit(X, y)
    predicted = model.predict(far)
    assert 0 <= predicted.min() < 1e-2
    one_by_one = [model.predict(row[None])[0] for row in far[predicted < 1e-2][:5]]
    assert min(one_by_one) >= 0
    assert "clipped to [0, " in model.export_text()
    mirrored = SecretRegressor(loss=loss, leaf="linear", **AXES).fit(X, -y)
    assert -1e-2 < mirrored.predict(far).max() <= 0
    model.save(tmp_path / "hours")
    again = SecretRegressor.load(tmp_path / "hours")
    np.testing.assert_array_equal(again.predict(far), predicted)


def test_mixtures_have_bounds_and_targets_of_both_signs_or_no_clipping_none():
    X, y = hours()
    soft = SecretRegressor(leaf="linear", refine="soft", **AXES).fit(X, y)
    assert "shares, clipped to [0, " in soft.export_text()
    assert SecretRegressor(**AXES).fit(X, y - 50.0).tree_.bounds is None
    both = SecretRegressor(leaf="linear", **AXES)
    predicted = both.fit(X, np.column_stack([y, y - 50.0])).predict(5.0 * X)
    assert predicted[:, 0].min() >= 0 > predicted[:, 1].min()
    assert "clipped to [0, " in both.export_text(output=0)
    assert "clipped to [0, " not in both.export_text(output=1)
    free = SecretRegressor(leaf=LeastSquares(clip_margin=None), **AXES)
    assert free.fit(X, y).predict(10.0 * X).min() < 0
