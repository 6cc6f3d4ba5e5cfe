"""The page of HTML: well formed, escaped, on its own, and true."""

import dataclasses
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from exported_code import by_node
from random_trees import (
    NAMES,
    encode,
    random_frame,
    random_rows,
    random_tree,
    reading,
    with_gates,
)
from sklearn import config_context

from secret_jax import SecretRegressor
from secret_jax.inspect.explain import explain_rows
from secret_jax.inspect.printing import short_number
from secret_jax.inspect.report.drawing import fit_chart, residual_chart, ticks
from secret_jax.inspect.report.numbers import NumberParts
from secret_jax.inspect.report.page import to_html, tree_fragment
from secret_jax.inspect.report.parts import error_lines, shown_nodes
from secret_jax.inspect.report.script import example_ways, held_values, what_if
from secret_jax.inspect.tree_view import Rows
from secret_jax.inspect.views import as_view
from secret_jax.tree.routing import apply, predict
from secret_jax.tree.walk import values_at

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
_VOID = {"meta", "link", "br"}
_STRANGE = "<b onclick='x'>\"&amp;</b>"
_SCRIPT = "</script><script>document.title='broken'</script>"


class Reader(HTMLParser):
    """Checks that tags close, and collects what is on the page."""

    def __init__(self, html: str):
        super().__init__()
        self.stack: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()
        assert not self.stack

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def count(self, tag: str) -> int:
        return sum(found == tag for found, _ in self.tags)

    @property
    def ids(self) -> list[str]:
        return [attrs["id"] for _, attrs in self.tags if "id" in attrs]


def held_out(tree, n_rows: int = 200) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows under the tree's names, and targets with noise."""
    noise = np.random.default_rng(0).normal(0, 0.5, n_rows)
    y = predict(tree, encode(random_rows(5, n_rows))) + noise
    return random_frame(5, n_rows).set_axis([*tree.schema.names], axis=1), y


def renamed(tree, target: str, column: str, category: str):
    schema = tree.schema
    names = (schema.names[0], column, *schema.names[2:])
    categories = tuple((category, *values[1:]) for values in schema.categories)
    schema = dataclasses.replace(
        schema, names=names, categories=categories, target_names=(target,)
    )
    return dataclasses.replace(tree, schema=schema)


def with_strange_names(X: pd.DataFrame, tree) -> pd.DataFrame:
    """Rows for a renamed tree."""
    X = X.replace({"sex": {"F": _SCRIPT}, "place": {"town0": _SCRIPT}})
    return X.set_axis(list(tree.schema.names), axis=1)


@pytest.fixture(scope="module")
def tree():
    return random_tree(4, 8)


@pytest.mark.parametrize("n_leaves", [1, 12])
@pytest.mark.parametrize("with_rows", [False, True])
def test_every_node_is_on_the_page_once(n_leaves, with_rows):
    tree = random_tree(4, n_leaves)
    page = Reader(to_html(tree, *(held_out(tree) if with_rows else ())))
    assert len(page.ids) == len(set(page.ids))
    nodes = {f"n{node}" for node in range(tree.n_nodes)}
    leaves = {f"leaf{node}" for node in np.flatnonzero(tree.is_leaf)}
    assert nodes | leaves <= set(page.ids)
    links = [attrs["href"][1:] for tag, attrs in page.tags if tag == "a"]
    assert set(links) <= set(page.ids)
    assert ("one linear model" in page.text) == with_rows


def test_children_stand_in_their_parents(tree):
    html = to_html(tree)
    start = {n: html.index(f'id="n{n}"') for n in range(tree.n_nodes)}
    depth = {}
    for node, place in start.items():
        before = html[html.index('<div id="tree">') : place]
        depth[node] = before.count("<details") - before.count("</details")
    assert depth == dict(enumerate(tree.depth.tolist()))
    assert all(start[tree.left[n]] < start[tree.right[n]] for n in range(3))


