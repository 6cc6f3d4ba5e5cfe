"""The commands end to end: results, progress, files, and one line for a failure."""

import argparse
import io
import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from refusals import assert_fails
from scipy.sparse import issparse
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils._param_validation import StrOptions

from secret_jax import Ridge, RssSplits, SecretClassifier, SecretRegressor
from secret_jax.cli import commands
from secret_jax.cli.commands import measured
from secret_jax.cli.learning import Rows
from secret_jax.cli.main import build_parser, main
from secret_jax.runtime.values import constraints_of

QUICK = ("--splits", "cart", "--oblique", "no", "--leaf", "linear", "--distill", "no")
CLASSES = ("--splits", "cart", "--leaf", "constant", "--prune", "none")
COLUMNS = ["length", "weight", "sold", "grade"]
N = 300


def plain_table() -> pd.DataFrame:
    """A kink in ``length``, offsets of a grade and of the second half of each year."""
    rng = np.random.default_rng(0)
    days = pd.to_timedelta(rng.integers(0, 700, N), unit="D")
    frame = pd.DataFrame(
        {
            "id": np.arange(1, N + 1),
            "length": np.round(rng.uniform(-3000, 3000, N)),
            "weight": rng.integers(20, 90, N),
            "sold": pd.Timestamp("2021-01-01") + days,
            "grade": rng.choice(["1", "x", "y"], N),
        }
    )
    late, best = frame["sold"].dt.month > 6, frame["grade"] == "x"
    offset = 5000.0 * late + 2000.0 * best + 20.0 * frame["weight"]
    frame["cost"] = 4.0 * frame["length"].abs() + offset
    return frame


