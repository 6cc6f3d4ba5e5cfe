"""The benchmarks of speed: the exhaustive search, slopes, budgets, stages, devices."""

from __future__ import annotations

import json
import math
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import timing
from benchmarks.device import __main__ as gpu
from benchmarks.device import rates as device_rates
from benchmarks.scaling import __main__ as scaling
from benchmarks.scaling import ensembles, exhaustive, stages
from benchmarks.scaling import memory as scaling_memory
from benchmarks.scaling import report as scaling_report
from benchmarks.scaling.exhaustive import OutOfTimeError, exhaustive_tree
from benchmarks.scaling.models import Contestant, Fitted
from benchmarks.scaling.report import PAPER, Record, Run, extrapolated, ratios, slope
from benchmarks.shared import read_records
from secret_jax import (
    SecretBoostingRegressor,
    SecretForestRegressor,
    SecretRegressor,
)
from secret_jax.datasets import make_fried
from secret_jax.fit.prune.cross_validation import CrossValidation
from secret_jax.grow import in_numpy, search, trees


def residual(x, y):
    """Residual sum of squares of a line, by another way than the benchmark's."""
    design = np.column_stack([np.ones(len(x)), x])
    return float(np.sum((y - design @ np.linalg.lstsq(design, y)[0]) ** 2))


@pytest.fixture(autouse=True)
def _quiet_machine(monkeypatch):
    """Tests run side by side, and what is timed in them is not looked at."""
    monkeypatch.setattr(timing, "busy_share", lambda: 0.0)


def record(model="exhaustive", n_rows=1000, seconds=1.0, name="fried", **changed):
    given = {"key": "k", "machine": "m", "budget": 60.0, "data_bytes": 8, **changed}
    return Record(set=name, rows=n_rows, model=model, seconds=[seconds], **given)


# ---- the exhaustive search


def test_the_best_threshold_is_that_of_brute_force(rng):
    x = rng.integers(0, 25, (60, 2)).astype(float)  # with ties
    y = np.where(x[:, 1] > 11, 3 * x[:, 0], -x[:, 0]) + rng.normal(size=60)
    tree = exhaustive_tree(x, y, min_samples_split=0.6)
    assert tree.n_leaves >= 2
    found = {}
    for attribute in range(2):
        for value in np.unique(x[:, attribute])[:-1]:
            left = x[:, attribute] <= value
            if min(left.sum(), (~left).sum()) >= 6:
                both = residual(x[left], y[left]) + residual(x[~left], y[~left])
                found[attribute, value] = both
    assert (tree.attribute[0], tree.threshold[0]) == min(found, key=found.__getitem__)


def test_leaves_predict_by_least_squares_of_their_rows(rng):
    x = rng.normal(size=(200, 3))
    y = np.abs(x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=200)
    tree = exhaustive_tree(x, y, min_samples_split=0.9)
    assert tree.n_leaves == 2
    left = x[:, tree.attribute[0]] <= tree.threshold[0]
    for rows in (left, ~left):
        rss = np.sum((tree.predict(x[rows]) - y[rows]) ** 2)
        assert rss == pytest.approx(residual(x[rows], y[rows]))


@pytest.mark.parametrize("n_cuts", [7, 900])
def test_running_grams_are_those_of_the_rows_left_of_the_cuts(rng, monkeypatch, n_cuts):
    monkeypatch.setattr(exhaustive, "_BLOCK", 128)
    joint = rng.normal(size=(1000, 3))
    cuts = np.sort(rng.choice(np.arange(1, 1000), n_cuts, replace=False))
    blocks = list(exhaustive._running_grams(joint, cuts))
    np.testing.assert_array_equal(np.concatenate([some for some, _ in blocks]), cuts)
    grams = np.concatenate([grams for _, grams in blocks])
    expected = [joint[:cut].T @ joint[:cut] for cut in cuts]
    np.testing.assert_allclose(grams, expected, atol=1e-9)


