"""Missing values: what they count as, which side they take, and where it is said."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from configurations import every_configuration, regressor, shop
from exported_code import assert_predicts, by_python, by_sql
from schemas import learn_schema

from secret_jax import LeastSquares, Ridge
from secret_jax.data.columns import UnseenCategoryWarning, read_columns
from secret_jax.data.encoding import encode
from secret_jax.data.learning import ColumnOptions
from secret_jax.fit.refine.training import to_tree, trainable
from secret_jax.fit.refine.widths import with_widths
from secret_jax.inspect.equations import conditions_at
from secret_jax.inspect.words import path_sentence, split_sentence
from secret_jax.tree.routing import leaf_shares_of
from secret_jax.tree.structure import SplitKind

STUMP = {
    "oblique": False,
    "max_depth": 1,
    "prune": None,
    "leaf": Ridge(indicators=False),
}


def schema_of(X, **options):
    targets, weight = np.arange(len(X), dtype=float)[:, None], np.ones(len(X))
    options = ColumnOptions(**{"missing": "learn"} | options)
    return learn_schema(read_columns(X), targets, weight, options)


def holes(n_rows: int = 128, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """The shop with values missing in every column."""
    X, y = shop(n_rows, seed)
    rng = np.random.default_rng(seed + 1)
    return X.mask(rng.random(X.shape) < 0.25), y


def step(side: str, n_rows: int = 128) -> tuple[np.ndarray, np.ndarray]:
    """A step along the first column whose gaps are all on one side of it."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n_rows, 3))
    high = X[:, 0] > 0.2
    y = 5.0 * high + 0.1 * X[:, 1] + 0.05 * rng.normal(size=n_rows)
    gone = (high if side == "right" else ~high) & (rng.random(n_rows) < 0.5)
    X[gone, 0] = np.nan
    return X, y


def test_indicators_of_gaps_that_are_only_split_on_come_last():
    X, _ = holes()
    schema = schema_of(X, split_features=["height"], category_indicators=True)
    table = encode(schema, X)
    labels = np.array(schema.labels)
    assert list(labels[schema.n_regressors :]) == [
        "height",
        "[width is missing]",
        "[height is missing]",
    ]
    for name in ("width", "height"):
        (gaps,) = table.x[:, labels == f"[{name} is missing]"].T
        np.testing.assert_array_equal(gaps, X[name].isna())
        (values,) = table.x[:, labels == name].T
        filled = X[name].fillna(X[name].mean())
        expected = (filled - X[name].mean()) / X[name].std(ddof=0)
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)
    (colour,) = table.x[:, labels == "[colour is missing]"].T
    np.testing.assert_array_equal(colour, X["colour"].isna())
    for column, indicator in schema.missing_columns:
        assert labels[indicator] == f"[{labels[column]} is missing]"


def test_few_gaps_get_no_indicator_and_many_are_modelled():
    X = np.random.default_rng(0).normal(size=(100, 3))
    X[:4, 0] = X[:29, 1] = X[:30, 2] = np.nan
    schema = schema_of(X, missing_indicators="auto")
    assert (schema.missing_modelled, schema.missing_split) == ((2,), (1,))