def test_facts_are_those_of_the_tree(tree):
    tree = dataclasses.replace(
        tree, deviation=np.full((tree.n_nodes, 1), 0.8), spread=tree.spread
    )
    views = shown_nodes(NumberParts(as_view(tree)))
    assert sorted(view["node"] for view in views) == list(range(tree.n_nodes))
    for view in views:
        error = tree.train_error[view["node"], 0]
        facts = dict(view["facts"])
        assert float(facts["R²"]) == pytest.approx(1 - error / 0.64, abs=0.006)
        assert float(facts["error"]) == pytest.approx(np.sqrt(error) * 3.2, rel=5e-3)
        mean = 9.9 + 3.2 * tree.mean[view["node"], 0]
        assert float(facts["mean"]) == pytest.approx(mean, abs=0.06)
        ((share, _),) = view["bar"]
        assert share == tree.weight[view["node"]] / 1000


def test_the_page_says_in_plain_words_what_bounds_a_leaf(tree):
    html = to_html(tree)
    assert "clipped" not in html
    leaf = int(np.flatnonzero(tree.is_leaf)[0])
    low, high = (9.9 + 3.2 * side[leaf, 0] for side in tree.clip_range())
    card = html[html.index(f'id="leaf{leaf}"') :]
    said = re.search(r"at least ([\d.-]+) and at most ([\d.-]+)", card)
    assert said is not None
    assert [float(said[1]), float(said[2])] == pytest.approx([low, high], abs=0.01)
    assert "splitting it further did not pay" in html


def test_names_cannot_leave_their_place(tree):
    strange = renamed(tree, _SCRIPT, _STRANGE, _SCRIPT)
    X, y = held_out(tree, 60)
    plain = Reader(to_html(tree, X, y))
    page = Reader(to_html(strange, with_strange_names(X, strange), y))
    for tag in ("script", "b", "li", "td"):
        assert page.count(tag) == plain.count(tag)
    assert not any("onclick" in attrs for _, attrs in page.tags)
    assert _SCRIPT in page.text  # as words
    repr_page = Reader(tree_fragment([strange], 10**6))
    assert repr_page.count("script") == 0


def test_the_page_asks_for_nothing(tree):
    html = to_html(tree, *held_out(tree))
    page = Reader(html)
    for tag, attrs in page.tags:
        for name in ("src", "href", "action", "srcset", "data"):
            assert attrs.get(name, "#").startswith(("#", "data:")), (tag, attrs)
    assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttp", html)
    (policy,) = [a["content"] for _, a in page.tags if "http-equiv" in a]
    assert policy.startswith("default-src 'none'")


def test_errors_of_cut_trees_are_those_of_their_models(tree):
    tree = dataclasses.replace(tree, train_error=1e-3 + 0.1 / (1 + tree.depth[:, None]))
    view = as_view(tree)
    rows = Rows.of(view, *held_out(tree))
    lines = error_lines(NumberParts(view, rows), None)
    sizes = [line["leaves"] for line in lines]
    assert sizes[0] == 1
    assert sizes[-1] == 8
    assert sizes == sorted(set(sizes))
    whole = np.sqrt(np.mean((rows.actual - rows.predicted) ** 2))
    assert lines[-1]["bar"] == pytest.approx(whole)
    root = values_at(tree, rows.table, np.zeros(len(rows.actual), int))[:, 0]
    residual = rows.actual - tree.schema.restore_target(root)
    assert lines[0]["bar"] == pytest.approx(np.sqrt(np.mean(residual**2)), rel=1e-5)
    assert float(lines[0]["figures"][1][0]) == pytest.approx(
        1 - np.mean(residual**2) / np.var(rows.actual), abs=1e-3
    )


def test_uncertainty_is_that_of_repeated_samples():
    rng = np.random.default_rng(0)
    figures = NumberParts(as_view(random_tree(4, 1))).figures
    repeated = [figures(rng.standard_t(9, 400), 0.0)[0][0] for _ in range(600)]
    errors = np.array([float(value) for value, _ in repeated])
    uncertainty = [float(words[2:]) for _, words in repeated]
    assert np.mean(uncertainty) == pytest.approx(errors.std(), rel=0.1)


