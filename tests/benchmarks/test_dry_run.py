"""What a fit asks of an accelerator, counted without one: bounds that hold a design."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.device import dry_run
from benchmarks.device.dry_run import Demands, counted, demands_of
from secret_jax import Logistic, SecretRegressor
from secret_jax.datasets import make_fried


@pytest.mark.device
@pytest.mark.parametrize("rows", [600, 1000, 4000])
def test_batches_are_of_the_size_of_their_level(rows):
    found = demands_of(rows, 10)
    assert found.nodes > rows // 10
    assert found.nodes <= found.padded_nodes <= 3 * found.nodes
    assert found.programs <= 60
    assert found.compiled <= 12
    assert 4 * 10 * rows < found.bytes_to_device < 1e8


@pytest.mark.device
@pytest.mark.parametrize(
    ("model", "rows", "programs", "compiled", "parameters"),
    [
        ("paper", 2000, 20, 6, {}),
        ("booster", 2000, 70, 10, {}),
        ("classifier", 600, 20, 6, {"leaf": Logistic(drops_regressors=False)}),
    ],
)
def test_other_models_ask_little(model, rows, programs, compiled, parameters):
    found = demands_of(rows, 10, model, **parameters)
    assert found.nodes <= found.padded_nodes <= 2.4 * found.nodes
    assert found.programs <= programs
    assert found.compiled <= compiled
    assert found.bytes_to_device < 1e7


@pytest.mark.device
def test_a_second_growth_of_fewer_columns_asks_for_as_much_again():
    found = demands_of(600, 10, "classifier")
    assert found.programs <= 26
    assert found.compiled <= 7
    assert found.bytes_to_device < 2e7


@pytest.mark.device
def test_a_fit_of_a_sample_sends_its_rows_a_few_times_only():
    found = demands_of(200_000, 5)
    assert found.padded_nodes <= 3 * found.nodes
    # Five float32 and a target, for routing and for the models, and the sample.
    assert found.bytes_to_device < 8 * 200_000 * 4 * 6


@pytest.mark.parametrize(
    "parameters",
    [
        {"oblique": False, "prune": None, "max_depth": 2},
        pytest.param({"splits": "phd", "prune": "holdout"}, marks=pytest.mark.device),
        pytest.param({"splits": "secret", "refine": "tao"}, marks=pytest.mark.device),
    ],
    ids=str,
)
def test_the_tree_is_the_one_without(parameters):
    X, y = make_fried(300, n_features=5, random_state=0)
    model = SecretRegressor(random_state=0, **parameters)
    expected = model.fit(X, y).predict(X)
    with counted() as demands:
        found = model.fit(X, y)
    assert demands.nodes > 0
    assert np.array_equal(found.predict(X), expected)


def test_the_command_prints_one_object_or_a_table(capsys, monkeypatch):
    demands = Demands(nodes=5, padded_nodes=8)
    monkeypatch.setattr(dry_run, "demands_of", lambda rows, columns, model: demands)
    dry_run.main(["--rows", "300", "--columns", "5", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["columns"]) == (300, 5)
    assert (found["padded_nodes"], found["nodes"]) == (8, 5)
    assert {"programs", "bytes_to_device"} <= found.keys()
    dry_run.main(["--rows", "300", "--columns", "5"])
    assert "| 300 x 5 |" in capsys.readouterr().out
