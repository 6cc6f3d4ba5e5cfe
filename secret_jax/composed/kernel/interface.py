"""Interface of heads: models over the regions of a fitted tree."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils._param_validation import StrOptions

from secret_jax.composed.kernel.kernels import KERNELS, SMOOTHERS
from secret_jax.runtime.values import Value


class Regions(NamedTuple):
    """Distinct training rows, sorted by the leaf that they are in."""

    x: np.ndarray  # (n_rows, n_columns), float64: standardised columns
    leaf: np.ndarray  # (n_rows,), int: node id of every row's leaf
    target: np.ndarray  # (n_rows, n_outputs), float64
    base: np.ndarray  # (n_rows, n_outputs), float64: what the tree predicts
    weight: np.ndarray  # (n_rows,), float64: positive

    def parts(self) -> list[tuple[int, slice]]:
        """Every leaf, with its rows."""
        first = np.flatnonzero(np.diff(self.leaf, prepend=-1)).tolist()
        ends = [*first[1:], len(self.leaf)]
        return [
            (int(self.leaf[start]), slice(start, end))
            for start, end in zip(first, ends, strict=True)
        ]


class HeadFit(NamedTuple):
    """Fitted head, and what it says of training rows.

    The model is a record of `secret_jax.tree.file.recorded`, whose method
    ``predict(x, leaf, base)`` gives predictions of rows and their standard deviations,
    (n_rows, n_outputs) each.
    """

    model: Any
    # (n_known,), int: training rows of which the rest tells, all or some of each leaf.
    row: np.ndarray
    fitted: np.ndarray  # (n_known, n_outputs), float64: predictions
    left_out: np.ndarray  # the same, without the row's own target


@dataclass(frozen=True, kw_only=True)
class Head(Value, ABC):
    """Base of the heads: a frozen value with one method.

    Attributes
    ----------
    kernel : str
        Name in `secret_jax.composed.kernel.kernels.KERNELS`.
    smoother : str
        Estimate of covariances: a name in
        `secret_jax.composed.kernel.kernels.SMOOTHERS`.
    columns : tuple of int, optional
        Places, among the standardised columns, of those that count for distances.
        None: all of them.
    """

    kernel: Annotated[str, StrOptions(set(KERNELS))] = "gaussian"
    smoother: Annotated[str, StrOptions(set(SMOOTHERS))] = "meeb"
    columns: tuple[int, ...] | None = None

    kernels: ClassVar[tuple[str, ...]] = tuple(KERNELS)
    """Names of the kernels that the head can use."""
    needs: ClassVar[str] = ""
    """What the head asks of a kernel, for the error."""
    corrects_constants: ClassVar[bool] = False
    """Whether it adds to what constants in the leaves say, too. Else it predicts by
    itself in their place: they only say where regions are."""

    @abstractmethod
    def fit(self, rows: Regions) -> HeadFit:
        """Fit the head to rows that have its columns only."""

    def of(self, x: np.ndarray) -> np.ndarray:
        """Columns that count for distances, of all."""
        return x if self.columns is None else x[:, list(self.columns)]

    def check(self) -> None:
        """Refuse invalid fields, and a kernel that the head cannot use."""
        super().check()
        if self.kernel not in self.kernels:
            raise ValueError(
                f"{type(self).__name__} cannot use the kernel {self.kernel!r}: "
                f"{self.needs}. Give one of {', '.join(map(repr, self.kernels))}."
            )
