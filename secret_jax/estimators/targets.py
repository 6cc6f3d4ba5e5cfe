"""Encoded outputs of an estimator's rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


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
