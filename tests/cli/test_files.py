"""Files as tables of cells: what they are, where they begin, names of columns."""

import gzip
import io
import os
import sys
from threading import Thread

import pandas as pd
import pytest
from messy_tables import loans, write_loans

from secret_jax.cli.messages import CommandError
from secret_jax.cli.reading.files import read_file, start_of

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
        assert found.frame["c"].tolist() == ["[1]", "[2]"]
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
    path.write_text("x, y , x,x.1,\n1,2,3,4,5\n")
    table = read_file(str(path))
    assert list(table.frame) == ["x", "y", "x.2", "x.1", "Unnamed: 4"]
    assert table.notes == ("'x' stands twice in the header: read as 'x.2'",)
    pd.DataFrame([["a", "a "], [1, 2]]).to_excel(
        tmp_path / "t.xlsx", header=False, index=False
    )
    assert list(read_file(str(tmp_path / "t.xlsx")).frame) == ["a", "a.1"]


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
        ("Prices,,\n,,\na,b,c\n1,2,3\n", ",", 2),
    ],
)
def test_the_header_is_found_where_it_is_clear(text, separator, skip):
    assert start_of(text) == (separator, skip)


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
    assert "the header is in line 3, below a title" in found.notes[0]


def test_the_sheet_with_the_target_is_read_below_its_title(tmp_path):
    path = str(write_loans(tmp_path / "loans.xlsx"))
    found = read_file(path, columns=["Denied?"])
    assert found.frame.to_numpy().tolist() == loans().to_numpy().tolist()
    assert list(found.frame) == ["debt", "income", "Denied?"]
    assert found.place(0) == "line 4"
    sheet, header = found.notes
    assert "the sheet 'Data' of 2 (--sheet 'Notes' reads another)" in sheet
    assert "the header is in line 3, below a title or empty lines (--skip 0" in header
    assert read_file(path, sheet="Data", skip=2).frame.equals(found.frame)
    assert list(read_file(path, sheet="Notes").frame) == ["Notes"]
    with pytest.raises(CommandError, match="did you mean 'Denied"):
        read_file(path, columns=["Denid?"]).column("Denid?", "--target names")
    with pytest.raises(CommandError, match=r"--sheet 'Data' reads another"):
        read_file(path, sheet="Notes").column("debt", "--target names")
    with pytest.raises(CommandError, match=r"further down, give --skip N"):
        read_file(path, sheet="Data", skip=0).column("debt", "--target names")
    with pytest.raises(CommandError, match=r"no sheet 'Dat'; did you mean 'Data'"):
        read_file(path, sheet="Dat")
    (tmp_path / "t.csv").write_text(CSV)
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
