"""Targets of classes on the command line, from the fit to the score."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss
from sklearn.tree import DecisionTreeClassifier

from secret_jax import SecretClassifier
from secret_jax.cli.evaluation import measured
from secret_jax.cli.main import main

QUICK = ("--splits", "cart", "--leaf", "constant", "--prune", "none")

REPORT = ["errors.json", "report.html", "tree.png"]


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    X, y = load_iris(return_X_y=True, as_frame=True)
    frame = X.assign(kind=np.array(["setosa", "versicolor", "virginica"])[y])
    frame.columns = ["a", "b", "c", "d", "kind"]
    frame["number"] = y
    frame.loc[3, "kind"] = "NA"
    path = tmp_path_factory.mktemp("classes") / "iris.csv"
    frame.to_csv(path, index=False)
    return path, frame


@pytest.fixture(scope="module")
def fitted(flowers):
    path, _ = flowers
    out, report = path.with_name("iris.model"), path.with_name("report")
    places = ("--out", str(out), "--report", str(report))
    assert main(["fit", str(path), "kind", "--drop", "number", *QUICK, *places]) == 0
    return out, report


def test_a_target_of_text_fits_a_classifier(flowers, run):
    path, _ = flowers
    code, out, said = run("fit", path, "kind", "--drop", "number", *QUICK)
    assert code == 0
    assert "3 classes, so the tree is a classifier" in said
    assert "1 row has no kind and is left out: line 5" in said
    assert "kind (setosa / versicolor / virginica): a tree of" in out
    for line in ("SECRET tree", "logistic regression", "CART (scikit-learn)"):
        assert line in out
    head = next(line for line in out.splitlines() if "held-out rows" in line)
    assert head.split()[-3:] == ["wrong", "log-loss", "leaves"]


def test_trees_beside_are_as_large_as_they_are_right(fitted):
    errors = json.loads((fitted[1] / "errors.json").read_text())["errors"]
    assert errors["CART (scikit-learn)"]["error"] < 0.2


def test_a_row_of_weight_two_is_measured_twice(fitted, flowers):
    model, frame = SecretClassifier.load(fitted[0]), flowers[1]
    rows = frame[frame["kind"] != "NA"]
    weight = np.where(rows["kind"] == "virginica", 3, 1)
    X, y = rows[["a", "b", "c", "d"]], rows["kind"]
    of_copies = measured(model, X.loc[X.index.repeat(weight)], y.repeat(weight))
    assert measured(model, X, y, weight) == pytest.approx(of_copies)
    assert measured(model, X, y) != pytest.approx(of_copies)


def test_a_saved_classifier_predicts_and_is_measured(flowers, fitted, run):
    path, frame = flowers
    model = SecretClassifier.load(fitted[0])
    code, out, _ = run("predict", fitted[0], path)
    assert code == 0
    written = pd.read_csv(io.StringIO(out))
    X = frame[["a", "b", "c", "d"]]
    np.testing.assert_array_equal(written["prediction"], model.predict(X))
    columns = [f"probability of {name}" for name in model.classes_]
    np.testing.assert_allclose(written[columns], model.predict_proba(X), atol=1e-6)
    code, out, _ = run("score", fitted[0], path)
    assert code == 0
    there = frame["kind"] != "NA"
    wrong = np.mean(model.predict(X[there]) != frame["kind"][there])
    assert out.split()[:5] == ["rows", "149", "wrong", f"{100 * wrong:.1f}", "%"]
    expected = log_loss(frame["kind"][there], model.predict_proba(X[there]))
    assert float(out.split()[-1]) == pytest.approx(expected, rel=1e-3)
    scores = json.loads((fitted[1] / "errors.json").read_text())["errors"]
    assert {"error", "log_loss", "leaves"} == set(scores["SECRET tree"])
    assert sorted(path.name for path in fitted[1].iterdir()) == REPORT
    page = (fitted[1] / "report.html").read_text()
    right = 100 * (1 - scores["SECRET tree"]["error"])
    assert "held-out log-loss" in page
    assert f"{right:.3g} %" in page
    assert "logistic regression" in page


def test_numbers_are_classes_where_that_is_said(flowers, run):
    path, _ = flowers
    arguments = ("fit", path, "number", "--drop", "kind", *QUICK)
    code, out, _ = run(*arguments, "--classes")
    assert code == 0
    assert "number (class 0 / class 1 / class 2): a tree of" in out
    code, out, _ = run(*arguments)
    assert code == 0
    head = next(line for line in out.splitlines() if "held-out rows" in line)
    assert head.split()[-4:] == ["MAE", "R²", "RMSE", "leaves"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--preset", "paper"), "--preset paper goes with a target of numbers"),
        (("--calibrate", "0.2"), "--calibrate goes with a target of numbers"),
        (("--leaf", "ridge"), "'leaf' parameter of SecretClassifier"),
    ],
)
def test_what_goes_with_numbers_is_refused(flowers, run, options, message):
    path, _ = flowers
    code, _, said = run("fit", path, "kind", "--drop", "number", *options)
    assert code == 2
    assert message in said


def test_names_and_mixtures_are_no_classes(tmp_path, run):
    n = 40
    table = {"x": np.arange(n), "name": [f"n{i}" for i in range(n)]}
    table["mixed"] = ["1", "2", "three", "4"] * 10
    pd.DataFrame(table).to_csv(tmp_path / "t.csv", index=False)
    told = {"name": "no number in 40 of 40", "mixed": "where numbers are read"}
    for target, other in (("name", "mixed"), ("mixed", "name")):
        code, _, said = run("fit", tmp_path / "t.csv", target, "--drop", other)
        assert code == 2
        assert told[target] in said


def test_a_class_that_training_never_saw_is_wrong():
    model = DecisionTreeClassifier().fit([[0], [1]], ["a", "b"])
    found = measured(model, [[0], [1]], np.array(["a", "c"]))
    assert found["error"] == 0.5
    assert found["log_loss"] == pytest.approx(-np.log(1e-15) / 2)


def test_two_classes_have_pictures(tmp_path, run):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=80)})
    frame["sick"] = np.where(frame["x"] + 0.3 * rng.normal(size=80) > 0, "yes", "no")
    frame.to_csv(tmp_path / "t.csv", index=False)
    code, out, said = run(
        "fit", tmp_path / "t.csv", "sick", *QUICK, "--report", tmp_path / "r"
    )
    assert code == 0, said
    assert "a tree of" in out
    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == REPORT
    assert "held-out log-loss" in (tmp_path / "r" / "report.html").read_text()


def test_a_target_of_a_few_whole_numbers_may_be_one_of_classes(flowers, run):
    path, _ = flowers
    hint = "number: its 3 different whole numbers are predicted as numbers"
    assert hint in run("fit", path, "number", "--drop", "kind", *QUICK)[2]
    said = run("fit", path, "number", "--drop", "kind", "--classes", *QUICK)[2]
    assert hint not in said
