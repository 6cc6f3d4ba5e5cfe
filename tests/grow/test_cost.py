"""What is said before a fit that takes long, and before which ones nothing is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from secret_jax import SecretRegressor
from secret_jax.fit.prepare import prepare
from secret_jax.grow.cost import what_takes_long


def note(X, **words) -> str:
    model = SecretRegressor(random_state=0)
    prepared = prepare(model._plan(), model._given(X, np.arange(len(X)), None)[0], None)
    given = {"oblique": True, "indicators": True} | words
    return what_takes_long(prepared.schema, prepared.rows.n_rows, **given)


def wide(n_rows: int = 8000, n_columns: int = 100) -> pd.DataFrame:
    random = np.random.default_rng(0)
    columns = [f"x{number}" for number in range(n_columns)]
    X = pd.DataFrame(random.normal(size=(n_rows, n_columns)), columns=columns)
    X["street"] = random.permutation(np.resize(np.arange(20), n_rows)).astype(str)
    return X


def test_the_note_says_what_there_is_and_what_would_be_quicker():
    said = note(wide())
    found = [int(word) for word in said.replace(",", "").split() if word.isdigit()]
    assert found == [8000, 120, 101, 20]  # rows, terms, columns, indicators
    assert said.endswith("without indicators or without oblique splits")
    assert "oblique" not in note(wide(), oblique=False)
    assert "indicators" not in note(wide(), indicators=False)
    assert "quicker" not in note(wide(), oblique=False, indicators=False)


@pytest.mark.parametrize("X", [wide(400), wide(13_000, 20), wide(8000, 10)])
def test_few_rows_or_few_terms_need_no_note(X):
    assert note(X) == ""