def as_people_write(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(
        length=frame["length"].map("{:,.0f}".format),
        weight=frame["weight"].map("{} kg".format),
        sold=frame["sold"].dt.strftime("%d/%m/%Y"),
        cost=frame["cost"].map("${:,.0f}".format),
    )


def with_people() -> pd.DataFrame:
    """The lengths, with what their rows belong to and how often they count."""
    rng = np.random.default_rng(1)
    person = rng.choice([f"person {i}" for i in range(30)], N)
    frame = plain_table()[["length", "sold", "cost"]]
    return frame.assign(person=person, count=rng.integers(1, 4, N))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "table.csv"
    as_people_write(plain_table()).to_csv(path, index=False)
    with_people().to_csv(path.with_name("people.csv"), index=False)
    return path


@pytest.fixture(scope="module")
def people(table: Path) -> Path:
    return table.with_name("people.csv")


def fitted(table: Path, target: str, *options: Any) -> Path:
    path = table.with_name("a.model")
    words = ["fit", table, target, "--out", path, *options]
    assert main([str(word) for word in words]) == 0
    return path


@pytest.fixture(scope="module")
def model(table: Path) -> Path:
    report = ("--report", table.with_name("report"))
    path = fitted(table, "cost", *QUICK, "--id", "id", *report)
    return path.rename(path.with_name("cost.model"))


def expected(model: Path) -> np.ndarray:
    return SecretRegressor.load(model).predict(plain_table()[COLUMNS])


# As a process


def test_a_reader_that_stops_reading_is_no_failure(model, monkeypatch, capsys):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", pipe)
        assert main(["show", str(model)]) == 0
    assert capsys.readouterr().err == ""


def test_a_model_is_saved_where_nobody_reads_the_output(table, tmp_path, monkeypatch):
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(text)

    path = tmp_path / "closed.model"
    arguments = ["fit", str(table), "cost", *QUICK, "--max-depth", "1", "--quiet"]
    parsed = build_parser().parse_args([*arguments, "--out", str(path)])
    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(BrokenPipeError):
        commands.fit(parsed)
    assert SecretRegressor.load(path).n_leaves_ == 2


def test_help_does_not_wait_for_jax():
    code = (
        "import sys, secret_jax.cli.main as cli\n"
        "for words in (['--help'], ['predict', '--help']):\n"
        "    try: cli.main(words)\n"
        "    except SystemExit: pass\n"
        "print([m for m in ('jax', 'sklearn', 'pandas') if m in sys.modules])"
    )
    source = str(Path(commands.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": source},
    )
    assert "--interval" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


# demo and fit


def test_demo_beats_both_baselines_and_says_what_is_next(run, tmp_path):
    code, out, err = run("demo", "--out", tmp_path / "demo.png")
    assert code == 0, err
    rows = re.findall(r"^(SECRET tree|mean|linear regression) +(\S+)", out, re.M)
    absolute = {name: float(cell.replace(",", "")) for name, cell in rows}
    assert absolute["SECRET tree"] < 0.9 * absolute["linear regression"]
    assert absolute["SECRET tree"] < 0.3 * absolute["mean"]
    assert "if radius <= " in out
    assert "[diagnosis = malignant]" in out
    assert 2 <= out.count("rows (") <= 4
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "secret-jax fit FILE" in out
    assert out.splitlines()[-1].endswith("demo.png")


def test_errors_are_those_on_rows_that_no_method_saw(model):
    report = model.with_name("report")
    content = json.loads((report / "errors.json").read_text())
    frame = plain_table()
    X = pd.get_dummies(frame[["length", "weight", "grade"]], dtype=float)
    for part in ("year", "month", "day_of_week", "day_of_year"):
        X[part] = getattr(frame["sold"].dt, part).astype(float)
    X, y = X.assign(one=1.0).to_numpy(), frame["cost"].to_numpy()
    rows = np.random.default_rng(0).permutation(N)
    test, training = rows[:60], np.sort(rows[60:])
    assert (content["n_training"], content["n_test"]) == (240, 60)
    coefficients = np.linalg.lstsq(X[training], y[training], rcond=None)[0]
    scores = content["errors"]
    for name, predicted in (
        ("mean", y[training].mean()),
        ("linear regression", X[test] @ coefficients),
        ("SECRET tree", expected(model)[test]),
    ):
        mse = np.mean((predicted - y[test]) ** 2)
        assert scores[name]["mse"] == pytest.approx(mse, rel=1e-6)
    assert scores["SECRET tree"]["mse"] < 0.2 * scores["linear regression"]["mse"]
    assert content["parameters"]["random_state"] == 0
    assert (report / "tree.png").read_bytes().startswith(b"\x89PNG")
    page = (report / "report.html").read_text(encoding="utf-8")
    assert "<title>cost from table.csv</title>" in page
    assert "linear regression" in page
    assert f"<b>{float(f'{mse**0.5:.3g}'):g}</b>" in page


def test_rows_for_intervals_are_held_out_or_set_aside(run, table, tmp_path):
    path = tmp_path / "aside.model"
    few = ("fit", table, "cost", *QUICK, "--max-depth", 0, "--out", path)
    code, _, err = run(*few)
    assert code == 0
    assert "intervals are calibrated on 60 rows" in err
    assert len(SecretRegressor.load(path).conformity_scores_) == 60
    code, out, err = run(*few, "--refit-all")
    assert "calibrated" not in err
    assert "SECRET tree of 240 rows" in out
    assert SecretRegressor.load(path).tree_.weight[0] == 300
    message = "--calibrate 0.2 or without --refit-all"
    assert_fails(run("predict", path, table, "--interval", 0.9), message)
    code, _, err = run(*few, "--refit-all", "--calibrate", 0.1)
    assert "intervals are calibrated on 30 rows" in err
    loaded = SecretRegressor.load(path)
    assert len(loaded.conformity_scores_) == 30
    assert loaded.tree_.weight[0] == 270
    code, out, _ = run("predict", path, table, "--interval", 0.9)
    assert out.splitlines()[0] == "prediction,lower,upper"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "--leaf constant --splits secret --prune none --min-samples-split 0.2 "
            "--min-samples-leaf 7 --max-leaf-nodes 6 --max-depth 3 --seed 5 --oblique "
            "no --categorical grade --split-only weight --drop length",
            SecretRegressor(
                oblique=False,
                leaf="constant",
                splits="secret",
                prune=None,
                min_samples_split=0.2,
                min_samples_leaf=7,
                max_leaf_nodes=6,
                max_depth=3,
                random_state=5,
                categorical_features=["grade"],
                split_features=["weight"],
            ),
        ),
        (
            "--max-depth 0 --splits RssSplits(max_split_features=2) "
            "--leaf Ridge(clip_margin=None)",
            SecretRegressor(
                max_depth=0,
                splits=RssSplits(max_split_features=2),
                leaf=Ridge(clip_margin=None),
                random_state=0,
            ),
        ),
        (
            "--preset paper --oblique no --min-samples-split 0.3",
            SecretRegressor.paper(oblique=False, min_samples_split=0.3, random_state=0),
        ),
    ],
    ids=["words", "values", "preset"],
)
def test_options_reach_the_estimator(table, words, expected):
    found = SecretRegressor.load(fitted(table, "cost", *words.split()))
    assert found.get_params() == expected.get_params()
    left = [name for name in COLUMNS if name != "length" or "--drop" not in words]
    assert found.feature_names_in_.tolist() == left


