"""Columns of files: numbers, dates, categories, names of rows, and what is odd in them.

What is expected was written down by hand, or was put into the files by other programs.
"""

import datetime
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
from messy_tables import write_flats

from secret_jax.cli.files import read_file
from secret_jax.cli.formats import ColumnFormat
from secret_jax.cli.learning import Rows, training_rows
from secret_jax.cli.main import build_parser
from secret_jax.cli.messages import QUIET, CommandError
from secret_jax.cli.oddities import oddities
from secret_jax.cli.reading import Reading

N = 40
Y = list(range(100, 100 + N))
Learned = tuple[Rows, list[str]]


@pytest.fixture
def learned(tmp_path, capsys) -> Callable[..., Learned]:
    """Rows of a table that was written or is there, and the notes on it."""

    def call(content: str | Path, *options: str, target: str = "y") -> Learned:
        path = content if isinstance(content, Path) else tmp_path / "table.csv"
        if isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        QUIET.set(False)
        words = ["fit", str(path), target, *options]
        rows = training_rows(build_parser().parse_args(words))
        told = capsys.readouterr().err.splitlines()
        return rows, [line.strip() for line in told if line.startswith("  ")]

    return call


def lines(*columns: Sequence[Any], header: str, separator: str = ",") -> str:
    """A file of columns; cells with the separator are quoted."""
    rows = zip(*columns, strict=True)
    quoted = [
        separator.join(f'"{c}"' if separator in str(c) else str(c) for c in row)
        for row in rows
    ]
    return "\n".join([header, *quoted]) + "\n"


