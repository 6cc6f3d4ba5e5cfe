"""What cannot be used is refused, and the message says where."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from secret_jax import SecretRegressor
from secret_jax.estimators.stream.batches import StreamError

MODEL = {"max_depth": 0}
GOOD = {"a": [1.0, 2.0, 3.0], "text": ["u", "v", "u"], "y": [1.0, 2.0, 4.0]}


def good() -> pd.DataFrame:
    return pd.DataFrame(GOOD)


def fit(source, **more):
    return SecretRegressor(**MODEL).fit_stream(source, **more)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="a"), "In batch 1: X lacks 'a'"),
        (
            lambda f: f.assign(**{f"b{i}": 1 for i in range(40)}),
            "X has the unknown 'b0', .* and 32 more",
        ),
        (
            lambda f: f.assign(a="one"),
            r"In batch 1: Column 'a' .* row 3 \(row 0 of batch 1\) holds 'one'",
        ),
        (
            lambda f: f.assign(text=2.0),
            "In batch 1: column 'text' holds numbers, and held none in the first",
        ),
        (
            lambda f: f.assign(a=pd.Timestamp("2020-01-01")),
            "In batch 1: Column 'a' holds dates or times, and held none",
        ),
        (lambda f: f.drop(columns="y"), "In batch 1: there is no column 'y'"),
        (lambda f: f.assign(y="high"), "In batch 1: column 'y': The target y"),
        (lambda f: f.assign(y=np.nan), r"row 3 \(row 0 of batch 1\) is nan"),
        (lambda f: f.assign(a=[1, np.inf, 2]), r"row 4 \(row 1 of batch 1\)"),
        (lambda f: (f[["a"]], f["y"], f["y"], 0), "In batch 1: a tuple of 4"),
        (lambda f: {"a": f["a"], "text": f["text"], "y": [1.0]}, "different lengths"),
        (lambda f: 3, "In batch 1"),
    ],
)
def test_a_batch_that_is_not_like_the_first_one(change, message):
    with pytest.raises(StreamError, match=message):
        fit([good(), change(good())])


@pytest.mark.parametrize("levels", [("u", "v", "x", "w"), ("v", "u"), ("w",)])
def test_ordered_categories_are_those_of_the_first_batch(levels, tmp_path):
    def batch(levels):
        text = pd.Categorical([levels[0]] * 3, levels, ordered=True)
        return good().assign(text=text)

    with pytest.raises(
        StreamError, match=r"column 'text' has ordered categories .* from '[vw]' on"
    ):
        fit([batch(("u", "v", "x")), batch(levels)])
    model = fit([batch(("u", "v", "x")), batch(("u", "x"))])
    other = [batch(order)[["a", "text"]] for order in (("u", "v"), ("v", "u"))]
    model.predict_stream(other, tmp_path / "predicted.parquet")  # by their names


def test_weights_that_are_none_and_outputs_without_a_name():
    X, y = np.arange(6.0)[:, None], np.arange(12.0).reshape(6, 2)
    with pytest.raises(StreamError, match=r"y has 2 outputs, .* is called 'y'"):
        fit([(X, y)])
    assert fit([(X, y)], target=("a", "b")).tree_.n_outputs == 2
    bad = good().assign(w=[1.0, -1.0, 2.0])
    with pytest.raises(
        StreamError, match=r"negative numbers: row 4 \(row 1 of batch 1\) is -1"
    ):
        fit([good().assign(w=1.0), bad], sample_weight="w")
    with pytest.raises(StreamError, match="all are zero"):
        fit([good().assign(w=0.0)], sample_weight="w")


def test_a_batch_of_nothing_but_missing_values_is_of_any_kind():
    nothing = pa.table(
        {
            "a": pa.nulls(3, pa.float64()),
            "text": pa.nulls(3, pa.string()),
            "y": [1.0, 2.0, 3.0],
        }
    )
    model = fit([nothing, good(), good().assign(text=None, a=np.nan)])
    assert model.tree_.schema.categories == (("u", "v", None),)
    assert model.tree_.weight[0] == 9


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([], "stream is empty"),
        (list, "stream is empty"),
        ([good().head(0)], "stream is empty"),
        (
            [
                pd.DataFrame({"name": [f"{k} row {i}" for i in range(3000)], "y": k})
                for k in range(2)
            ],
            "'name' has more than 4096",
        ),
    ],
)
def test_what_no_tree_is_grown_on(source, message):
    with pytest.raises(StreamError, match=message):
        fit(source)


def test_what_is_no_source(tmp_path):
    with pytest.raises(StreamError, match="generator can be read only once"):
        fit(good() for _ in range(2))
    with pytest.raises(StreamError, match="There is no file or folder"):
        fit(tmp_path / "nowhere")
    with pytest.raises(StreamError, match="holds no Parquet files"):
        fit(tmp_path)
    with pytest.raises(StreamError, match="is no source of rows"):
        fit(3)
    with pytest.raises(StreamError, match=r"different numbers of rows: \[3, 2\]"):
        fit((np.zeros((3, 2)), np.zeros(2)))
    with pytest.raises(ValueError, match=r"'sample_rows' parameter .* Got 0"):
        fit([good()], sample_rows=0)


def test_part_files_that_cannot_be_read_or_lack_a_column(tmp_path):
    good().to_parquet(tmp_path / "a.parquet", index=False)
    other = tmp_path / "b.parquet"
    good().drop(columns="text").to_parquet(other, index=False)
    with pytest.raises(StreamError, match=r"b\.parquet': X lacks 't"):
        fit(tmp_path)
    with pytest.raises(StreamError, match=r"b\.parquet': there is no column 't"):
        fit(tmp_path, columns=["a", "text"])
    good().assign(text=1.5).to_parquet(other, index=False)
    with pytest.raises(
        StreamError, match=r"(?s)b\.parquet.* column 'text' holds numbers"
    ):
        fit(tmp_path)
    good().to_parquet(other, index=False)
    whole = other.read_bytes()
    other.write_bytes(whole[: len(whole) // 2])
    cannot = r"(?s)Arrow cannot read part file .*b\.parquet'"
    with pytest.raises(StreamError, match=cannot):
        fit(tmp_path)
    damaged = bytearray(whole)
    damaged[4:40] = bytes(36)  # the footer is whole, the pages are not
    other.write_bytes(bytes(damaged))
    with pytest.raises(StreamError, match=cannot):
        fit(tmp_path)


NUMBERS = np.arange(40.0)
FIRST = pd.DataFrame({"c": ["u", "v"] * 20, "a": NUMBERS, "y": NUMBERS**2, "w": 1.0})


@pytest.mark.parametrize(
    ("later", "message"),
    [
        (FIRST.head(30), "second pass has read 30 rows, and the first one 40"),
        (pd.concat([FIRST, FIRST]), "has read 80 rows, and the first one 40"),
        (FIRST.assign(y=-FIRST["y"]), "are others than those of the first"),
        # The same values, in other rows.
        (FIRST.assign(c=["v", "u"] * 20), "are others"),
        (FIRST.assign(a=NUMBERS[::-1]), "are others"),
        (FIRST.assign(y=np.roll(FIRST["y"], 1)), "are others"),
        (FIRST.assign(w=[2.0, 0.5, 0.5, 1.0] * 10), "are others"),
        (FIRST.assign(c=["u", "w"] * 20), "column 'c' holds a category"),
    ],
)
def test_a_source_that_changes_between_the_passes(later, message):
    passes = iter([[FIRST], [later]])
    with pytest.raises(StreamError, match=message):
        fit(lambda: next(passes), sample_rows=20, sample_weight="w")


def test_the_second_pass_may_have_another_order_of_rows():
    passes = iter([[FIRST.head(7), FIRST.tail(33)], [FIRST.iloc[::-1]]])
    model = fit(lambda: next(passes), sample_rows=20, sample_weight="w")
    assert model.tree_.weight[0] == pytest.approx(40)


def test_a_failed_fit_leaves_the_model_as_it_was():
    model = fit([good()])
    before = dict(vars(model))
    with pytest.raises(StreamError):
        model.fit_stream([good().rename(columns={"a": "b"}), good()])
    assert vars(model) == before


def test_a_prediction_that_fails_leaves_no_file(tmp_path):
    model = fit([good()])
    out = tmp_path / "out.parquet"
    message = "In batch 1: Column 'a' .*row 3 .row 0 of batch 1. holds 'x'"
    with pytest.raises(StreamError, match=message):
        model.predict_stream([good(), good().assign(a="x")], out)
    assert list(tmp_path.iterdir()) == []
    assert model.predict_stream([], out) == 0
    assert list(pd.read_parquet(out)) == ["prediction"]