def test_options_are_the_parameters_of_the_estimators():
    parsed = build_parser().parse_args(["fit", "f", "y", "--max-depth", "3"])
    assert parsed.max_depth == 3
    (parsers,) = [
        action.choices
        for action in build_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    elsewhere = {"categorical_features", "split_features", "random_state", "verbose"}
    elsewhere |= {"priors", "costs", "monotonic_cst"}
    for estimator in (SecretRegressor, SecretClassifier):
        names = estimator().get_params(deep=False).keys() - elsewhere
        assert names <= {action.dest for action in parsers["fit"]._actions}
        for name in names - vars(parsed).keys():
            action = next(a for a in parsers["fit"]._actions if a.dest == name)
            for allowed in constraints_of(estimator)[name]:
                if isinstance(allowed, StrOptions):
                    assert all(word in action.help for word in allowed.options), name


CSV = "a,b,sex,y\n" + "1,2,M,3\n2,1,F,5\n4,2,M,3\n5,1,F,5\n" * 3
PEOPLE = with_people().to_csv(index=False)


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("a,y\n1,\n2,3\n", "y", "1 rows are too few to hold some out"),
        ("a,y\n1,2\ninf,3\n", "y", "'a' holds 'inf' in line 3"),
        (CSV, "Y", "no such column; did you mean 'y'.* The columns are 'a'"),
        (CSV, "y --drop aa", "--drop names 'aa', but .* did you mean 'a'"),
        (CSV, "y --categorical y", "'y' is the target"),
        (CSV, "y --split-only q", "--split-only names 'q', but there is no"),
        (CSV, "y --split-only sex", "'sex'"),
        (CSV, "y --split-only a --categorical a", "both --categorical and"),
        (CSV, "y --drop a --categorical a", "--categorical names 'a', which is"),
        (CSV, "y --monotone sex:+", "--monotone constrains column 'sex'"),
        (CSV, "y --drop a,b,sex", "no columns are left to predict 'y' from"),
        (CSV, "y --seed -1", "--seed -1 is below zero"),
        (CSV, "y --test-fraction 1", "leave no rows to grow a tree on"),
        (CSV, "y --test-fraction 0.9", "12 rows are too few .*--test-fraction 0"),
        (CSV, "y --max-depth -2", r"--max-depth must be an int in the range \[0"),
        (CSV, "y --min-samples-leaf few", "--min-samples-leaf must .* Got 'few'"),
        (CSV, "y --out no/where", "there is no folder 'no'"),
        (CSV, "y --out .", "'.' is a folder; name a file in it"),
        (CSV, "y --report t.csv", "t.csv: File exists"),
        (CSV, "", "the following arguments are required: TARGET; see .* fit --help"),
        (CSV, "y --calibrate 0.8", "--calibrate 0.8 and --test-fraction 0.2 leave no"),
        (CSV, "y --dates a:%Q", "--dates 'a:%Q': 'Q' is a bad directive"),
        (CSV, "y --decimal ;", "--decimal: give one of ',', '.'"),
        (CSV, "y --thousands _", "--thousands: give one of ',', '.', \"'\", ' '"),
        (CSV, "y --dates q:%Y", "--dates names 'q', but there is no such column"),
        (CSV, "y --splits RssSplits(max_split_features=0)", "parameter of RssSplits"),
        (CSV, "y --splits RssSplits(most=1)", "error: --splits must be"),
        (CSV, "y --splits Ridge()", "error: --splits must be"),
        (CSV, "y --splits open(0)", "error: --splits must be"),
        (CSV, "y --model booster --prune bic", "--prune does not go with a SecretBo"),
        (PEOPLE, "cost --weight person", "must be numbers"),
        (PEOPLE, "cost --time person", "must be numbers or dates"),
        (PEOPLE, "cost --group cost", "is the target"),
        (PEOPLE, "cost --group person --time sold", "give one"),
        (PEOPLE, "cost --weight weight", "no such column"),
        (PEOPLE, "cost --group person --drop person", "which is left out"),
        (PEOPLE, "cost --preset paper --classes", "paper does not go with a SecretCl"),
        (PEOPLE, "cost --calibrate 0.2 --classes", "--calibrate needs a target of num"),
        (PEOPLE, "cost --leaf ridge --classes", "--leaf must be"),
    ],
)
def test_what_is_wrong_with_a_fit_is_said_in_one_line(
    run, tmp_path, monkeypatch, content, arguments, message
):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(content)
    assert_fails(run("fit", "t.csv", *arguments.split()), message)


