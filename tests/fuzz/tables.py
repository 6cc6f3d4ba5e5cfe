"""Random small tables: columns of every kind, targets, weights and groups."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

Rng = np.random.Generator
_ZERO = pd.Timestamp("2020-01-01")
_SIZES = ["low", "mid", "high"]


class Data(NamedTuple):
    """What goes into a fit."""

    X: pd.DataFrame
    y: np.ndarray
    weight: np.ndarray | None
    groups: np.ndarray | None


def _words(rng: Rng, n: int) -> np.ndarray:
    return rng.choice(["red", "green", "it's", "ü", ""], n).astype(object)


def _gaps(values: Any, rng: Rng) -> pd.Series:
    return pd.Series(values).mask(rng.random(len(values)) < 0.15)


# Columns by kind; targets depend on the values of the plain ones.
PLAIN: dict[str, Callable[[Rng, int], Any]] = {
    "normal": lambda r, n: r.normal(size=n).round(6),
    "float32": lambda r, n: r.normal(size=n).astype(np.float32),
    "steps": lambda r, n: r.integers(0, 5, n).astype(float),
    "whole": lambda r, n: r.integers(-50, 50, n),
    "far": lambda r, n: 1e6 + r.normal(size=n).round(3),
    "huge": lambda r, n: 1e12 * r.normal(size=n),
    "tiny": lambda r, n: 1e-12 * r.normal(size=n),
    "skewed": lambda r, n: np.exp(3 * r.normal(size=n)),
}
_OTHER: dict[str, Callable[[Rng, int], Any]] = {
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


def table(rng: Rng, n_rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    """A table of one to six columns, and a signal that depends on them."""
    kinds = rng.choice(sorted(PLAIN), rng.integers(1, 4)).tolist()
    kinds += rng.choice(sorted(_OTHER), rng.integers(0, 4)).tolist()
    columns, signal = {}, np.zeros(n_rows)
    for i, kind in enumerate(rng.permutation(kinds).tolist()):
        values = columns[f"{kind} {i}"] = (PLAIN | _OTHER)[kind](rng, n_rows)
        codes = np.asarray(values, float) if kind in PLAIN else pd.factorize(values)[0]
        z = (codes - codes.mean()) / (codes.std() or 1.0)
        shapes = [z, np.abs(z), np.sign(z), z * (signal > 0)]
        signal = signal + rng.normal() * shapes[rng.integers(4)]
    if rng.random() < 0.1:
        columns["copy"] = columns[next(iter(columns))]
    few = rng.random() < 0.1
    rows = rng.integers(0, n_rows // 3, n_rows) if few else np.arange(n_rows)
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
