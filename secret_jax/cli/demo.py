"""The first command that is tried: a tree on a table that is made on the spot."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from secret_jax.cli.messages import PROGRAM, require, say
from secret_jax.cli.pictures import check_picture, draw

if TYPE_CHECKING:
    import pandas as pd

DEMO_PICTURE = "secret_jax_demo.png"
_STORY = """\
How many bikes are rented on a day? Two years of a made-up city, so that you can check
what the tree finds. The rule, and a deviation of 12 bikes that nobody can foresee:
  from Monday to Friday   210 bikes, +4 for each degree, -2 for each mm of rain
  on Saturday and Sunday  60 bikes, +14 for each degree; with more than 2 mm of rain
                          it is 50, however warm
  on all days             -1 for each km/h of wind
One straight line cannot say that; a few of them can.
"""
_N_DAYS = 730


def demo(arguments: argparse.Namespace) -> None:
    """Grow a tree on rented bikes, measure it, and draw it."""
    check_picture(arguments.out)
    require("pandas", "data", "hold the table")
    print(_STORY, flush=True)
    say("starting JAX")
    from secret_jax.cli.evaluation import evaluate, score_table
    from secret_jax.estimators.regressor import SecretRegressor

    X, y = rented_bikes()
    evaluation = evaluate(
        SecretRegressor(max_leaf_nodes=8, random_state=0, verbose=not arguments.quiet),
        X,
        y,
        test_fraction=0.2,
        seed=0,
        progress=say,
    )
    print(evaluation.model.export_text().rstrip("\n"))
    print(f"\n{score_table(evaluation)}\n")
    draw(evaluation.model, arguments.out)
    print(f"The picture of the tree is in {arguments.out}")
    print(f"Now your own table:  {PROGRAM} fit FILE TARGET")


def rented_bikes() -> tuple[pd.DataFrame, pd.Series]:
    """The table of the story: a row for each day."""
    import numpy as np
    import pandas as pd

    random = np.random.default_rng(0)
    date = pd.Series(pd.date_range("2024-01-01", periods=_N_DAYS))
    season = np.cos(2 * np.pi * (date.dt.dayofyear.to_numpy() - 20) / 365)
    temperature = (13 - 8 * season + random.normal(0, 4, _N_DAYS)).round(1)
    is_wet = random.random(_N_DAYS) >= 0.6
    rain = np.where(is_wet, random.exponential(5, _N_DAYS), 0.0).round()
    wind = random.gamma(4, 4, _N_DAYS).round()
    at_work = 210 + 4 * temperature - 2 * rain
    at_leisure = np.where(rain > 2, 50, 60 + 14 * temperature)
    bikes = np.where(date.dt.dayofweek < 5, at_work, at_leisure) - wind
    bikes = (bikes + random.normal(0, 12, _N_DAYS)).round().clip(min=0)
    table = {"day": date.dt.day_name(), "temperature": temperature, "rain": rain}
    return pd.DataFrame(table | {"wind": wind}), pd.Series(bikes, name="bikes")