@pytest.mark.parametrize(
    ("fault", "told", "code"),
    [
        (KeyboardInterrupt(), "error: interrupted", 130),
        (MemoryError(), "out of memory; fit a sample of the rows", 2),
        (IndexError("axis 1"), "a fault of secret-jax itself: IndexError: axis 1", 1),
        (ImportError("no name"), "a fault of secret-jax itself: ImportError: no", 1),
    ],
)
def test_a_fault_is_one_line(run, table, monkeypatch, fault, told, code):
    def broken(*_, **__):
        raise fault

    monkeypatch.setattr(SecretRegressor, "fit", broken)
    assert_fails(run("fit", table, "cost"), told, code=code)


# What stands beside rows


def rows_of(frame: pd.DataFrame, **beside: str) -> Rows:
    named = {role: frame[name] for role, name in beside.items()}
    return Rows(frame[["length"]], frame["cost"], False, named)


def test_groups_are_held_out_as_a_whole():
    frame = with_people()
    for seed in range(3):
        test, training = rows_of(frame, group="person").drawn(60, seed)
        assert test.beside["group"].nunique() == 6  # a fifth of thirty
        assert len(test.y) + len(training.y) == len(frame)
        people = [set(rows.beside["group"]) for rows in (test, training)]
        assert not people[0] & people[1]


def test_the_latest_rows_are_held_out():
    test, training = rows_of(with_people(), time="sold").drawn(60, 0)
    assert 60 <= len(test.y) < 70
    assert training.beside["time"].max() < test.beside["time"].min()
    alike = with_people().assign(sold=1.0)
    with pytest.raises(ValueError, match="one group or time"):
        rows_of(alike, time="sold").drawn(60, 0)


def test_groups_and_stretches_of_time_choose_the_size():
    frame = with_people()
    assert rows_of(frame).groups is None
    assert rows_of(frame, group="person").groups.equals(frame["person"])
    stretch = rows_of(frame, time="sold").groups
    assert stretch.nunique() == 20
    assert stretch[frame["sold"].argsort()].is_monotonic_increasing
    assert (stretch.groupby(frame["sold"]).nunique() == 1).all()


def test_weights_are_rows_and_a_group_is_no_column(people, capsys):
    roles = ("--weight", "count", "--group", "person")
    model = SecretRegressor.load(fitted(people, "cost", *QUICK, *roles))
    assert [*model.feature_names_in_] == ["length", "sold"]
    _, training = rows_of(with_people(), group="person", weight="count").drawn(60, 0)
    weight = training.beside["weight"]
    assert model.tree_.weight[0] == pytest.approx(len(weight))
    mean = np.average(training.y, weights=weight)
    assert model.tree_.schema.target_centers[0] == pytest.approx(mean, rel=1e-5)
    assert mean != pytest.approx(training.y.mean(), rel=1e-3)
    assert "MAE" in capsys.readouterr().out


def test_rows_of_no_weight_are_not_held_out(tmp_path, capsys):
    frame = with_people()
    counted = frame["person"].isin(["person 0", "person 1", "person 2"])
    frame.assign(count=1 * counted).to_csv(tmp_path / "table.csv", index=False)
    roles = ("--weight", "count", "--group", "person")
    path = fitted(tmp_path / "table.csv", "cost", *QUICK, *roles)
    said = capsys.readouterr()
    n_test = int(re.findall(r"measuring on (\d+) rows", said.err)[0])
    n_training = SecretRegressor.load(path).tree_.weight[0]
    assert 0 < n_test == counted.sum() - n_training
    assert "nan" not in said.out.lower()


