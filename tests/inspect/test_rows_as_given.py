"""Rows that are told are rows as they were given, whatever they weigh or repeat."""

import re

import numpy as np
import pandas as pd
import pytest

from secret_jax import HoldOut, SecretClassifier, SecretRegressor
from secret_jax.inspect.view import as_view

N_ROWS = 1000
CASES = [
    *("plain", "copies", "weights", "copies, weights", "refit copies, weights"),
    *("stream weights", "stream copies", "gates copies, weights"),
]


def laptops(n_different: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows of measurements, of which the later ones repeat the first."""
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(n_different, 2)), columns=["inches", "kg"])
    y = np.where(X["kg"] > 0.3, 5 * X["inches"], X["inches"])
    y = y + 0.1 * random.normal(size=n_different)
    place = np.arange(N_ROWS) % n_different
    return X.iloc[place], np.asarray(y)[place]


def fitted(case: str) -> tuple[SecretRegressor, pd.DataFrame]:
    X, y = laptops(623 if "copies" in case else N_ROWS)
    weight = np.random.default_rng(1).uniform(0.1, 3.0, N_ROWS)
    weight = weight if "weights" in case else None
    gates = "blend" if "gates" in case else None
    model = SecretRegressor(oblique=False, max_leaf_nodes=4, refine=gates)
    if "refit" in case:
        return model.fit(*laptops(N_ROWS)).refit(X, y, weight), X
    if "stream" in case:
        named = X.assign(y=y, weight=1.0 if weight is None else weight)
        batches = [named.iloc[:400], named.iloc[400:]]
        return model.fit_stream(batches, sample_weight="weight"), X
    return model.fit(X, y, weight), X


@pytest.mark.parametrize("case", CASES)
def test_nodes_count_rows_as_they_were_given(case):
    model, X = fitted(case)
    tree = model.tree_
    reached = model.decision_path(X)
    count = np.bincount(reached[reached >= 0], minlength=tree.n_nodes)
    assert tree.n_leaves > 1
    np.testing.assert_array_equal(tree.n_rows, count)
    frame = model.to_dataframe()
    np.testing.assert_array_equal(frame["rows"], count)
    np.testing.assert_allclose(frame["share"], count / N_ROWS)
    np.testing.assert_allclose(frame["weight"], tree.weight)
    differ = " (623 differ)" if "copies" in case else ""
    text, page = model.export_text(), model.to_html()
    assert f"grown on 1,000 rows{differ}\n" in text.replace("\nrows", " rows")
    assert text.count("differ)") == bool(differ)
    assert page.count("623 differ") == bool(differ)
    assert f"Rows: 1000{differ} " in model.summary()
    assert f"1,000 rows{differ}" in model.export_code("dot")
    for leaf in np.flatnonzero(tree.is_leaf):
        assert re.search(rf"\b{count[leaf]} rows \(", text)
        assert f"n = {count[leaf]}, " in model.summary()
    assert not re.search(r"\d\.\d+ rows", text + page + model.export_code("dot"))
    assert (" of the weight" in text) == ("weights" in case)


def test_copies_leave_the_tree_and_its_weights_as_they_are():
    X, y = laptops(623)
    model = SecretRegressor(oblique=False, max_leaf_nodes=4)
    single = model.fit(X[:623], y[:623]).tree_
    assert single.n_different is None
    np.testing.assert_array_equal(single.n_rows, single.weight)
    twice = model.fit(np.tile(X[:623], (2, 1)), np.tile(y[:623], 2)).tree_
    np.testing.assert_allclose(twice.weight, single.weight)
    np.testing.assert_array_equal(twice.n_rows, 2 * single.n_rows)
    assert twice.n_different == 623


def test_rows_of_no_weight_and_rows_held_out_are_not_counted():
    X, y = laptops(N_ROWS)
    weight = np.where(np.arange(N_ROWS) < 900, 2.0, 0.0)
    tree = SecretRegressor(max_leaf_nodes=3).fit(X, y, weight).tree_
    assert tree.n_rows[0] == 900
    held_out = SecretRegressor(max_leaf_nodes=3, prune=HoldOut(refit=False))
    weight = np.random.default_rng(1).uniform(0.1, 3.0, N_ROWS)
    tree = held_out.fit(X, y, weight).tree_
    assert 600 < tree.n_rows[0] < 900
    assert tree.n_rows[0] == tree.n_rows[tree.is_leaf].sum()
    assert tree.n_different is None


def test_tables_of_few_different_rows_say_how_often_each_was_seen():
    random = np.random.default_rng(0)
    X = random.integers(0, 2, (400, 3))
    y = np.where(X[:, 0] == 1, "yes", "no")
    y[:40] = "no"
    model = SecretClassifier().fit(X, y)
    leaf = model.apply(X)
    np.testing.assert_array_equal(
        model.tree_.n_rows[np.unique(leaf)], np.unique(leaf, return_counts=True)[1]
    )
    assert as_view(model).grown_on == "400 rows"
