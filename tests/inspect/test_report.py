"""The page of HTML: well formed, escaped, on its own, and true."""

import dataclasses
import json
import re
import shutil
import subprocess
import warnings
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from random_trees import (
    NAMES,
    encode,
    random_frame,
    random_rows,
    random_tree,
    reading,
    with_conjunctions,
    with_gates,
)
from sklearn import config_context
from test_code import mixed_table

from secret_jax import Ridge, SecretClassifier, SecretRegressor
from secret_jax.data import encoding
from secret_jax.inspect.page import error_lines, to_html, tree_fragment, what_if
from secret_jax.inspect.view import Rows, as_view
from secret_jax.tree.routing import apply, predict
from secret_jax.tree.walk import values_at

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
_VOID = {"meta", "link", "br", "img"}
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
    links = [a["href"][1:] for tag, a in page.tags if tag == "a" and "href" in a]
    assert set(links) <= set(page.ids)
    assert ("a tree of 1 leaf" in page.text) == (with_rows and n_leaves > 1)


def test_children_stand_in_their_parents(tree):
    html = to_html(tree)
    start = {n: html.index(f'id="n{n}"') for n in range(tree.n_nodes)}
    depth = {}
    for node, place in start.items():
        before = html[html.index('<div id="tree">') : place]
        depth[node] = before.count("<details") - before.count("</details")
    assert depth == dict(enumerate(tree.depth.tolist()))
    assert all(start[tree.left[n]] < start[tree.right[n]] for n in range(3))


def test_names_cannot_leave_their_place(tree):
    schema = tree.schema
    names = (schema.names[0], _STRANGE, *schema.names[2:])
    categories = tuple((_SCRIPT, *values[1:]) for values in schema.categories)
    new = {"names": names, "categories": categories, "target_names": (_SCRIPT,)}
    strange = dataclasses.replace(tree, schema=dataclasses.replace(schema, **new))
    X, y = held_out(tree, 60)
    plain = Reader(to_html(tree, X, y))
    X = X.replace({"sex": {"F": _SCRIPT}, "place": {"town0": _SCRIPT}})
    page = Reader(to_html(strange, X.set_axis([*names], axis=1), y))
    for tag in ("script", "b", "li", "td"):
        assert page.count(tag) == plain.count(tag)
    assert not any("onclick" in attrs for _, attrs in page.tags)
    assert _SCRIPT in page.text  # as words
    repr_page = Reader(tree_fragment([strange]))
    assert repr_page.count("script") == 0


def test_the_page_asks_for_nothing(tree):
    html = to_html(tree, *held_out(tree))
    page = Reader(html)
    for tag, attrs in page.tags:
        for name in ("src", "href", "action", "srcset", "data"):
            assert (attrs.get(name) or "#").startswith(("#", "data:")), (tag, attrs)
    assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttp", html)
    (policy,) = [a["content"] for _, a in page.tags if "http-equiv" in a]
    assert policy.startswith("default-src 'none'")


def test_errors_of_cut_trees_are_those_of_their_models(tree):
    tree = dataclasses.replace(tree, train_error=1e-3 + 0.1 / (1 + tree.depth[:, None]))
    view = as_view(tree)
    rows = Rows.of(view, *held_out(tree))
    lines = error_lines(view, rows, {})
    sizes = [line["leaves"] for line in lines]
    assert sizes[0] == 1
    assert sizes[-1] == 8
    assert sizes == sorted(set(sizes))
    whole = np.sqrt(np.mean((rows.actual - rows.predicted[:, 0]) ** 2))
    assert lines[-1]["rmse"] == pytest.approx(whole)
    root = values_at(tree, rows.table, np.zeros(len(rows.actual), int))[:, 0]
    residual = rows.actual - tree.schema.restore_target(root)
    assert lines[0]["rmse"] == pytest.approx(np.sqrt(np.mean(residual**2)), rel=1e-5)
    assert float(lines[0]["figures"][1]) == pytest.approx(
        1 - np.mean(residual**2) / np.var(rows.actual), abs=1e-3
    )


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


def test_a_large_tree_is_cut(monkeypatch):
    small, full = (tree_fragment([random_tree(2, n)]) for n in (160, 60))
    assert Reader(small).count("li") <= 200
    assert Reader(full).count("li") == 119
    assert "export_text() shows the whole tree" in small
    assert "export_text()" not in full
    below = re.findall(r"… (\d+) lea", small)
    ends = Reader(small).count("li") - small.count("<details")
    assert sum(map(int, below)) + ends - len(below) == 160
    monkeypatch.setattr("secret_jax.inspect.page._MAX_NODES", 60)
    page = Reader(to_html(random_tree(2, 60)))
    assert page.count("li") <= 60
    links = {a["href"][1:] for tag, a in page.tags if tag == "a" and "href" in a}
    assert links
    assert links <= set(page.ids)


