"""Pages of classes: their figures are those of the rows, their words of the tree."""

import re

import numpy as np
import pandas as pd
import pytest
from random_trees import NAMES
from sklearn.metrics import log_loss
from test_class_reading import LONG, SIX, fitted, rows_of
from test_report import Reader

from secret_jax.inspect.report.quality import error_lines
from secret_jax.inspect.view import Rows, as_view


@pytest.mark.parametrize("names", [["no", "yes"], SIX, LONG])
def test_a_page_of_classes_says_how_good_it_is(names):
    model = fitted(names)
    X, y = rows_of(model)
    html = model.to_html(
        X, y, comparison={"another": {"error": 0.25, "log_loss": 0.5, "leaves": 3}}
    )
    page = Reader(html)
    text = " ".join("".join(page.text).split())
    right = np.mean(model.predict(X) == y)
    assert f"{100 * right:.1f} %" in text
    loss = log_loss(y, model.predict_proba(X), labels=names)
    assert re.search(rf"log-loss ?{loss:.3g}", text)
    assert "75.0 %" in text  # of the other method
    for word in ("R²", "error 2", "mean and standard deviation", "clipped"):
        assert word not in text
    for name in names:
        assert f" {name}" in page.text  # the key
    assert page.count("img") == 1  # of the confusion
    assert len(page.ids) == len(set(page.ids))


def test_a_page_of_one_class_reads_it_against_the_others():
    model = fitted(SIX)
    X, y = rows_of(model)
    page = Reader(model.to_html(X, y, output="Veh"))
    text = " ".join("".join(page.text).split())
    right = (model.predict_proba(X)[:, 3] > 0.5) == (y == "Veh")
    assert f"{100 * right.mean():.1f} %" in text
    assert {" others", " Veh"} <= {*page.text}  # the key
    assert "adds to score of Veh" in text


def test_errors_by_size_are_those_of_the_cut_trees():
    model = fitted(SIX)
    X, y = rows_of(model)
    view = as_view(model)
    lines = error_lines(view, Rows.of(view, X, y), {})
    sizes = [line["leaves"] for line in lines]
    assert sizes == sorted(set(sizes))
    loss = log_loss(y, model.predict_proba(X), labels=SIX)
    assert lines[-1]["log_loss"] == pytest.approx(loss, rel=1e-4)
    assert lines[-1]["numbers"] == model.reading_cost_


@pytest.mark.parametrize("costs", [None, [[0, 1], [9, 0]]])
def test_rows_of_a_class_never_seen_are_wrong_and_costs_decide(costs):
    model = fitted(["no", "yes"]).set_params(costs=costs)
    X, y = rows_of(model, 50)
    y = np.where(np.arange(50) < 5, "maybe", y)
    text = "".join(Reader(model.to_html(X, y)).text)
    assert f"{100 * np.mean(model.predict(X) == y):.1f} %" in text


def test_tables_of_many_classes_have_the_width_of_the_page():
    for names, wide in ((SIX, 6), (SIX[:3], 0), (["no", "yes"], 0)):
        model = fitted(names)
        html = model.to_html(*rows_of(model))
        assert html.count('<section class="card broad"') == wide
        assert "Smaller trees are the tree cut down" in html
    alone = fitted(SIX, n_leaves=1)
    assert "Smaller trees are" not in alone.to_html(*rows_of(alone))


def test_a_notebook_and_a_page_without_rows_show_one_tree_of_all_classes():
    model = fitted(SIX)
    page = Reader(model._repr_html_())
    assert sum("a tree" in text or "6 leaves" in text for text in page.text) == 1
    assert page.count("ul") < 10
    assert all(name in "".join(page.text) for name in SIX)
    text = "".join(Reader(model.to_html()).text)
    assert "held-out" not in text
    assert "mean log-loss of the node" in text
    assert "splitting it further did not pay" in text


def test_rows_are_read_as_predict_reads_them():
    model = fitted(["no", "yes"])
    X, y = rows_of(model, 40)
    same = model.to_html(X[list(reversed(NAMES))], pd.Series(y, dtype="category"))
    assert same == model.to_html(X, y)
