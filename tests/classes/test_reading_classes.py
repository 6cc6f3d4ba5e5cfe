"""What is read of trees and boosters of classes: programs, reasons, tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from configurations import refusal
from exported_code import by_sqlite, run_onnx

from secret_jax import SecretBoostingClassifier, SecretClassifier
from secret_jax.inspect.printing import quoted

NAMES = np.array(["low", "mid", "it's top"])
LONG = "a name so long that the lines of programs are broken in several of their places"
COSTS = np.array([[0, 1, 5], [3, 0, 1], [1, 1, 0]])
QUICK = {"splits": "cart", "prune": None, "distill": False, "max_leaf_nodes": 4}
ALL = {
    "logistic": lambda k: SecretClassifier(**QUICK),
    "costs": lambda k: SecretClassifier(**QUICK, costs=COSTS[:k, :k]),
    "shares": lambda k: SecretClassifier.literature("cart", max_leaf_nodes=5),
    # As it is by default, but for three rounds; of three classes small.
    "booster": lambda k: SecretBoostingClassifier(
        max_iter=3,
        **({} if k == 2 else {"max_leaf_nodes": 4, "ensemble": False, "n_folds": 2}),
    ),
}


def rings(n_classes: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    radius = np.hypot(X[:, 0], X[:, 1]) + 0.1 * rng.normal(size=len(X))
    frame = pd.DataFrame(X, columns=[LONG, "b", "score"])
    return frame, NAMES[np.digitize(radius, [0.8, 1.5][: n_classes - 1])]


@pytest.fixture(scope="module")
def fitted():
    """Every kind of model, of two classes and of three, fitted once when asked for."""
    known: dict = {}

    def model(kind: str, n_classes: int):
        if (kind, n_classes) not in known:
            made = ALL[kind](n_classes)
            known[kind, n_classes] = made.fit(*rings(n_classes))
        return known[kind, n_classes]

    return model


every = pytest.mark.parametrize("kind", ALL)
both = pytest.mark.parametrize("n_classes", [2, 3])


@every
@both
def test_programs_say_probabilities_and_the_class(fitted, kind, n_classes):
    model, (frame, _) = fitted(kind, n_classes), rings(n_classes)
    rows, expected = frame.to_dict("records"), model.predict_proba(frame)
    mid = expected[:, [*model.classes_].index("mid")]
    scope: dict = {}
    exec(model.export_code(), scope)
    found = [scope["predict_proba"](row) for row in rows]
    assert [*found[0]] == model.classes_.tolist()
    np.testing.assert_allclose([[*f.values()] for f in found], expected, atol=1e-5)
    assert [scope["predict"](**row) for row in rows] == model.predict(frame).tolist()
    exec(model.export_code(output="mid", function_name="risk"), scope)
    np.testing.assert_allclose([scope["risk"](row) for row in rows], mid, atol=1e-5)
    named, chances = run_onnx(model.export_code("onnx"), frame)
    np.testing.assert_allclose(chances, expected, rtol=0, atol=1e-5)
    assert [*named] == model.predict(frame).tolist()
    (chance,) = run_onnx(model.export_code("onnx", output="mid"), frame)
    np.testing.assert_allclose(chance, mid, atol=1e-5)


def by_duckdb(frame: pd.DataFrame, query: str) -> pd.DataFrame:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.register("some rows", frame)
        return connection.execute(query).df()


@pytest.mark.parametrize(
    ("run", "kind", "n_classes"),
    [
        (by_sqlite, "logistic", 2),
        (by_sqlite, "costs", 3),
        (by_sqlite, "shares", 3),
        (by_duckdb, "logistic", 3),
        (by_duckdb, "costs", 2),
    ],
)
def test_a_query_has_a_column_for_each_probability(fitted, kind, n_classes, run):
    model, (frame, _) = fitted(kind, n_classes), rings(n_classes)
    found = run(frame, model.export_code("sql", table="some rows"))
    assert list(found)[:3] == list(frame)
    columns = [f"probability of {name}" for name in model.classes_]
    expected = model.predict_proba(frame)
    np.testing.assert_allclose(found[columns], expected, atol=1e-5)
    assert found["prediction"].tolist() == model.predict(frame).tolist()
    if kind == "logistic":
        said = model.decision_function(frame).reshape(len(frame), -1)
        np.testing.assert_allclose(
            found.iloc[:, 3 : 3 + said.shape[1]], said, atol=1e-4
        )
    expression = model.export_code("sql", output="low")
    found = run(frame, f'SELECT {expression} AS chance FROM "some rows"')
    place = [*model.classes_].index("low")
    np.testing.assert_allclose(found["chance"], expected[:, place], atol=1e-5)


def test_an_expression_is_one_number(fitted):
    model = fitted("logistic", 2)
    assert model.export_code("sql") == model.export_code("sql", output=1)
    with refusal("one value", "table=", "output="):
        fitted("logistic", 3).export_code("sql")
    with refusal("output='top' is none of the classes", "'mid'"):
        fitted("booster", 3).export_code(output="top")


@pytest.mark.parametrize("kind", ["logistic", "costs"])
@both
def test_a_row_tells_of_its_class(fitted, kind, n_classes):
    model, (frame, _) = fitted(kind, n_classes), rings(n_classes)
    why = model.explain(frame)
    total = why.baseline + why.contributions.sum(axis=1) + why.clipping
    np.testing.assert_allclose(total, why.prediction, atol=1e-9)
    assert why.predicted.tolist() == model.predict(frame).tolist()
    np.testing.assert_allclose(why.probability, model.predict_proba(frame), atol=1e-6)
    said = model.decision_function(frame)
    if n_classes == 3:
        places = [[*model.classes_].index(name) for name in why.predicted]
        said = said[np.arange(len(frame)), places]
    np.testing.assert_allclose(total, said, atol=1e-4)
    first, leaf, value, *_ = why.row_text(7).splitlines()
    chance = 100 * why.probability[7].max()
    assert first.startswith(f"row 7: predicted {quoted(why.predicted[7])} (")
    assert f"{chance:.1f} %" in first
    assert leaf.startswith(f"  leaf [{why.leaf[7]}]")
    assert ("log-odds of" if n_classes == 2 else "score of") in value
    table = why.to_dataframe()
    assert table["prediction"].tolist() == why.predicted.tolist()
    chances = table[[f"probability of {name}" for name in model.classes_]]
    np.testing.assert_allclose(chances, why.probability)
    # A column of that name is there already.
    np.testing.assert_allclose(table["score_"], why.prediction)
    if n_classes == 3:  # a class can be asked for
        asked = model.explain(frame, output="mid")
        mid = model.decision_function(frame)[:, [*model.classes_].index("mid")]
        np.testing.assert_allclose(asked.prediction, mid, atol=1e-4)
        assert asked.predicted.tolist() == why.predicted.tolist()


def test_tables_hold_all_classes(fitted):
    model = fitted("logistic", 3)
    tree, nodes, terms = model.tree_, model.to_dataframe(), model.coefficients()
    for which, name in enumerate(model.classes_):
        np.testing.assert_allclose(nodes[f"mean of {name}"], tree.mean[:, which])
        assert nodes[f"model of {name}"].str.contains("score of").all()
        own = terms[terms["class"] == name].drop(columns="class")
        alone = model.coefficients(output=name)
        pd.testing.assert_frame_equal(own.reset_index(drop=True), alone)
