"""What cannot be used is refused, and the message says where."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from secret_jax import SecretRegressor
from secret_jax.stream.batches import StreamError
from secret_jax.stream.sources import ArrowBatches

MODEL = {"max_depth": 0}
GOOD = {"a": [1.0, 2.0, 3.0], "text": ["u", "v", "u"], "y": [1.0, 2.0, 4.0]}


def good() -> pd.DataFrame:
    return pd.DataFrame(GOOD)


def fit(source, **more):
    return SecretRegressor(**MODEL).fit_stream(source, **more)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="a"), "Batch 1 lacks column 'a'"),
        (lambda f: f.assign(b=1), "Batch 1 has the further column 'b'"),
        (
            lambda f: f.assign(a="one"),
            "Batch 1 has text or truth values in column 'a'",
        ),
        (lambda f: f.assign(text=2.0), "has numbers in column 'text', and not text"),
        (
            lambda f: f.assign(a=pd.Timestamp("2020-01-01")),
            "has dates without a time zone in column 'a'",
        ),
        (lambda f: f.drop(columns="y"), "Batch 1 has no column 'y'"),
        (lambda f: f.assign(y="high"), "In batch 1: column 'y': The target y"),
        (lambda f: f.assign(y=np.nan), r"row 3 \(row 0 of batch 1\) is nan"),
        (lambda f: f.assign(a=[1, np.inf, 2]), r"row 4 \(row 1 of batch 1\)"),
        (lambda f: (f[["a"]], f["y"], f["y"], 0), "Batch 1 is a tuple of 4"),
        (lambda f: {"a": f["a"], "text": f["text"], "y": [1.0]}, "different lengths"),
        (lambda f: 3, "In batch 1"),
    ],
)
def test_a_batch_that_is_not_like_the_first_one(change, message):
    with pytest.raises(StreamError, match=message):
        fit([good(), change(good())])


def test_every_output_of_arrays_has_a_name():
    X, y = np.arange(6.0)[:, None], np.arange(12.0).reshape(6, 2)
    with pytest.raises(StreamError, match=r"y has 2 outputs, .* is called 'y'"):
        fit([(X, y)])
    assert fit([(X, y)], target=("a", "b")).tree_.n_outputs == 2


@pytest.mark.parametrize("levels", [("u", "v", "x", "w"), ("v", "u"), ("w",)])
def test_ordered_categories_are_those_of_the_first_batch(levels, tmp_path):
    def batch(levels):
        text = pd.Categorical([levels[0]] * 3, levels, ordered=True)
        return good().assign(text=text)

    with pytest.raises(
        StreamError, match=r"has ordered categories \(.*\) in column 'text'"
    ):
        fit([batch(("u", "v", "x")), batch(levels)])
    model = fit([batch(("u", "v", "x")), batch(("u", "x"))])
    other = [batch(order)[["a", "text"]] for order in (("u", "v"), ("v", "u"))]
    model.predict_stream(other, tmp_path / "predicted.parquet")  # by their names


def test_weights_that_are_none():
    bad = good().assign(w=[1.0, -1.0, 2.0])
    with pytest.raises(StreamError, match=r"row 4 \(row 1 of batch 1\) has -1"):
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


def test_too_many_categories():
    names = [f"row {i}" for i in range(3000)]
    parts = [
        pd.DataFrame({"name": [f"{k} {name}" for name in names], "y": 1.0 * k})
        for k in range(2)
    ]
    with pytest.raises(StreamError, match="'name' has more than 4096"):
        fit(parts)


@pytest.mark.parametrize("source", [[], list, [good().head(0)]])
def test_an_empty_stream(source):
    with pytest.raises(StreamError, match="stream is empty"):
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
    with pytest.raises(StreamError, match=r"b\.parquet', row group 0 lacks column 't"):
        fit(tmp_path)
    with pytest.raises(StreamError, match=r"b\.parquet', row group 0 has no column 't"):
        fit(tmp_path, columns=["a", "text"])
    good().assign(text=1.5).to_parquet(other, index=False)
    with pytest.raises(
        StreamError, match=r"(?s)b\.parquet.* has numbers in column 'text'"
    ):
        fit(tmp_path)
    good().to_parquet(other, index=False)
    whole = other.read_bytes()
    other.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StreamError, match=r"(?s)[Pp]art file .*b\.parquet' cannot be"):
        fit(tmp_path)
    damaged = bytearray(whole)
    damaged[4:40] = bytes(36)  # the footer is whole, the pages are not
    other.write_bytes(bytes(damaged))
    with pytest.raises(StreamError, match=r"(?s)b\.parquet', row group 0 cannot be"):
        fit(tmp_path)


@pytest.mark.parametrize(
    ("later", "message"),
    [(40, "more rows in the second pass"), (20, r"fewer rows in the second pass \(20")],
)
def test_a_source_that_changes_between_the_passes(later, message):
    X, y = np.arange(30.0)[:, None], np.arange(30.0) ** 2
    sizes = iter([30, later])

    def batches():
        n_rows = next(sizes)
        many = np.resize(X, (n_rows, 1)), np.resize(y, n_rows)
        return [many]

    with pytest.raises(StreamError, match=message):
        fit(batches, sample_rows=20)


def test_other_targets_in_the_second_pass_are_noticed():
    X, y = np.arange(30.0)[:, None], np.arange(30.0) ** 2
    signs = iter([1.0, -1.0])
    with pytest.raises(StreamError, match="second pass are others than those of the"):
        fit(lambda: [(X, next(signs) * y)], sample_rows=20)


@pytest.mark.parametrize("kind", ["float64", "int64", "bool", "datetime64[s]", "str"])
def test_other_columns_in_the_second_pass_are_noticed(kind):
    column = pd.Series(np.arange(30) % 2).astype(kind)
    frame = pd.DataFrame({"a": np.arange(30.0), "b": column, "y": np.arange(30.0) ** 2})
    frames = iter([frame, frame.assign(b=column.to_numpy()[::-1])])
    with pytest.raises(StreamError, match="second pass are others than those of the"):
        fit(lambda: [next(frames)], sample_rows=20)


def test_a_file_that_is_written_between_the_passes_is_noticed(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    table = pd.DataFrame({"a": np.arange(30.0), "y": np.arange(30.0) ** 2})
    alike = {"compression": None, "use_dictionary": False}  # no page changes its size
    table.to_parquet(path, **alike)
    batches = ArrowBatches.batches
    passes = []

    def written(self, targets=True):
        passes.append(targets)
        if len(passes) == 2:
            table.assign(a=table.a + 1).to_parquet(path, **alike)
        return batches(self, targets)

    monkeypatch.setattr(ArrowBatches, "batches", written)
    with pytest.raises(StreamError, match="second pass are others than those of the"):
        fit(path, sample_rows=20)


def test_a_category_that_the_first_pass_did_not_see():
    frames = iter(
        [
            [pd.DataFrame({"c": ["u", "v"] * 20, "a": np.arange(40.0), "y": 1.0})],
            [pd.DataFrame({"c": ["u", "w"] * 20, "a": np.arange(40.0), "y": 1.0})],
        ]
    )
    with pytest.raises(StreamError, match="'c' holds a category that the first"):
        fit(lambda: next(frames), sample_rows=20)


def test_a_failed_fit_leaves_the_model_as_it_was():
    model = fit([good()])
    before = dict(vars(model))
    with pytest.raises(StreamError):
        model.fit_stream([good().rename(columns={"a": "b"}), good()])
    assert vars(model) == before


def test_a_prediction_that_fails_leaves_no_file(tmp_path):
    model = fit([good()])
    out = tmp_path / "out.parquet"
    with pytest.raises(StreamError, match="has text or truth values in column 'a'"):
        model.predict_stream([good(), good().assign(a="x")], out)
    assert list(tmp_path.iterdir()) == []
    assert model.predict_stream([], out) == 0
    assert list(pd.read_parquet(out)) == ["prediction"]


def test_many_other_columns_are_told_in_short():
    def batch(letter):
        X = pd.DataFrame(np.eye(20, 200), columns=[f"{letter}{i}" for i in range(200)])
        return X, np.arange(20.0)

    with pytest.raises(StreamError, match=r"lacks columns 'a0', .* and 192") as e:
        SecretRegressor().fit_stream([batch("a"), batch("b")])
    assert len(str(e.value)) < 400


def test_of_many_ordered_categories_those_that_differ_are_told():
    levels = [f"level {i}" for i in range(300)]
    swapped = [*levels[:99], levels[100], levels[99], *levels[101:]]

    def batch(order):
        kind = pd.CategoricalDtype(order, ordered=True)
        X = pd.DataFrame({"c": pd.Series(levels, dtype=kind)})
        return X, np.arange(300.0)

    expected = (
        r"\(... < level 100 < level 99 < .* and not .*\(... < level 99 < level 100 <"
    )
    with pytest.raises(StreamError, match=expected) as e:
        SecretRegressor().fit_stream([batch(levels), batch(swapped)])
    assert len(str(e.value)) < 500


def test_of_many_columns_of_another_kind_some_are_told():
    X = pd.DataFrame(np.eye(20, 30), columns=[f"a{i}" for i in range(30)])
    batches = [(one, np.arange(20.0)) for one in (X, X.astype(str))]
    with pytest.raises(StreamError, match="other contents in 22 more") as e:
        SecretRegressor().fit_stream(batches)
    assert len(str(e.value)) < 700
