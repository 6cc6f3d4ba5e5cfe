"""The benchmarks of losses and of a million rows, in small."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import huber

from benchmarks.learners import losses, million


def test_costs_are_those_of_the_losses():
    random = np.random.default_rng(0)
    y, said = random.normal(size=(2, 50))
    found = losses.MEASURES["Huber"].cost(y, said, 2.0)
    assert found == pytest.approx(huber(0.3, (y - said) / 2.0).mean())
    found = losses.MEASURES["pinball, 0.9"].cost(np.array([1.0, 0.0]), np.zeros(2), 1.0)
    assert found == pytest.approx(0.45)


@pytest.mark.parametrize("name", losses.MEASURES)
def test_the_best_constant_costs_least(name):
    measure, random = losses.MEASURES[name], np.random.default_rng(0)
    y = random.gamma(0.5, 20.0, 301) + 1.0
    found = losses._best_constant(measure, y, float(y.std()))
    others = np.linspace(y.min(), y.max(), 401)
    costs = [measure.cost(y, np.full(301, each), float(y.std())) for each in others]
    assert measure.cost(y, np.full(301, found), float(y.std())) <= min(costs) + 1e-9
    if name == "Poisson deviance":
        assert found == pytest.approx(y.mean(), rel=1e-5)


def test_a_table_has_the_ratios(tmp_path):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"x": random.normal(size=60)})
    frame["y"] = random.poisson(5.0, 60)
    frame.to_csv(tmp_path / "births.csv", index=False)
    options = {"data": "births", "repeat": 0, "measure": "Poisson deviance"}
    constant = losses.fit(losses.Fit(**options, model="constant"), tmp_path)
    assert 0.3 < constant.cost < 3.0
    twice = losses.Record(**options, model="LightGBM", cost=1.0, leaves=0, seconds=0.0)
    text = losses.table([constant, twice], ["constant", "LightGBM"])
    assert f"{constant.cost:.3f}" in text.splitlines()[-1]


def test_classes_of_many_rows_are_of_like_size():
    X, y = million.labelled(20_000, 0)
    assert X.shape == (20_000, 10)
    assert abs(y.mean() - 0.5) < 0.02
