"""The command line on folders of Parquet: fitted and predicted in parts."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from stream_tables import mixed_table, write_parts

from secret_jax import SecretRegressor
from secret_jax.cli.main import main
from secret_jax.stream.batches import Wanted
from secret_jax.stream.sources import PartOfRows, opened

FIT = ("y", "--stream", "--drop", "w,b", "--max-depth", "1", "--quiet")
SEARCH = ("--splits", "RssSplits(max_samples=64)", "--oblique", "no")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return mixed_table().head(20_000)


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory) -> Path:
    return write_parts(tmp_path_factory.mktemp("cli") / "parts", table, [7000, 20])


@pytest.fixture(scope="module")
def saved(folder) -> Path:
    path = folder.parent / "model"
    assert main(["fit", str(folder), *FIT, *SEARCH, "--out", str(path)]) == 0
    return path


def test_errors_are_those_on_rows_that_a_hash_held_out(folder, table, saved, capsys):
    arguments = ["fit", str(folder), *FIT, *SEARCH, "--test-fraction", "0.3"]
    assert main([*arguments, "--out", str(saved.with_name("other"))]) == 0
    out = capsys.readouterr().out
    model = SecretRegressor.load(saved.with_name("other"))
    names = tuple(model.tree_.schema.input_names)
    source = opened(folder, Wanted(("y",), None, names))
    parts = [
        np.concatenate(
            [
                batch.targets[:, 0]
                for batch in PartOfRows(source, 0.3, inside=inside, seed=0).batches()
            ]
        )
        for inside in (True, False)
    ]
    both = np.sort(np.concatenate(parts))
    assert np.array_equal(both, np.sort(table["y"]))
    # Five standard deviations of a binomial count.
    assert abs(len(parts[0]) - 6000) < 5 * np.sqrt(20_000 * 0.3 * 0.7)
    assert model.tree_.weight[0] == len(parts[1])
    held_out = table[table["y"].isin(parts[0])]
    error = model.predict(held_out[list(names)]) - held_out["y"]
    assert f"{len(parts[0]):,} rows held out" in out
    line = next(line for line in out.splitlines() if "SECRET tree" in line)
    expected = 1 - np.mean(error**2) / np.var(held_out["y"])
    assert float(line.split()[2]) == pytest.approx(expected, abs=6e-4)
    assert float(line.split()[3]) == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-3)


def test_predictions_of_a_folder(folder, table, saved, tmp_path):
    out = tmp_path / "out.parquet"
    arguments = ["--quiet", "predict", str(saved), str(folder), "--stream"]
    assert main([*arguments, "--keep", "y", "--out", str(out)]) == 0
    found = pd.read_parquet(out)
    model = SecretRegressor.load(saved)
    expected = model.predict(table[list(model.tree_.schema.input_names)])
    assert np.array_equal(found["prediction"], expected)
    assert np.array_equal(found["y"], table["y"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["y", "--refit-all"], "--refit-all does not go with --stream"),
        (["y", "--drop", "nothing"], "nothing"),
        (["z"], "has no column 'z'"),
    ],
)
def test_what_does_not_go_together(folder, arguments, message, capsys):
    given = ["fit", str(folder), "--stream", *arguments]
    assert main(given) == 2
    assert message in capsys.readouterr().err


def test_a_stream_of_predictions_needs_a_file(folder, saved, capsys):
    assert main(["predict", str(saved), str(folder), "--stream"]) == 2
    assert "--out FILE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("streamed", "remedy"),
    [(True, "Convert it first in the files"), (False, "by --dates 'sold'")],
)
def test_warnings_name_flags_in_the_place_of_python(tmp_path, capsys, streamed, remedy):
    days = [(f"2021-03-{i:02}", f"{i}.12.2021")[i % 2] for i in range(1, 31)] * 2
    x = np.arange(60.0)
    X = pd.DataFrame({"sold": days, "x": x, "y": x})
    X.to_parquet(tmp_path / "t.parquet")
    options = ["--stream"] if streamed else []
    assert main(["--quiet", "fit", str(tmp_path / "t.parquet"), "y", *options]) == 0
    (told,) = [line for line in capsys.readouterr().err.splitlines() if "sold" in line]
    assert f"{remedy}, or name it in --categorical if" in told
    assert "pandas" not in told