def test_sampled_thresholds_are_fewer_and_time_is_limited(rng, monkeypatch):
    x, y = make_fried(400, n_features=5, random_state=0)
    tried = []
    inside = exhaustive._running_grams

    def counting(joint, cuts):
        tried.append(len(cuts))
        return inside(joint, cuts)

    monkeypatch.setattr(exhaustive, "_running_grams", counting)
    exhaustive_tree(x, y, share=0.01, min_samples_split=0.9)
    assert tried == [4] * 5  # 1 % of the thresholds of 400 rows
    with pytest.raises(OutOfTimeError):
        exhaustive_tree(x, y, seconds=0.0)


# ---- slopes and ratios


def test_printed_figures_give_the_ratios_of_the_papers_text():
    last = {m: times[256_000] for m, times in PAPER["3dsin"].items()}
    assert last["exhaustive"] / last["axis"] == pytest.approx(200, rel=0.05)
    assert last["sampled"] / last["axis"] == pytest.approx(20, rel=0.05)
    # "from 3 to 11 attributes the time of SECRET went up about 3.5 times".
    for method in ("axis", "oblique"):
        growth = PAPER["fried"][method][256_000] / last[method]
        assert growth == pytest.approx(3.5, rel=0.03)
    quadratic = slope(PAPER["fried"]["exhaustive"], 16_000)
    assert quadratic == pytest.approx(2.2, abs=0.1)
    assert slope(PAPER["fried"]["axis"]) == pytest.approx(1.0, abs=0.02)


def test_slopes_are_exponents_within_a_range():
    times = {n: 3.0 * n**1.5 for n in (1000, 2**15, 2**20)} | {2**23: 1e-9}
    assert slope(times, 1000, 2**20) == pytest.approx(1.5)
    assert slope(times, *scaling_report.LARGE) == pytest.approx(1.5)
    assert math.isnan(slope(times, 10, 2000))
    seconds, how = extrapolated({n: 2.0 * n**2 for n in (10, 100, 1000, 10_000)}, 10**5)
    assert seconds == pytest.approx(2e10)
    assert how == "from 100 to 10000 rows"


def test_ratios_say_what_is_extrapolated_and_leave_out_what_is_not_known():
    records = [
        *(record("growth axis", n, 0.5) for n in (64_000, 256_000)),
        *(record("exhaustive", n, n / 1000) for n in (16_000, 64_000)),
        record("sampled", 256_000, 2.0),
        record("paper growth oblique", 64_000, 8.0),
    ]
    found = {(r.ours, r.search): r for r in ratios(records)}
    assert len(found) == 3
    far = found["growth axis", "exhaustive"]
    assert far.value == pytest.approx(512)
    assert far.extrapolated == "from 16000 to 64000 rows"
    assert far.paper == pytest.approx(18052.16 / 460.12)
    near = found["growth axis", "sampled"]
    assert (near.value, near.extrapolated) == (4, "")
    smaller = found["paper growth oblique", "exhaustive"]
    assert (smaller.rows, smaller.value) == (64_000, 8)
    assert "EXTRAPOLATED from 16000" in scaling_report.ratio_table(found.values())


# ---- the runs of scaling


@pytest.fixture
def made_up(monkeypatch):
    """Contestants that do next to nothing, and the order in which they were called."""
    calls = []

    def contestant(name, compiles, limit=math.inf):
        def fit(X, y, seconds):
            calls.append((name, len(X)))
            if len(X) > limit:
                raise OutOfTimeError
            time.sleep(0.002)
            return Fitted(lambda X: np.zeros(len(X)), 3, 0.001 if compiles else None)

        return Contestant(name, "k", fit, compiles)

    found = [contestant("fit", True), contestant("exhaustive", False, limit=150)]
    monkeypatch.setattr(scaling, "contestants", lambda names, threads: found)
    return calls


