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
from secret_jax.cli.reading import read_file

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
