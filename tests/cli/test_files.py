"""Files as tables of cells, and texts as numbers and dates, as people write them.

What is expected was written down by hand.
"""

import gzip
import io
import os
import sys
from threading import Thread

import numpy as np
import pandas as pd
import pytest
from messy_tables import loans, write_loans

from secret_jax.cli.files import read_file
from secret_jax.cli.formats import Found, find_dates, find_numbers
from secret_jax.cli.messages import CommandError

CSV = "a,b\n1,x\n2,y\n"
SAME = [["1", "x"], ["2", "y"]]


def test_packed_csv_and_json_are_read(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(CSV.encode()))
    assert read_file(str(path)).frame.to_numpy().tolist() == SAME
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": [[1], [2]]})
    for name, how in (("rows", {"orient": "records"}), ("columns", {})):
        frame.to_json(tmp_path / name, **how)
    frame.to_json(tmp_path / "lines", orient="records", lines=True)
    for name in ("rows", "columns", "lines"):
        found = read_file(str(tmp_path / name))
        assert found.frame["a"].tolist() == [1, 2]
        assert found.frame["c.0"].tolist() == [1, 2]
        assert found.place(0) == "row 0"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04 and no more", "is damaged, or of no kind"),
        (b"\xd0\xcf\x11\xe0\0 and more", r"holds binary data, .* Excel \(.xlsx\)"),
        (b"PAR1 and no more", "is damaged"),
        (b"\x1f\x8b and no more", "is damaged"),
        (b'[{"a": 1', "is damaged"),
        (b"BZh91AY\0", "binary data, neither CSV .* unpack it"),
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,y\n", "has a header, but no rows"),
        (b"a,y\n1,2\n1,2,3\n", "not a well-formed CSV .* line 3, saw 3"),
        (b"a,y\n1,2,3\n1,2,4\n", "not a well-formed CSV .* header"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, content, message):
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(CommandError, match=message):
        read_file(str(tmp_path / "t"))


