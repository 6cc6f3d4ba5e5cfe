"""Contributions add up, say what the equations say, and come with the right words."""

import dataclasses

import numpy as np
import pytest
from configurations import shop
from handmade import BUSHY, SHAPES, STUMP, axis_stump, build_tree, rows
from random_trees import NAMES, encode, random_rows, random_tree, with_gates
from sklearn.datasets import load_iris

from secret_jax import SecretClassifier, SecretRegressor
from secret_jax.inspect.equations import model_in_original_units
from secret_jax.inspect.explain import (
    Explanation,
    explain_rows,
    feature_importances,
    split_levels,
    sum_variances,
)
from secret_jax.inspect.view import as_view
from secret_jax.inspect.words import path_sentence
from secret_jax.tree.routing import apply, predict
from secret_jax.tree.structure import SplitKind, Tree


def explained(tree: Tree, table) -> Explanation:
    n_columns = len(tree.schema.names)
    values = np.zeros((len(table.x), n_columns), object)
    return explain_rows(as_view(tree), table, values)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("clip_margin", [None, 0.25])
@pytest.mark.parametrize("kind", ["hard", "blended", "soft"])
def test_the_terms_sum_to_the_prediction(shape, clip_margin, kind):
    table = rows()
    for seed in range(3):
        tree = build_tree(SHAPES[shape], seed, clip_margin)
        if kind != "hard":
            tree = with_gates(tree, seed)
            if tree.is_soft and kind == "soft":
                tree = dataclasses.replace(tree, clip_leaves=False)
        why = explained(tree, table)
        total = why.baseline + why.contributions.sum(axis=1) + why.clipping
        np.testing.assert_allclose(total, why.prediction, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(
            why.prediction, predict(tree, table), rtol=1e-5, atol=1e-4
        )
        if clip_margin is None:
            assert np.abs(why.clipping).max() < 1e-12


def test_linear_parts_are_slopes_times_deviations():
    tree = random_tree(3, 8, clip_margin=None)
    columns = random_rows(1, 100)
    table = encode(columns)
    why = explained(tree, table)
    leaf = apply(tree, table)
    assert np.array_equal(why.leaf, leaf)
    assert (why.share == 1).all()
    for row in range(100):
        model = model_in_original_units(tree, leaf[row])
        expected = np.zeros(len(NAMES))
        for term in model.terms:
            deviation = columns[term.column][row] - term.center
            expected[term.column] = term.factor * deviation
        np.testing.assert_allclose(why.linear[row], expected, rtol=1e-4, atol=1e-4)


def test_splits_get_the_change_at_the_means():
    tree = build_tree(BUSHY, seed=2)
    moved = split_levels(tree)
    level = tree.coefficient[:, 0, 0]
    np.testing.assert_allclose(moved.sum(axis=1), level - level[0], atol=1e-12)
    for node in range(1, tree.n_nodes):
        parent = tree.parent[node]
        step = moved[node] - moved[parent]
        asked = {
            SplitKind.AXIS: {tree.schema.continuous[tree.attribute[parent]]},
            SplitKind.DISCRETE: {0},
            SplitKind.OBLIQUE: {1, 2},
        }[SplitKind(tree.kind[parent])]
        assert set(np.flatnonzero(step)) <= asked
        if tree.kind[parent] == SplitKind.OBLIQUE:
            ratio = (tree.direction[parent, 1] / tree.direction[parent, 0]) ** 2
            assert step[2] / step[1] == pytest.approx(ratio)


def test_a_soft_tree_mixes_the_terms_of_its_leaves():
    table, gate = rows(), np.array([0.5, 0, 0], np.float32)
    tree = axis_stump(1, 0.3, gate_width=gate)
    why = explained(tree, table)
    left = 1 / (1 + np.exp((table.x[:, 1].astype(float) - tree.threshold[0]) / 0.5))
    of_left, of_right = tree.coefficient[1:, 0, 1]
    slope = 2 * (left * of_left + (1 - left) * of_right)
    np.testing.assert_allclose(why.linear[:, 1], slope * table.x[:, 0], atol=1e-5)
    assert np.array_equal(why.leaf == 1, left > 0.5)
    np.testing.assert_allclose(why.share, np.maximum(left, 1 - left), atol=1e-6)


def test_paths_tell_the_tightest_bounds_once():
    links = [(1, 2), (3, 4), (-1, -1), (-1, -1), (5, 6), (-1, -1), (-1, -1)]
    tree = build_tree(links, seed=0)
    inner = ~tree.is_leaf
    tree = dataclasses.replace(
        tree,
        kind=np.where(inner, SplitKind.AXIS, 0).astype(np.int32),
        attribute=np.where(inner, 0, -1).astype(np.int32),
        direction=np.where(inner[:, None], np.float32([1, 0]), np.float32(0)),
        threshold=np.array([3, 1, 0, 0, 2, 0, 0], np.float32),
    )
    assert path_sentence(tree, 0) == "all rows"
    assert path_sentence(tree, 2) == "a > 3"
    assert path_sentence(tree, 5) == "a > 1 and a <= 2"
    assert path_sentence(tree, 6) == "a <= 3 and a > 2"


@pytest.fixture(scope="module")
def shop_model():
    X, y = shop()
    return SecretRegressor(random_state=0, prune=None).fit(X, y), X, y


def test_the_estimator_explains_a_data_frame(shop_model):
    model, X, y = shop_model
    why = model.explain(X)
    np.testing.assert_allclose(why.prediction, model.predict(X), atol=1e-5 * y.std())
    assert why.values[5].tolist() == X.iloc[5].tolist()
    text = str(why)
    assert text.startswith(f"row 0: price = {why.prediction[0]:.3f}")
    assert f"colour = {X['colour'][0]}" in text
    assert f"... {len(X) - 5} more rows" in text
    turned = model.explain(X[["height", "colour", "width"]])
    assert np.array_equal(turned.contributions, why.contributions)
    for row in range(5):
        head, _, *terms = why.row_text(row).splitlines()
        total = sum(float(line.split()[0]) for line in terms)
        printed = float(head.rsplit("=", 1)[1])
        assert total == pytest.approx(printed, abs=0.01 * max(1, abs(printed)))


def test_categories_that_are_numbers_have_all_their_digits_everywhere():
    random = np.random.default_rng(0)
    place, x = (
        np.array([80331, 10115])[random.integers(0, 2, 200)],
        random.normal(size=200),
    )
    X, y = np.stack([place, 80331.0 * x], axis=1), 3.0 * (place == 80331) + x
    model = SecretRegressor(categorical_features=[0], max_depth=0).fit(X, y)
    home = X[:, 0] == 80331
    assert "  x0 = 80331\n" in f"{model.explain(X[home][:1])}\n"
    assert (
        "[x0 = 80331]" in model.export_text() or "[x0 = 10115]" in model.export_text()
    )
    terms = [term for term in model.coefficients(0)["term"] if "x0" in term]
    assert terms
    assert not any(".0" in term for term in terms)


@pytest.mark.parametrize(
    ("names", "added"),
    [
        (("colour", "prediction", "leaf"), {"prediction_", "leaf_"}),
        (("colour", "baseline", "baseline_"), {"baseline__"}),
    ],
)
def test_names_of_the_table_give_way_to_those_of_the_columns(names, added):
    tree = build_tree(STUMP, seed=0)
    schema = dataclasses.replace(tree.schema, names=names)
    why = explained(dataclasses.replace(tree, schema=schema), rows())
    frame = why.to_dataframe()
    assert {*names, *added} <= set(frame)
    total = frame.drop(columns=[*frame][-3:]).sum(axis=1)
    np.testing.assert_allclose(total, why.prediction, rtol=1e-12, atol=1e-12)


def stump_tree(root, left, right, errors, kind=SplitKind.AXIS, attribute=1):
    """Models and errors by hand; ``a`` is the regressor, ``b`` is split on."""
    tree = build_tree(STUMP, seed=0)
    direction = np.zeros((3, 2), np.float32)
    if kind == SplitKind.AXIS:
        direction[0, attribute] = 1
    return dataclasses.replace(
        tree,
        kind=np.array([kind, 0, 0], np.int32),
        attribute=np.array([attribute, -1, -1], np.int32),
        direction=direction,
        coefficient=np.array([[root], [left], [right]], float),
        weight=np.array([100.0, 50, 50]),
        train_error=np.array(errors, float)[:, None],
    )


def test_known_shares():
    # The root explains .4 by a; the split on b another .4 by the intercepts alone.
    tree = stump_tree([0, 0.6], [-1, 0.6], [1, 0.6], [0.6, 0.2, 0.2])
    np.testing.assert_allclose(feature_importances(tree), [0, 0.5, 0.5])
    # A slope that turns round with b is a matter of both.
    tree = stump_tree([0, 0], [0, -1], [0, 1], [1, 0, 0])
    np.testing.assert_allclose(feature_importances(tree), [0, 0.5, 0.5])
    # The same with the colour.
    tree = stump_tree([0, 0], [0, -1], [0, 1], [1, 0, 0], SplitKind.DISCRETE, 0)
    np.testing.assert_allclose(feature_importances(tree), [0.5, 0.5, 0])
    # A split that saves nothing is worth nothing, one that costs neither.
    tree = stump_tree([0, 0.6], [-1, 0.6], [1, 0.6], [0.6, 0.7, 0.6])
    np.testing.assert_allclose(feature_importances(tree), [0, 1, 0])


def test_an_interaction_with_a_category_is_shared_with_the_column():
    """Of y = ±3 width + 8 bright + height: 16 by colour, 9 by both, 1 by height."""
    model = SecretRegressor(prune=None, max_leaf_nodes=2, min_samples_split=0.5)
    found = model.fit(*shop(512)).feature_importances_
    np.testing.assert_allclose(found, np.array([4.5, 16 + 4.5, 1]) / 26, atol=0.05)


def test_a_constant_target_has_none():
    tree = stump_tree([0, 0], [0, 0], [0, 0], [1, 1, 1])
    assert not feature_importances(tree).any()


def test_the_indicators_of_a_column_vary_together(rng):
    """What a column of categories adds, against the variance of the rows."""
    tree = random_tree(0, 3)
    schema = dataclasses.replace(
        tree.schema,
        n_regressors=7,
        center=np.zeros(8),
        scale=np.ones(8),
        indicators=((0, 0), (0, 1), (0, 2)),
    )
    code = rng.integers(0, 3, 500)
    x = np.column_stack([rng.normal(size=(500, 4)), np.eye(3)[code]])
    spread, center = (np.tile(s, (tree.n_nodes, 1)) for s in (x.std(0), x.mean(0)))
    tree = dataclasses.replace(tree, schema=schema, center=center, spread=spread)
    for worth in ([3.0, 3.0, 3.0], [1.0, -2.0, 0.0]):
        slopes = np.array([1.0, 0.5, 0.0, -2.0, *worth])
        found = sum_variances(tree, 1, slopes)
        of_numbers = (slopes[:4] * x[:, :4].std(axis=0)) ** 2
        np.testing.assert_allclose(found[[0, 2, 3, 6]], of_numbers)
        assert found[1] == pytest.approx(np.var(x[:, 4:] @ worth), abs=1e-12)


def test_shares_add_up_to_one_if_the_equation_of_a_single_class_tells_anything():
    X, y = load_iris(return_X_y=True)
    model = SecretClassifier(max_depth=0, prune=None).fit(X, y)
    coefficient = model.tree_.coefficient.copy()
    coefficient[:, 1:, 1:] = 0.0
    model.tree_ = dataclasses.replace(model.tree_, coefficient=coefficient)
    assert model.feature_importances_.sum() == pytest.approx(1)