def test_rows_are_given_as_to_predict(tree):
    model = reading(tree)
    X = random_frame(5, 50)
    y = model.predict(X) + np.tile([1.0, -3.0], 25)
    html = model.to_html(X[list(reversed(NAMES))], y, title="A <title>")
    assert "A &lt;title&gt;" in html
    assert "<b>2.24</b>" in html  # squares of 1 and 9: their mean is 5
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
    assert "<b>0</b>" in page
    alone = several.to_html(X, both[:, 1], output="rings1")
    assert "<b>0</b>" in alone
    with pytest.raises(ValueError, match="2 outputs"):
        several.to_html(X, np.c_[both, both], output="rings1")


_WATCH = (
    "<script>window.mistakes = []; window.onerror = "
    "function (text) { window.mistakes.push(text); }; "
    "document.addEventListener('securitypolicyviolation', "
    "function (e) { window.mistakes.push(e.violatedDirective); });</script>"
)
_ANSWER = """
<script>
(function () {
  var said = {errors: window.mistakes};
  %s
  var result = document.createElement("pre");
  result.id = "said";
  result.textContent = JSON.stringify(said);
  document.body.appendChild(result);
})();
</script>
</body>
"""


def in_browser(html: str, script: str, folder) -> dict:
    """What a script adds to ``said`` on a page, without mistakes."""
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    html = html.replace('<meta charset="utf-8">', f'<meta charset="utf-8">{_WATCH}', 1)
    page = folder / "page.html"
    page.write_text(html.replace("</body>", _ANSWER % script), encoding="utf-8")
    command = [
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
        *("--no-first-run", "--disable-background-networking", "--disable-sync"),
        *("--disable-component-update", f"--user-data-dir={folder / 'profile'}"),
        *("--window-size=500,900", "--dump-dom", page.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, timeout=120, check=True)
    found = re.search(r'id="said">(.*?)</pre>', done.stdout.decode(), re.S)
    assert found is not None
    said = json.loads(unescape(found[1]))
    assert said.pop("errors") == []
    return said


def strangers(X: pd.DataFrame) -> pd.DataFrame:
    """Rows with gaps and categories that training has not seen."""
    X = X.astype({"size": object, "zip": object}).reset_index(drop=True)
    X.loc[::5, "area"], X.loc[::7, "size"] = np.nan, None
    X.loc[1::5, "zip"], X.loc[2::5, "zip"] = "never seen", None
    return X


LEAF = {"prune": None, "max_leaf_nodes": 6, "distill": False}
MODELS = {
    "rings": lambda: random_tree(4, 12),
    "gates": lambda: with_gates(random_tree(4, 12)),
    "mixture": lambda: dataclasses.replace(
        with_gates(random_tree(3, 12)), clip_leaves=False
    ),
    "unclipped": lambda: random_tree(5, 8, clip_margin=None),
    "conjunctions": lambda: with_conjunctions(random_tree(4, 12), 4),
    "gaps": lambda: SecretRegressor(**LEAF, leaf=Ridge(indicators=True)),
    "axis": lambda: SecretRegressor(**LEAF, oblique=False),
    "counts": lambda: SecretRegressor(**LEAF, loss="poisson"),
    "two": lambda: SecretClassifier(**LEAF),
    "three": lambda: SecretClassifier(**LEAF),
    "shares": lambda: SecretClassifier.literature("cart", max_leaf_nodes=6),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_script_of_a_page_predicts_what_the_tree_does(name, tmp_path):
    model = MODELS[name]()
    if hasattr(model, "fit"):
        X, y = mixed_table()
        gap = np.arange(len(X)) % 9 == 0  # which says something
        X["zip"], y = X["zip"].mask(gap), y - 2.0 * gap
        ends = [6.0] if name == "two" else [5.0, 8.0]
        labels = np.array(["low", "middle", "high"])[np.digitize(y, ends)]
        y = labels if name in ("two", "three", "shares") else y
        model.fit(X, np.round(np.abs(y)) if name == "counts" else y)
        X, tree = strangers(X), model.tree_
    else:
        tree, X = model, random_frame(5, 300)
        X.loc[::7, "sex"] = "never seen"
    assert tree.n_leaves > 2
    view = as_view(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = encoding.encode(tree.schema, X).on_host()
    columns = tree.schema.columns_of(X)
    program = what_if(view)
    assert program is not None
    rows = []
    for i in range(len(X)):
        row = {}
        for position in (each["from"] for each in program["inputs"]):
            if position in tree.schema.discrete:
                code = table.codes[i, tree.schema.discrete.index(position)]
                row[position] = int(code) if code >= 0 else None
            else:
                value = float(columns[position][i])
                row[position] = value if np.isfinite(value) else None
        rows.append(row)
    script = f"""
  var tree = JSON.parse(document.getElementById("asked").textContent);
  said.rows = {json.dumps(rows)}.map(function (row) {{ return predict(tree, row); }});
"""
    found = in_browser(to_html(model), script, tmp_path)["rows"]
    expected = view.predict(table).reshape(len(X), -1)
    scale = 3e-4 if tree.is_soft else 3e-5
    scale *= tree.schema.target_scales[0] * max(1.0, np.abs(expected).max())
    close = {"rtol": 0, "atol": scale}
    np.testing.assert_allclose([one["values"] for one in found], expected, **close)
    assert [one["leaf"] for one in found] == apply(tree, table).tolist()
    assert len({one["leaf"] for one in found}) > 2
