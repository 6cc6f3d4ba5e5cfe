"""Printed equations: merged levels, columns far from zero, terms that are left out."""

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest
from configurations import refusal
from handmade import LEAF, build_tree
from random_trees import random_tree, with_gates
from schemas import learn_schema

from secret_jax import SecretRegressor
from secret_jax.data.columns import read_columns
from secret_jax.data.encoding import encode as encode_with
from secret_jax.data.learning import ColumnOptions
from secret_jax.inspect.equations import (
    model_in_original_units,
    printed_model,
)
from secret_jax.inspect.tables import CENTER, coefficients, summary
from secret_jax.inspect.text import export_text
from secret_jax.inspect.view import as_view
from secret_jax.inspect.words import Wording, model_parts, split_sentence
from secret_jax.tree.routing import predict
from secret_jax.tree.structure import SplitKind, Tree

CITIES = ("Bern", "Köln", "Oslo", "Łódź")


def houses(n_rows: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "Year": rng.integers(1950, 2000, n_rows),
            "area": rng.uniform(10, 90, n_rows),
            "city": rng.choice(CITIES, n_rows, p=[0.4, 0.3, 0.2, 0.1]),
        }
    )


def one_leaf(slopes: tuple[float, ...]) -> tuple[Tree, pd.DataFrame]:
    """A single equation of year, area and the four cities, in units of the data."""
    X = houses()
    y = np.random.default_rng(1).normal(100, 50, len(X))
    options = ColumnOptions(category_indicators="auto")
    ones = np.ones(len(X))
    schema = learn_schema(read_columns(X), y[:, None], ones, options, ("rent",))
    x = encode_with(schema, X).on_host().x
    in_units = np.asarray(slopes) * schema.scale / schema.target_scale
    leaf = build_tree([LEAF], 0)
    tree = dataclasses.replace(
        leaf,
        schema=schema,
        direction=np.zeros((1, x.shape[1]), np.float32),
        goes_left=np.zeros((1, 4), bool),
        coefficient=np.array([[[0.3, *in_units]]]),
        center=x.mean(axis=0, dtype=float)[None],
        spread=x.std(axis=0, dtype=float)[None],
        standard_error=np.full((1, 1, 7), 0.25),
        weight=np.array([400.0]),
    )
    return tree, X


SLOPES = (-2.0, 1.5, 30.0, 0.0, 30.0, -12.0)


def model_equation(tree: Tree, node: int, **options) -> str:
    equation = model_in_original_units(tree, node)
    return " ".join(model_parts(equation, Wording(**options)))


def by_hand(equation: str, X: pd.DataFrame) -> np.ndarray:
    """What a printed equation says, knowing nothing else."""
    text = equation.removeprefix("rent = ").replace(",", "")
    text = text.replace("(Year", "*(Year").replace(" area", " *area")
    text = re.sub(r"(?<=\d) \[", " *[", text)
    listed = r"\[city in \{([^}]*)\}\]"
    text = re.sub(listed, lambda m: f"isin({m[1].split()!r})", text)
    text = re.sub(r"\[city = (\w+)\]", r"isin(['\1'])", text)
    names = {"Year": X["Year"].to_numpy(), "area": X["area"].to_numpy()}
    isin = X["city"].isin
    found = eval(text, {}, names | {"isin": lambda c: isin(c).to_numpy() * 1.0})
    return np.broadcast_to(found, len(X))


def test_equal_levels_are_one_term_and_a_far_column_is_counted_from_a_round_number():
    tree, X = one_leaf(SLOPES)
    equation = model_equation(tree, 0)
    assert "[city in {Bern, Oslo}]" in equation
    assert "[city = Łódź]" in equation
    assert "Köln" not in equation
    assert re.search(r"\(Year - 19\d0\)", equation)
    expected = predict(tree, encode_with(tree.schema, X))
    spread = tree.schema.target_scale
    np.testing.assert_allclose(by_hand(equation, X), expected, atol=0.01 * spread)
    exact = by_hand(model_equation(tree, 0, precision=12), X)
    np.testing.assert_allclose(exact, expected, atol=1e-4 * spread)


