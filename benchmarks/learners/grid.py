"""A grid of learners on tables of one's own, from Python, in the long form.

>>> from benchmarks.learners.grid import grid
>>> from secret_jax.datasets import make_fried
>>> X, y = make_fried(300, random_state=0)
>>> found = grid({"fried": (X, y)}, finders=["rss", "m5"], leaves=["linear"], seeds=1)
>>> found[["set", "finder", "leaf", "seed"]].to_dict("records")[1]
{'set': 'fried', 'finder': 'm5', 'leaf': 'linear', 'seed': 0}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.accuracy.__main__ import fit_one
from benchmarks.accuracy.data import not_numeric
from benchmarks.accuracy.ours import code_version
from benchmarks.accuracy.report import Run
from benchmarks.learners.parts import learners
from benchmarks.shared import Experiment, dealt_out, randomness_of


def grid(
    tables: Mapping[str, tuple[Any, Any]],
    *,
    finders: Iterable[str] = ("rss", "secret", "cart"),
    leaves: Iterable[str] = ("linear",),
    prunings: Iterable[str] = ("cross-validation",),
    splits: Iterable[str] = ("axis",),
    seeds: int = 3,
) -> pd.DataFrame:
    """Fit every combination of the parts to every table; one line for each fit.

    Parameters
    ----------
    tables : mapping of str to (X, y)
        Arrays or DataFrames; columns that hold no numbers are categories.
    finders, leaves, prunings, splits : iterables of str
        Names in `benchmarks.learners.parts`.
    seeds : int
        Each deals the rows anew: 50 % to train, 30 % to prune, 20 % to test.

    Returns
    -------
    DataFrame
        The fields of `benchmarks.accuracy.report.Record` and the parts of the learner.
    """
    chosen, code = learners(finders, leaves, prunings, splits), code_version()
    lines = []
    for name, (X, y) in tables.items():
        frame, target = pd.DataFrame(X), np.asarray(y, np.float64)
        for seed in range(seeds):
            random, seed_of_fits = randomness_of(name, seed)
            parts = dealt_out(frame, target, random)
            rows = Experiment(*parts, discrete=not_numeric(frame), seed=seed_of_fits)
            for learner in chosen:
                run = Run(
                    set=name, model=learner.name, seed=seed, data="given", key=code
                )
                record = fit_one(run, learner.candidate(code), rows)
                lines.append(learner._asdict() | asdict(record))
    return pd.DataFrame(lines)
