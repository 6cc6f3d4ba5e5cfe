"""The command line end to end: results, progress, files, and one line for a failure."""

import argparse
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from refusals import assert_fails
from sklearn.utils._param_validation import StrOptions

from secret_jax import Ridge, RssSplits, SecretClassifier
from secret_jax.cli import commands
from secret_jax.cli.main import build_parser, main
from secret_jax.estimators.regressor import SecretRegressor
from secret_jax.runtime.values import constraints_of
from secret_jax.tree.file import load_model

QUICK = ("--splits", "cart", "--oblique", "no", "--leaf", "linear", "--distill", "no")
COLUMNS = ["length", "width", "grade", "batch no"]


def make_table(n_rows: int = 300) -> pd.DataFrame:
    """Two straight lines in ``length`` that meet at 0, and an offset per grade."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "length": rng.uniform(-3, 3, n_rows),
            "width": rng.normal(size=n_rows),
            "grade": rng.choice(["1", "x", "y"], n_rows),
            "batch no": rng.integers(0, 4, n_rows),
        }
    )
    kink = np.where(frame["length"] > 0, 4.0, -4.0) * frame["length"]
    offset = (frame["grade"] == "x") + 2.0 * (frame["grade"] == "y")
    frame["cost"] = kink + offset + 0.1 * rng.normal(size=n_rows)
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="module")
def table(folder: Path) -> Path:
    path = folder / "table.csv"
    make_table().to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def model(folder: Path, table: Path) -> Path:
    path = folder / "table.model"
    report = ("--report", folder / "report")
    arguments = ["fit", table, "cost", "--out", path, *report, *QUICK]
    assert main([str(a) for a in arguments]) == 0
    return path


# As a process


def test_a_reader_that_stops_reading_is_no_failure(model, monkeypatch, capsys):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", pipe)
        assert main(["show", str(model)]) == 0
    assert capsys.readouterr().err == ""


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


# fit


def test_fit_finds_the_kink_that_least_squares_misses(table, model):
    report = model.with_name("report")
    content = json.loads((report / "errors.json").read_text())
    scores = content["errors"]
    straight = scores["linear regression"]
    assert straight["r2"] < 0.2
    assert scores["SECRET tree"]["mse"] < 0.2 * straight["mse"]
    assert abs(scores["mean"]["r2"]) < 0.2
    assert (content["n_training"], content["n_test"]) == (240, 60)
    assert content["parameters"]["random_state"] == 0
    assert (report / "tree.png").read_bytes().startswith(b"\x89PNG")
    page = (report / "report.html").read_text(encoding="utf-8")
    assert f"<title>cost from {Path(table).name}</title>" in page
    assert "linear regression" in page
    assert f"<b>{scores['SECRET tree']['rmse']:.3g}</b>" in page


def test_refit_all_saves_a_tree_of_all_rows_and_says_so(run, table, model, tmp_path):
    path = tmp_path / "all.model"
    code, out, _ = run(
        *("fit", table, "cost", "--prune", "none", *QUICK),
        *("--refit-all", "--out", path),
    )
    assert code == 0
    assert "SECRET tree of 240 rows" in out
    assert load_model(path, SecretRegressor).tree_.weight[0] == 300
    assert load_model(model, SecretRegressor).tree_.weight[0] <= 240


def test_errors_are_those_on_rows_that_no_method_saw(table, model):
    content = json.loads((model.with_name("report") / "errors.json").read_text())
    frame = pd.read_csv(table, dtype={"grade": str})
    X = pd.get_dummies(frame[COLUMNS], dtype=float).assign(one=1.0).to_numpy()
    y, rows = frame["cost"].to_numpy(), np.random.default_rng(0).permutation(300)
    test, training = rows[:60], np.sort(rows[60:])
    coefficients = np.linalg.lstsq(X[training], y[training], rcond=None)[0]
    tree = load_model(model, SecretRegressor).predict(frame[COLUMNS])
    for name, predicted in (
        ("mean", y[training].mean()),
        ("linear regression", X[test] @ coefficients),
        ("SECRET tree", tree[test]),
    ):
        found, expected = content["errors"][name], np.mean((predicted - y[test]) ** 2)
        assert found["mse"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "--leaf constant --splits secret --prune none --min-samples-split 0.2 "
            "--min-samples-leaf 7 --max-leaf-nodes 6 --max-depth 3 --seed 5 --oblique "
            "no --categorical grade --split-only width --drop length",
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
                split_features=["width"],
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
def test_options_reach_the_estimator(run, table, tmp_path, words, expected):
    path = tmp_path / "options.model"
    code, _, err = run("fit", table, "cost", "--out", path, *words.split())
    assert code == 0, err
    found = load_model(path, SecretRegressor)
    assert found.get_params() == expected.get_params()
    left = [name for name in COLUMNS if name != "length" or "--drop" not in words]
    assert found.feature_names_in_.tolist() == left


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("RssSplits(max_split_features=0)", "max_split_features' parameter of RssSpl"),
        ("RssSplits(most=1)", "error: --splits must be"),
        ("Ridge()", "error: --splits must be"),
        ("open(0)", "error: --splits must be"),
    ],
)
def test_values_that_are_none_are_refused(run, table, given, message):
    assert_fails(run("fit", table, "cost", "--splits", given), re.escape(message))


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


# predict and show


def test_an_unseen_category_is_one_warning(run, model, tmp_path):
    frame = make_table(20).assign(grade="new")
    frame.to_csv(tmp_path / "unseen.csv", index=False)
    code, out, err = run("predict", model, tmp_path / "unseen.csv")
    assert code == 0
    assert pd.read_csv(io.StringIO(out))["prediction"].notna().all()
    warning = [line for line in err.splitlines() if "never saw" in line]
    assert len(warning) == 1
    assert "column 'grade' holds 'new'" in warning[0]


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


# Failures


CSV = "a,b,sex,y\n" + "1,2,M,3\n2,1,F,5\n4,2,M,3\n5,1,F,5\n" * 3


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"a,y\n1,\n2,3\n", "y", "1 rows are too few to hold some out"),
        (b"a,y\n1,2\ninf,3\n", "y", "'a' holds 'inf' in line 3"),
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
    ],
)
def test_what_is_wrong_with_a_fit_is_said_in_one_line(
    run, tmp_path, monkeypatch, content, arguments, message
):
    monkeypatch.chdir(tmp_path)
    content = content.encode() if isinstance(content, str) else content
    Path("t.csv").write_bytes(content)
    assert_fails(run("fit", "t.csv", *arguments.split()), message)


def test_what_is_wrong_with_a_prediction_is_said_in_one_line(
    run, table, model, tmp_path
):
    assert_fails(run("predict", table, table), "is not a secret_jax model file")
    assert_fails(run("show", table), "is not a secret_jax model file")
    near = model.with_name("tabel.model")
    assert_fails(run("show", near), "No such file")
    assert_fails(run("predict", model, model), "is a model, not a table")
    assert_fails(run("show", tmp_path), "Is a directory")
    assert_fails(run("show", model, "--plot", "tree.xyz"), "ends like no picture")
    assert_fails(run("demo", "--out", "tree"), "'tree' ends like no picture")
    frame = make_table(5)
    path = tmp_path / "rows.csv"
    frame.rename(columns={"length": "Length"}).to_csv(path, index=False)
    assert_fails(run("predict", model, path), "needs the column 'length', .* 'Length'")
    frame.assign(length=np.inf).to_csv(path, index=False)
    assert_fails(run("predict", model, path), "'length' holds 'inf' in line 2")
    frame.assign(length="long").to_csv(path, index=False)
    assert_fails(
        run("predict", model, path),
        "'long' in line 2 .5 of 5 values., where numbers",
    )


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