SPELLINGS = {
    "None": lambda X: X.astype(object).where(X.notna(), None),
    "pandas.NA": lambda X: X.convert_dtypes(),
    "categorical": lambda X: X.assign(colour=X["colour"].astype("category")),
    "polars": lambda X: pl.DataFrame(
        {
            name: [None if pd.isna(value) else value for value in column]
            for name, column in X.items()
        }
    ),
    "polars categorical": lambda X: SPELLINGS["polars"](X).with_columns(
        pl.col("colour").cast(pl.Categorical)
    ),
    "array": lambda X: X.to_numpy(object),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_of_missing_means_the_same(spelling):
    X, _ = holes()
    expected = encode(schema_of(X), X)
    spelt = SPELLINGS[spelling](X)
    schema = schema_of(spelt)
    found = encode(schema, spelt)
    np.testing.assert_array_equal(found.x, expected.x)
    np.testing.assert_array_equal(found.codes, expected.codes)
    assert schema.categories == (("blue", "green", "red", "white", None),)


@pytest.mark.parametrize("side", ["left", "right"])
def test_an_axis_split_learns_the_side_of_the_gaps(side):
    X, y = step(side)
    model = regressor("default", **STUMP).fit(X, y)
    tree = model.tree_
    split = conditions_at(tree, 0)[0]
    assert [term.label for term in split.terms] == ["x0"]
    assert 0 < split.threshold < 0.5
    assert split.missing_left == (side == "left")
    # A gap counts as the mean of the values of its side.
    there = ~np.isnan(X[:, 0])
    inside = there & ((X[:, 0] <= split.threshold) == (side == "left"))
    assert split.missing_value == pytest.approx(X[inside, 0].mean(), rel=1e-3)
    child = tree.left[0] if side == "left" else tree.right[0]
    assert (model.apply(X[~there]) == child).all()
    expected = "x0 <= {} or missing" if side == "left" else "x0 <= {}"
    found = split_sentence(tree, 0)
    assert re.fullmatch(expected.format(r"[-.\d]+"), found)
    both = found + split_sentence(tree, 0, side="right")
    assert both.count("or missing") == 1
    assert model.score(X, y) > 0.95


def test_gaps_on_the_way_to_a_leaf_stand_in_brackets():
    X, y = step("left")
    y = y + (X[:, 1] > 0) * (y > 1)
    tree = regressor("default", **STUMP | {"max_depth": 2}).fit(X, y).tree_
    assert path_sentence(tree, int(tree.left[0])).endswith(" or missing")
    ways = [path_sentence(tree, leaf) for leaf in np.flatnonzero(tree.is_leaf)]
    both = [way for way in ways if " and " in way and " or missing" in way]
    assert both
    assert all(re.search(r"\([^()]+ or missing\)", way) for way in both)


def test_gaps_that_differ_from_all_values_are_split_off():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(128, 3))
    gone = rng.random(128) < 0.4
    y = 4.0 * gone + 0.05 * rng.normal(size=128)
    X[gone, 1] = np.nan
    model = regressor("default", **STUMP).fit(X, y)
    assert split_sentence(model.tree_, 0) == "x1 is not missing"
    assert split_sentence(model.tree_, 0, side="right") == "x1 is missing"
    assert model.to_dataframe()["attribute"][0] == "x1"
    assert (model.apply(X[gone]) == model.tree_.right[0]).all()
    assert "count as means" not in model.export_text()  # where no sum has them
    assert "x1 is not missing" in model.export_code("dot")
    model.set_params(missing_values="mean", leaf="constant").fit(X, y)
    assert "missing numbers count as means in splits: x1" in model.export_text()


@pytest.mark.parametrize("see", [True, False])
def test_models_see_the_gaps_if_they_may(see):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(128, 3))
    gone = rng.random(128) < 0.4
    y = X @ [1.0, 2.0, 3.0] + 2.0 * gone
    X[gone, 0] = np.nan
    leaf = LeastSquares(indicators=see)
    model = regressor("default", leaf=leaf, max_depth=0, prune=None).fit(X, y)
    assert ("[x0 is missing]" in model.export_text()) == see
    filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    design = np.column_stack([np.ones(128), filled, *[gone] * see])
    expected = design @ np.linalg.lstsq(design, y)[0]
    expected = np.clip(expected, *_clip_range(y))
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-4, atol=1e-4)


def _clip_range(y: np.ndarray) -> tuple[float, float]:
    margin = 0.1 * (y.max() - y.min())
    return y.min() - margin, y.max() + margin


