"""Random small tables: columns of every kind, targets, weights and groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

Rng = np.random.Generator


class Data(NamedTuple):
    """What goes into a fit."""

    X: pd.DataFrame
    y: Any
    weight: np.ndarray | None  # of some tables, with zeros
    groups: np.ndarray | None


def _words(rng: Rng, n: int) -> np.ndarray:
    return rng.choice(["red", "green", "it's", "ü", ""], n).astype(object)


def _gaps(values: Any, rng: Rng) -> pd.Series:
    return pd.Series(values).mask(rng.random(len(values)) < 0.15)


# Values of a column; plain ones, on which targets may depend, stand first.
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
OTHER: dict[str, Callable[[Rng, int], Any]] = {
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
    "ordered": lambda r, n: pd.Categorical(
        r.choice(["low", "mid", "high"], n), ["low", "mid", "high"], ordered=True
    ),
    "dates": lambda r, n: (
        pd.Timestamp("2020-01-01") + pd.to_timedelta(r.integers(0, 900, n), "D")
    ),
    "hours": lambda r, n: (
        pd.Timestamp("2020-01-01") + pd.to_timedelta(r.integers(0, 9000, n), "h")
    ),
}


def table(rng: Rng, n_rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    """A table of one to six columns, and a signal that depends on some of them."""
    kinds = list(rng.choice(sorted(PLAIN), rng.integers(1, 4)))
    kinds += list(rng.choice(sorted(OTHER), rng.integers(0, 4)))
    kinds = [kinds[i] for i in rng.permutation(len(kinds))]
    columns, signal = {}, np.zeros(n_rows)
    for i, kind in enumerate(kinds):
        values = (PLAIN | OTHER)[kind](rng, n_rows)
        columns[f"{kind} {i}"] = values
        codes = np.asarray(values, float) if kind in PLAIN else pd.factorize(values)[0]
        z = (codes - codes.mean()) / (codes.std() or 1.0)
        shape = rng.integers(4)
        signal += rng.normal() * [z, np.abs(z), np.sign(z), z * (signal > 0)][shape]
    if rng.random() < 0.1:
        columns["copy"] = columns[next(iter(columns))]
    frame = pd.DataFrame(columns)
    if rng.random() < 0.1:  # few distinct rows
        rows = rng.integers(0, n_rows // 3, n_rows)
        frame, signal = frame.iloc[rows].reset_index(drop=True), signal[rows]
    return frame, signal


def numbers(rng: Rng, signal: np.ndarray, n_outputs: int, positive: bool) -> np.ndarray:
    """A target of numbers, of one output or several."""
    noise = rng.choice([0.0, 0.1, 1.0]) * rng.normal(size=(len(signal), n_outputs))
    y = np.clip(signal, -30, 30)[:, None] * rng.normal(size=n_outputs) + noise
    if positive:
        y = rng.poisson(np.exp(np.clip(y, -3, 3))) + (
            0.0 if rng.random() < 0.3 else 1.0
        )
    else:
        y = y * rng.choice([1.0, 1.0, 1e-9, 1e9]) + rng.choice([0.0, 0.0, 1e3])
    if rng.random() < 0.05:
        y = np.zeros_like(y) + 3.0
    return y[:, 0] if n_outputs == 1 else y


def classes(rng: Rng, signal: np.ndarray, n_classes: int) -> np.ndarray:
    """Labels of ordered classes, as text, numbers or truth values."""
    noisy = signal + rng.choice([0.0, 0.5]) * rng.normal(size=len(signal))
    edges = np.quantile(noisy, np.linspace(0, 1, n_classes + 1)[1:-1])
    code = np.searchsorted(edges, noisy)
    code[:n_classes] = np.arange(n_classes)
    names = [np.array(["a", "b", "it's"]), np.array([3, 5, 7]), np.array([0, 1, 2])]
    return names[rng.integers(3)][code]


def weights(rng: Rng, n_rows: int) -> np.ndarray | None:
    """Nothing, counts with zeros, shares, or ratios of a million."""
    drawn = rng.integers(6)
    if drawn < 3:
        return None
    if drawn == 3:
        return rng.integers(0, 4, n_rows)
    return rng.random(n_rows) if drawn == 4 else 10.0 ** rng.uniform(-3, 3, n_rows)


def groups(rng: Rng, n_rows: int) -> np.ndarray | None:
    """Nothing, or names of what rows belong to."""
    drawn = rng.integers(8)
    many = np.array([f"g{i}" for i in rng.integers(0, 12, n_rows)])
    return many if drawn == 0 else rng.integers(0, 9, n_rows) if drawn == 1 else None
