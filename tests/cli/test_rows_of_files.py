"""Weights, groups, times and classes of rows on the command line; other models."""

import io
import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier

from secret_jax import SecretClassifier, SecretRegressor
from secret_jax.cli.commands import measured
from secret_jax.cli.learning import Rows
from secret_jax.cli.main import main
from secret_jax.tree.file import load_model

CLASSES = ("--splits", "cart", "--leaf", "constant", "--prune", "none")
QUICK = ("--splits", "cart", "--oblique", "no", "--leaf", "linear", "--distill", "no")


def make_table(n_rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    days = pd.to_timedelta(rng.integers(0, 500, n_rows), unit="D")
    frame = pd.DataFrame(
        {
            "length": rng.uniform(-3, 3, n_rows),
            "person": rng.choice([f"person {i}" for i in range(30)], n_rows),
            "count": rng.integers(1, 4, n_rows),
            "day": (pd.Timestamp("2020-01-01") + days).strftime("%Y-%m-%d"),
        }
    )
    frame["cost"] = np.abs(frame["length"]) + 0.1 * rng.normal(size=n_rows)
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("beside")
    make_table().to_csv(path / "table.csv", index=False)
    return path


def fitted(folder, *options: str) -> SecretRegressor:
    out = folder / "a.model"
    words = ["fit", folder / "table.csv", "cost", *QUICK, "--out", out, *options]
    assert main([str(word) for word in words]) == 0
    return load_model(out, SecretRegressor)


def rows_of(frame: pd.DataFrame, **beside: str) -> Rows:
    named = {role: frame[name] for role, name in beside.items()}
    return Rows(frame[["length"]], frame["cost"], False, named)


def test_groups_are_held_out_as_a_whole():
    frame = make_table()
    for seed in range(3):
        test, training = rows_of(frame, group="person").drawn(60, seed)
        assert test.beside["group"].nunique() == 6  # a fifth of thirty
        assert len(test.y) + len(training.y) == len(frame)
        people = [set(rows.beside["group"]) for rows in (test, training)]
        assert not people[0] & people[1]


def test_the_latest_rows_are_held_out():
    frame = make_table().assign(day=lambda one: pd.to_datetime(one["day"]))
    test, training = rows_of(frame, time="day").drawn(60, 0)
    assert 60 <= len(test.y) < 70
    assert training.beside["time"].max() < test.beside["time"].min()
    alike = frame.assign(day=1.0)
    with pytest.raises(ValueError, match="one group or time"):
        rows_of(alike, time="day").drawn(60, 0)


def test_groups_and_stretches_of_time_choose_the_size():
    frame = make_table().assign(day=lambda one: pd.to_datetime(one["day"]))
    assert rows_of(frame).groups is None
    assert rows_of(frame, group="person").groups.equals(frame["person"])
    stretch = rows_of(frame, time="day").groups
    assert stretch.nunique() == 20
    assert stretch[frame["day"].argsort()].is_monotonic_increasing
    assert (stretch.groupby(frame["day"]).nunique() == 1).all()


def test_weights_are_rows_and_a_group_is_no_column(folder, capsys):
    model = fitted(folder, "--weight", "count", "--group", "person")
    assert [*model.feature_names_in_] == ["length", "day"]
    frame = make_table()
    table = rows_of(frame, group="person", weight="count")
    _, training = table.drawn(60, 0)
    weight = training.beside["weight"]
    assert model.tree_.weight[0] == pytest.approx(len(weight))
    mean = np.average(training.y, weights=weight)
    assert model.tree_.schema.target_centers[0] == pytest.approx(mean, rel=1e-5)
    assert mean != pytest.approx(training.y.mean(), rel=1e-3)
    assert "MAE" in capsys.readouterr().out


def test_rows_of_no_weight_are_not_held_out(tmp_path, capsys):
    frame = make_table()
    counted = frame["person"].isin(["person 0", "person 1", "person 2"])
    frame.assign(count=1 * counted).to_csv(tmp_path / "table.csv", index=False)
    model = fitted(tmp_path, "--weight", "count", "--group", "person")
    said = capsys.readouterr()
    n_test = int(re.findall(r"measuring on (\d+) rows", said.err)[0])
    assert 0 < n_test == counted.sum() - model.tree_.weight[0]
    assert "nan" not in said.out.lower()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--weight", "person"), "must be numbers"),
        (("--time", "person"), "must be numbers or dates"),
        (("--group", "cost"), "is the target"),
        (("--group", "person", "--time", "day"), "give one"),
        (("--weight", "weight"), "no such column"),
        (("--group", "person", "--drop", "person"), "which is left out"),
        (("--preset", "paper", "--classes"), "paper does not go with a SecretClass"),
        (("--calibrate", "0.2", "--classes"), "--calibrate needs a target of numbers"),
        (("--leaf", "ridge", "--classes"), "--leaf must be"),
    ],
)
def test_columns_that_cannot_be_used_are_refused(folder, capsys, options, message):
    words = ["fit", str(folder / "table.csv"), "cost", *QUICK, *options]
    assert main(words) != 0
    assert message in capsys.readouterr().err