def test_budgets_turns_and_going_on(made_up, tmp_path, capsys):
    out = tmp_path / "new" / "scaling.jsonl"
    base = ["--sets", "fried", "--repeats", "2", "--test-rows", "50"]
    base += ["--out", str(out)]
    scaling.main([*base, "--rows", "100", "200", "400"])
    small = ["fit", "fit", "exhaustive", "exhaustive", "fit"]  # turns change
    assert made_up[:5] == [(name, 100) for name in small]
    # Given up at 200 rows, and not tried with 400.
    assert [call for call in made_up if call[0] == "exhaustive"][2:] == [
        ("exhaustive", 200)
    ]
    records = {(r.model, r.rows): r for r in read_records(out, Record)}
    assert set(records) == {
        *(("fit", n) for n in (100, 200, 400)),
        *(("exhaustive", n) for n in (100, 200)),
    }
    first = records["fit", 100]
    assert len(first.seconds) == len(first.search_seconds) == 2
    assert first.first is not None
    assert records["exhaustive", 100].first is None
    assert records["exhaustive", 200].status == "over budget"
    printed = capsys.readouterr()
    assert "400 rows, exhaustive: skipped, over its budget" in printed.err
    assert "### Slopes" in printed.out
    assert out.with_suffix(".summary.png").stat().st_size > 1000
    summary = json.loads(out.with_suffix(".summary.json").read_text())
    assert {point["rows"] for point in summary["points"]} == {100, 200, 400}

    made_up.clear()
    scaling.main([*base, "--rows", "100", "200", "400"])
    assert made_up == []
    scaling.main([*base, "--rows", "100", "200", "--budget", "500"])
    assert made_up == [("exhaustive", 200)]  # a larger budget is another try
    made_up.clear()
    scaling.main([*base, "--rows", "50", "300"])
    assert ("exhaustive", 50) in made_up
    assert ("exhaustive", 300) not in made_up


def test_a_tiny_real_run_beside_a_peer(tmp_path, capsys):
    out = tmp_path / "scaling.jsonl"
    base = ["--million", "--million-rows", "256", "--models", "fit axis", "linear"]
    base += ["--repeats", "1", "--test-rows", "2000", "--out", str(out)]
    scaling.main(base)
    ours, linear = read_records(out, Record)
    assert ours.search_seconds[0] < ours.seconds[0]
    assert linear.leaves == 1 < ours.leaves
    assert 1 < ours.mse < linear.mse
    assert "| 256  | fit axis |" in capsys.readouterr().out
    assert out.with_suffix(".million.png").exists()
    assert Run.__dataclass_fields__.keys() < vars(ours).keys()


