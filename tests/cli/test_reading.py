"""Columns of files: numbers, dates, categories, names of rows and missing values.

What is expected was written down by hand, or was put into the files by other programs.
"""

import io
import json
import os
import sys
from argparse import Namespace
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from secret_jax.cli.messages import CommandError
from secret_jax.cli.reading.columns import Texts
from secret_jax.cli.reading.dates import DateFormat
from secret_jax.cli.reading.files import read_file
from secret_jax.cli.reading.learning import learn_reading
from secret_jax.cli.reading.numbers import NumberFormat
from secret_jax.cli.reading.table import Reading
from secret_jax.cli.reading.targets import read_target


class Learned(NamedTuple):
    reading: Reading
    left_out: tuple[str, ...]
    notes: tuple[str, ...]


def learned(
    path: Path, content: str, target: str = "y", **options
) -> tuple[pd.DataFrame, np.ndarray, Learned]:
    """A table that was written, read as the command line does."""
    path = path / "table.csv"
    path.write_text(content, encoding="utf-8")
    return learned_of(path, target, **options)


_OPTIONS = dict.fromkeys(("text", "number", "categorical", "split_only"), ())
_OPTIONS |= dict.fromkeys(("id", "ignore_case", "na"), ())


def learned_of(
    path: Path, target: str = "y", **options
) -> tuple[pd.DataFrame, np.ndarray, Learned]:
    table = read_file(str(path), {*options.get("text", ()), *options.get("dates", ())})
    given = _OPTIONS | {"dates": {}, "thousands": None, "decimal": None} | options
    names = [name for name in table.frame.columns if name != target]
    reading, found = learn_reading(table, target, names, Namespace(**given))
    rows, y, notes = read_target(table, target, reading)
    kept = [name for name in names if name in reading.formats]
    left_out = tuple(name for name in names if name not in kept)
    X = reading.apply(rows, kept)
    return X, y, Learned(reading, left_out, (*table.notes, *found, *notes))


def lines(*columns: list, header: str, separator: str = ",") -> str:
    """A file of columns; cells with the separator are quoted."""
    rows = zip(*columns, strict=True)
    quoted = [
        separator.join(
            f'"{cell}"' if separator in str(cell) else str(cell) for cell in row
        )
        for row in rows
    ]
    return "\n".join([header, *quoted]) + "\n"


N = 40
Y = list(range(100, 100 + N))


