"""What in a table should make its owner wonder, a line each, with what settles it."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from secret_jax.cli.reading.columns import Texts, folded
from secret_jax.cli.reading.files import TableFile
from secret_jax.cli.reading.table import Reading
from secret_jax.inspect.printing import some

# What people write where they know nothing.
_CODES = (9.0, 99.0, 999.0, 9999.0, 99999.0, 999999.0)
# A code lies so many times as far out as all other values, and stands there so often.
_FAR_OUT, _FEWEST_CODES = 5.0, 2
# Rows that are the same by chance are few where a column has so many different values.
_MANY_VALUES = 0.25
# A column that explains so much of the target alone may be made of it.
_GIVEN_AWAY = 0.995
_ENOUGH_ROWS = 10_000  # to tell that of all
_FEWEST_ROWS = 20  # of fewer a column easily explains the target by chance
_FEW_NUMBERS = 10  # different whole numbers of a target that may stand for classes


def oddities(
    table: TableFile, X: pd.DataFrame, y: pd.Series, reading: Reading
) -> Iterator[str]:
    """Tell of codes for nothing or classes, spellings, copies of rows, and leaks.

    Columns are as they were read, under the names of the file; targets are numbers, or
    classes as text.
    """
    for name, column in (*X.items(), (y.name, y)):
        if column.dtype.kind in "fiu":
            yield from _codes(str(name), column.to_numpy(np.float64))
    whole = y.dtype.kind == "f" and (y % 1 == 0).all()
    if whole and 1 < y.nunique() <= _FEW_NUMBERS and len(y) >= _FEWEST_ROWS:
        yield (
            f"{y.name}: its {y.nunique()} different whole numbers are predicted as "
            "numbers; if they stand for classes, say so (--classes)"
        )
    for name, column in X.items():
        chosen = reading.formats[str(name)]
        if isinstance(chosen, Texts) and not chosen.folded:
            yield from _spellings(str(name), column)
    n_copies = int(table.frame.duplicated().sum())
    different = max(column.nunique() for _, column in (*X.items(), ("", y)))
    if n_copies and different >= _MANY_VALUES * len(y):
        rows = "1 row repeats" if n_copies == 1 else f"{n_copies} rows repeat"
        yield (
            f"{rows} another one in every column, so some may train the tree and "
            "measure it as well; --distinct keeps one of each"
        )
    if len(y) >= _FEWEST_ROWS and X.shape[1] > 1:
        yield from _leaks(X, y)


def _codes(name: str, values: np.ndarray) -> Iterator[str]:
    """Tell of the last value at either end, if it is a code and far from all others."""
    values = values[np.isfinite(values)]
    for sign in (-1.0, 1.0):
        signed = sign * values
        code = signed.max(initial=-np.inf)
        others = signed[signed < code]
        n_codes = len(values) - len(others)
        # Below zero nothing but the code; above it is far beyond the others.
        limit = 0.0 if sign < 0 else code / _FAR_OUT
        often = len(others) > n_codes >= _FEWEST_CODES
        if code in _CODES and often and others.max() <= limit:
            text = f"{sign * code:.0f}"
            yield (
                f"{name}: {text} in {n_codes} rows, far from the other values; if it "
                f"stands for nothing, say so (--na {text})"
            )


def _spellings(name: str, column: pd.Series) -> Iterator[str]:
    """Tell of categories that differ by case or blanks."""
    spellings: dict[str, list[str]] = {}
    for text in column.dropna().unique().tolist():
        spellings.setdefault(folded(str(text)), []).append(repr(text))
    alike = [texts for texts in spellings.values() if len(texts) > 1]
    if alike:
        more = f", and so do {len(alike) - 1} more" if len(alike) > 1 else ""
        yield (
            f"{name}: {some(alike[0], most=3)} differ by case or blanks only{more}; to "
            f"make them one, give --ignore-case {name!r}"
        )


def _leaks(X: pd.DataFrame, y: pd.Series) -> Iterator[str]:
    """Tell of columns that nearly give the target alone."""
    rows = np.linspace(0, len(y) - 1, min(len(y), _ENOUGH_ROWS)).astype(int)
    y = y.iloc[rows]
    numeric = y.dtype.kind == "f"
    targets = y.to_numpy()[:, None] if numeric else pd.get_dummies(y).to_numpy(float)
    targets = targets - targets.mean(axis=0)
    for name, column in X.items():
        column = column.iloc[rows]
        if numeric and column.dtype.kind == "f":
            share = _by_line(column.to_numpy(), targets[:, 0])
        else:
            share = _by_means(pd.factorize(column, use_na_sentinel=False)[0], targets)
        if share >= _GIVEN_AWAY:
            yield (
                f"{name}: it gives {y.name} away by itself (R² {share:.3f}); if it is "
                f"not known before, leave it out (--drop {str(name)!r})"
            )


def _by_line(x: np.ndarray, y: np.ndarray) -> float:
    """Share of the variance that a line explains."""
    x, y = x[~np.isnan(x)], y[~np.isnan(x)]
    if len(x) < _FEWEST_ROWS or np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1] ** 2)


def _by_means(codes: np.ndarray, targets: np.ndarray) -> float:
    """Share of the variance that means of groups explain, less what chance does."""
    sizes = np.bincount(codes)
    n_rows, n_groups = len(codes), len(sizes)
    total = float((targets**2).sum())
    if total <= 0 or n_groups > _MANY_VALUES * n_rows:
        return 0.0
    sums = np.array([np.bincount(codes, column) for column in targets.T])
    within = total - float((sums**2 / sizes).sum())
    return 1.0 - within / total * (n_rows - 1) / max(n_rows - n_groups, 1)
