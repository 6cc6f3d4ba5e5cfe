"""Interface of losses: the meaning of raw predictions, and the cost of errors.

Without a loss a tree predicts the values of its models, and errors are squared. With
one, the models give raw predictions such as log-odds, and are fitted by iterated
weighted least squares.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float

from secret_jax.runtime.values import Value


@dataclass(frozen=True, kw_only=True)
class Loss(Value, ABC):
    """Base of the losses; a new one is a subclass with the methods below.

    ``value`` holds the raw predictions of a tree's models, one column for each output;
    ``targets`` are in the units in which the rows are encoded.
    """

    predicts_means: ClassVar[bool] = True
    """Whether it leads to means of the targets: others cannot learn from means."""
    is_likelihood: ClassVar[bool] = False
    """Whether it is a negative log-likelihood up to a constant."""
    of_classes: ClassVar[bool] = False
    """Whether its targets are indicators or shares of classes."""
    has_corners: ClassVar[bool] = False
    """Whether its slope jumps, as that of absolute errors: see `rounded`."""
    link: ClassVar[Literal["identity", "exponential", "softmax", "clip"] | None] = None
    """Inverse link that `prediction` applies, for exported programs: "softmax" is the
    logistic function of a single output, "clip" cuts at 0 and 1. None: another one."""

    def check_targets(self, targets: Float[np.ndarray, "n_rows n_outputs"]) -> None:
        """Refuse targets, in original units, for which the loss is undefined."""
        del targets

    def scaling(
        self,
        measured: tuple[float, float],
        targets: Float[np.ndarray, " n_rows"],
        weight: Float[np.ndarray, " n_rows"],
    ) -> tuple[float, float]:
        """Center and scale for encoding a target.

        Parameters
        ----------
        measured : tuple of float
            Its mean and standard deviation: what is taken unless a loss knows better.
        targets, weight : ndarray of shape (n_rows,)
            In its own units, of all rows or of a sample.
        """
        del targets, weight
        return measured

    def n_free(self, n_outputs: int) -> int:
        """Number of outputs with free models, which determine the others."""
        return n_outputs

    def name_of_value(self, target: str, several: bool) -> str:
        """Name of the raw prediction of an output.

        Parameters
        ----------
        target : str
            Name of the output.
        several : bool
            Whether there are other outputs.
        """
        del several
        return target

    @abstractmethod
    def prediction(
        self, value: Float[np.ndarray, "n_rows n_outputs"]
    ) -> Float[np.ndarray, "n_rows n_outputs"]:
        """Apply the inverse link: raw predictions to units of the encoded targets."""

    @abstractmethod
    def losses(
        self,
        targets: Float[np.ndarray, "n_rows n_outputs"],
        value: Float[np.ndarray, "n_rows n_outputs"],
    ) -> Float[np.ndarray, "n_rows n_outputs"]:
        """Loss of every row, split into addends per output."""

    @abstractmethod
    def working(
        self,
        targets: Float[np.ndarray, "n_rows n_outputs"],
        value: Float[np.ndarray, "n_rows n_outputs"],
        output: int,
    ) -> tuple[Float[np.ndarray, " n_rows"], Float[np.ndarray, " n_rows"]]:
        """Negative gradient and curvature of the loss in one output's raw prediction.

        The step of weighted least squares fits ``slope / curvature`` with weights
        ``curvature``; both may be those of a parabola above the loss.
        """

    def derivatives(
        self,
        targets: Float[np.ndarray, "n_rows n_outputs"],
        value: Float[np.ndarray, "n_rows n_outputs"],
        output: int,
    ) -> tuple[Float[np.ndarray, " n_rows"], Float[np.ndarray, " n_rows"]]:
        """Negative gradient and true second derivative, for standard errors.

        They differ from `working` where that has the curvature of a parabola above the
        loss.
        """
        return self.working(targets, value, output)

    def corner_width(
        self,
        targets: Float[np.ndarray, " n_rows"],
        value: Float[np.ndarray, " n_rows"],
        weight: Float[np.ndarray, " n_rows"],
        share: float,
        least: float,
    ) -> float:
        """Width over which a corner is rounded, for rows of one node and output.

        Parameters
        ----------
        targets, value, weight : ndarray of shape (n_rows,)
        share : float
            Share, of the rows that determine the minimum, to lie within the width.
        least : float
            Rows of so much weight at least are within it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no corners.")

    def rounded(self, width: Float[np.ndarray, "n_rows n_outputs"]) -> Loss:
        """Smooth loss that replaces one with corners, nearly equal away from them.

        Parameters
        ----------
        width : ndarray of shape (n_rows, n_outputs)
            Width for every row.
        """
        raise NotImplementedError(f"{type(self).__name__} has no corners.")

    @abstractmethod
    def constant(
        self,
        targets: Float[np.ndarray, "n_rows n_outputs"],
        weight: Float[np.ndarray, " n_rows"],
    ) -> Float[np.ndarray, " n_outputs"]:
        """Raw prediction of least loss that is the same for all rows."""

    def of_constant(
        self, mean: Float[np.ndarray, " n_outputs"]
    ) -> Float[np.ndarray, " n_outputs"] | None:
        """Loss of the best constant, if the means of the targets determine it."""
        del mean

    @abstractmethod
    def noise(
        self,
        error: Float[np.ndarray, "*shape"],
        mean: Float[np.ndarray, "*shape"],
    ) -> Float[np.ndarray, "*shape"]:
        """Variance of the raw prediction that corresponds to a loss above the best.

        Parameters
        ----------
        error : ndarray
            Mean loss.
        mean : ndarray of the same shape
            Mean of the targets.
        """

    def typical(
        self,
        targets: Float[np.ndarray, "n_rows n_outputs"],
        value: Float[np.ndarray, "n_rows n_outputs"],
        weight: Float[np.ndarray, " n_rows"],
    ) -> Float[np.ndarray, " n_outputs"]:
        """Typical loss of a row that is no outlier; by default the mean of all rows."""
        return weight @ self.losses(targets, value) / weight.sum()