@every_configuration
def test_gaps_only_at_prediction_count_as_the_mean(configuration):
    X, y = shop()
    model = regressor(configuration).fit(X, y)
    rows = X[:10].assign(width=np.nan)
    filled = X[:10].assign(width=X["width"].mean())
    np.testing.assert_allclose(
        model.predict(rows), model.predict(filled), rtol=1e-5, atol=1e-5
    )
    with pytest.warns(UnseenCategoryWarning, match="'colour' holds missing values"):
        assert np.isfinite(model.predict(X[:10].assign(colour=None))).all()
    with pytest.warns(UnseenCategoryWarning, match="'pink'"):
        model.predict(X[:10].assign(colour=["pink", None] * 5))


@every_configuration
def test_with_mean_a_gap_is_the_mean_everywhere(configuration):
    X, y = shop()
    rng = np.random.default_rng(1)
    X = X.assign(width=X["width"].mask(rng.random(len(X)) < 0.3))
    filled = X.fillna({"width": X["width"].mean()})
    model = regressor(configuration, missing_values="mean").fit(X, y)
    assert model.tree_.schema.missing_columns == ()
    assert "or missing" not in model.export_text()
    np.testing.assert_allclose(
        model.predict(X), model.predict(filled), rtol=1e-5, atol=1e-5
    )


@every_configuration
def test_gaps_only_in_the_pruning_rows(configuration):
    X, y = shop()
    pruning = holes(seed=3)
    # Where the rows of both train, a gap in either is one.
    n_gaps = 2 if configuration == "default" else 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenCategoryWarning)
        model = regressor(configuration).fit(X, y, eval_set=pruning)
        assert np.isfinite(model.predict(pruning[0])).all()
    assert len(model.tree_.schema.missing_columns) == n_gaps


@pytest.mark.parametrize("kind", ["modelled", "learned", "mean", "gates"])
def test_code_explanations_and_importances_treat_gaps_as_the_tree_does(kind):
    X, y = holes()
    changes = {
        "modelled": {"leaf": Ridge(indicators=True), "prune": None},
        "learned": {"leaf": Ridge(indicators=False), "prune": None},
        "mean": {"missing_values": "mean", "prune": None},
        "gates": {"leaf": Ridge(indicators=True), "oblique": False, "refine": "blend"},
    }[kind]
    model = regressor("default", **changes).fit(X, y)
    assert model.tree_.n_leaves > 1
    for run in (by_python,) if model.tree_.is_soft else (by_python, by_sql):
        assert_predicts(run(model.tree_, X), model.predict(X), model.tree_)
    nothing = pd.DataFrame([dict.fromkeys(X.columns)])
    found = by_python(model.tree_, nothing)
    assert_predicts(found, model.predict(nothing), model.tree_)
    explained, said = model.explain(X[:20]), model.predict(X[:20])
    np.testing.assert_allclose(explained.prediction, said, rtol=1e-4, atol=1e-4)
    row = int(np.flatnonzero(X["width"][:20].isna())[0])
    assert "nan" not in explained.row_text(row)
    importance = model.feature_importances_
    assert importance.sum() == pytest.approx(1)
    assert (importance >= 0).all()


@pytest.mark.parametrize("side", ["left", "right"])
def test_gates_keep_the_side_and_the_form(side):
    X, y = step(side)
    hard = regressor("default", **STUMP).fit(X, y).tree_
    soft = with_widths(hard, 0.1, np.ones(hard.n_nodes))
    structure = trainable(soft, oblique=False, n_leaves=4)
    assert structure.free[0].sum() == 2  # the value of a gap is trained as well
    back = to_tree(soft, structure.start())
    assert back.kind[0] == SplitKind.AXIS
    assert back.attribute[0] == hard.attribute[0]
    np.testing.assert_allclose(back.direction[0], hard.direction[0], atol=1e-6)
    np.testing.assert_allclose(back.gate_width[0], soft.gate_width[0], rtol=1e-6)
    found = split_sentence(back, 0)
    assert re.search(r"\(soft, width [.\d]+, missing as -?[.\d]+\)$", found)
    gaps = encode(hard.schema, X[np.isnan(X[:, 0])])
    share = leaf_shares_of(soft, gaps)[:, 0]
    assert (share > 0.9).all() if side == "left" else (share < 0.1).all()
