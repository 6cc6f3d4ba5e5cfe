"""What in a table should make its owner wonder, a line each, with what settles it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from secret_jax.cli.reading.columns import Texts, folded
from secret_jax.cli.reading.files import TableFile
from secret_jax.cli.reading.problems import some
from secret_jax.cli.reading.table import Reading

if TYPE_CHECKING:
    import pandas as pd

# What people write where they know nothing.
_CODES = (9.0, 99.0, 999.0, 9999.0, 99999.0, 999999.0)
# A code lies so many times as far out as all other values, and stands there so often.
_FAR_OUT, _FEWEST_CODES = 5.0, 2
# Rows that are the same by chance are few where a column has so many different values.
_MANY_VALUES = 0.25
# A column that explains so much of the target alone may be made of it.
_GIVEN_AWAY = 0.995
# Of so many rows a column tells what it does of all.
_ENOUGH_ROWS = 10_000
# Of fewer rows a column easily explains the target by chance.
_FEWEST_ROWS = 20


def oddities(
    table: TableFile, X: pd.DataFrame, y: pd.Series, reading: Reading
) -> Iterator[str]:
    """Lines on codes for nothing, spellings, rows that are there twice, and leaks.

    Parameters
    ----------
    table : TableFile
        With the rows of ``X`` and ``y``.
    X : DataFrame of shape (n_rows, n_columns)
        As it was read, under the names of the file.
    y : Series of shape (n_rows,)
        Numbers, or classes as text.
    """
    for name, column in (*X.items(), (y.name, y)):
        if column.dtype.kind in "fiu":
            yield from _codes(str(name), column.to_numpy(np.float64))
    for name, column in X.items():
        chosen = reading.formats[str(name)]
        if isinstance(chosen, Texts) and not chosen.folded:
            yield from _spellings(str(name), column)
    yield from _copies(table, X, y)
    yield from _leaks(X, y)


def _codes(name: str, values: np.ndarray) -> Iterator[str]:
    """On the last value at either end, if it is a code and far from all others."""
    values = values[np.isfinite(values)]
    for sign in (-1.0, 1.0):
        signed = sign * values
        code = signed.max(initial=-np.inf)
        others = signed[signed < code]
        n_codes = len(values) - len(others)
        # Below zero nothing but the code; above it is far beyond the others.
        limit = 0.0 if sign < 0 else code / _FAR_OUT
        if (
            code in _CODES
            and n_codes >= _FEWEST_CODES
            and len(others) > n_codes
            and others.max() <= limit
        ):
            text = f"{sign * code:.0f}"
            yield (
                f"{name}: {text} in {n_codes} rows, far from the other values; if it "
                f"stands for nothing, say so (--na {text})"
            )


def _spellings(name: str, column: pd.Series) -> Iterator[str]:
    """On categories that differ by case or blanks."""
    found: dict[str, list[str]] = {}
    for text in column.dropna().unique().tolist():
        found.setdefault(folded(str(text)), []).append(repr(text))
    alike = [texts for texts in found.values() if len(texts) > 1]
    if alike:
        shown = " and ".join(some(texts, most=3) for texts in alike[:1])
        more = f", and so do {len(alike) - 1} more" if len(alike) > 1 else ""
        yield (
            f"{name}: {shown} differ by case or blanks only{more}; to make them one, "
            f"give --ignore-case {name!r}"
        )


def _copies(table: TableFile, X: pd.DataFrame, y: pd.Series) -> Iterator[str]:
    """On rows that repeat another row, where that is no chance."""
    different = max(column.nunique() for _, column in (*X.items(), ("", y)))
    if different < _MANY_VALUES * len(y):
        return
    n_copies = int(table.frame.duplicated().sum())
    if n_copies:
        rows = "1 row repeats" if n_copies == 1 else f"{n_copies} rows repeat"
        yield (
            f"{rows} another one in every column, so some may train the tree and "
            "measure it as well; --distinct keeps one of each"
        )


def _leaks(X: pd.DataFrame, y: pd.Series) -> Iterator[str]:
    """On columns that nearly give the target alone."""
    if len(y) < _FEWEST_ROWS or X.shape[1] < 2:
        return
    rows = np.linspace(0, len(y) - 1, min(len(y), _ENOUGH_ROWS)).astype(int)
    targets = _indicators(y.iloc[rows])
    for name, column in X.items():
        share = _explained(column.iloc[rows], targets)
        if share >= _GIVEN_AWAY:
            yield (
                f"{name}: it gives {y.name} away by itself (R² {share:.3f}); if it is "
                f"not known before, leave it out (--drop {str(name)!r})"
            )


def _indicators(y: pd.Series) -> np.ndarray:
    """Targets as centered columns; classes as one each."""
    import pandas as pd

    numbers = y.dtype.kind == "f"
    values = y.to_numpy()[:, None] if numbers else pd.get_dummies(y).to_numpy(float)
    return values - values.mean(axis=0)


def _explained(column: pd.Series, targets: np.ndarray) -> float:
    """Share of the variance of the targets that a column explains, by a line or means.

    Categories count as much as means of so many rows each do by chance.
    """
    import pandas as pd

    codes = pd.factorize(column, use_na_sentinel=False)[0]
    total = float((targets**2).sum())
    if column.dtype.kind == "f" and targets.shape[1] == 1:
        there = column.notna().to_numpy()
        x, y = column.to_numpy()[there], targets[there, 0]
        if len(x) < _FEWEST_ROWS or np.ptp(x) == 0 or np.ptp(y) == 0:
            return 0.0
        x = (x - x.mean()) / max(x.std(), 1e-300)
        return float(np.mean(x * (y - y.mean())) ** 2 / y.var())
    sizes = np.bincount(codes)
    n_rows, n_groups = len(codes), len(sizes)
    if total <= 0 or n_groups > _MANY_VALUES * n_rows:
        return 0.0
    sums = np.array([np.bincount(codes, column) for column in targets.T])
    within = total - float((sums**2 / sizes).sum())
    return 1.0 - within / total * (n_rows - 1) / max(n_rows - n_groups, 1)
