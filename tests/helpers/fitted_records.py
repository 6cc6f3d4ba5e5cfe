"""Records and models for tests of benchmarks that need no fit."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pandas as pd

from benchmarks.accuracy.peers import Candidate, Outcome
from benchmarks.accuracy.report import Record, Results


def results(records) -> Results:
    return Results(pd.DataFrame([asdict(one) for one in records]))


def record(model="a", name="one", seed=0, error=0.5, **changed) -> Record:
    run = {"set": name, "model": model, "seed": seed, "data": "", "key": "k"}
    made = {"mse": error, "leaves": 3, "seconds": 0.5, "rows": 50, "columns": 2}
    return Record(**run, **made, error=error, **changed)


def constant(name: str, level: float, numbers: int | None = None) -> Candidate:
    """A model that predicts one number."""

    def run(experiment):
        return Outcome(np.full(len(experiment.test.y), level), 1, 0.25, numbers)

    return Candidate(name, "k", run)