def test_a_booster_is_fitted_and_predicts(run, people, capsys):
    report = people.with_name("r")
    options = ("--model", "booster", "--max-leaf-nodes", 4, "--report", report)
    out = fitted(people, "cost", "--drop", "person", *options)
    assert "a booster of" in capsys.readouterr().out
    errors = json.loads((report / "errors.json").read_text())["errors"]
    own, mean, straight = (score["mae"] for score in errors.values())
    assert own < 0.5 * straight  # of |length|, which no plane fits
    assert own < 0.5 * mean
    predicted = pd.read_csv(io.StringIO(run("predict", out, people)[1]))
    truth = with_people()["cost"]
    assert np.corrcoef(predicted["prediction"], truth)[0, 1] > 0.95
    assert_fails(run("show", out, people), "which has no explain")
    for language in ("dot", "sql"):
        message = f"is not written in {language}; fit with --model tree"
        assert_fails(run("export", out, language), message)


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
    report = ("--report", path.with_name("report"))
    return path, frame, fitted(path, "kind", "--drop", "number", *CLASSES, *report)


def test_a_row_of_weight_two_is_measured_twice(flowers):
    _, frame, path = flowers
    rows, model = frame[frame["kind"] != "NA"], SecretClassifier.load(path)
    weight = np.where(rows["kind"] == "virginica", 3, 1)
    X, y = rows[["a", "b", "c", "d"]], rows["kind"]
    copies = Rows(X.loc[X.index.repeat(weight)], y.repeat(weight))
    weighted = Rows(X, y, beside={"weight": pd.Series(weight)})
    assert measured(model, weighted) == pytest.approx(measured(model, copies))
    assert measured(model, Rows(X, y)) != pytest.approx(measured(model, copies))


def test_a_saved_classifier_predicts_and_is_measured(flowers, run):
    path, frame, saved = flowers
    model, report = SecretClassifier.load(saved), saved.with_name("report")
    code, out, _ = run("predict", saved, path)
    assert code == 0
    written = pd.read_csv(io.StringIO(out))
    X = frame[["a", "b", "c", "d"]]
    np.testing.assert_array_equal(written["prediction"], model.predict(X))
    columns = [f"probability of {name}" for name in model.classes_]
    np.testing.assert_allclose(written[columns], model.predict_proba(X), atol=1e-6)
    scores = json.loads((report / "errors.json").read_text())["errors"]
    own = scores["SECRET tree"]
    assert {"error", "log_loss", "leaves"} == set(own)
    files = sorted(path.name for path in report.iterdir())
    assert files == ["errors.json", "report.html", "tree.png"]
    page = (report / "report.html").read_text()
    for words in (f"{100 * (1 - own['error']):.1f} %", f"{own['log_loss']:.3g}"):
        assert f"<b>{words}</b>" in page
    assert "logistic regression" in page


def test_numbers_are_classes_where_that_is_said(flowers, run):
    arguments = ("fit", flowers[0], "number", "--drop", "kind", *CLASSES)
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


# Saved models


def test_the_model_is_that_of_the_plain_table(run, model, tmp_path):
    path = tmp_path / "plain.parquet"
    plain_table().to_parquet(path)
    result = run("fit", path, "cost", *QUICK, "--id", "id")
    assert result[0] == 0, result[2]
    assert run("show", model)[1].strip() in result[1]


def test_other_files_are_read_as_the_first_one_was(run, model, tmp_path):
    # Alone each of these rows would be ambiguous, or numbers where text was.
    frame = as_people_write(plain_table())
    digits = (frame["grade"] == "1") & (plain_table()["sold"].dt.day <= 12)
    frame[digits].to_csv(tmp_path / "some.csv", index=False)
    code, out, err = run("predict", model, tmp_path / "some.csv")
    assert code == 0, err
    found = pd.read_csv(io.StringIO(out))["prediction"].to_numpy()
    assert digits.sum() > 10
    assert found == pytest.approx(expected(model)[digits], rel=1e-6)
    assert "not used by the model: id and cost" in err


