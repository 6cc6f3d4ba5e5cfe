"""Rows that a model was fitted on, known again by hashes of what they hold.

Errors and intervals of such rows say nothing of new ones. A row that only equals one of
the fit is new where rows repeat by chance: only clearly more of them are taken for rows
of the fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from secret_jax.data.columns import read_columns
from secret_jax.data.encoding import matched
from secret_jax.data.foreign import taken
from secret_jax.data.hashes import group_numbers, row_hashes
from secret_jax.data.schema import TableSchema

# Hashes that are kept, four bytes each: of more rows those below a limit.
_MOST = 1 << 15
_NO_LIMIT = 1 << 32
_SEED = 2
# New rows may repeat those of the fit so many times as often as these repeat each
# other, and this share of them anyhow; four standard deviations are noise.
_TIMES_AS_OFTEN, _SHARE, _DEVIATIONS = 2.0, 0.01, 4.0
_REMEDY = (
    "Give rows that were held out of the fit, such as the second part of "
    "sklearn.model_selection.train_test_split."
)


def hashes_of(schema: TableSchema, X: Any, y: Any) -> np.ndarray:
    """Hash what rows and their targets, as given, hold, (n_rows,), uint32."""
    values, codes = matched(schema, read_columns(taken(X)), asked=())
    outcome = np.asarray(taken(y))
    outcome = outcome.reshape(len(outcome), -1).T
    if outcome.dtype.kind not in "biuf":
        outcome = [group_numbers(column, len(codes)) for column in outcome]
    with np.errstate(over="ignore"):  # float64 of a file may be float32 in the next
        columns = [np.asarray(each, np.float32) for each in (*values, *outcome)]
    hashed = row_hashes([*columns, *codes.T], _SEED)
    return (hashed >> np.uint64(32)).astype(np.uint32)


def remembered(
    hashed: np.ndarray, before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Sort the hashes of the rows of a fit; of very many a sample, below a limit.

    ``before``: what was remembered of an earlier fit, whose rows are added.
    """
    limit = _NO_LIMIT
    if before is not None:
        known, limit = before["hashes"], before["limit"]
        more = hashed[(hashed < limit) & ~np.isin(hashed, known)]
        hashed = np.concatenate([known, more])
    if len(hashed) > _MOST:
        limit = int(_MOST / len(hashed) * limit)
        hashed = hashed[hashed < limit]
    return {"hashes": np.sort(hashed), "limit": limit}


def unseen(rows: Mapping[str, Any], hashed: np.ndarray) -> np.ndarray:
    """Mask of the rows that were not in a fit, (n_rows,), bool.

    ``rows``: what `remembered` gives.

    Raises
    ------
    ValueError
        If no row is left, or the hashes that were kept tell only that there are some.
    """
    known, limit = rows["hashes"], rows["limit"]
    told = hashed < limit
    place = np.minimum(np.searchsorted(known, hashed), max(len(known) - 1, 0))
    seen = told & (known[place] == hashed) if len(known) else np.zeros_like(told)
    n_told, n_seen = np.count_nonzero(told), np.count_nonzero(seen)
    alike = known[1:] == known[:-1]
    alike = np.append(alike, False) | np.append(False, alike)
    by_chance = float(alike.mean()) if len(known) else 0.0
    most = n_told * (_TIMES_AS_OFTEN * by_chance + _SHARE)
    most += 1.0 + _DEVIATIONS * math.sqrt(n_told * by_chance)
    if n_seen <= most:
        return np.ones_like(told)
    if n_seen == n_told:
        raise ValueError(
            f"All {len(hashed):,} rows of X were used in fit, so errors on them say "
            f"nothing of new rows. {_REMEDY}"
        )
    if limit < _NO_LIMIT:
        share = f"{100 * n_seen / n_told:.0f} %"
        raise ValueError(
            f"About {share} of the {len(hashed):,} rows of X were used in fit, so "
            f"errors on them say nothing of new rows. {_REMEDY}"
        )
    return ~seen
