"""Encoded outputs of an estimator's rows, and the scale of their weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.validation import scaled_weight
from secret_jax.fit.prepare import CheckedRows


class Targets(NamedTuple):
    """Encoded outputs of rows, with their names and weights.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_outputs), float64
    names : tuple of str
        Names of the outputs.
    weight : ndarray of shape (n_rows,), float64
        Weights of the rows.
    learned : dict of str to object
        Fitted attributes that describe the outputs, such as the classes.
    """

    values: np.ndarray
    names: tuple[str, ...]
    weight: np.ndarray
    learned: dict[str, Any]


def scaled_rows(
    given: CheckedRows, others: CheckedRows | None = None, together: bool = False
) -> tuple[CheckedRows, CheckedRows | None]:
    """Scale weights with `scaled_weight`, of both sets of rows together if asked."""
    if others is None or not together:
        weight = scaled_weight(given.weight, given.copies)
        return given._replace(weight=weight), others
    weight, copies = (
        np.concatenate([getattr(rows, name) for rows in (given, others)])
        for name in ("weight", "copies")
    )
    weight = scaled_weight(weight, copies)
    own, other = np.split(weight, [len(given.weight)])
    return given._replace(weight=own), others._replace(weight=other)
