"""Encoded outputs of an estimator's rows."""

from typing import Any, NamedTuple

import numpy as np


class Targets(NamedTuple):
    """Encoded outputs of rows, (n_rows, n_outputs), with their names and weights.

    ``learned`` are fitted attributes that describe the outputs, such as the classes.
    """

    values: np.ndarray
    names: tuple[str, ...]
    weight: np.ndarray
    learned: dict[str, Any]
