"""The page on frames of other engines: partitions of Dask as a stream."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from stream_tables import SMALL, assert_same_model, mixed_table

import secret_jax
from secret_jax import SecretRegressor

PAGE = Path(secret_jax.__file__).parents[1] / "benchmarks/scaling/ENGINES.md"


def test_the_example_of_the_page_gives_the_tree_of_the_table():
    dask_frame = pytest.importorskip("dask.dataframe")
    table = mixed_table()[["a", "b", "y"]]
    frame = dask_frame.from_pandas(table, npartitions=5)
    page = PAGE.read_text()
    dask = page[page.index("## Rows that live in Dask") :]
    (code,) = re.findall(r"```python\n(.*?)```", dask, re.DOTALL)
    space = {"frame": frame, "SecretRegressor": SecretRegressor, "options": SMALL}
    exec(code, space)
    expected = SecretRegressor(**SMALL).fit(table[["a", "b"]], table["y"])
    assert_same_model(space["model"], expected)
    predicted = np.asarray(space["predicted"].compute())
    known = expected.predict(table[["a", "b"]])
    np.testing.assert_allclose(predicted, known, rtol=1e-5, atol=1e-6)
