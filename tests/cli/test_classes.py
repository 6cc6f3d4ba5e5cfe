"""Targets of classes on the command line, from the fit to the score."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier

from secret_jax import SecretClassifier
from secret_jax.cli.fit import measured
from secret_jax.cli.learning import Rows
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


def test_a_row_of_weight_two_is_measured_twice(fitted, flowers):
    model, frame = SecretClassifier.load(fitted[0]), flowers[1]
    rows = frame[frame["kind"] != "NA"]
    weight = np.where(rows["kind"] == "virginica", 3, 1)
    X, y = rows[["a", "b", "c", "d"]], rows["kind"]
    copies = Rows(X.loc[X.index.repeat(weight)], y.repeat(weight))
    weighted = Rows(X, y, beside={"weight": pd.Series(weight)})
    assert measured(model, weighted) == pytest.approx(measured(model, copies))
    assert measured(model, Rows(X, y)) != pytest.approx(measured(model, copies))


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
    scores = json.loads((fitted[1] / "errors.json").read_text())["errors"]
    assert {"error", "log_loss", "leaves"} == set(scores["SECRET tree"])
    assert sorted(path.name for path in fitted[1].iterdir()) == REPORT
    page = (fitted[1] / "report.html").read_text()
    right = 100 * (1 - scores["SECRET tree"]["error"])
    assert f"<b>{right:.1f} %</b>" in page
    assert f"<b>{scores['SECRET tree']['log_loss']:.3g}</b>" in page
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
        (("--preset", "paper"), "--preset paper does not go with a SecretClassifier"),
        (("--calibrate", "0.2"), "--calibrate needs a target of numbers"),
        (("--leaf", "ridge"), "--leaf must be"),
    ],
)
def test_what_goes_with_numbers_is_refused(flowers, run, options, message):
    path, _ = flowers
    code, _, said = run("fit", path, "kind", "--drop", "number", *options)
    assert code == 2
    assert message in said


def test_a_class_that_training_never_saw_is_wrong():
    model = DecisionTreeClassifier().fit(pd.DataFrame([[0], [1]]), ["a", "b"])
    rows = Rows(pd.DataFrame([[0], [1]]), pd.Series(["a", "c"]))
    found = measured(model, rows)
    assert found["error"] == 0.5
    assert found["log_loss"] == pytest.approx(-np.log(1e-15) / 2)