def test_a_booster_is_fitted_and_predicts(folder, capsys):
    table, out = folder / "table.csv", folder / "booster.model"
    words = ["fit", table, "cost", "--drop", "person,day", "--out", out]
    words += ["--model", "booster", "--max-leaf-nodes", 4, "--report", folder / "r"]
    assert main([str(word) for word in words]) == 0
    assert "a booster of" in capsys.readouterr().out
    errors = json.loads((folder / "r" / "errors.json").read_text())["errors"]
    own, mean, straight = (score["mae"] for score in errors.values())
    assert own < 0.5 * straight  # of |length|, which no plane fits
    assert own < 0.5 * mean
    assert main(["predict", str(out), str(table)]) == 0
    predicted = pd.read_csv(io.StringIO(capsys.readouterr().out))["prediction"]
    assert np.corrcoef(predicted, make_table()["cost"])[0, 1] > 0.95
    assert main(["show", str(out), str(table)]) == 2
    assert "which has no explain" in capsys.readouterr().err
    for language in ("dot", "sql"):
        assert main(["export", str(out), language]) == 2
        message = f"is not written in {language}; fit with --model tree"
        assert message in capsys.readouterr().err
    assert main([*map(str, words), "--prune", "bic"]) == 2
    assert "--prune does not go with" in capsys.readouterr().err


# Classes


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
def classifier(flowers):
    path, _ = flowers
    out, report = path.with_name("iris.model"), path.with_name("report")
    places = ("--out", str(out), "--report", str(report))
    assert main(["fit", str(path), "kind", "--drop", "number", *CLASSES, *places]) == 0
    return out, report


def test_a_row_of_weight_two_is_measured_twice(classifier, flowers):
    model, frame = SecretClassifier.load(classifier[0]), flowers[1]
    rows = frame[frame["kind"] != "NA"]
    weight = np.where(rows["kind"] == "virginica", 3, 1)
    X, y = rows[["a", "b", "c", "d"]], rows["kind"]
    copies = Rows(X.loc[X.index.repeat(weight)], y.repeat(weight))
    weighted = Rows(X, y, beside={"weight": pd.Series(weight)})
    assert measured(model, weighted) == pytest.approx(measured(model, copies))
    assert measured(model, Rows(X, y)) != pytest.approx(measured(model, copies))


def test_a_saved_classifier_predicts_and_is_measured(flowers, classifier, run):
    path, frame = flowers
    model = SecretClassifier.load(classifier[0])
    code, out, _ = run("predict", classifier[0], path)
    assert code == 0
    written = pd.read_csv(io.StringIO(out))
    X = frame[["a", "b", "c", "d"]]
    np.testing.assert_array_equal(written["prediction"], model.predict(X))
    columns = [f"probability of {name}" for name in model.classes_]
    np.testing.assert_allclose(written[columns], model.predict_proba(X), atol=1e-6)
    scores = json.loads((classifier[1] / "errors.json").read_text())["errors"]
    assert {"error", "log_loss", "leaves"} == set(scores["SECRET tree"])
    files = sorted(path.name for path in classifier[1].iterdir())
    assert files == ["errors.json", "report.html", "tree.png"]
    page = (classifier[1] / "report.html").read_text()
    right = 100 * (1 - scores["SECRET tree"]["error"])
    assert f"<b>{right:.1f} %</b>" in page
    assert f"<b>{scores['SECRET tree']['log_loss']:.3g}</b>" in page
    assert "logistic regression" in page


def test_numbers_are_classes_where_that_is_said(flowers, run):
    path, _ = flowers
    arguments = ("fit", path, "number", "--drop", "kind", *CLASSES)
    code, out, _ = run(*arguments, "--classes")
    assert code == 0
    assert "number (class 0 / class 1 / class 2): a tree of" in out
    code, out, _ = run(*arguments)
    assert code == 0
    head = next(line for line in out.splitlines() if "held-out rows" in line)
    assert head.split()[-4:] == ["MAE", "R²", "RMSE", "leaves"]


def test_a_class_that_training_never_saw_is_wrong():
    model = DecisionTreeClassifier().fit(pd.DataFrame([[0], [1]]), ["a", "b"])
    rows = Rows(pd.DataFrame([[0], [1]]), pd.Series(["a", "c"]))
    found = measured(model, rows)
    assert found["error"] == 0.5
    assert found["log_loss"] == pytest.approx(-np.log(1e-15) / 2)