def test_memory_of_a_child(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a child is started in the root, wherever we are
    point = scaling_memory.peak_of_child("fried", 20_000, "linear")
    assert point["data_bytes"] == 20_000 * 11 * 8
    assert point["data_bytes"] < point["before_bytes"] <= point["peak_bytes"]
    assert scaling_report.memory_table([point]).count("\n") == 2


# ---- the stages of a fit


def test_all_stages_are_found_add_up_and_leave_nothing_behind():
    def places():
        return (
            trees.grown,
            search.BatchSearch.find,
            in_numpy.NumpySearch._found,
            CrossValidation.__call__,
        )

    before = places()
    X, y = make_fried(256, random_state=0)
    model = SecretRegressor(oblique=False, random_state=0)
    clock, seconds, _, missing = stages.profiled(lambda: model.fit(X, y))
    assert missing == []
    found = stages.stage_seconds(clock, seconds)
    assert sum(found.values()) == pytest.approx(seconds)
    expected = {"encode", "prune", "statistics while growing", "distill"}
    assert expected <= found.keys()
    assert found[stages.REST] < 0.5 * seconds
    assert clock.in_threads["find splits"] > 0
    assert places() == before


def test_a_place_that_is_gone_is_named(monkeypatch):
    gone = stages.Stage("gone", ("secret_jax.grow.grower:no_such_function",))
    monkeypatch.setattr(stages, "STAGES", (gone,))
    with stages.wrapped(stages.Clock()) as missing:
        assert missing == ["secret_jax.grow.grower:no_such_function"]


def test_every_compiled_program_counts_in_whatever_thread():
    def program(x):
        return jnp.sin(x) * 3

    compiled = jax.jit(program)
    x, longer = np.ones(3, np.float32), np.ones(5, np.float32)
    with stages.compiling() as so_far:
        compiled(x)
        assert so_far().programs == 1
        compiled(x)
        assert so_far().programs == 1
        thread = threading.Thread(target=compiled, args=(longer,))
        thread.start()
        thread.join()
        assert so_far().programs == 2
        assert so_far().seconds > 0
    compiled(np.ones(7, np.float32))
    assert so_far().programs == 2


# ---- accelerators

SMALL_RATES = ["--em-nodes", "2", "--em-rows", "64", "--product", "32"]


def test_without_an_accelerator_it_says_so(capsys, tmp_path):
    if jax.default_backend() != "cpu":
        pytest.skip("there is one")
    out = tmp_path / "gpu.json"
    gpu.main(["--out", str(out)])
    assert "There is no accelerator here" in capsys.readouterr().out
    assert not out.exists()
    with pytest.raises(SystemExit, match="JAX sees no such device, only cpu"):
        gpu.main(["--device", "tpu"])


def test_the_whole_way_on_the_cpu(tmp_path, capsys, monkeypatch):
    original = gpu.make_model

    def smaller(device):
        model, context = original(device)
        return model.set_params(oblique=False), context

    monkeypatch.setattr(gpu, "make_model", smaller)
    out = tmp_path / "gpu.json"
    base = ["--device", "cpu", "--sizes", "256x10", "100000000000x10"]
    base += ["--repeats", "1", "--predict-rows", "2000"]
    gpu.main([*base, *SMALL_RATES, "--out", str(out)])
    found = json.loads(out.read_text())
    (fit,) = found["fits"]
    assert fit["leaves"] > 1
    assert 1 < fit["mse"] < 7  # a linear model has 7.2, the noise 1
    kinds = [(point["kind"], point["data"]) for point in found["predictions"]]
    assert kinds == [(k, p) for k in ("hard", "soft") for p in ("device", "host")]
    assert "GB are free" in found["skipped"]["100,000,000,000 x 10"]
    (em,) = found["em"]
    assert em["steps"] == 20
    assert em["row_steps_per_second"] * em["seconds"] == pytest.approx(2 * 64 * 20)
    per_row = em["flops"] / em["row_steps_per_second"]
    assert per_row == pytest.approx(6 * 12**2)
    assert "| 256  | 10      | cpu | device " in capsys.readouterr().out
    assert out.with_suffix(".png").stat().st_size > 1000


def test_data_made_on_a_device_are_friedmans(rng):
    x, y = (
        np.asarray(a) for a in device_rates.friedman_on(jax.devices()[0], 4000, 6, 0)
    )
    signal = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2
    noise = y - signal - 10 * x[:, 3] - 5 * x[:, 4]
    assert x.shape == (4000, 6)
    assert np.std(noise) == pytest.approx(1, abs=0.05)
    assert abs(np.mean(noise)) < 0.06
    assert x.min() >= 0
    assert x.max() <= 1


# ---- boosters and forests


def test_ensembles_are_timed_by_the_fit_or_by_the_tree(capsys):
    def rows():
        return make_fried(120, n_features=5, random_state=0)

    rounds = {"max_leaf_nodes": 4, "max_iter": 2, "early_stopping": False}
    chosen = {
        "trees": ensembles.Case(
            lambda: SecretBoostingRegressor(**rounds, ensemble=False), rows, 2
        ),
        "forest": ensembles.Case(lambda: SecretForestRegressor(n_estimators=3), rows),
    }
    ensembles.report(chosen, repeats=1)
    lines = capsys.readouterr().out.splitlines()
    trees, forest = (line.strip("| ").split(" | ") for line in lines[2:])
    assert trees[0] == "trees"
    assert trees[3].startswith("ms a tree")
    assert forest[3] == "s a fit"
    assert float(forest[4]) > 0
