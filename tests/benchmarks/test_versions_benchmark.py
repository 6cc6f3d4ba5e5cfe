"""Two working copies, or two models of one, on the same rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.accuracy import versions

ROOT = str(Path(__file__).parents[2])


def test_one_copy_beside_itself_errs_the_same(tmp_path, capsys):
    records = tmp_path / "records.jsonl"
    asked = [ROOT, ROOT, "--sets", "diabetes", "--seeds", "1"]
    asked += ["--rows", "120", "--records", str(records)]
    versions.main(asked)
    assert "error 1.0000 (worst diabetes), numbers 1.000" in capsys.readouterr().out
    (_, (error, numbers, seconds)) = json.loads(records.read_text().splitlines()[0])
    assert 0 < error < 1.5
    assert numbers >= 1
    assert seconds > 0


def test_a_failed_fit_ends_the_command(tmp_path):
    asked = [ROOT, ROOT, "--sets", "nowhere", "--seeds", "1"]
    with pytest.raises(SystemExit, match="its error stands above"):
        versions.main([*asked, "--records", str(tmp_path / "records")])
