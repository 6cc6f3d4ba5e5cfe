"""Columns as they come: what was the index of a DataFrame is none."""

import pandas as pd
import pyarrow as pa

from secret_jax import SecretRegressor
from secret_jax.data.validation import validated
from secret_jax.stream.batches import Wanted, as_batch
from secret_jax.stream.sources import opened


def test_the_index_of_a_dataframe_is_no_column_of_its_arrow_table():
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [3.0, 4.0]}, index=[7, 3])
    table = pa.Table.from_pandas(frame)
    assert table.column_names == ["a", "y", "__index_level_0__"]
    model = SecretRegressor()
    assert validated(model, table, reset=True).column_names == ["a", "y"]
    assert model.feature_names_in_.tolist() == ["a", "y"]
    wanted = Wanted(("y",))
    assert list(as_batch(table, wanted, "batch 0").columns) == ["a"]
    (batch,) = opened(table, wanted).batches(0)
    assert list(batch.columns) == ["a"]