@pytest.mark.parametrize("soft", [False, True])
def test_ways_are_those_of_the_explanation(tree, soft):
    tree = with_gates(tree) if soft else tree
    X, y = held_out(tree)
    rows = Rows.of(as_view(tree), X, y)
    html = to_html(tree, X, y)
    found = re.search(r'id="ways">(.*?)</script>', html, re.S)
    assert found is not None
    ways = json.loads(found[1])
    assert len(ways) == 40
    leaf = apply(tree, rows.table)
    predicted = [rows.predicted[way["row"]] for way in ways]
    assert predicted == sorted(predicted)
    chosen = np.array([way["row"] for way in ways])
    values = np.array([[c[row] for c in rows.columns] for row in chosen], object)
    why = explain_rows(tree, rows.table.take(chosen), values)
    for i, way in enumerate(ways):
        assert way["path"][0] == 0
        if not soft:
            assert way["path"][-1] == leaf[way["row"]]
        assert all(tree.parent[b] == a for a, b in pairwise(way["path"]))
        total = 3.2 * sum(step[2] for step in way["steps"])
        assert total == pytest.approx(why.prediction[i])


def test_marks_are_round_and_inside():
    for low, high in ((0.0, 1.0), (-3e5, 7.7e6), (41.9, 42.07), (-1e-6, 2e-6)):
        marks = ticks(low, high)
        assert 2 <= len(marks) <= 5
        assert ((low <= marks) & (marks <= high)).all()
        assert len(set(map(short_number, marks))) == len(marks)


def test_every_row_is_a_point_where_it_belongs(rng):
    x, y = rng.normal(size=(2, 50))
    for chart in (fit_chart(x, y, 200, 99), residual_chart(x, y, 200, 99)):
        found = re.findall(r"M(\S+) (\S+)h0", chart["points"])
        right, down = np.array(found, float).T
        assert len(right) == chart["n_points"] == 50
        for at, values in ((right, x), (200 - down, y)):
            assert ((at >= 0) & (at <= 200)).all()
            assert np.corrcoef(at, values)[0, 1] > 0.9999
    assert fit_chart(x, y, 200, 7)["n_points"] == 7


def test_an_estimator_shows_its_tree(tree):
    model = reading(tree)
    for html in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        page = Reader(html)
        assert page.count("details") == 7
        assert not page.ids  # a notebook shows several
    assert "text/html" in SecretRegressor()._repr_mimebundle_()
    assert "sj-tree" not in SecretRegressor()._repr_html_()
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert "text/html" not in model._repr_mimebundle_()
    two = Reader(reading(random_tree(4, 3, n_outputs=2))._repr_html_())
    assert any("rings1: 3 leaves" in text for text in two.text)


def test_a_large_tree_is_cut_in_a_notebook():
    tree = random_tree(2, 60)
    full, small = (tree_fragment([tree], limit) for limit in (10**7, 20_000))
    assert len(small.encode()) <= 20_000 < len(full.encode())
    assert "export_text() shows the whole tree" in small
    assert "export_text()" not in full
    below = re.findall(r"… (\d+) lea", small)
    ends = Reader(small).count("li") - small.count("<details")
    assert sum(map(int, below)) + ends - len(below) == 60


def test_rows_are_given_as_to_predict(tree):
    model = reading(tree)
    X = random_frame(5, 50)
    y = model.predict(X) + np.tile([1.0, -3.0], 25)
    html = model.to_html(X[list(reversed(NAMES))], y, title="A <title>")
    assert "A &lt;title&gt;" in html
    # Squares of 1 and 9: their mean is 5, their standard deviation 4.04.
    assert "<b>2.24 ± 0.13</b>" in html
    scores = {"another": {"rmse": 2.0, "r2": None, "leaves": 3}}
    assert "another" in model.to_html(comparison=scores)
    with pytest.raises(ValueError, match="Give both X and y"):
        model.to_html(X)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        model.to_html(X, y[1:])
    several = reading(random_tree(4, 3, n_outputs=2))
    with pytest.raises(ValueError, match="Say which one"):
        several.to_html()
    both = several.predict(X)
    page = several.to_html(X, both, output="rings1")
    assert "rings1" in page
    assert "0 ± 0" in page
    alone = several.to_html(X, both[:, 1], output="rings1")
    assert "0 ± 0" in alone
    with pytest.raises(ValueError, match="2 outputs"):
        several.to_html(X, np.c_[both, both], output="rings1")