def test_terms_of_one_column_stand_side_by_side():
    tree, _ = one_leaf((-2.0, 1.5, 100.0, 0.0, 100.0, -12.0))
    model = model_in_original_units(tree, 0)
    names = [term.name for term in printed_model(model).terms]
    assert names == ["city", "city", "area", "Year"]
    printed = printed_model(model, max_terms=3)
    assert [term.name for term in printed.terms] == ["city", "area", "Year"]
    (hidden,) = printed.hidden
    assert hidden.categories == ("Łódź",)  # which moves least


@pytest.mark.parametrize("max_terms", [0, 1, 2, 3])
def test_what_is_left_out_counts_as_in_the_mean(max_terms):
    tree, X = one_leaf(SLOPES)
    model = model_in_original_units(tree, 0)
    printed = printed_model(model, 12, max_terms)
    constant, terms, hidden = printed.intercept, printed.terms, printed.hidden
    assert (len(terms), len(hidden)) == (max_terms, 4 - max_terms)
    # The constant is that of the whole equation.
    assert constant == printed_model(model, 12).intercept
    effects = [term.effect for term in printed_model(model, 12).terms]
    assert effects == sorted(effects, reverse=True)
    assert [term.effect for term in terms] == effects[:max_terms]
    # The mean over the rows stays what it is.
    every = [*terms, *hidden]
    at_mean = constant + sum(term.factor * (term.here - term.at) for term in every)
    expected = predict(tree, encode_with(tree.schema, X)).mean()
    assert at_mean == pytest.approx(expected, rel=1e-5)
    printed = model_equation(tree, 0, precision=12, max_terms=max_terms)
    # A single short term takes no more room than what would stand for it.
    whole = model_equation(tree, 0, precision=12)
    assert (printed == whole) == (len(hidden) == 1)
    if printed == whole:
        return
    found = re.search(r"([+-]) ([\d.,]+) \((\d) smaller terms?, on average\)$", printed)
    assert found is not None
    assert len(printed) < len(whole)
    assert int(found[3]) == len(hidden)
    rest = sum(term.factor * (term.here - term.at) for term in hidden)
    told = float(found[1] + found[2].replace(",", ""))
    assert told == pytest.approx(rest, rel=1e-6)


def test_effects_are_what_one_standard_deviation_in_the_node_moves():
    tree, X = one_leaf(SLOPES)
    terms = printed_model(model_in_original_units(tree, 0)).terms
    known = X.assign(city=X["city"].isin(["Bern", "Oslo"]))
    factors = {"Year": 2.0, "area": 1.5, "city": 30.0}
    for term in terms:
        if len(term.categories) != 1:
            effect = factors[term.name] * known[term.name].std(ddof=0)
            assert term.effect == pytest.approx(effect, rel=1e-3)
            assert term.here == pytest.approx(known[term.name].mean(), rel=1e-5)


_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")


def counted(tree: Tree) -> int:
    """Numbers and sets in the sentences of a tree, by what is printed."""
    total = 0
    for node in range(tree.n_nodes):
        say = model_equation if tree.is_leaf[node] else split_sentence
        words = say(tree, node).replace("'2nd (kg)'", "kg").replace("'a - b'", "ab")
        total += 1 if " in {" in words else len(_NUMBER.findall(words))
        # The first factor of a sum in a split is one, which is not written.
        total += " = " not in words and bool(re.search(r" [+-] ", words))
    return total


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kinds", [(1,), (2,), (1, 2, 3)])
def test_the_reading_cost_is_the_count_of_numbers_in_the_text(seed, kinds):
    tree = random_tree(seed, 9, kinds=kinds)
    cost = as_view(tree).n_numbers()
    assert counted(tree) == cost
    assert f", {cost} numbers to read," in export_text(tree)