def test_what_is_wrong_with_a_prediction_is_said_in_one_line(
    run, table, model, tmp_path
):
    for words in (("predict", table, table), ("show", table)):
        assert_fails(run(*words), "is not a secret_jax model file")
    assert_fails(run("show", model.with_name("tabel.model")), "No such file")
    assert_fails(run("predict", model, model), "is a model, not a table")
    assert_fails(run("show", tmp_path), "Is a directory")
    assert_fails(run("show", model, "--plot", "tree.xyz"), "ends like no picture")
    assert_fails(run("demo", "--out", "tree"), "'tree' ends like no picture")
    assert_fails(run("predict", model, table, "--keep", "ids"), "did you mean 'id'")
    assert_fails(run("predict", model, table, "--interval", 1), "coverage")
    frame, path = as_people_write(plain_table()), tmp_path / "rows.csv"
    for changed, message in (
        (frame.rename(columns={"length": "Length"}), "the column 'length', .* 'Length"),
        (frame.assign(length=np.inf), "'length' holds 'inf' in line 2"),
        (frame.assign(length="1.234.567"), r"'length' holds '1.234.567' in line 2"),
        (frame.assign(weight="3 lb"), "'3 lb' in line 2 .300 of 300 .*, where numbers"),
        (frame.assign(sold="12/31/2021"), r"'sold' holds '12/31/2021' in line 2"),
    ):
        changed.to_csv(path, index=False)
        assert_fails(run("predict", model, path), message)
    frame.assign(prediction=1).to_csv(path, index=False)
    clash = "--keep names 'prediction', as a column of the output is"
    assert_fails(run("predict", model, path, "--keep", "prediction"), clash)


def test_an_unseen_category_is_one_warning(run, model, tmp_path):
    frame = as_people_write(plain_table()).assign(grade="new")
    frame.to_csv(tmp_path / "unseen.csv", index=False)
    code, out, err = run("predict", model, tmp_path / "unseen.csv")
    assert code == 0
    assert pd.read_csv(io.StringIO(out))["prediction"].notna().all()
    (warning,) = [line for line in err.splitlines() if "never saw" in line]
    assert "column 'grade' holds 'new'" in warning


def test_predictions_with_ids_intervals_and_leaves(run, model, table, tmp_path):
    out_file = tmp_path / "out.csv"
    code, out, err = run(
        *("predict", model, table, "--keep", "id,sold", "--interval", 0.8, "--leaf"),
        *("--out", out_file),
    )
    assert (code, out) == (0, ""), err
    found = pd.read_csv(out_file)
    columns = ["id", "sold", "prediction", "lower", "upper", "leaf"]
    assert list(found.columns) == columns
    assert found["id"].tolist() == list(range(1, N + 1))
    assert found["sold"][0] == f"{plain_table()['sold'][0]:%d/%m/%Y}"
    loaded, X = SecretRegressor.load(model), plain_table()[COLUMNS]
    for name, bound in zip(
        ("lower", "upper"), loaded.predict_interval(X, coverage=0.8), strict=True
    ):
        assert found[name].to_numpy() == pytest.approx(bound, rel=1e-6, abs=1e-3)
    assert found["leaf"].tolist() == loaded.apply(X).tolist()
    digits = [
        len(cell.strip("-").replace(".", "").lstrip("0"))
        for cell in pd.read_csv(out_file, dtype=str)["prediction"]
    ]
    assert max(digits) <= 7
    assert "not used by the model: cost" in err


def test_explanations_name_lines_and_values_and_go_to_a_file(
    run, model, table, tmp_path
):
    code, out, err = run("show", model, table, "--rows", 2)
    assert code == 0
    assert out.startswith("line 2: cost = ")
    assert "\nline 3: cost = " in out
    assert "line 4" not in out
    assert "298 more rows" in err
    path = tmp_path / "why.csv"
    assert run("show", model, table, "--out", path)[0] == 0
    frame = pd.read_csv(path)
    sums = frame.drop(columns=["prediction", "leaf", "path"]).sum(axis=1)
    assert sums.to_numpy() == pytest.approx(expected(model), rel=1e-5, abs=0.1)


def test_another_fit_forgets_how_files_were_read(model):
    loaded = SecretRegressor.load(model)
    assert loaded.reading_["formats"]["length"]["thousands"] == ","
    X = np.arange(40.0)[:, None]
    assert not hasattr(loaded.fit(X, X[:, 0] ** 2), "reading_")


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_each_row_of_a_file_has_a_prediction(run, model, tmp_path, kind):
    frame = as_people_write(plain_table()).head(6).astype(object)
    frame.iloc[[1, 4]] = None
    path = tmp_path / f"gaps.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
        text = path.read_text()
        path.write_text(text.replace("\n,,,,,\n", "\n\n", 1) + "\n\n")
    else:
        frame.to_excel(path, index=False)
    code, out, err = run("predict", model, path, "--keep", "id")
    assert code == 0, err
    found = pd.read_csv(io.StringIO(out))
    assert found["id"].isna().tolist() == frame["id"].isna().tolist()
    full = frame["id"].notna().to_numpy()
    assert found["prediction"].notna().all()
    assert found["prediction"][full].to_numpy() == pytest.approx(
        expected(model)[:6][full], rel=1e-6
    )


