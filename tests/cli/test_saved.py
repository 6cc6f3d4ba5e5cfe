"""Commands for saved models: their files are read as the one of the fit was."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from refusals import assert_fails

from secret_jax import SecretRegressor
from secret_jax.cli.main import main

QUICK = ("--splits", "cart", "--oblique", "no", "--leaf", "linear", "--distill", "no")
N = 300


def plain_table() -> pd.DataFrame:
    """A kink in ``length``, an offset in the second half of each year."""
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
    kink = 4.0 * frame["length"].abs()
    late = 5000.0 * (frame["sold"].dt.month > 6)
    frame["cost"] = np.round(kink + late + 20 * frame["weight"])
    return frame


def as_people_write(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(
        length=frame["length"].map("{:,.0f}".format),
        weight=frame["weight"].map("{} kg".format),
        sold=frame["sold"].dt.strftime("%d/%m/%Y"),
        cost=frame["cost"].map("${:,.0f}".format),
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "table.csv"
    as_people_write(plain_table()).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def model(table: Path) -> Path:
    path = table.with_name("cost.model")
    arguments = ["fit", table, "cost", "--out", path, *QUICK]
    assert main([str(argument) for argument in arguments]) == 0
    return path


def expected(model: Path) -> np.ndarray:
    frame = plain_table()[["length", "weight", "sold", "grade"]]
    return SecretRegressor.load(model).predict(frame)


def test_the_model_is_that_of_the_plain_table(run, model, tmp_path):
    path = tmp_path / "plain.parquet"
    plain_table().to_parquet(path)
    result = run("fit", path, "cost", *QUICK, "--id", "id")
    assert result[0] == 0, result[2]
    assert run("show", model)[1].strip() in result[1]


def test_other_files_are_read_as_the_first_one_was(run, model, table, tmp_path):
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


def test_a_cell_that_is_written_otherwise_is_an_error_not_another_number(
    run, model, tmp_path
):
    frame = as_people_write(plain_table())
    path = tmp_path / "other.csv"
    frame.assign(sold="12/31/2021").to_csv(path, index=False)
    assert_fails(run("predict", model, path), r"'sold' holds '12/31/2021' in line 2")
    frame.assign(weight="3 lb").to_csv(path, index=False)
    assert_fails(run("predict", model, path), "'3 lb' in line 2 .300 of 300")
    frame.assign(length="1.234.567").to_csv(path, index=False)
    assert_fails(run("show", model, path), r"'length' holds '1.234.567' in line 2")


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
    loaded = SecretRegressor.load(model)
    X = plain_table()[["length", "weight", "sold", "grade"]]
    lower, upper = loaded.predict_interval(X, coverage=0.8)
    assert found["lower"].to_numpy() == pytest.approx(lower, rel=1e-6, abs=1e-3)
    assert found["upper"].to_numpy() == pytest.approx(upper, rel=1e-6, abs=1e-3)
    assert found["leaf"].tolist() == loaded.apply(X).tolist()
    digits = [
        len(cell.strip("-").replace(".", "").lstrip("0"))
        for cell in pd.read_csv(out_file, dtype=str)["prediction"]
    ]
    assert max(digits) <= 7
    assert "not used by the model: cost" in err


def test_rows_for_intervals_are_held_out_or_set_aside(run, table, tmp_path):
    path = tmp_path / "aside.model"
    few = ("fit", table, "cost", *QUICK, "--max-depth", 0, "--out", path)
    code, _, err = run(*few)
    assert code == 0
    assert "intervals are calibrated on 60 rows" in err
    assert len(SecretRegressor.load(path).conformity_scores_) == 60
    code, _, err = run(*few, "--refit-all")
    assert "calibrated" not in err
    message = "--calibrate 0.2 or without --refit-all"
    assert_fails(run("predict", path, table, "--interval", 0.9), message)
    code, _, err = run(*few, "--refit-all", "--calibrate", 0.1)
    assert "intervals are calibrated on 30 rows" in err
    loaded = SecretRegressor.load(path)
    assert len(loaded.conformity_scores_) == 30
    assert loaded.tree_.weight[0] == 270
    code, out, _ = run("predict", path, table, "--interval", 0.9)
    assert out.splitlines()[0] == "prediction,lower,upper"


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


def test_another_fit_forgets_how_files_were_read(run, model, table):
    loaded = SecretRegressor.load(model)
    assert loaded.reading_["formats"]["length"]["thousands"] == ","
    X = np.arange(40.0)[:, None]
    assert not hasattr(loaded.fit(X, X[:, 0] ** 2), "reading_")
    assert_fails(run("predict", model, table, "--keep", "ids"), "did you mean 'id'")
    clash = "--keep names 'prediction', as a column of the output is"
    path = model.with_name("clash.csv")
    as_people_write(plain_table()).assign(prediction=1).to_csv(path, index=False)
    assert_fails(run("predict", model, path, "--keep", "prediction"), clash)
    assert_fails(run("predict", model, table, "--interval", 1), "coverage")


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