def test_the_numbers_of_a_gate_are_its_widths_and_its_shares():
    tree = random_tree(1, 5, kinds=(SplitKind.AXIS,))
    soft = with_gates(tree, hard_share=0.0)
    assert as_view(soft).n_numbers() == as_view(tree).n_numbers() + 2 * 4


def test_coefficients_are_those_of_the_equation():
    tree, X = one_leaf(SLOPES)
    table = coefficients(tree)
    assert table["node"].tolist() == [0] * 6
    assert table["term"][0] == CENTER
    by_term = table.set_index("term")
    terms = ["Year", "area", *(f"[city = {city}]" for city in CITIES)]
    slopes = {t: slope for t, slope in zip(terms, SLOPES, strict=True) if slope}
    assert by_term["coefficient"][[*slopes]].to_dict() == pytest.approx(slopes)
    mean = predict(tree, encode_with(tree.schema, X)).mean()
    assert by_term.loc[CENTER, "coefficient"] == pytest.approx(mean, rel=1e-5)
    # 1.96 standard errors, which are a quarter of what the target is measured in.
    spread = X["area"].std(ddof=0)
    error = 0.25 * tree.schema.target_scale / spread
    columns = ["center", "effect", "standard_error", "low", "high"]
    ends = [1.5 - 1.959964 * error, 1.5 + 1.959964 * error]
    expected = [X["area"].mean(), 1.5 * spread, error, *ends]
    assert by_term.loc["area", columns].tolist() == pytest.approx(expected, rel=1e-5)
    narrow = coefficients(tree, 0, coverage=0.5).set_index("term")
    assert narrow.loc["area", "high"] == pytest.approx(1.5 + 0.6744898 * error)


def test_tables_of_all_leaves_or_of_one_node():
    tree = random_tree(0, 5)
    table, text = coefficients(tree), summary(tree)
    leaves = set(np.flatnonzero(tree.is_leaf))
    assert set(table["node"]) == leaves
    assert all(f"\n[{leaf}] " in text for leaf in leaves)
    assert text.count(f"{CENTER} ") == tree.n_leaves
    assert f"{CENTER}: the value where all columns are at their means" in text
    assert set(coefficients(tree, 0)["node"]) == {0}
    with pytest.raises(ValueError, match="Node 99 does not exist"):
        coefficients(tree, 99)
    assert table["standard_error"].isna().all()
    for coverage in (0, 1, -0.5, "much", True):
        for read in (coefficients, summary):
            with refusal("coverage must be a float in (0, 1)"):
                read(tree, coverage=coverage)


def test_the_summary_of_one_leaf_is_that_of_an_ordinary_regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    y = X @ [1.0, 2.0, -3.0] + 0.5 * rng.normal(size=100)
    options = {"max_depth": 0, "leaf": "linear", "equation_tolerance": 0.0}
    model = SecretRegressor(**options).fit(X, y)
    text = model.summary(coverage=0.9)
    lines = {line.split()[0]: line for line in text.splitlines() if line}
    design = np.c_[np.ones(100), X]
    slopes, (squares,), _, _ = np.linalg.lstsq(design, y, rcond=None)
    covariance = squares / 96 * np.linalg.inv(design.T @ design)
    for i in range(3):
        value, error, ratio, low, high = map(float, lines[f"x{i}"].split()[-5:])
        known = slopes[i + 1], np.sqrt(covariance[i + 1, i + 1])
        assert (value, error) == pytest.approx(known, rel=1e-2)
        assert ratio == pytest.approx(value / error, rel=1e-2)
        assert (low, high) == pytest.approx(
            [value - 1.645 * error, value + 1.645 * error], abs=2e-3
        )
    share = 1.0 - squares / np.square(y - y.mean()).sum()
    assert f"R²: {share:.3g}" in text
    assert "[0.05" in text