def test_models_of_python_are_used_on_files(run, tmp_path):
    X = plain_table().drop(columns=["id", "cost"])
    size = pd.Categorical.from_codes(np.arange(N) % 3, ["small", "mid", "big"], True)
    X = X.assign(new=X["weight"] > 50, size=size)
    y = plain_table()["cost"] + 3000.0 * size.codes + 500.0 * X["new"]
    quick: dict = {"oblique": False, "splits": "cart", "leaf": "linear", "prune": None}
    fitted = SecretRegressor(**quick).fit(X, y)
    model, path = tmp_path / "python.model", tmp_path / "rows.csv"
    X.to_csv(path, index=False)

    def predictions(truth: np.ndarray) -> None:
        code, out, err = run("predict", model, path)
        assert code == 0, err
        found = pd.read_csv(io.StringIO(out)).to_numpy()
        assert found == pytest.approx(truth.reshape(N, -1), rel=1e-5, abs=1)

    fitted.save(model)
    predictions(fitted.predict(X))
    assert run("show", model)[1].strip() == fitted.export_text().strip()
    assert run("show", model, path, "--rows", 1)[1].startswith("line 2: y = ")
    assert "def predict" in run("export", model, "python")[1]
    assert run("export", model, "dot")[1].startswith("digraph")
    assert_fails(run("export", model, "dot", "--name", "t"), "do not go with dot")
    both = pd.DataFrame({"up": y, "down": -y})
    fitted = SecretRegressor(**quick).fit(X, both)
    fitted.save(model)
    predictions(fitted.predict(X))
    # Without names the columns are those of the file, in order.
    numbers = X[["length", "weight"]].to_numpy()
    fitted = SecretRegressor(**quick).fit(numbers, y)
    fitted.save(model)
    message = "has 6 columns, but the model was fitted without names on 2"
    assert_fails(run("predict", model, path), message)
    X[["length", "weight"]].to_csv(path, index=False)
    predictions(fitted.predict(numbers))


def test_the_base_line_of_a_thousand_names_is_that_of_all_its_columns(rng):
    """Sparse sums are those of dense ones, and no table of all names is made."""
    names = np.array([f"n{i:04}" for i in rng.integers(0, 400, 2000)], object)
    effect = {name: rng.normal() for name in np.unique(names)}
    frame = pd.DataFrame({"name": pd.Categorical(names), "x": rng.normal(size=2000)})
    y = pd.Series([effect[n] for n in names] + frame["x"], name="y")
    test, training = Rows(frame, y).drawn(400, 0)
    schema = SecretRegressor(max_depth=0).fit(training.X, training.y)._schema
    found = commands._baselines(schema, training, test)["linear regression"]
    dense = pd.get_dummies(frame, dtype=float)
    model = LinearRegression().fit(dense.loc[training.X.index], training.y)
    expected = model.predict(dense.loc[test.X.index]) - test.y
    # An iterative solver ends within some 1e-5 of the target's deviation.
    assert found["mae"] == pytest.approx(float(expected.abs().mean()), abs=1e-3)
    kinds = []
    with pytest.MonkeyPatch.context() as patched:
        fit = LinearRegression.fit
        patched.setattr(
            LinearRegression,
            "fit",
            lambda own, X, *more, **named: (
                kinds.append(issparse(X)),
                fit(own, X, *more, **named),
            )[1],
        )
        commands._baselines(schema, training, test)
    assert kinds == [True]


def test_a_warning_is_told_once(capsys, monkeypatch):
    def twice(arguments: argparse.Namespace) -> None:
        for _ in range(2):
            warnings.warn("odd", UserWarning, stacklevel=1)
            with warnings.catch_warnings():  # as libraries do
                warnings.simplefilter("always")
                warnings.warn("odd", UserWarning, stacklevel=1)

    monkeypatch.setattr(commands, "demo", twice)
    assert main(["demo"]) == 0
    assert capsys.readouterr().err.count("warning: odd") == 1
