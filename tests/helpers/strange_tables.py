"""Tables, targets and weights that hypothesis draws: the same in every run."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

Rng = np.random.Generator


def drawn(few: int) -> settings:
    """Settings of a property that is tried on a few examples."""
    return settings(
        max_examples=few,
        derandomize=True,
        database=None,
        deadline=None,  # the first example of a shape compiles
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


class Case(NamedTuple):
    """What goes into a fit, in whatever container; kinds of columns in words."""

    kinds: tuple[str, ...]
    X: Any
    y: Any
    weight: Any


CONTAINERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda table: table,
    "odd index": lambda table: table.set_axis([7] * len(table)),
    "polars": pl.from_pandas,
    "array": lambda table: table.to_numpy(),
    "Fortran order": lambda table: np.asfortranarray(table.to_numpy()),
    "every second row": lambda table: np.repeat(table.to_numpy(), 2, axis=0)[::2],
    "list": lambda table: table.to_numpy().tolist(),
    "numbers as names": lambda table: table.set_axis(range(table.shape[1]), axis=1),
}


def _with_gaps(values: Any, rng: Rng, share: float = 0.2) -> pd.Series:
    return pd.Series(values).mask(rng.uniform(size=len(values)) < share)


def _words(rng: Rng, n: int, n_words: int = 4) -> np.ndarray:
    return rng.choice([f"word {i}" for i in range(n_words)], n).astype(object)


# Columns of numbers.
NUMBERS: dict[str, Callable[[Rng, int], Any]] = {
    "normal": lambda r, n: r.normal(size=n),
    "float32": lambda r, n: r.normal(size=n).astype(np.float32),
    "float16": lambda r, n: r.normal(size=n).astype(np.float16),
    "ties": lambda r, n: np.round(r.normal(size=n)),
    "two values": lambda r, n: r.choice([-1.0, 1.0], n),
    "constant": lambda r, n: np.full(n, r.normal()),
    "nearly constant": lambda r, n: 1.0 + 1e-9 * r.normal(size=n),
    "one outlier": lambda r, n: np.r_[1e6, np.zeros(n - 1)],
    "skewed": lambda r, n: np.exp(5 * r.normal(size=n)),
    "heavy tails": lambda r, n: r.standard_cauchy(n),
    "tiny": lambda r, n: 1e-200 * r.normal(size=n),
    "denormal": lambda r, n: 5e-324 * r.integers(0, 9, n),
    "huge": lambda r, n: 1e150 * r.normal(size=n),
    "far away": lambda r, n: 1e9 + r.normal(size=n),
    "int8": lambda r, n: r.integers(-128, 127, n).astype(np.int8),
    "int64": lambda r, n: r.integers(-(2**62), 2**62, n),
    "uint64": lambda r, n: r.integers(0, 2**64 - 1, n, dtype=np.uint64),
    "rising": lambda r, n: np.arange(n),
    "negative zeros": lambda r, n: r.choice([-0.0, 0.0, 1.0], n),
    "Int64": lambda r, n: pd.array(r.integers(0, 9, n), dtype="Int64"),
    "decimals": lambda r, n: [decimal.Decimal(str(v)) for v in r.integers(0, 9, n)],
    "objects": lambda r, n: r.normal(size=n).astype(object),
}
# Columns of which some or all values are missing.
GAPS: dict[str, Callable[[Rng, int], Any]] = {
    "gaps": lambda r, n: _with_gaps(r.normal(size=n), r),
    "mostly gaps": lambda r, n: _with_gaps(r.normal(size=n), r, 0.95),
    "nothing but gaps": lambda r, n: np.full(n, np.nan),
    "gaps in Int64": lambda r, n: _with_gaps(
        pd.array(r.integers(0, 9, n), dtype="Int64"), r
    ),
    "gaps in Float64": lambda r, n: _with_gaps(
        pd.array(r.normal(size=n), dtype="Float64"), r
    ),
    "gaps in objects": lambda r, n: [
        v if v < 1 else r.choice(np.array([None, np.nan, pd.NA], object))
        for v in r.normal(size=n)
    ],
    "None alone": lambda r, n: [None] * n,
    "gaps in text": lambda r, n: _with_gaps(_words(r, n), r),
    "gaps in booleans": lambda r, n: _with_gaps(
        pd.array(r.uniform(size=n) < 0.5, dtype="boolean"), r
    ),
    "gaps in categories": lambda r, n: _with_gaps(
        pd.Categorical(_words(r, n), categories=[f"word {i}" for i in range(9)]), r
    ),
}
# Discrete columns.
WORDS: dict[str, Callable[[Rng, int], Any]] = {
    "text": lambda r, n: _words(r, n),
    "strings": lambda r, n: pd.Series(_words(r, n), dtype="string"),
    "one word": lambda r, n: ["word"] * n,
    "all different": lambda r, n: [f"word {i}" for i in range(n)],
    "empty text": lambda r, n: r.choice(["", " ", "\t", "ü", "nan"], n).astype(object),
    "booleans": lambda r, n: r.uniform(size=n) < 0.5,
    "categories": lambda r, n: pd.Categorical(_words(r, n)),
    "numbers as categories": lambda r, n: pd.Categorical(r.integers(0, 3, n)),
    "ordered categories": lambda r, n: pd.Categorical(
        _words(r, n), categories=[f"word {i}" for i in (3, 1, 2, 0, 7)], ordered=True
    ),
    "mixed": lambda r, n: [
        ["a", 1, 2.5, True, None, b"b"][i] for i in r.integers(0, 6, n)
    ],
    "bytes": lambda r, n: [[b"a", b"b"][i] for i in r.integers(0, 2, n)],
}
# Columns that may well be refused.
ODD: dict[str, Callable[[Rng, int], Any]] = {
    "infinity": lambda r, n: np.r_[np.inf, r.normal(size=n - 1)],
    "too huge": lambda r, n: 1e308 * r.choice([-1.0, 1.0], n),
    "dates": lambda r, n: pd.date_range("2020-02-02", periods=n),
    "spans of time": lambda r, n: pd.to_timedelta(np.arange(n), unit="D"),
    "dates as objects": lambda r, n: [
        datetime.date(2020, 1, 1 + i % 28) for i in range(n)
    ],
    "periods": lambda r, n: pd.period_range("2020-02", periods=n, freq="M"),
    "intervals": lambda r, n: pd.interval_range(0, n, periods=n),
    "complex": lambda r, n: r.normal(size=n) + 1j,
    "lists": lambda r, n: [[1, 2]] * n,
    "arrays": lambda r, n: [np.arange(2)] * n,
    "dicts": lambda r, n: [{}] * n,
    "tuples": lambda r, n: [(1, i % 3) for i in range(n)],
    "numbers as text": lambda r, n: [str(v) for v in r.integers(0, 9, n)],
    "damaged numbers": lambda r, n: ["?" if i % 7 == 3 else i for i in range(n)],
    "huge whole numbers": lambda r, n: [10**400 + i for i in range(n)],
    "sparse": lambda r, n: pd.arrays.SparseArray(np.round(r.normal(size=n))),
    "objects of a class": lambda r, n: [object() for _ in range(n)],
    "text with gaps of NaT": lambda r, n: [pd.NaT if i % 3 else "a" for i in range(n)],
}
COLUMNS = NUMBERS | GAPS | WORDS | ODD

TARGETS: dict[str, Callable[[Rng, np.ndarray], Any]] = {
    "bent": lambda r, z: np.abs(z) + 0.1 * r.normal(size=len(z)),
    "of order 1e-4": lambda r, z: 1e-4 * (np.abs(z) + 0.1 * r.normal(size=len(z))),
    "of order 1e9": lambda r, z: 3e9 + 1e9 * (np.abs(z) + r.normal(size=len(z))),
    "tiny": lambda r, z: 1e-160 * (z + r.normal(size=len(z))),
    "denormal": lambda r, z: 5e-324 * r.integers(0, 5, len(z)),
    "huge": lambda r, z: 1e150 * (z + r.normal(size=len(z))),
    "constant": lambda r, z: np.full(len(z), 0.1),
    "one row differs": lambda r, z: np.r_[1.0, np.zeros(len(z) - 1)],
    "a step": lambda r, z: (z > 0) * 1.0,
    "exactly linear": lambda r, z: 2 * z - 1,
    "noise": lambda r, z: r.normal(size=len(z)),
    "heavy tails": lambda r, z: r.standard_cauchy(len(z)),
    "integers": lambda r, z: np.round(4 * z).astype(np.int64),
    "booleans": lambda r, z: z > 0,
    "float32": lambda r, z: z.astype(np.float32) ** 2,
    "objects": lambda r, z: np.abs(z).astype(object),
    "a list": lambda r, z: (z**2).tolist(),
    "a series": lambda r, z: pd.Series(z**2, name="price"),
    "nullable": lambda r, z: pd.Series(z**2, dtype="Float64"),
    "a column": lambda r, z: z[:, None] ** 2,
}
BAD_TARGETS: dict[str, Callable[[Rng, np.ndarray], Any]] = {
    "fractions as text": lambda r, z: ["1/2"] * len(z),
    "missing": lambda r, z: np.r_[np.nan, z[1:]],
    "pandas.NA": lambda r, z: pd.Series(np.r_[np.nan, z[1:]], dtype="Float64"),
    "far too huge": lambda r, z: 1e308 * np.sign(r.normal(size=len(z))),
    "dates": lambda r, z: pd.date_range("2020-02-02", periods=len(z)),
    "lists": lambda r, z: [[v] for v in z.tolist()],
}

WEIGHTS: dict[str, Callable[[Rng, int], Any]] = {
    "none": lambda r, n: None,
    "counts": lambda r, n: r.integers(0, 4, n),
    "fractions": lambda r, n: r.uniform(size=n),
    "huge ratios": lambda r, n: 10.0 ** r.uniform(-12, 12, n),
    "huge whole numbers": lambda r, n: r.integers(1, 2**52, n),
    "one row": lambda r, n: np.eye(n)[r.integers(n)],
    "tiny": lambda r, n: np.full(n, 1e-300),
    "denormal": lambda r, n: np.full(n, 5e-324),
    "huge": lambda r, n: np.full(n, 1e300),
    "far too huge": lambda r, n: np.full(n, 1.7e308),
    "float32": lambda r, n: r.uniform(size=n).astype(np.float32),
    "booleans": lambda r, n: r.uniform(size=n) < 0.7,
    "a list": lambda r, n: r.uniform(size=n).tolist(),
    "a number": lambda r, n: 2.0,
}
BAD_WEIGHTS: dict[str, Callable[[Rng, int], Any]] = {
    "zeros": lambda r, n: np.zeros(n),
    "negative": lambda r, n: -np.ones(n),
    "infinite": lambda r, n: np.r_[np.inf, np.ones(n - 1)],
    "text": lambda r, n: ["heavy"] * n,
    "complex": lambda r, n: np.full(n, 1j),
    "a table": lambda r, n: np.ones((n, 2)),
}

LAYOUTS = (  # what the other tests compile programs for, and columns of gaps
    ("numbers", "numbers", "numbers"),
    ("numbers", "words", "numbers"),
    ("numbers",),
    ("gaps", "numbers", "odd"),
)
_GROUPS = {"numbers": NUMBERS, "words": WORDS, "gaps": GAPS, "odd": GAPS | ODD}


def _kinds() -> st.SearchStrategy[tuple[str, ...]]:
    def of(layout: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
        groups = (sorted(_GROUPS[group]) for group in layout)
        return st.tuples(*map(st.sampled_from, groups))

    return st.sampled_from(LAYOUTS).flatmap(of)


def _mostly(good: dict[str, Any], bad: dict[str, Any]) -> st.SearchStrategy[Any]:
    """One of the good values, or of the bad ones now and then."""
    rare = st.integers(0, 11)
    return rare.flatmap(
        lambda drawn: st.sampled_from(list((good if drawn else bad).values()))
    )


@st.composite
def cases(draw: Callable[..., Any]) -> Case:
    """A table, a target that may depend on its first column of numbers, and weights."""
    kinds = draw(_kinds())
    n_rows = draw(st.sampled_from((1, 2, 3, 7, 30, 64, 65, 100, 128)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    columns = {f"c{i}": COLUMNS[kind](rng, n_rows) for i, kind in enumerate(kinds)}
    signal = rng.normal(size=n_rows)
    for kind, column in zip(kinds, columns.values(), strict=True):
        if kind in ("normal", "ties", "two values", "float32", "gaps"):
            signal = np.nan_to_num(np.asarray(column, np.float64))
            break
    if draw(st.integers(0, 9)) == 0 and len(kinds) > 1:
        columns["c1"] = columns["c0"]  # a duplicate
    y = draw(_mostly(TARGETS, BAD_TARGETS))(rng, signal)
    weight = draw(_mostly(WEIGHTS, BAD_WEIGHTS))(rng, n_rows)
    X = table = pd.DataFrame(columns)
    with suppress(Exception):  # what polars does not take
        X = CONTAINERS[draw(st.sampled_from([*CONTAINERS]))](table)
    if draw(st.integers(0, 4)) == 0:  # duplicate rows
        rows = rng.integers(0, max(n_rows // 4, 1), n_rows)
        if isinstance(X, np.ndarray):
            X, y = X[rows], np.asarray(y)[rows]
    return Case(kinds, X, y, weight)