@pytest.mark.parametrize("soft", [False, True])
def test_the_program_of_the_page_predicts_and_names_the_leaf(tree, soft):
    tree = with_gates(tree) if soft else tree
    X, y = held_out(tree)
    view = as_view(tree)
    rows = Rows.of(view, X, y)
    program = what_if(view, rows)
    assert program is not None
    inputs = program["inputs"]
    for each in inputs:
        assert "choices" in each or each["low"] <= each["value"] <= each["high"]
    names = [each["name"] for each in inputs]
    records = [
        dict(zip(names, held_values(view, rows, row, inputs), strict=True))
        for row in range(len(X))
    ]
    found = by_node(program["code"], records, "[predict(row), leaf_of(row)]")
    predicted, leaf = zip(*found, strict=True)
    close = {"rtol": 0, "atol": 3e-4 * tree.schema.target_scale}
    np.testing.assert_allclose(predicted, rows.predicted, **close)
    assert [*leaf] == rows.leaf.tolist()


def test_a_page_of_intervals_has_no_program():
    a = np.linspace(0.0, 1.0, 200)
    bins = pd.Categorical(pd.cut(a, 4).astype(object), ordered=False)
    model = SecretRegressor(leaf="constant").fit(pd.DataFrame({"bin": bins}), a)
    assert what_if(as_view(model.tree_), None) is None
    assert "What if" not in model.to_html()


def test_a_page_of_one_row_has_sliders():
    X = pd.DataFrame({"income": 3e6 + 1e5 * np.random.default_rng(0).normal(size=200)})
    y = np.sqrt(X["income"])
    model = SecretRegressor().fit(X, y)
    view = as_view(model.tree_)
    program = what_if(view, Rows.of(view, X[:1], y[:1]))
    assert program is not None
    (slider,) = program["inputs"]
    assert 2e5 < slider["high"] - slider["low"] < 1e6


def test_a_page_names_missing_texts():
    text = pd.array(["u", "v", None, "u"] * 50, dtype="string")
    X, y = pd.DataFrame({"text": text}), np.tile([0.0, 5.0, 9.0, 0.0], 50)
    model = SecretRegressor(leaf="constant").fit(X, y)
    assert "text = missing" in model.to_html(X=X, y=y)


