"""Tables as people keep them: found below titles, and what is odd in them is said."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from messy_tables import TYPES, flats, loans, write_flats, write_loans

from secret_jax import SecretRegressor
from secret_jax.cli.main import main
from secret_jax.cli.messages import CommandError
from secret_jax.cli.reading.columns import Texts
from secret_jax.cli.reading.files import TableFile, read_file
from secret_jax.cli.reading.layout import header_row, start_of
from secret_jax.cli.reading.numbers import NumberFormat, find_numbers
from secret_jax.cli.reading.oddities import oddities
from secret_jax.cli.reading.table import Reading

QUICK = ("--splits", "cart", "--oblique", "no", "--leaf", "linear", "--distill", "no")
MENDED = ("--na", "-99", "--ignore-case", "Typ,Heizung", "--distinct")
MENDED += ("--drop", "Maklergebühr", "--max-leaf-nodes", "2")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_flats(tmp_path_factory.mktemp("flats") / "flats.csv")


@pytest.fixture(scope="module")
def model(table: Path) -> Path:
    path = table.with_name("price.model")
    arguments = ["fit", table, "Kaufpreis", "--out", path, *MENDED, *QUICK, "--quiet"]
    assert main([str(argument) for argument in arguments]) == 0
    return path


def said(table: Path, run, *options: str) -> str:
    """What the command says before a fit that the number of rows prevents."""
    code, _, err = run("fit", table, "Kaufpreis", "--test-fraction", ".999", *options)
    assert code == 2
    assert "too few to hold some out" in err
    return err


def test_each_oddity_is_one_line_with_what_settles_it(run, table):
    lines = said(table, run).splitlines()
    for name, settled in (
        ("Objekt-ID: left out", "--text 'Objekt-ID' keeps it"),
        ("Zimmer: -99 in 14 rows", "--na -99"),
        ("Typ: 'FLAT', 'flat ' and 'Flat' differ by case", "--ignore-case 'Typ'"),
        ("Heizung: 'gas' and 'Gas' differ", "--ignore-case 'Heizung'"),
        ("25 rows repeat another one", "--distinct"),
        ("Maklergebühr: it gives Kaufpreis away", "--drop 'Maklergebühr'"),
    ):
        (line,) = [line for line in lines if line.startswith(f"  {name}")]
        assert settled in line
    mended = said(table, run, *MENDED)
    assert "25 rows that repeat another one left out" in mended
    assert "counted as missing: '-99' (Zimmer 14)" in mended
    for word in ("differ by case", "away by itself", "far from the other"):
        assert word not in mended


def test_units_stay_in_the_names_of_columns(run, model, table):
    schema = SecretRegressor.load(model).tree_.schema
    assert "Wohnfläche (m²)" in schema.input_names
    assert schema.target_name == "Kaufpreis (€)"
    code, out, err = run("score", model, table, "--na", "-99")
    assert code == 0, err
    assert "RMSE" in out
    code, out, err = run("explain", model, table, "--rows", "1")
    assert code == 0, err
    assert "Kaufpreis (€) = " in out


def test_a_unit_that_the_name_says_is_not_said_again():
    metres = NumberFormat(after="m²")
    formats = {"area": metres, "area in m²": metres, "b": metres, "b (m²)": metres}
    reading = Reading(formats=formats)
    assert list(reading.labels.values()) == ["area (m²)", "area in m²", "b", "b (m²)"]
    assert reading.name_of("area (m²)") == "area"


def test_columns_that_the_tree_does_not_ask_for_may_be_away(run, model, tmp_path):
    rows = flats(40, 0)
    rows.to_csv(tmp_path / "all.csv", sep=";", index=False)
    rows.drop(columns=["Verkauft", "Kaufpreis"]).to_csv(
        tmp_path / "some.csv", sep=";", index=False
    )
    assert "Verkauft" not in SecretRegressor.load(model).export_text()
    _, expected, _ = run("predict", model, tmp_path / "all.csv", "--na", "-99")
    code, out, err = run("predict", model, tmp_path / "some.csv", "--na", "-99")
    assert code == 0, err
    assert "not in the file, and not asked for: Verkauft" in err
    assert out == expected
    _, _, err = run("export", model, "python")
    assert "Wohnfläche" in err
    assert "Verkauft" not in err
    rows.drop(columns="Wohnfläche").to_csv(tmp_path / "less.csv", sep=";", index=False)
    code, _, err = run("predict", model, tmp_path / "less.csv")
    assert code == 2
    assert "the model needs the column 'Wohnfläche'" in err


def test_one_odd_date_does_not_stop_all_rows(run, model, tmp_path):
    rows = flats(40, 0)
    rows.loc[[3, 5], "Verkauft"] = ["2024-01-05", "2024-01-05"]
    rows.to_csv(tmp_path / "odd.csv", sep=";", index=False)
    code, _, err = run("predict", model, tmp_path / "odd.csv", "--na", "-99")
    assert code == 2
    assert "'2024-01-05' in line 5 (and 1 more like it)" in err
    assert "count it as missing (--na '2024-01-05')" in err
    more = ("--na", "-99", "--na", "2024-01-05")
    code, out, err = run("predict", model, tmp_path / "odd.csv", *more)
    assert code == 0, err
    assert len(out.splitlines()) == 41


def test_other_spellings_are_one_category(table):
    read = read_file(str(table))
    alone = Reading(formats={"Typ": Texts(folded=True)}).apply(read, ["Typ"])
    assert set(alone["Typ"]) == {"flat", "studio"}
    assert set(read.frame["Typ"]) == set(TYPES)


# Where the table is


def test_the_sheet_with_the_target_is_read_below_its_title(tmp_path):
    path = str(write_loans(tmp_path / "loans.xlsx"))
    found = read_file(path, columns=["Denied?"])
    assert found.frame.to_numpy().tolist() == loans().to_numpy().tolist()
    assert list(found.frame) == ["debt", "income", "Denied?"]
    assert found.place(0) == "line 4"
    sheet, header = found.notes
    assert "the sheet 'Data' of 2 (--sheet 'Notes' reads another)" in sheet
    assert "the header is in line 3, below 'Loans 2024' (--skip 0" in header
    named = read_file(path, sheet="Data", skip=2)
    assert named.notes == ()
    assert named.frame.equals(found.frame)
    assert list(read_file(path, sheet="Notes").frame) == ["Notes"]
    with pytest.raises(CommandError, match="did you mean 'Denied"):
        read_file(path, columns=["Denid?"]).column("Denid?", "--target names")
    with pytest.raises(CommandError, match=r"--sheet 'Data' reads another"):
        read_file(path, sheet="Notes").column("debt", "--target names")
    with pytest.raises(CommandError, match=r"further down, give --skip N"):
        read_file(path, sheet="Data", skip=0).column("debt", "--target names")
    with pytest.raises(CommandError, match=r"no sheet 'Dat'; did you mean 'Data'"):
        read_file(path, sheet="Dat")


def test_a_model_of_a_sheet_predicts_the_sheet(run, tmp_path):
    book = write_loans(tmp_path / "loans.xlsx")
    path = tmp_path / "denied.model"
    code, _, err = run("fit", book, "debt", "--out", path, "--max-depth", "0", *QUICK)
    assert code == 0, err
    code, out, err = run("predict", path, book)
    assert code == 0, err
    assert len(pd.read_csv(io.StringIO(out))) == len(loans())
    loans().to_csv(tmp_path / "loans.csv", index=False)
    assert run("predict", path, tmp_path / "loans.csv")[1] == out
    assert (
        "no Excel file"
        in run("predict", path, path.parent / "loans.csv", "--sheet", "Data")[2]
    )


@pytest.mark.parametrize(
    ("text", "separator", "skip"),
    [
        ("a;b;c\n1;2;3\n", ";", 0),
        ("a,b\n1,2\n", ",", 0),
        ("Loans, all of them, 2024\n\na;b;c;d\n1,5;2;3;x\n1,5;2;3;x\n", ";", 2),
        ('"Two\nlines"\nname\tvalue\nx\t1\n', "\t", 2),
        ("\n\na,b\n1,2\n", ",", 2),
        (",a,b\n0,1,2\n", ",", 0),  # names of rows have no name
        ("only\n1\n2\n", ",", 0),
        ("1,2,3\n4,5,6\n", ",", 0),
        ("title\n1,2,3\n4,5,6\n", ",", 0),  # no header is to be seen
        ("title\na,a,b\n4,5,6\n", ",", 0),
    ],
)
def test_the_header_is_found_where_it_is_clear(text, separator, skip):
    assert start_of(text)[:2] == (separator, skip)


def test_a_header_is_the_first_row_unless_what_is_above_is_plainly_none():
    table = [["a", "b", "c", "d"], *[["1", "2", "3", "4"]] * 3]
    assert header_row(table) == 0
    assert header_row([["Prices", "", "", ""], [""] * 4, *table]) == 2
    assert header_row([["x", "y", "z", ""], *table]) == 0
    assert header_row([]) == 0


def test_lines_above_the_header_can_be_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("what,ever\nelse,here\na,b\n1,x\n2,\n")
    assert list(read_file(str(path)).frame) == ["what", "ever"]
    table = read_file(str(path), skip=2)
    assert list(table.frame) == ["a", "b"]
    assert table.place(0) == "line 4"
    path.write_text("Prices\n\na,b\n1,x\n2,y\n")
    found = read_file(str(path))
    assert found.frame["b"].tolist() == ["x", "y"]
    assert found.place(1) == "line 5"
    assert "the header is in line 3, below 'Prices'" in found.notes[0]


# Scales


@pytest.mark.parametrize(
    "texts",
    [
        ["50.0k", "12.5k", "1.5k", "50000"],
        ["3 Mio €", "4 Mio €", "5,5 Mio €", "700000"],
        ["27.7 %", "0.277"],
        ["27,7 %", "12 %", "30"],
    ],
)
def test_numbers_of_two_scales_are_not_read_as_one(texts):
    found = find_numbers(texts)
    assert [texts[place] for place in found.mixed] == [texts[0], texts[-1]]
    alone = find_numbers(texts[:-1])
    assert alone.mixed == ()
    if alone.formats:
        assert np.isnan(alone.formats[0].parse(texts[-1:])).all()


def test_nothing_is_nothing_on_every_scale_and_units_may_be_left_out():
    (percent,) = find_numbers(["27.7 %", "0", "0.0"]).formats
    assert percent.parse(["0", "1 %"]).tolist() == [0, 1]
    (area,) = find_numbers(["80 qm", "75", "60 qm", "50 qm"]).formats
    assert area.parse(["75", "80 qm"]).tolist() == [75, 80]


def test_a_column_of_two_scales_names_the_options(run, tmp_path):
    share = [f"{n} %" if n % 2 else f"{n / 100}" for n in range(1, 41)]
    frame = pd.DataFrame({"share": share, "b": np.arange(40) % 7, "y": range(40)})
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    code, _, err = run("fit", path, "y", "--max-depth", "0", *QUICK)
    assert code == 2
    assert "'share' holds '1 %' in line 2 and '0.02' in line 3, which may be" in err
    assert "(--number 'share'), or read the column as categories (--text" in err
    frame.assign(share=[f"{n}k" if n % 2 else n for n in range(40)]).to_csv(path)
    assert "of two scales" in run("fit", path, "y", *QUICK)[2]
    code, _, err = run("fit", path, "share", *QUICK)
    assert code == 2
    assert "of two scales; write all of them alike" in err


# What is odd, and what is not


def odd(y: Any = None, **columns) -> list[str]:
    X = pd.DataFrame(columns)
    y = pd.Series(np.sin(np.arange(len(X))) * 10 if y is None else y, name="y")
    names = {name: Texts() if X[name].dtype == object else NumberFormat() for name in X}
    table = TableFile(X.assign(y=y), "t", 2)
    return [*oddities(table, X, y, Reading(formats=names))]


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