def test_each_column_that_is_not_plain_is_said_in_a_line(learned):
    rows, notes = learned(
        lines(
            [f"{24000 + 10 * ((7 * i) % N):,}" for i in range(N)],
            [f"{20 + i % 9} yrs" for i in range(N)],
            [f"{i % 11 / 7:.1f}%" for i in range(N)],
            [f"2020-{1 + i % 12:02}-15" for i in range(N)],
            [f"{['January', 'March', 'June'][i % 3]}-{2000 + i % 7}" for i in range(N)],
            [f"02{130 + i % 3}" for i in range(N)],
            ["a", "b"] * (N // 2),
            [f"${v}" for v in Y],
            header="land,age,share,sold,built,zip,kind,y",
        ),
    )
    assert notes == [
        "land: numbers with commas between thousands; '24,000' is 24000",
        "age: numbers with the unit 'yrs'; '20 yrs' is 20",
        "share: numbers with the unit '%'; '0.0%' is 0",
        "sold: dates (ISO 8601): year, month, weekday and days; '2020-01-15' is one",
        "built: dates (%B-%Y): year, month, weekday and days; 'January-2000' is one",
        "y: numbers with the unit '$'; '$100' is 100",
    ]
    X = rows.X
    assert rows.y.tolist() == Y
    assert X["land"].tolist() == [24000 + 10 * ((7 * i) % N) for i in range(N)]
    assert X["age"].tolist() == [20 + i % 9 for i in range(N)]
    assert X["sold"].dt.month.tolist() == [1 + i % 12 for i in range(N)]
    assert X["built"].dt.month.tolist()[:3] == [1, 3, 6]
    assert set(X["zip"]) == {"02130", "02131", "02132"}


def test_a_plain_table_is_read_without_a_word(learned):
    content = lines([0.5, 1] * (N // 2), ["a", "b "] * (N // 2), Y, header="x,k , y")
    rows, notes = learned(content)
    assert notes == []
    assert rows.X["x"].tolist() == [0.5, 1.0] * (N // 2)
    assert set(rows.X["k"]) == {"a", "b"}


def test_names_of_rows_are_left_out_unless_they_are_wanted(learned):
    shuffled = [5000 + 7 * ((3 * i) % N) for i in range(N)]
    content = lines(
        list(range(N)),
        list(range(1, N + 1)),
        [f"house {i}" for i in range(N)],
        [f"0{7000 + i}" for i in range(N)],
        shuffled,
        shuffled,
        list(range(N)),
        [7] * N,
        Y,
        header=",id,name,code,customer_id,RespondentID,t,width,y",
    )
    rows, notes = learned(content)
    assert list(rows.X) == ["t", "width"]
    why = "left out, its 40 different values in 40 rows name them; --number"
    for name in ("id", "name", "code", "RespondentID"):
        assert f"{name}: {why} {name!r} or --text {name!r} keeps it" in notes
    assert any(note.startswith("t: whole numbers that may be names") for note in notes)
    options = ("--number", "id,code", "--text", "name", "--id", "t")
    rows, _ = learned(content, *options)
    assert list(rows.X) == ["id", "name", "code", "width"]
    assert rows.X["code"].tolist() == [7000.0 + i for i in range(N)]
    assert rows.X["name"].tolist()[:2] == ["house 0", "house 1"]
    rows, _ = learned(content, "--split-only", "id,code", "--categorical", "code")
    assert list(rows.X) == ["id", "code", "t", "width"]


def test_numbers_that_may_be_names_codes_versions_or_times_are_told(learned):
    codes = [(1001 + 137 * ((11 * i) % N)) * (10 if i % 2 else 1) for i in range(N)]
    content = lines(
        codes,
        [1000 + i % 9 for i in range(N)],
        [f"{1 + i % 3}.{1 + i % 10}" for i in range(N)],
        [f"{6 + i % 12}.{(5 * i) % 60:02}" for i in range(N)],
        [f"{6 + i % 12}.{(37 * i) % 100:02}" for i in range(N)],
        Y,
        header="fips,UserID,version,opens,price,y",
    )
    _, notes = learned(content)
    told = {note.split(":")[0]: note for note in notes}
    assert told.keys() == {"fips", "UserID", "version", "opens"}
    for name in ("fips", "UserID"):
        assert f"--categorical '{name}' takes them as categories" in told[name]
    assert (
        "is read as the number 1.1; if it is a version, say so (--text"
        in told["version"]
    )
    assert "'6.00' is read as the number 6; if it is a time of day" in told["opens"]
    assert learned(content, "--text", "version")[0].X["version"].iloc[9] == "1.10"


def test_the_usual_marks_are_missing_and_said_and_others_can_be_named(learned):
    marks = ["?", "-", "NA", "n/a", "null", "", "-999", "3"]
    content = lines(marks, ["a", "?", "b", "c"] * 2, range(8), header="x,k,y")
    rows, notes = learned(content, "--na=-999")
    assert rows.X["x"].isna().tolist() == [True] * 7 + [False]
    assert rows.X["k"].isna().tolist() == [False, True, False, False] * 2
    assert notes == [
        "counted as missing: '?' (x 1), '-' (x 1), 'NA' (x 1), 'n/a' (x 1), "
        "'null' (x 1), '-999' (x 1) and '?' (k 2)",
    ]
    X = learned(content, "--text", "k,x")[0].X
    assert X["k"].tolist() == ["a", "?", "b", "c"] * 2
    assert X["x"].isna().tolist() == [False] * 5 + [True, False, False]


def test_rows_without_a_target_are_left_out_and_named(learned):
    targets = [str(v) for v in Y]
    targets[2], targets[5] = "", "NA"
    rows, notes = learned(lines(Y, targets, [""] * N, header="x,y,empty"))
    assert "left out for want of y: 2 rows (line 4 and line 7)" in notes
    assert "empty: left out, it holds nothing" in notes
    assert len(rows.y) == N - 2
    assert rows.X["x"].tolist() == rows.y.tolist()


def test_commas_between_semicolons_are_read_by_what_other_columns_say(learned):
    doubtful = ["24,200", "1,500", "3,125", "2,000"] * 10
    decimals = ["0,5", "1,25", "2", "7,125"] * 10
    points = ["0.5", "1.25", "2", "7.125"] * 10

    def content(other: list[str]) -> str:
        return lines(doubtful, other, Y, header="a;b;y", separator=";")

    rows, notes = learned(content(decimals))
    assert rows.X["a"].tolist()[:2] == [24.2, 1.5]
    assert notes[0] == "a: numbers with a decimal comma; '24,200' is 24.2"
    assert learned(content(points))[0].X["a"].tolist()[:2] == [24200, 1500]
    whole = content(["1"] * N)
    message = (
        r"'a' holds '24,200' in line 2 .*, which may be 24200 or 24\.2; give "
        "--thousands , or --decimal ,"
    )
    with pytest.raises(CommandError, match=message):
        learned(whole)
    assert learned(whole, "--thousands", ",")[0].X["a"].iloc[0] == 24200
    X = learned(whole, "--decimal", ",", "--thousands", ".")[0].X
    assert (X["a"].iloc[0], X["b"].iloc[0]) == (24.2, 1)
    # Between commas a quoted comma groups digits, as programs write them.
    assert learned(lines(doubtful, Y, header="a,y"))[0].X["a"].iloc[0] == 24200
    # Dots group digits only beside decimal commas.
    dotted = ["1.234", "2.500", "12.345", "3.000"] * 10
    beside = lines(dotted, decimals, Y, header="a;b;y", separator=";")
    assert learned(beside)[0].X["a"].iloc[0] == 1234
    alone = lines(dotted, Y, header="a;y", separator=";")
    assert learned(alone)[0].X["a"].iloc[0] == 1.234


@pytest.mark.parametrize(
    ("cell", "options", "told"),
    [
        ("1.5", ("--decimal", ","), "--decimal ','"),
        ("1.5", ("--thousands", "."), "--thousands '.'"),
        ("1,5", ("--thousands", ","), "--thousands ','"),
        ("1,234.5", ("--thousands", "'"), '--thousands "\'"'),
        ("1.234,5", ("--decimal", ".", "--thousands", ","), "',' --decimal '.'"),
    ],
)
def test_marks_that_do_not_fit_are_refused(learned, cell, options, told):
    content = lines(["2", cell] * 20, Y, header="a;y", separator=";")
    where = f"'a' holds {cell!r} in line 3 (20 of 40 values), which is no number with "
    with pytest.raises(CommandError, match=re.escape(where) + ".*" + re.escape(told)):
        learned(content, *options)
    with pytest.raises(CommandError, match=r"'y' holds .* no number with"):
        learned(lines(Y, ["2", cell] * 20, header="a;y", separator=";"), *options)


def test_days_before_or_after_months_are_asked_for(learned):
    content = lines(["01/06/2020", "02/07/2020"] * 20, Y, header="sold,y")
    message = (
        r"'sold' holds '01/06/2020' in line 2 .*, which may be 01 June 2020 or 06 "
        r"January 2020; give --dates 'sold:%d/%m/%Y' or 'sold:%m/%d/%Y'"
    )
    with pytest.raises(CommandError, match=message):
        learned(content)
    X = learned(content, "--dates", "sold:%m/%d/%Y")[0].X
    assert X["sold"].iloc[0] == pd.Timestamp("2020-01-06")
    with pytest.raises(CommandError, match=r"in line 2.*, where dates \(%Y\) are read"):
        learned(content, "--dates", "sold:%Y")
    with pytest.raises(CommandError, match="--dates names 'sold', which another"):
        learned(content, "--dates", "sold:%m/%d/%Y", "--text", "sold")


@pytest.mark.parametrize(
    ("cell", "bad", "what"),
    [
        ("{:,}", "unknown", "numbers"),
        ("{} yrs", "75", "numbers with the unit 'yrs'"),
        ("19{}-01-05", "soon", r"dates \(ISO 8601\)"),
    ],
)
def test_most_numbers_or_dates_but_not_all_are_refused(learned, cell, bad, what):
    cells = [cell.format(18 + i) for i in range(N - 1)] + [bad]
    content = lines(cells, Y, header="x,y")
    message = (
        rf"'x' holds '{bad}' in line 41 \(1 of 40 values\), but most of its values "
        rf"are {what}; mend it, .*--na '{bad}'.*--text 'x'"
    )
    with pytest.raises(CommandError, match=message):
        learned(content)
    assert learned(content, "--na", bad)[0].X["x"].isna().sum() == 1
    for names in (["1Fam", "2fmCon", "3Twn", "4Dup", "Other"], ["2WD", "4WD", "AWD"]):
        X = learned(lines((names * N)[:N], Y, header="x,y"))[0].X
        assert set(X["x"]) == set(names)


def test_eight_digits_are_dates_only_if_all_of_them_are(learned):
    dates = [f"2020{1 + i % 12:02}{1 + i % 28:02}" for i in range(N)]
    content = lines(dates, Y, header="x,y")
    assert learned(content)[0].X["x"].dt.year.tolist() == [2020] * N
    X = learned(lines([*dates[1:], "20201399"], Y, header="x,y"))[0].X
    assert X["x"].dtype == np.float64
    assert learned(content, "--number", "x")[0].X["x"].iloc[0] == 20200101


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (["1", "oops", "3"], "'y' holds 'oops' in line 3 .*,.* mend .*--na 'oops'"),
        (
            ["a", "b", "c"],
            "'y' holds 'a' in line 2 .*; choose a target of numbers, or say",
        ),
        (
            ["b", "2", "c"],
            "'y' holds 'b' in line 2 .* where numbers are read; mend",
        ),
        (["1", "2", "inf"], "'y' holds 'inf' in line 4 .*, where numbers"),
        (["", "?", "NA"], "'y' has no value in any row"),
    ],
)
def test_a_target_that_is_none_is_refused(learned, targets, message):
    with pytest.raises(CommandError, match=message):
        learned(lines([1, 2, 3], targets, header="x,y"))


# A reading that was learned


def test_a_reading_comes_back_from_json_and_reads_other_files_alike(learned, tmp_path):
    content = lines(
        ["0,5", "1,25"] * 20,
        ["13/01/2020", "02/07/2020"] * 20,
        ["True", "false"] * 20,
        ["1", "x"] * 20,
        Y,
        header="a;sold;new;kind;y",
        separator=";",
    )
    rows, _ = learned(content)
    again = Reading.from_json(json.loads(json.dumps(asdict(rows.reading))))
    assert again == rows.reading
    # Alone these cells would be ambiguous, whole numbers, and so on.
    other = tmp_path / "other.csv"
    other.write_text("kind;new;sold;a\n1;TRUE;01/06/2020;1,500\n1;;?;-\n")
    read = again.apply(read_file(str(other)), ["a", "sold", "new", "kind"])
    assert read["a"].iloc[0] == 1.5
    assert read["sold"].iloc[0] == pd.Timestamp("2020-06-01")
    assert read["new"].iloc[0]
    assert read["kind"].tolist() == ["1", "1"]
    assert read.iloc[1, :3].isna().all()
    other.write_text("kind;sold;a\n1;01-06-2020;1.234,5\n1;01-06-2020;2,5\n")
    for column, message in (
        ("a", r"'1.234,5' in line 2 .*, where numbers with a decimal comma are read"),
        ("sold", r"'01-06-2020' in line 2 \(2 of 2 values\), where dates \(%d/%m/%Y"),
    ):
        with pytest.raises(CommandError, match=message):
            again.apply(read_file(str(other)), [column])


@pytest.mark.parametrize("kind", ["parquet", "xlsx"])
def test_typed_files_are_read_as_they_are_and_their_text_like_other_text(
    learned, tmp_path, kind
):
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
    path = tmp_path / f"t.{kind}"
    write = frame.to_excel if kind == "xlsx" else frame.to_parquet
    write(path, index=False)
    rows, notes = learned(path)
    said = learned(path, "--dates", "sold:%d.%m.%Y", "--decimal", ",")[0]
    assert said.y.equals(rows.y)
    assert said.X["sold"].equals(rows.X["sold"])
    where = "row 1" if kind == "parquet" else "line 3"
    assert f"left out for want of y: 1 row ({where})" in notes
    assert rows.y.tolist() == [1.5, 3]
    for name in ("whole", "new", "sold"):
        assert rows.X[name].tolist() == frame[name][[0, 2]].tolist()
    assert rows.X["land"].iloc[0] == 24200
    assert np.isnan(rows.X["land"].iloc[1])
    if kind == "parquet":
        assert list(rows.X["kind"].cat.categories) == ["b", "a"]
    # Numbers that were text where the model learned stay text.
    reading = Reading(formats={"whole": ColumnFormat(kind="text")})
    read = reading.apply(read_file(str(path)), ["whole"])
    assert read["whole"].tolist() == ["1", "2", "3"]


@pytest.mark.data
@pytest.mark.parametrize(
    "name",
    ["abalone", "ames", "bikeshare", "epa2021", "gapminder", "saratoga", "servo"],
)
def test_ordinary_tables_are_read_as_pandas_reads_them(name, learned):
    path = Path(os.environ.get("SECRET_JAX_DATA", ""), f"{name}.csv")
    if not path.is_file():
        pytest.skip("SECRET_JAX_DATA names no folder with this table")
    expected = pd.read_csv(path, low_memory=False)
    rows, _ = learned(path, target=expected.columns[-1])
    assert list(rows.X) == list(expected.columns[:-1])
    assert np.array_equal(rows.y, expected.iloc[:, -1])
    for column in rows.X:
        if expected[column].dtype.kind in "fiu":
            assert np.array_equal(rows.X[column], expected[column], equal_nan=True)
        else:
            ours, theirs = rows.X[column], expected[column]
            ours = ours.astype(object).where(ours.notna(), None)
            theirs = theirs.astype(object).where(theirs.notna(), None).str.strip()
            assert ours.tolist() == theirs.tolist(), column


# What is odd, and what is not


MENDED = ("--na", "-99", "--ignore-case", "Typ,Heizung", "--distinct")
MENDED += ("--drop", "Maklergebühr")


def test_each_oddity_is_one_line_with_what_settles_it(learned, tmp_path):
    path = write_flats(tmp_path / "flats.csv")
    _, told = learned(path, target="Kaufpreis")
    for name, settled in (
        ("Objekt-ID: left out", "--text 'Objekt-ID' keeps it"),
        ("Zimmer: -99 in 14 rows", "--na -99"),
        (
            "Typ: 'FLAT', 'flat', 'Flat' and 2 more differ by case",
            "--ignore-case 'Typ'",
        ),
        ("Heizung: 'gas' and 'Gas' differ", "--ignore-case 'Heizung'"),
        ("25 rows repeat another one", "--distinct"),
        ("Maklergebühr: it gives Kaufpreis away", "--drop 'Maklergebühr'"),
    ):
        (line,) = [line for line in told if line.startswith(name)]
        assert settled in line
    rows, mended = learned(path, *MENDED, target="Kaufpreis")
    assert "25 rows that repeat another one left out" in mended
    assert "counted as missing: '-99' (Zimmer 14)" in mended
    for word in ("differ by case", "away by itself", "far from the other"):
        assert not any(word in line for line in mended)
    assert set(rows.X["Typ"]) == {"flat", "studio"}
    assert rows.y.iloc[0] > 10_000  # dots between thousands beside decimal commas


def odd(y: Any = None, **columns: Any) -> list[str]:
    X = pd.DataFrame(columns)
    texts = X.columns[X.dtypes.map(lambda kind: kind.kind in "OTU")]
    X = X.astype(dict.fromkeys(texts, "category"))
    y = pd.Series(np.sin(np.arange(len(X))) * 10 if y is None else y, name="y")
    return [*oddities(X, y, int(X.assign(y=y).duplicated().sum()))]


def test_ordinary_columns_are_not_odd(rng):
    n = 200
    assert not odd(
        age=rng.integers(0, 100, n).astype(float),  # 99 is no code among such
        balance=rng.normal(size=n) * 100 - 99,
        once=np.r_[-99.0, rng.uniform(0, 1, n - 1)],
        group=rng.choice(np.array(["a", "b", "c"], object), n),
    )


@pytest.mark.parametrize("code", [-9, -99, -999, 99, 9999])
def test_codes_for_nothing_are_noticed(rng, code):
    values = rng.integers(0, 9, 200).astype(float) / (10 if abs(code) < 99 else 1)
    values[[5, 50, 80]] = code
    (line,) = odd(a=values, b=rng.normal(size=200))
    assert line.startswith(f"a: {code} in 3 rows")


def test_rows_of_few_values_are_alike_by_chance(rng):
    columns = {name: rng.integers(0, 2, 100) * 1.0 for name in "abc"}
    lines = odd(columns["a"] + columns["b"], **columns)
    assert not any("repeat" in line for line in lines)


def test_a_category_that_is_the_class_gives_it_away(rng):
    y = rng.choice(np.array(["no", "yes"], object), 300)
    (line,) = odd(
        y,
        state=np.where(y == "yes", "closed", "open").astype(object),
        name=np.array([f"row {n}" for n in range(300)], object),
        other=rng.choice(np.array(["u", "v"], object), 300),
    )
    assert line.startswith("state: it gives y away by itself")


# What vanished, or was read as something else


def test_two_units_in_a_column_are_refused_with_both_named(learned):
    area = [f"{40 + i}.6 m²" if i % 2 else f"{400 + 9 * i}.2 sqft" for i in range(N)]
    content = lines(area, Y, header="area,y")
    for options in ((), ("--number", "area")):
        with pytest.raises(
            CommandError, match=r"several units \('(m²|sqft)' and '"
        ) as e:
            learned(content, *options)
        assert "'400.2 sqft' in line 2" in str(e.value)
        assert "'41.6 m²' in line 3" in str(e.value)
    assert not list(learned(lines(Y, area, Y, header="x,area,y"), "--id", "area")[0].X)[
        1:
    ]
    groups = [f"1,2{i % 10},{3000 + i}" for i in range(N)]
    with pytest.raises(CommandError, match="digits in groups that are no numbers"):
        learned(lines(groups, Y, header="x,y"))


def test_all_cells_that_are_no_numbers_are_listed_at_once(learned):
    x, z = [str(20 + i) for i in range(N)], [f"{i}.5 kg" for i in range(N)]
    x[3], x[9], z[7] = "none", "closed", "heavy"
    content = lines(x, z, Y, header="x,z,y")
    with pytest.raises(CommandError) as error:
        learned(content)
    for part in (
        "'none' in line 5 (1 of 40 values) and 'closed' in line 11 (1 of 40 values)",
        "--na 'none' --na 'closed'",
        "column 'z' holds 'heavy' in line 9",
    ):
        assert part in str(error.value)
    flags = ("--na", "none", "--na", "closed", "--na", "heavy")
    assert learned(content, *flags)[0].X.isna().sum().tolist() == [2, 1]


def test_times_of_day_are_minutes_and_longer_ones_are_numbers(learned):
    opens = [f"{6 + i % 12}:{(7 * i) % 60:02}" for i in range(N)]
    runs = [f"{20 + i}:{(11 * i) % 60:02}" for i in range(N)]
    seasons = [f"20{i % 9 + 10}-{i % 9 + 11}" for i in range(N)]
    rows, notes = learned(lines(opens, runs, seasons, Y, header="a,b,season,y"))
    assert rows.X["a"].iloc[1] == datetime.time(7, 7)
    assert rows.X["b"].iloc[1] == pytest.approx(21 + 11 / 60)
    assert rows.X["season"].iloc[0] == "2010-11"
    assert "a: times of day: minutes since midnight; '10:28' is 10:28:00" in notes
    late = lines(Y, [f"{i}:{i:02} PM" for i in range(1, 11)] * 4, header="y,a")
    assert learned(late)[0].X["a"].iloc[1] == datetime.time(14, 2)
    timed = lines(Y, [f"1:{i:02}:30" for i in range(N)], header="x,y")
    assert learned(timed)[0].y.iloc[6] == pytest.approx(1 + 6.5 / 60)


def test_totals_at_the_end_are_left_out_and_said(learned):
    area, price = [30 + (7 * i) % 50 for i in range(N)], [9 * v + 1 for v in Y]
    sums = [str(sum(area)), "Total", f"{sum(price):,}"]
    columns = [area, ["a", "b"] * (N // 2), [f"{v:,}" for v in price]]
    content = lines(
        *([*map(str, c), s] for c, s in zip(columns, sums, strict=True)),
        header="area,kind,y",
    )
    rows, notes = learned(content)
    assert "line 42 left out: it holds the sums of the rows above" in notes
    assert rows.y.tolist() == price
    assert not any("away" in note for note in notes)
    means = [sum(area) / N, "Average", sum(price) / N]
    both = content + ",".join(map(str, means)) + "\n"
    assert learned(both)[0].y.tolist() == price
    # A category is no label of totals, and a last row like others stays.
    west = [-93.6 + 0.001 * (i % 7 - 3) for i in range(N)]
    rated = lines(["Good", "Average"] * (N // 2), west, price, header="rated,x,y")
    assert len(learned(rated)[0].y) == N
    assert len(learned(lines(area, price, header="x,y"))[0].y) == N


def test_a_single_row_gives_nothing_away(rng):
    x, other, y = rng.normal(size=(3, 300))
    x[7], y[7] = 1e4, 1e4
    group = np.where(np.arange(300) == 7, "far", "near").astype(object)
    assert not any("away" in line for line in odd(y, x=x, other=other, group=group))
    assert any("away" in line for line in odd(2 * x + 1, x=x, other=other))


def test_an_index_records_and_lists_are_columns(learned, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "place": [{"city": "a" if i % 2 else "b", "at": [i, -i]} for i in range(N)],
            "tags": [["x"] * (i % 3) for i in range(N)],
            "took": pd.to_timedelta(rng.integers(0, 90, N), "min"),
            "y": Y,
        },
        index=pd.Index(rng.uniform(size=N), name="x"),
    )
    frame.to_parquet(tmp_path / "t")
    rows, notes = learned(tmp_path / "t")
    assert rows.X["x"].tolist() == frame.index.tolist()
    assert rows.X["place.city"].tolist() == ["b", "a"] * (N // 2)
    assert rows.X["place.at.1"].tolist() == [-i for i in range(N)]
    assert rows.X["took"].tolist() == (frame["took"] / pd.Timedelta("1h")).tolist()
    assert "took: durations, read as hours" in notes
    assert set(rows.X["tags"]) == {"[]", "['x']", "['x', 'x']"}
    frame.drop(columns="took").reset_index().to_json(tmp_path / "j", orient="records")
    assert learned(tmp_path / "j")[0].X["place.city"].tolist() == ["b", "a"] * (N // 2)


def test_merged_cells_of_excel_all_have_a_value_and_formulas_are_refused(
    learned, tmp_path
):
    book = openpyxl.Workbook()
    page = book.active
    for row in [("k", "x", "y"), *(("a", i, v) for i, v in enumerate(Y))]:
        page.append(row)
    page["A22"] = "b"
    page.merge_cells("A2:A21")
    page.merge_cells("A22:A41")
    book.save(tmp_path / "t.xlsx")
    rows, notes = learned(tmp_path / "t.xlsx")
    assert rows.X["k"].tolist() == ["a"] * 20 + ["b"] * 20
    assert "each cell of 2 merged areas is read as the area's value" in notes
    for row in range(2, N + 2):
        page[f"B{row}"] = f"=2*C{row}"
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(CommandError, match=r"column 'x' .* formulas without their"):
        learned(tmp_path / "t.xlsx")


def test_iso_dates_are_read_beside_those_of_another_form(learned, tmp_path):
    days = [f"{1 + i % 28:02}.{1 + i % 12:02}.2020" for i in range(N)]
    rows, _ = learned(lines(days, Y, header="sold,y"))
    other = tmp_path / "other.csv"
    other.write_text("sold\n2020-02-03\n05.06.2020\n")
    read = rows.reading.apply(read_file(str(other)), ["sold"])
    assert [str(v)[:10] for v in read["sold"]] == ["2020-02-03", "2020-06-05"]