_CHECKS = """
<script>
(function () {
  function shown(id) { return document.getElementById(id).checkVisibility(); }
  var said = {errors: window.mistakes};
  document.getElementById("fold").click();
  said.folded = shown("n1");
  document.querySelector("#tree summary").click();
  said.clicked = shown("n1");
  document.getElementById("unfold").click();
  said.all = Array.from(document.querySelectorAll("#tree li")).every(
    function (one) { return shown(one.id); });
  document.getElementById("fold").click();
  var choice = document.getElementById("row");
  said.rows = choice.options.length - 1;
  choice.value = "3";
  choice.dispatchEvent(new Event("change"));
  said.way = Array.from(document.querySelectorAll("li.way")).map(
    function (one) { return one.id; });
  said.visible = said.way.every(shown);
  said.steps = document.getElementById("steps").rows.length;
  var ways = JSON.parse(document.getElementById("ways").textContent);
  var asked = JSON.parse(document.getElementById("asked").textContent).inputs;
  said.predicted = ways.map(function (way) {
    var row = {};
    asked.forEach(function (input, i) { row[input.name] = way.values[i]; });
    return [predict(row), leaf_of(row)];
  });
  said.answer = document.getElementById("answer").textContent;
  said.slid = [];
  document.querySelectorAll("#inputs input[type=range]").forEach(function (slider) {
    [slider.min, slider.max].forEach(function (end) {
      slider.value = end;
      slider.dispatchEvent(new Event("input"));
      said.slid.push(document.getElementById("answer").textContent);
    });
  });
  said.marked = document.querySelectorAll("li.way").length;
  said.hidden = document.getElementById("steps").hidden;
  said.wide = document.documentElement.scrollWidth - window.innerWidth;
  said.requests = performance.getEntriesByType("resource").length;
  said.strange = document.title;
  var result = document.createElement("pre");
  result.id = "said";
  result.textContent = JSON.stringify(said);
  document.body.appendChild(result);
})();
</script>
</body>
"""
_WATCH = (
    "<script>window.mistakes = []; window.onerror = "
    "function (text) { window.mistakes.push(text); }; "
    "document.addEventListener('securitypolicyviolation', "
    "function (e) { window.mistakes.push(e.violatedDirective); });</script>"
)


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_browser_folds_and_shows_ways(tree, tmp_path):
    strange = renamed(tree, _SCRIPT, _STRANGE, _SCRIPT)
    X, y = held_out(tree)
    html = to_html(strange, with_strange_names(X, strange), y)
    ways = json.loads(html.split('id="ways">')[1].split("</script>")[0])
    html = html.replace('<meta charset="utf-8">', f'<meta charset="utf-8">{_WATCH}', 1)
    page = tmp_path / "page.html"
    page.write_text(html.replace("</body>", _CHECKS), encoding="utf-8")
    command = [
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
        *("--no-first-run", "--disable-background-networking", "--disable-sync"),
        *("--disable-component-update", f"--user-data-dir={tmp_path / 'profile'}"),
        *("--window-size=500,900", "--dump-dom", page.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, timeout=120, check=True)
    found = re.search(r'id="said">(.*?)</pre>', done.stdout.decode(), re.S)
    assert found is not None
    said = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">"))
    assert said["errors"] == []
    assert (said["folded"], said["clicked"], said["all"]) == (False, True, True)
    assert said["rows"] == 40
    assert said["way"][0] == "n0"
    assert said["visible"]
    assert said["steps"] >= 3
    chosen = [way["row"] for way in ways]
    table = encode([column[chosen] for column in X.to_numpy(object).T])
    predicted, leaf = zip(*said["predicted"], strict=True)
    assert [*leaf] == apply(tree, table).tolist()
    close = {"rtol": 0, "atol": 1e-4 * tree.schema.target_scale}
    np.testing.assert_allclose(predicted, predict(tree, table), **close)
    assert said["answer"].endswith(f"leaf [{leaf[3]}]")
    assert len({*said["slid"]}) > 2
    assert said["marked"] > 1
    assert said["hidden"]
    assert said["wide"] <= 0  # nothing reaches beyond a narrow window
    assert said["requests"] == 0
    assert said["strange"] == _SCRIPT


def test_ways_of_rows_say_dates_and_categories_in_words():
    rng = np.random.default_rng(0)
    days = pd.to_timedelta(rng.integers(0, 900, 300), "D")
    sizes = ["small", "middle", "large"]
    frame = pd.DataFrame(
        {
            "when": pd.Timestamp("2020-01-01") + days,
            "size": pd.Categorical(rng.choice(sizes, 300), sizes, ordered=True),
        }
    )
    y = 2.0 * frame["size"].cat.codes + (frame["when"] > pd.Timestamp("2021-03-01"))
    tree = SecretRegressor().fit(frame, y + 0.1 * rng.normal(size=300)).tree_
    view = as_view(tree)
    ways = example_ways(view, Rows.of(view, frame, y))
    steps = " ".join(what for way in ways for what, *_ in way["steps"])
    assert re.search(r"size = (small|middle|large)", steps)
    assert re.search(r"days since 1970\) = 202\d-\d\d-\d\d", steps)