def test_each_column_that_is_not_plain_is_said_in_a_line(tmp_path):
    X, y, found = learned(
        tmp_path,
        lines(
            [f"{24000 + 10 * i:,}" for i in range(N)],
            [f"{20 + i % 9} yrs" for i in range(N)],
            [f"{i / 7:.1f}%" for i in range(N)],
            [f"2020-{1 + i % 12:02}-15" for i in range(N)],
            [f"02{130 + i % 3}" for i in range(N)],
            ["a", "b"] * (N // 2),
            [f"${v}" for v in Y],
            header="land,age,share,sold,zip,kind,y",
        ),
    )
    assert list(found.notes) == [
        "land: numbers with commas between thousands; '24,000' is 24000",
        "age: numbers with the unit 'yrs'; '20 yrs' is 20",
        "share: numbers with the unit '%'; '0.0%' is 0",
        "sold: dates (year-month-day): year, month, weekday and days; '2020-01-15' is "
        "one",
        "zip: codes with leading zeros, 3 categories",
        "y: numbers with the unit '$'; '$100' is 100",
    ]
    assert y.tolist() == Y
    assert X["land"].tolist() == [24000 + 10 * i for i in range(N)]
    assert X["age"].tolist() == [20 + i % 9 for i in range(N)]
    assert X["sold"].dt.month.tolist() == [1 + i % 12 for i in range(N)]
    assert set(X["zip"]) == {"02130", "02131", "02132"}


def test_a_plain_table_is_read_without_a_word(tmp_path):
    content = lines([0.5, 1] * (N // 2), ["a", "b"] * (N // 2), Y, header="x,k,y")
    X, _, found = learned(tmp_path, content)
    assert found.notes == ()
    assert X["x"].tolist() == [0.5, 1.0] * (N // 2)


def test_names_of_rows_are_left_out_unless_they_are_wanted(tmp_path):
    content = lines(
        list(range(N)),
        list(range(1, N + 1)),
        [f"house {i}" for i in range(N)],
        [f"0{7000 + i}" for i in range(N)],
        [5000 + 7 * ((3 * i) % N) for i in range(N)],
        list(range(N)),
        [7] * N,
        Y,
        header=",id,name,code,customer_id,t,width,y",
    )
    X, _, found = learned(tmp_path, content)
    out = ("Unnamed: 0", "id", "name", "code", "customer_id")
    assert found.left_out == out
    assert "id: left out, it numbers the rows; --number 'id' or" in found.notes[1]
    assert "name: left out, it has 40 different values in 40 rows" in found.notes[2]
    assert any(
        note.startswith("t: counts the rows; if it only") for note in found.notes
    )
    assert list(X.columns) == ["t", "width"]
    X, _, found = learned(
        tmp_path, content, number=("id", "code"), text=("name",), id=("t",)
    )
    assert found.left_out == ("Unnamed: 0", "customer_id", "t")
    assert X["code"].tolist() == [7000.0 + i for i in range(N)]
    assert X["name"].tolist()[:2] == ["house 0", "house 1"]
    _, _, found = learned(
        tmp_path, content, split_only=("id", "code"), categorical=("code",)
    )
    assert found.left_out == ("Unnamed: 0", "name", "customer_id")


def test_the_usual_marks_are_missing_and_said_and_others_can_be_named(tmp_path):
    marks = ["?", "-", "NA", "n/a", "null", "", "-999", "3"]
    content = lines(marks, ["a", "?", "b", "c"] * 2, range(8), header="x,k,y")
    X, _, found = learned(tmp_path, content, na=("-999",))
    assert X["x"].isna().tolist() == [True] * 7 + [False]
    assert X["k"].isna().tolist() == [False, True, False, False] * 2
    assert found.notes == (
        "counted as missing: '?' (x 1 and k 2), '-' (x 1), 'NA' (x 1), 'n/a' (x 1), "
        "'null' (x 1), '-999' (x 1)",
    )
    X, _, _ = learned(tmp_path, content, text=("k", "x"))
    assert X["k"].tolist() == ["a", "?", "b", "c"] * 2
    assert X["x"].isna().tolist() == [False] * 5 + [True, False, False]


def test_rows_without_a_target_are_left_out_and_named(tmp_path):
    targets = [str(v) for v in Y]
    targets[2], targets[5] = "", "NA"
    X, y, found = learned(tmp_path, lines(Y, targets, header="x,y"))
    assert found.notes[-1] == "2 rows have no y and are left out: lines 4 and 7"
    assert len(X) == len(y) == N - 2
    assert X["x"].tolist() == y.tolist()


def test_a_column_of_nothing_is_left_out(tmp_path):
    content = lines([""] * N, [1, 2] * 20, Y, header="empty,x,y")
    _, _, found = learned(tmp_path, content)
    assert found.left_out == ("empty",)
    assert found.notes == ("empty: left out, it holds nothing",)


def test_commas_between_semicolons_are_read_by_what_other_columns_say(tmp_path):
    doubtful = ["24,200", "1,500", "3,125", "2,000"] * 10
    decimals = ["0,5", "1,25", "2", "7,125"] * 10
    points = ["0.5", "1.25", "2", "7.125"] * 10

    def content(other: list[str]) -> str:
        return lines(doubtful, other, Y, header="a;b;y", separator=";")

    X, _, found = learned(tmp_path, content(decimals))
    assert X["a"].tolist()[:2] == [24.2, 1.5]
    assert found.notes[0] == "a: numbers with a decimal comma; '24,200' is 24.2"
    assert learned(tmp_path, content(points))[0]["a"].tolist()[:2] == [24200, 1500]
    whole = content(["1"] * N)
    with pytest.raises(
        CommandError,
        match=r"'a' holds '24,200', which may be 24200 or 24\.2; give --thousands , or "
        "--decimal ,",
    ):
        learned(tmp_path, whole)
    assert learned(tmp_path, whole, thousands=",")[0]["a"].iloc[0] == 24200
    assert learned(tmp_path, whole, decimal=",")[0]["a"].iloc[0] == 24.2
    # Between commas a quoted comma groups digits, as programs write them.
    assert learned(tmp_path, lines(doubtful, Y, header="a,y"))[0]["a"].iloc[0] == 24200


def test_dots_group_digits_only_beside_decimal_commas(tmp_path):
    dotted = ["1.234", "2.500", "12.345", "3.000"] * 10
    decimals = ["0,5", "1,25", "2", "7,125"] * 10
    content = lines(dotted, decimals, Y, header="a;b;y", separator=";")
    assert learned(tmp_path, content)[0]["a"].iloc[0] == 1234
    alone = lines(dotted, Y, header="a;y", separator=";")
    assert learned(tmp_path, alone)[0]["a"].iloc[0] == 1.234


def test_days_before_or_after_months_are_asked_for(tmp_path):
    content = lines(["01/06/2020", "02/07/2020"] * 20, Y, header="sold,y")
    with pytest.raises(
        CommandError,
        match=r"'sold' holds dates such as '01/06/2020', whose day may come before or "
        r"after the month; give --dates 'sold:%d/%m/%Y' or 'sold:%m/%d/%Y'",
    ):
        learned(tmp_path, content)
    X, _, _ = learned(tmp_path, content, dates={"sold": "%m/%d/%Y"})
    assert X["sold"].iloc[0] == pd.Timestamp("2020-01-06")
    with pytest.raises(CommandError, match=r"in line 2, which is no date of the form"):
        learned(tmp_path, content, dates={"sold": "%Y"})
    with pytest.raises(CommandError, match=r"no date that is known; give --dates 'x:F"):
        learned(tmp_path, lines(["a", "b"], [1, 2], header="x,y"), dates={"x": None})


def test_most_numbers_or_dates_but_not_all_are_refused_with_the_options(tmp_path):
    wrong = ["24,200"] * (N - 1) + ["unknown"]
    with pytest.raises(
        CommandError,
        match=r"'x' holds text in line 41 \('unknown', 1 of 40 values\), but most "
        r"of its values are numbers; mend it, .*--na 'unknown'.*--text 'x'",
    ):
        learned(tmp_path, lines(wrong, Y, header="x,y"))
    X, _, _ = learned(tmp_path, lines(wrong, Y, header="x,y"), na=("unknown",))
    assert X["x"].isna().sum() == 1
    wrong = [f"2020-01-{1 + i % 28:02}" for i in range(N - 1)] + ["soon"]
    with pytest.raises(CommandError, match=r"\('soon', .* are dates; .*--na 'soon'"):
        learned(tmp_path, lines(wrong, Y, header="x,y"))


@pytest.mark.parametrize("unit", [" yrs", "kg", " years old"])
def test_most_numbers_with_one_unit_are_numbers_as_well(tmp_path, unit):
    wrong = [f"{18 + i}{unit}" for i in range(N - 1)] + ["unknown"]
    with pytest.raises(CommandError, match=r"'unknown', 1 of 40 .* are numbers"):
        learned(tmp_path, lines(wrong, Y, header="x,y"))
    X, _, _ = learned(tmp_path, lines(wrong, Y, header="x,y"), na=("unknown",))
    assert X["x"].iloc[0] == 18
    # Names that begin with digits are categories still.
    for names in (["1Fam", "2fmCon", "3Twn", "4Dup", "Other"], ["2WD", "4WD", "AWD"]):
        X, _, _ = learned(tmp_path, lines((names * N)[:N], Y, header="x,y"))
        assert set(X["x"]) <= set(names)


def test_eight_digits_are_dates_only_if_all_of_them_are(tmp_path):
    dates = [f"2020{1 + i % 12:02}{1 + i % 28:02}" for i in range(N)]
    X, _, _ = learned(tmp_path, lines(dates, Y, header="x,y"))
    assert X["x"].dt.year.tolist() == [2020] * N
    X, _, _ = learned(tmp_path, lines([*dates[1:], "20201399"], Y, header="x,y"))
    assert X["x"].dtype == np.float64
    X, _, _ = learned(tmp_path, lines(dates, Y, header="x,y"), number=("x",))
    assert X["x"].iloc[0] == 20200101


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (["1", "oops", "3"], "'y' holds 'oops' in line 3, .* mend .*--na 'oops'"),
        (["a", "b", "c"], "'y' holds 'a' in line 2, .* choose a column of numbers: x"),
        (["b", "2", "c"], "target 'y' holds 'b' .* in 2 of 3 rows; .* numbers: x"),
        (["1", "2", "inf"], "'y' holds infinity in line 4;"),
        (["", "?", "NA"], "'y' has no value in any row"),
    ],
)
def test_a_target_that_is_none_is_refused(tmp_path, targets, message):
    with pytest.raises(CommandError, match=message):
        learned(tmp_path, lines([1, 2, 3], targets, header="x,y"))


# A reading that was learned


def test_a_reading_comes_back_from_json_and_reads_other_files_alike(tmp_path):
    content = lines(
        ["0,5", "1,25"] * 20,
        ["13/01/2020", "02/07/2020"] * 20,
        ["True", "false"] * 20,
        ["1", "x"] * 20,
        Y,
        header="a;sold;new;kind;y",
        separator=";",
    )
    X, _, found = learned(tmp_path, content)
    again = Reading.from_json(json.loads(json.dumps(found.reading.to_json())))
    assert again == found.reading
    # Alone these cells would be ambiguous, whole numbers, and so on.
    other = "kind;new;sold;a\n1;TRUE;01/06/2020;1,500\n1;;?;-\n"
    (tmp_path / "other.csv").write_text(other)
    table = read_file(str(tmp_path / "other.csv"))
    read = again.apply(table, ["a", "sold", "new", "kind"])
    assert read["a"].iloc[0] == 1.5
    assert read["sold"].iloc[0] == pd.Timestamp("2020-06-01")
    assert read["new"].iloc[0] is True
    assert read["kind"].tolist() == ["1", "1"]
    assert read.iloc[1, :3].isna().all()
    assert X["new"].tolist()[:2] == [True, False]


@pytest.mark.parametrize(
    ("name", "cell", "message"),
    [
        ("a", "1.234,5", "'a' holds '1.234,5' in line 3, where numbers with a decimal"),
        ("sold", "01-06-2020", r"'01-06-2020' in line 3, where dates \(%d/%m/%Y\) are"),
    ],
)
def test_a_cell_that_is_written_otherwise_is_named(tmp_path, name, cell, message):
    formats = {"a": NumberFormat(decimal=","), "sold": DateFormat(format="%d/%m/%Y")}
    good = {"a": "1,5", "sold": "01/06/2020"}
    (tmp_path / "t.csv").write_text(f"{name};k\n{good[name]};1\n{cell};1\n")
    table = read_file(str(tmp_path / "t.csv"))
    with pytest.raises(CommandError, match=message):
        Reading(formats=formats).apply(table, [name])


def test_typed_files_are_read_as_they_are_and_their_text_like_other_text(tmp_path):
    frame = pd.DataFrame(
        {
            "whole": [1, 2, 3],
            "new": [True, False, True],
            "sold": pd.to_datetime(["2020-01-01", None, "2020-03-01"]),
            "land": ["24,200", "950", None],
            "kind": pd.Categorical(["a", "b", "a"], ["b", "a"], ordered=True),
            "y": [1.5, np.nan, 3],
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    X, y, found = learned_of(tmp_path / "t.parquet")
    assert y.tolist() == [1.5, 3]
    assert found.notes[-1] == "1 row has no y and is left out: row 1"
    assert X["whole"].tolist() == [1, 3]
    assert X["new"].tolist() == [True, True]
    assert X["sold"].tolist() == [frame["sold"][0], frame["sold"][2]]
    assert X["land"].iloc[0] == 24200
    assert np.isnan(X["land"].iloc[1])
    assert list(X["kind"].cat.categories) == ["b", "a"]
    # Numbers that were text where the model learned stay text.
    table = read_file(str(tmp_path / "t.parquet"))
    read = Reading(formats={"whole": Texts()}).apply(table, ["whole"])
    assert read["whole"].tolist() == ["1", "2", "3"]


@pytest.mark.data
@pytest.mark.parametrize(
    "name",
    ["abalone", "ames", "bikeshare", "epa2021", "gapminder", "saratoga", "servo"],
)
def test_ordinary_tables_are_read_as_pandas_reads_them(name):
    folder = os.environ.get("SECRET_JAX_DATA")
    if folder is None or not Path(folder, f"{name}.csv").exists():
        pytest.skip("SECRET_JAX_DATA names no folder with this table")
    expected = pd.read_csv(Path(folder, f"{name}.csv"), low_memory=False)
    X, y, found = learned_of(Path(folder, f"{name}.csv"), expected.columns[-1])
    assert found.left_out == ()
    assert np.array_equal(y, expected.iloc[:, -1])
    for column in X:
        if expected[column].dtype.kind in "fiu":
            assert np.array_equal(X[column], expected[column], equal_nan=True), column
        else:
            found_text = X[column].astype(object).where(X[column].notna(), None)
            text = expected[column].astype(object).where(expected[column].notna(), None)
            assert found_text.tolist() == text.tolist(), column


# Files


def test_excel_files_are_read(tmp_path):
    frame = pd.DataFrame(
        {
            "area": [10, 20.5, None],
            "age": ["3 yrs", "4 yrs", "5 yrs"],
            "sold": pd.to_datetime(["2020-01-01", "2021-06-30", None]),
            "kind": ["a", "?", "n/a"],
            "y": [1, None, 3],
        }
    )
    path = tmp_path / "t.xlsx"
    with pd.ExcelWriter(path, engine="openpyxl") as book:
        frame.to_excel(book, sheet_name="houses", index=False)
        frame.to_excel(book, sheet_name="more", index=False)
    X, y, found = learned_of(path)
    assert "the sheet 'houses' of 2 (--sheet 'more'" in found.notes[0]
    assert "1 row has no y and is left out: line 3" in found.notes
    assert y.tolist() == [1, 3]
    assert X["area"].tolist()[:1] == [10]
    assert X["age"].tolist() == [3, 5]
    assert X["sold"].iloc[0] == pd.Timestamp("2020-01-01")
    assert X["kind"].tolist()[0] == "a"
    assert X["kind"].isna().tolist() == [False, True]


def test_without_openpyxl_a_person_is_told_what_to_install(tmp_path, monkeypatch):
    pd.DataFrame({"a": [1]}).to_excel(tmp_path / "t.xlsx")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CommandError, match=r"openpyxl .* 'secret-jax\[data\]'.* CSV"):
        read_file(str(tmp_path / "t.xlsx"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04 and no more", "an archive, but no Excel file"),
        (b"\xd0\xcf\x11\xe0 and more", "an Excel file of the old kind .*xlsx or CSV"),
    ],
)
def test_what_excel_does_not_read_either_is_refused(tmp_path, content, message):
    (tmp_path / "t.xls").write_bytes(content)
    with pytest.raises(CommandError, match=message):
        read_file(str(tmp_path / "t.xls"))


def test_text_that_is_not_utf8_is_read_with_a_note(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("Stra\u00dfe,preis \u20ac\nM\u00fcnchen,1\n".encode("cp1252"))
    table = read_file(str(path))
    assert list(table.frame.columns) == ["Straße", "preis €"]
    assert table.notes[0].endswith("is read as Windows-1252: the byte 0xdf is 'ß'")
    path.write_bytes(b"a,\x81\n\xe9,1\n")  # no character of Windows
    assert "read as Latin-1" in read_file(str(path)).notes[0]
    path.write_text("a,b\n\u00e9,1\n", encoding="utf-16")
    assert read_file(str(path)).frame["a"].tolist() == ["é"]


def test_standard_input_and_pipes_are_read_once(monkeypatch, tmp_path):
    content = "a,y\né,1\n".encode("cp1252")

    class Standard:
        buffer = io.BytesIO(content)

    monkeypatch.setattr(sys, "stdin", Standard)
    table = read_file("-")
    assert table.path == "standard input"
    assert table.frame["a"].tolist() == ["é"]
    os.mkfifo(tmp_path / "pipe")
    writer = Thread(target=(tmp_path / "pipe").write_bytes, args=(content,))
    writer.start()
    assert read_file(str(tmp_path / "pipe")).frame["y"].tolist() == ["1"]
    writer.join()
