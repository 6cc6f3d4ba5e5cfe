"""Random tables, targets and weights: usual ones, and strange ones.

Each is drawn by its kind from a generator of random numbers. Of usual ones the laws of
`tests.fuzz` hold; strange ones may be refused, with a reason.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl

Rng = np.random.Generator
Kinds = dict[str, Callable[[Rng, int], Any]]
_ZERO = pd.Timestamp("2020-01-01")
_SIZES = ["low", "mid", "high"]


class Data(NamedTuple):
    """What goes into a fit."""

    X: Any
    y: Any
    weight: Any
    groups: np.ndarray | None = None


def _words(rng: Rng, n: int) -> np.ndarray:
    return rng.choice(["red", "green", "it's", "ü", ""], n).astype(object)


def _gaps(values: Any, rng: Rng, share: float = 0.15) -> pd.Series:
    return pd.Series(values).mask(rng.random(len(values)) < share)


# Columns by kind; targets depend on the values of the plain ones.
PLAIN: Kinds = {
    "normal": lambda r, n: r.normal(size=n).round(6),
    "float32": lambda r, n: r.normal(size=n).astype(np.float32),
    "steps": lambda r, n: r.integers(0, 5, n).astype(float),
    "whole": lambda r, n: r.integers(-50, 50, n),
    "far": lambda r, n: 1e6 + r.normal(size=n).round(3),
    "huge": lambda r, n: 1e12 * r.normal(size=n),
    "tiny": lambda r, n: 1e-12 * r.normal(size=n),
    "skewed": lambda r, n: np.exp(3 * r.normal(size=n)),
}
_OTHER: Kinds = {
    "gaps": lambda r, n: _gaps(r.normal(size=n).round(3), r),
    "gaps in steps": lambda r, n: _gaps(r.integers(0, 4, n).astype(float), r),
    "constant": lambda r, n: np.full(n, 7.0),
    "nothing": lambda r, n: np.full(n, np.nan),
    "truth": lambda r, n: r.random(n) < 0.5,
    "text": _words,
    "gaps in text": lambda r, n: _gaps(_words(r, n), r),
    "many words": lambda r, n: np.array([f"w{i}" for i in r.integers(0, 40, n)]),
    "categories": lambda r, n: pd.Categorical(_words(r, n)),
    "numbered": lambda r, n: pd.Categorical(r.integers(0, 3, n)),
    "ordered": lambda r, n: pd.Categorical(r.choice(_SIZES, n), _SIZES, ordered=True),
    "dates": lambda r, n: _ZERO + pd.to_timedelta(r.integers(0, 900, n), "D"),
    "hours": lambda r, n: _ZERO + pd.to_timedelta(r.integers(0, 9000, n), "h"),
}
STRANGE: Kinds = {
    "float16": lambda r, n: r.normal(size=n).astype(np.float16),
    "two values": lambda r, n: r.choice([-1.0, 1.0], n),
    "nearly constant": lambda r, n: 1.0 + 1e-9 * r.normal(size=n),
    "one outlier": lambda r, n: np.r_[1e6, np.zeros(n - 1)],
    "heavy tails": lambda r, n: r.standard_cauchy(n),
    "minute": lambda r, n: 1e-200 * r.normal(size=n),
    "denormal": lambda r, n: 5e-324 * r.integers(0, 9, n),
    "enormous": lambda r, n: 1e150 * r.normal(size=n),
    "far away": lambda r, n: 1e9 + r.normal(size=n),
    "int8": lambda r, n: r.integers(-128, 127, n).astype(np.int8),
    "int64": lambda r, n: r.integers(-(2**62), 2**62, n),
    "uint64": lambda r, n: r.integers(0, 2**64 - 1, n, dtype=np.uint64),
    "rising": lambda r, n: np.arange(n),
    "negative zeros": lambda r, n: r.choice([-0.0, 0.0, 1.0], n),
    "Int64": lambda r, n: pd.array(r.integers(0, 9, n), dtype="Int64"),
    "decimals": lambda r, n: [decimal.Decimal(str(v)) for v in r.integers(0, 9, n)],
    "objects": lambda r, n: r.normal(size=n).astype(object),
    "mostly gaps": lambda r, n: _gaps(r.normal(size=n), r, 0.95),
    "gaps in Int64": lambda r, n: pd.array(_gaps(r.integers(0, 9, n), r), "Int64"),
    "gaps in Float64": lambda r, n: pd.array(_gaps(r.normal(size=n), r), "Float64"),
    "gaps in objects": lambda r, n: [
        v if v < 1 else r.choice(np.array([None, np.nan, pd.NA], object))
        for v in r.normal(size=n)
    ],
    "None alone": lambda r, n: [None] * n,
    "gaps in truth": lambda r, n: pd.array(
        [[True, False, None][i] for i in r.integers(0, 3, n)], "boolean"
    ),
    "gaps in categories": lambda r, n: pd.Categorical.from_codes(
        r.integers(-1, 2, n), ["red", "green", "never"]
    ),
    "strings": lambda r, n: pd.Series(_words(r, n), dtype="string"),
    "one word": lambda r, n: ["word"] * n,
    "all different": lambda r, n: [f"word {i}" for i in range(n)],
    "empty text": lambda r, n: r.choice(["", " ", "\t", "ü", "nan"], n).astype(object),
    "mixed": lambda r, n: [
        ["a", 1, 2.5, True, None, b"b"][i] for i in r.integers(0, 6, n)
    ],
    "bytes": lambda r, n: [[b"a", b"b"][i] for i in r.integers(0, 2, n)],
}
# Columns that may well be refused.
ODD: Kinds = {
    "infinity": lambda r, n: np.r_[np.inf, r.normal(size=n - 1)],
    "too huge": lambda r, n: 1e308 * r.choice([-1.0, 1.0], n),
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
COLUMNS = PLAIN | _OTHER | STRANGE | ODD


def table(
    rng: Rng, n_rows: int, others: Kinds = _OTHER, *given: str
) -> tuple[pd.DataFrame, np.ndarray]:
    """A table of some columns, and a signal that depends on usual ones."""
    kinds = rng.choice(sorted(PLAIN), rng.integers(1, 4)).tolist()
    kinds += [*rng.choice(sorted(others), rng.integers(0, 4)).tolist(), *given]
    columns, signal = {}, np.zeros(n_rows)
    for i, kind in enumerate(rng.permutation(kinds).tolist()):
        values = columns[f"{kind} {i}"] = COLUMNS[kind](rng, n_rows)
        if kind not in PLAIN and kind not in _OTHER:
            continue
        codes = np.asarray(values, float) if kind in PLAIN else pd.factorize(values)[0]
        z = (codes - codes.mean()) / (codes.std() or 1.0)
        shapes = [z, np.abs(z), np.sign(z), z * (signal > 0)]
        signal = signal + rng.normal() * shapes[rng.integers(4)]
    if rng.random() < 0.1:
        columns["copy"] = columns[next(iter(columns))]
    few = rng.random() < 0.1
    rows = rng.integers(0, max(n_rows // 3, 1), n_rows) if few else np.arange(n_rows)
    return pd.DataFrame(columns).iloc[rows].reset_index(drop=True), signal[rows]


def unlike(rng: Rng, X: pd.DataFrame) -> pd.DataFrame:
    """The table with cells that are missing, or words that it has nowhere."""
    new = X.select_dtypes(["float", "object"]).copy()
    for name in new:
        if new[name].dtype.kind == "O":
            new.loc[rng.random(len(X)) < 0.2, name] = "new"
        if not (new[name] == "").any():  # which are missing words in a graph of ONNX
            new.loc[rng.random(len(X)) < 0.2, name] = np.nan
    return X.assign(**new)


def numbers(rng: Rng, signal: np.ndarray, n_outputs: int, positive: bool) -> np.ndarray:
    """Targets that are numbers, now and then of one value."""
    noise = rng.choice([0.0, 0.1, 1.0]) * rng.normal(size=(len(signal), n_outputs))
    y = np.clip(signal, -30, 30)[:, None] * rng.normal(size=n_outputs) + noise
    if positive:
        y = rng.poisson(np.exp(np.clip(y, -3, 3))) + rng.choice([0.0, 1.0])
    else:
        y = y * rng.choice([1.0, 1.0, 1e-9, 1e9]) + rng.choice([0.0, 1e3])
    y = np.full_like(y, 3.0) if rng.random() < 0.05 else y
    return y[:, 0] if n_outputs == 1 else y


def classes(rng: Rng, signal: np.ndarray, n_classes: int) -> np.ndarray:
    """Labels of ordered classes: text or numbers."""
    noisy = signal + rng.choice([0.0, 0.5]) * rng.normal(size=len(signal))
    edges = np.quantile(noisy, np.linspace(0, 1, n_classes + 1)[1:-1])
    code = np.searchsorted(edges, noisy)
    code[:n_classes] = np.arange(n_classes)
    return [np.array(["a", "b", "it's"]), np.array([3, 5, 7])][rng.integers(2)][code]


def weights(rng: Rng, n: int) -> np.ndarray | None:
    """Nothing, counts with zeros, shares, or ratios of a million."""
    some = [rng.integers(0, 4, n), rng.random(n), 10.0 ** rng.uniform(-3, 3, n)]
    return [None, None, None, *some][rng.integers(6)]


def groups(rng: Rng, n: int) -> np.ndarray | None:
    """Nothing, or names of what rows belong to."""
    return [None, None, None, rng.integers(0, 9, n)][rng.integers(4)]


# Strange targets of a signal, and weights of so many rows; the last ones are refused.
_TARGETS: list[Callable[[Rng, np.ndarray], Any]] = [
    lambda r, z: np.abs(z) + 0.1 * r.normal(size=len(z)),
    lambda r, z: 1e-4 * (np.abs(z) + 0.1 * r.normal(size=len(z))),
    lambda r, z: 3e9 + 1e9 * (np.abs(z) + r.normal(size=len(z))),
    lambda r, z: 1e-160 * (z + r.normal(size=len(z))),
    lambda r, z: 5e-324 * r.integers(0, 5, len(z)),
    lambda r, z: 1e150 * (z + r.normal(size=len(z))),
    lambda r, z: np.full(len(z), 0.1),
    lambda r, z: np.r_[1.0, np.zeros(len(z) - 1)],
    lambda r, z: (z > 0) * 1.0,
    lambda r, z: 2 * z - 1,
    lambda r, z: r.standard_cauchy(len(z)),
    lambda r, z: np.round(4 * z).astype(np.int64),
    lambda r, z: z > 0,
    lambda r, z: z.astype(np.float32) ** 2,
    lambda r, z: np.abs(z).astype(object),
    lambda r, z: (z**2).tolist(),
    lambda r, z: pd.Series(z**2, name="price"),
    lambda r, z: pd.Series(z**2, dtype="Float64"),
    lambda r, z: z[:, None] ** 2,
]
_BAD_TARGETS: list[Callable[[Rng, np.ndarray], Any]] = [
    lambda r, z: ["1/2"] * len(z),
    lambda r, z: np.r_[np.nan, z[1:]],
    lambda r, z: pd.Series(np.r_[np.nan, z[1:]], dtype="Float64"),
    lambda r, z: 1e308 * np.sign(r.normal(size=len(z))),
    lambda r, z: pd.date_range("2020-02-02", periods=len(z)),
    lambda r, z: [[v] for v in z.tolist()],
]
_WEIGHTS: list[Callable[[Rng, int], Any]] = [
    weights,
    lambda r, n: 10.0 ** r.uniform(-12, 12, n),
    lambda r, n: r.integers(1, 2**52, n),
    lambda r, n: np.eye(n)[r.integers(n)],
    *(lambda r, n, at=at: np.full(n, at) for at in (1e-300, 5e-324, 1e300, 1.7e308)),
    lambda r, n: r.uniform(size=n).astype(np.float32),
    lambda r, n: r.uniform(size=n) < 0.7,
    lambda r, n: r.uniform(size=n).tolist(),
    lambda r, n: 2.0,
]
_BAD_WEIGHTS: list[Callable[[Rng, int], Any]] = [
    lambda r, n: np.zeros(n),
    lambda r, n: -np.ones(n),
    lambda r, n: np.r_[np.inf, np.ones(n - 1)],
    lambda r, n: ["heavy"] * n,
    lambda r, n: np.full(n, 1j),
    lambda r, n: np.ones((n, 2)),
]
_CONTAINERS: list[Callable[[pd.DataFrame], Any]] = [
    lambda table: table,
    lambda table: table.set_axis([7] * len(table)),
    pl.from_pandas,
    lambda table: table.to_numpy(),
    lambda table: np.asfortranarray(table.to_numpy()),
    lambda table: np.repeat(table.to_numpy(), 2, axis=0)[::2],
    lambda table: table.to_numpy().tolist(),
    lambda table: table.set_axis(range(table.shape[1]), axis=1),
]


def strange_data(kind: str) -> Data:
    """A table with such a column in any container, a strange target and weights."""
    rng = np.random.default_rng([*kind.encode()])

    def mostly(good: list[Any], bad: list[Any]) -> Any:
        some = bad if rng.random() < 0.08 else good
        return some[rng.integers(len(some))]

    n_rows = int(rng.choice([1, 2, 3, 7, 30, 64, 65, 100, 128]))
    X, signal = table(rng, n_rows, _OTHER | STRANGE, kind)
    y = mostly(_TARGETS, _BAD_TARGETS)(rng, signal)
    weight = mostly(_WEIGHTS, _BAD_WEIGHTS)(rng, n_rows)
    with suppress(Exception):  # what polars does not take
        X = mostly(_CONTAINERS, _CONTAINERS)(X)
    return Data(X, y, weight)