def test_names_lose_their_blanks_and_copies_of_names_are_told(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x, y , x,,\n1,2,3,4,5\n")
    table = read_file(str(path))
    assert list(table.frame) == ["x", "y", "x.1", "Unnamed: 3", "Unnamed: 4"]
    assert table.notes == ("'x' stands twice in the header: read as 'x.1'",)
    pd.DataFrame([["a", "a "], [1, 2]]).to_excel(
        tmp_path / "t.xlsx", header=False, index=False
    )
    assert list(read_file(str(tmp_path / "t.xlsx")).frame) == ["a", "a.1"]


@pytest.mark.parametrize(
    ("text", "separator", "names", "line"),
    [
        ("a;b;c\n1,5;2;3\n", ";", ["a", "b", "c"], 2),
        ("\n\na,b\n\n1,2\n", ",", ["a", "b"], 5),
        (",a,b\n0,1,2\n", ",", ["Unnamed: 0", "a", "b"], 2),
        ("only\n1\n2\n", ",", ["only"], 2),
        ('"a, b; c"\tvalue\nx\t1\n', "\t", ["a, b; c", "value"], 2),
        ("a,b\n,\n1,2\n\n\n", ",", ["a", "b"], 3),
    ],
)
def test_separators_and_lines_are_found(tmp_path, text, separator, names, line):
    (tmp_path / "t.csv").write_text(text)
    found = read_file(str(tmp_path / "t.csv"))
    assert (found.separator, [*found.frame]) == (separator, names)
    first = int(found.frame.ne("").any(axis=1).to_numpy().argmax())
    assert found.place(first) == f"line {line}"


def test_a_title_and_other_sheets_are_named(tmp_path):
    path = str(write_loans(tmp_path / "loans.xlsx"))
    found = read_file(path, sheet="Data", skip=2)
    assert found.frame.to_numpy().tolist() == loans().to_numpy().tolist()
    assert list(found.frame) == ["debt", "income", "Denied?"]
    assert found.place(0) == "line 4"
    assert found.notes == ("the sheet 'Data' of 2 (--sheet 'Notes' reads another)",)
    with pytest.raises(CommandError, match="did you mean 'Denied"):
        found.column("Denid?", "--target names")
    with pytest.raises(CommandError, match=r"--sheet 'Data' reads another"):
        read_file(path).column("debt", "--target names")
    with pytest.raises(CommandError, match=r"further down, give --skip N"):
        read_file(path, sheet="Data").column("debt", "--target names")
    with pytest.raises(CommandError, match=r"no sheet 'Dat'; did you mean 'Data'"):
        read_file(path, sheet="Dat")
    (tmp_path / "t.csv").write_text("Prices\n\na,b\n1,x\n2,y\n")
    with pytest.raises(CommandError, match=r"line 3, saw 2.* --skip N says"):
        read_file(str(tmp_path / "t.csv"))
    table = read_file(str(tmp_path / "t.csv"), skip=2)
    assert table.frame["b"].tolist() == ["x", "y"]
    assert table.place(1) == "line 5"
    with pytest.raises(CommandError, match="no Excel file, which --sheet is for"):
        read_file(str(tmp_path / "t.csv"), sheet="Data")


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


# Numbers and dates


def cells(*texts: str) -> pd.Series:
    return pd.Series(texts, dtype=object)


# What people write, what it is, and how it is written.
NUMBERS = {
    "commas": (["24,200", "950", "1,234,567"], [24200, 950, 1234567], ",", "."),
    "apostrophes": (["1'000", "12\u2019345.5"], [1000, 12345.5], "'", "."),
    "blanks": (["1 000", "2\u00a0345 678"], [1000, 2345678], " ", "."),
    "a decimal comma": (["0,43", "12,5", "7"], [0.43, 12.5, 7], "", ","),
    "both, English": (["1,234.5", "2.25"], [1234.5, 2.25], ",", "."),
    "both, German": (["1.234,5", "2,25"], [1234.5, 2.25], ".", ","),
    "dots alone": (["1.234.567", "3"], [1234567, 3], ".", ","),
    "per cent": (["12.3%", "7 %", "0"], [12.3, 7, 0], "", "."),
    "currency": (["$1,000", "$ 20", "-$5.5"], [1000, 20, -5.5], ",", "."),
    "currency behind": (["5,50 €", "12,00 €"], [5.5, 12], "", ","),
    "a unit": (["28 yrs", "3 yrs", "15yrs", "0"], [28, 3, 15, 0], "", "."),
    "a unit of two words": (["1.5 sq m", "2 sq m", "3 sq m"], [1.5, 2, 3], "", "."),
    "a unit with a power": (["80 m²", "95 m²", "7 m²"], [80, 95, 7], "", "."),
    "another minus": (["\u22123", "4"], [-3, 4], "", "."),
    "a minus behind": (["5.11-", "7"], [-5.11, 7], "", "."),
    "a minus before a currency": (["1.234,5- €", "2,5 €"], [-1234.5, 2.5], ".", ","),
    "an accountant's minus": (["(5.11)", "7"], [-5.11, 7], "", "."),
    "an accountant's dollars": (["($5.11)", "$7", "$(3)"], [-5.11, 7, -3], "", "."),
    "Indian groups": (["13,65,072", "5,000", "95"], [1365072, 5000, 95], ",", "."),
    "k and M": (["12k", "1", "1.5M", "9k"], [12000, 1, 1.5e6, 9000], "", "."),
    "millions of dollars": (
        ["$0.178M", "$12k", "$1.2B"],
        [178000, 12000, 1.2e9],
        "",
        ".",
    ),
    "millions in words": (["3 Mio €", "1,5 Mio. €", "7 €"], [3e6, 1.5e6, 7], "", ","),
    "degrees": (["45.1° N", "33.9°S", "5 ° W", "0°"], [45.1, -33.9, -5, 0], "", "."),
    "parts of degrees": (["45°30' N", "7°15'36\"W", "5°N"], [45.5, -7.26, 5], "", "."),
    "hemispheres": (["28.5N", "3N", "7.5 S"], [28.5, 3, -7.5], "", "."),
    "at least": (["10,000+", "500+", "5+"], [10000, 500, 5], ",", "."),
    "a price for each": (["$12/kg", "$3.5/kg", "$9/kg"], [12, 3.5, 9], "", "."),
    "thin blanks": (["1\u2009000,5", "2\u202f345 678"], [1000.5, 2345678], " ", ","),
    "exponents": (["1e3", "2.5E-2"], [1000, 0.025], "", "."),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_as_people_write_them(kind):
    texts, values, thousands, decimal = NUMBERS[kind]
    chosen = find_numbers(cells(*texts)).formats[0]
    assert (chosen.thousands, chosen.decimal) == (thousands, decimal)
    assert chosen.parse(cells(*texts)).tolist() == values


@pytest.mark.parametrize(
    "texts",
    [
        ["2WD", "4WD"],  # two kinds, not two sizes
        ["1st", "2nd", "3rd"],
        ["1Fam", "2fmCon", "3Twn", "Other"],
        ["1 km", "800 m", "3 ft", "2 km"],
        ["2K", "4K"],
        ["12B", "13A", "14C"],
        ["10-20", "20-30", "30-40"],
        ["12:30", "13:45", "1:05"],
        ["A4", "A5", "A6"],
        ["$5", "€5", "$6", "€7"],
        ["1.2.3", "1.10.0", "2.0.1"],
    ],
    ids=" ".join,
)
def test_what_only_begins_with_digits_is_no_number(texts):
    assert find_numbers(cells(*texts)) == Found()


def test_numbers_of_any_size_survive_every_format():
    rng = np.random.default_rng(0)
    values = np.round(rng.normal(size=200) * 10.0 ** rng.integers(-2, 9, 200), 2)
    plain = [f"{value:,.2f}" for value in values]
    swapped = str.maketrans(",.", ".,")
    for texts in (plain, [text.translate(swapped) for text in plain]):
        chosen = find_numbers(cells(*texts)).formats[0]
        assert chosen.parse(cells(*texts)).tolist() == values.tolist()


@pytest.mark.parametrize(
    "texts",
    [
        ["1.5 km", "2 km", "800 m"],
        ["3 Mio €", "4 Mio €", "5,5 Mio €", "700000"],
        ["27,7 %", "12 %", "30"],
    ],
)
def test_numbers_of_two_scales_are_not_read_as_one(texts):
    formats, nearest = find_numbers(cells(*texts))
    assert formats == ()
    assert nearest is not None
    parsed = nearest.parse(cells(*texts))
    assert parsed.isna().tolist() == [False] * (len(texts) - 1) + [True]


DATES = {
    "2024-02-29": ("ISO8601", "2024-02-29"),
    "2024-02-29 13:05": ("ISO8601", "2024-02-29T13:05"),
    "2024-02-29T13:05:10Z": ("ISO8601", "2024-02-29T13:05:10"),
    "2024-02-29T13:05:10+02:00": ("ISO8601", "2024-02-29T11:05:10"),
    "2024-02-29 3:45 PM": ("%Y-%m-%d %I:%M %p", "2024-02-29T15:45"),
    "2024-02-29 03:45:10PM": ("%Y-%m-%d %I:%M:%S%p", "2024-02-29T15:45:10"),
    "2024/02/29 08:30": ("ISO8601", "2024-02-29T08:30"),
    "29/02/2024": ("%d/%m/%Y", "2024-02-29"),
    "02/29/2024": ("%m/%d/%Y", "2024-02-29"),
    "2/29/24 8:30": ("%m/%d/%y %H:%M", "2024-02-29T08:30"),
    "29-Feb-2024 15:45:10": ("%d-%b-%Y %H:%M:%S", "2024-02-29T15:45:10"),
    "Feb 29, 2024 3:45PM": ("%b %d, %Y %I:%M%p", "2024-02-29T15:45"),
    "29.02.2024": ("%d.%m.%Y", "2024-02-29"),
    "01.02.2024": ("%d.%m.%Y", "2024-02-01"),
    "29-02-2024": ("%d-%m-%Y", "2024-02-29"),
    "February 29, 2024": ("%B %d, %Y", "2024-02-29"),
    "20240229": ("%Y%m%d", "2024-02-29"),
    # Months and quarters begin on their first day.
    "January-2005": ("%B-%Y", "2005-01-01"),
    "Mar 2005": ("%b %Y", "2005-03-01"),
    "2005-03": ("ISO8601", "2005-03-01"),
    "03/2005": ("%m/%Y", "2005-03-01"),
    "2015-Q1": ("ISO8601", "2015-01-01"),
    "2015Q4": ("ISO8601", "2015-10-01"),
    "Q2 2015": ("ISO8601", "2015-04-01"),
}


@pytest.mark.parametrize("text", DATES)
def test_dates_as_people_write_them(text):
    form, expected = DATES[text]
    found = find_dates(cells(text))
    assert [one.form for one in found.formats] == [form]
    assert found.formats[0].parse(cells(text))[0] == pd.Timestamp(expected)


def test_days_and_months_that_may_be_exchanged_are_two_formats_until_one_shows():
    both = {one.form for one in find_dates(cells("01/06/2020", "02/07/2020")).formats}
    assert both == {"%d/%m/%Y", "%m/%d/%Y"}
    only = find_dates(cells("01/06/2020", "02/27/2020")).formats
    assert [one.form for one in only] == ["%m/%d/%Y"]
    assert find_dates(cells("13/27/2020")).formats == ()
    assert find_dates(cells("1999", "3.5", "8:30", "May")).formats == ()
