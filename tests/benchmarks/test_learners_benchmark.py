"""The bench of learners: its combinations, a tiny real run, its table and picture."""

from __future__ import annotations

import re
from itertools import count

import numpy as np
import pandas as pd
import pytest

from benchmarks import plots
from benchmarks.accuracy.report import Record, Results
from benchmarks.learners import __main__ as bench
from benchmarks.learners.grid import grid
from benchmarks.learners.parts import FINDERS, LEAVES, PRUNINGS, Learner, learners
from benchmarks.learners.report import draw, learner_table
from secret_jax import SecretRegressor
from secret_jax.datasets import make_fried
from secret_jax.estimators.planning import plan_of


def test_oblique_splits_only_where_a_finder_knows_them():
    found = learners(FINDERS, ["linear"], ["none"], ["axis", "oblique"])
    assert len(found) == len(set(found)) == len(FINDERS) + 3
    oblique = {learner.finder for learner in found if learner.splits == "oblique"}
    assert oblique == {"rss", "secret", "phd"}


def test_every_part_makes_a_plan():
    for learner in learners(FINDERS, LEAVES, PRUNINGS, ["axis"]):
        model = SecretRegressor(**learner.setting.parameters)
        plan = plan_of(model, 0)
        assert plan.distill is None
        assert plan.oblique is False


def record(learner, name, error, numbers, **changes):
    fields = {"seed": 0, "data": "", "key": "", "mse": error, "leaves": 4}
    fields |= {"seconds": 1.0, "rows": 100, "columns": 3}
    return Record(
        set=name, model=learner, error=error, numbers=numbers, **fields | changes
    )


def test_the_table_has_geometric_means_of_ratios_and_the_picture_all_points(tmp_path):
    every = learners(["cart", "rss"], ["linear"], ["none", "bic"], ["axis", "oblique"])
    numbers = count(10)
    records = []
    for i, learner in enumerate(every):
        records.append(record(learner.name, "one", 0.1 * 2**i, next(numbers)))
        records.append(record(learner.name, "two", 0.4 / 2 ** (3 * i), next(numbers)))
    records.append(record("cubist", "one", 0.1, 50))
    results = Results(records)
    baseline = every[0].name
    lines = learner_table(results, baseline).splitlines()
    assert len(lines) == 2 + len(every) + 1
    ratios = [line.split("|")[2].strip() for line in lines[2:]]
    floor = 0.001 / 0.4  # of the error on the second set, at the last learners
    expected = [(2**i * max(2.0 ** (-3 * i), floor)) ** 0.5 for i in range(len(every))]
    assert [float(ratio) for ratio in ratios[:-1]] == pytest.approx(expected, abs=1e-3)
    assert ratios[-1] == "1.000"
    assert re.search(r"cubist .* 0 of 1 .* -", lines[-1])
    draw(results, every, baseline, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_a_tiny_run_on_a_file_of_ones_own_resumes_and_prints(tmp_path, capsys):
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(100, 2)), columns=["size", "age"])
    table.insert(0, "price", 3 * table["size"] + random.normal(size=100))
    (tmp_path / "own").mkdir()
    table.to_csv(tmp_path / "own" / "houses.csv", index=False)
    out = tmp_path / "learners.jsonl"
    call = ["--folder", str(tmp_path / "own"), "--target", "price"]
    call += ["--finders", "cart", "--seeds", "1", "--out", str(out)]
    call += ["--leaves", "constant", "--prunings", "none", "--peers", "--code", "test"]
    bench.main(call)
    first = capsys.readouterr()
    assert Learner("cart", "constant", "none", "axis").name in first.out
    assert first.out.splitlines()[2].split()[-2] == "houses"
    assert out.with_suffix(".png").exists()
    bench.main(call)
    again = capsys.readouterr()
    assert again.out == first.out
    assert "1 of 1 fits" in again.err


def test_sets_that_are_not_there_are_refused(capsys):
    with pytest.raises(SystemExit, match="no data set 'serfo'"):
        bench.main(["--sets", "serfo"])
    with pytest.raises(SystemExit):
        bench.main(["--target", "price"])
    assert "give that too" in capsys.readouterr().err


def test_labels_of_a_picture_cover_neither_points_nor_each_other():
    figure, axes = plots.new_figure(1, 1)
    axis = axes[0, 0]
    places = [(1.0, 1.0), (1.01, 1.0), (1.0, 1.01), (3.0, 2.0), (2.99, 2.0)]
    axis.plot(*zip(*places, strict=True), "o")
    axis.margins(x=0.12)
    texts = ["one of them", "another", "the third", "a far one", "its neighbour"]
    labels = [plots.Label(t, *p) for t, p in zip(texts, places, strict=True)]
    plots.write_beside(axis, labels)
    figure.canvas.draw()
    boxes = [note.get_window_extent() for note in axis.texts]
    assert [note.get_text() for note in axis.texts] == texts
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i])
        assert figure.bbox.x0 < box.x0 < box.x1 < figure.bbox.x1
        for place in places:
            assert not box.contains(*axis.transData.transform(place))


def test_a_grid_from_python_has_a_line_for_each_fit():
    X, y = make_fried(120, random_state=0)
    found = grid({"mine": (X, y)}, finders=["rss"], leaves=["linear", "ridge"], seeds=2)
    assert len(found) == 4
    assert found["leaf"].tolist() == ["linear", "ridge"] * 2
    assert found["seed"].tolist() == [0, 0, 1, 1]
    assert (found["error"] < 1).all()
