"""Interface of losses: what raw predictions of models mean, and what errors cost."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import expit, softmax
from scipy.stats import norm

from secret_jax.runtime.linalg import AnyArray, namespace
from secret_jax.runtime.values import Value

Link = Literal["identity", "exponential", "softmax", "clip"]
Units = Literal["deviations", "robust", "means", "given"]
Rows = Float[np.ndarray, "n_rows n_outputs"]
OfRows = Float[np.ndarray, " n_rows"]
Outputs = Float[np.ndarray, " n_outputs"]
Pair = tuple[np.ndarray, np.ndarray]

# Logarithms stay below this: exponentials and their squares are numbers, in any unit.
HIGHEST_LOG = 300.0
# Means are at least these where their logarithms count: of amounts, and of classes.
RAREST, LEAST_SHARE = 1e-9, 1e-12
# Maximum Newton step of a row, reached where a prediction is confidently wrong:
# parabolas hold nearby only.
LONGEST_STEP = 4.0
# Maximum weight of a row relative to the mean: where most rows are sure, the others
# would dominate.
_MOST_SHARE = 2.0
# Standard deviation of a normal variable over its median absolute deviation.
_NORMAL = float(1.0 / norm.ppf(0.75))
# Sums of weights may be rounding errors away from a share of the total.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class Loss(Value, ABC):
    """Base of the losses; a new one is a subclass with the abstract methods below.

    ``value`` holds the raw predictions of a tree's models, one column for each output;
    ``targets`` are in the units in which the rows are encoded. Both, and what is
    returned for every row, have the shape (n_rows, n_outputs).
    """

    least_squares: ClassVar[bool] = False
    """Whether moments of a node's rows tell its models, errors, ranges and noise."""
    predicts_mean: ClassVar[bool] = True
    """Whether predictions are means of the targets, which another tree can learn."""
    trains_gates: ClassVar[bool] = False
    """Whether soft trees can be trained by its `row_losses`."""
    is_cumulative: ClassVar[bool] = False
    """Whether outputs are steps in order, each no likelier than the one before: slopes
    are corrected alike first, then each alone as far as no row sees them cross."""
    link: ClassVar[Link | None] = None
    """Inverse link from raw predictions to units of the encoded targets: "softmax" is
    the logistic function of a single output, "clip" cuts at 0 and 1. None: one of its
    own, in an own `prediction`, which no exported program knows."""
    units: ClassVar[Units] = "deviations"
    """Units in which targets are encoded: their standard deviations from the mean,
    robust ones from the median, which outliers do not make, shares of their mean (with
    an exponential link: values are logarithms of shares), or those of the data."""
    power: ClassVar[int] = 0
    """Power of its mean with which the variance of a target grows."""
    error_name: ClassVar[str] = "mean loss"
    """Name of what `reported` returns."""
    error_word: ClassVar[str] = "loss"
    """The same in a word or two."""
    regression: ClassVar[str] = "generalised linear"
    """Name of the regression that a single model of an output is."""

    def check_targets(self, targets: Rows) -> None:
        """Refuse targets, in original units, for which the loss is undefined."""

    def labels(self, names: Sequence[str]) -> tuple[str, ...] | None:
        """Names of all classes, given those of the outputs; None: these are numbers."""
        return None

    def scaling(
        self, targets: OfRows, weight: OfRows, moments: tuple[float, float]
    ) -> tuple[float, float]:
        """Center and scale for encoding a target, given its mean and deviation."""
        if self.units == "robust":
            center = quantile(targets, weight, 0.5)
            return center, robust_scale(targets - center, weight) or 1.0
        if self.units == "means":
            # In single precision it does not depend on the order of the rows.
            part, power = math.frexp(moments[0])
            return 0.0, math.ldexp(float(np.float32(part)), power) or 1.0
        return (0.0, 1.0) if self.units == "given" else moments

    def error_units(self, scale: Outputs) -> Outputs:
        """Losses in units of the data of a loss of one, given scales of the targets."""
        return scale ** (2.0 - self.power)

    def n_free(self, n_outputs: int) -> int:
        """Number of outputs with free models, which determine the others."""
        return n_outputs

    def degrees_of_row(self, degrees: np.ndarray, n_outputs: int) -> np.ndarray:
        """Degrees of freedom that models, given those of an output, take of rows."""
        return degrees

    def margin(self, value: np.ndarray) -> np.ndarray:
        """How far raw predictions of the second of two classes are from a tie."""
        return 2.0 * value - 1.0 if self.link == "clip" else value

    def name_of_value(self, target: str, several: bool) -> str:
        """Name of the raw prediction of an output, one of ``several`` or the only."""
        return f"log of {target}" if self.link == "exponential" else target

    def meaning(self, name: str, several: bool) -> str:
        """How the prediction of ``name`` follows from raw ones; empty if plainly."""
        return ""

    def prediction(self, value: AnyArray) -> AnyArray:
        """Apply the inverse link: raw predictions to units of the encoded targets."""
        xp = namespace(value)
        if self.link == "exponential":
            return xp.exp(xp.minimum(value, HIGHEST_LOG))
        if self.link == "softmax" and value.shape[1] == 1:
            return logistic(value)
        if self.link == "softmax":
            return (softmax if xp is np else jax.nn.softmax)(value, axis=1)
        return xp.clip(value, 0.0, 1.0) if self.link == "clip" else value

    @abstractmethod
    def losses(self, targets: Rows, value: Rows) -> Rows:
        """Loss of every row, split into addends per output."""

    @abstractmethod
    def working(self, targets: Rows, value: Rows) -> tuple[Rows, Rows]:
        """Negative gradient and curvature of the loss in each raw prediction.

        Weighted least squares fits ``slope / curvature`` with weights ``curvature``,
        one output at a time; both may be those of a parabola above the loss.
        """

    def derivatives(self, targets: Rows, value: Rows) -> tuple[Rows, Rows]:
        """Negative gradient and true second derivative, for standard errors."""
        return self.working(targets, value)

    def steps(self, targets: Rows, value: Rows, weight: OfRows) -> tuple[Rows, OfRows]:
        """Newton steps of the rows, and weights, for trees that all outputs share.

        Weights are less where the curvature is small; their sum stays. Of several
        outputs it is a bound of the curvature in any direction: eigenvalues of the
        Hessian diag(p) - p p' are at most 2 p (1 - p) (Gershgorin).
        """
        if self.least_squares:
            return targets - value, weight
        slope, each = self.working(targets, value)
        curvature = each[:, 0] if each.shape[1] == 1 else 2.0 * each.max(axis=1)
        step = np.clip(slope / curvature[:, None], -LONGEST_STEP, LONGEST_STEP)
        total = weight.sum()
        share = np.minimum(curvature / (weight @ curvature / total), _MOST_SHARE)
        weight = weight * share
        return step, weight * (total / weight.sum())

    def remaining(
        self, targets: Rows, value: Rows, weight: OfRows
    ) -> tuple[Rows, OfRows]:
        """Targets and weights of which further raw predictions have the same losses.

        The weighted losses of a sum ``value + more`` are those of ``more`` at these, up
        to a constant: a further tree of a booster is fitted to them.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no method remaining, which boosters need. Add "
            "one, or fit a single tree."
        )

    def smoothed(
        self,
        targets: Rows,
        value: Rows,
        weight: OfRows,
        nodes: Sequence[slice],
        share: float,
        least: float,
    ) -> Loss:
        """Loss near this one whose slope has no jumps; itself if it has none anyway.

        A ``share`` of the rows that determine a node's minimum is smoothed over, at
        least of the weight ``least``.
        """
        return self

    def take(self, row: np.ndarray) -> Loss:
        """Select rows of a loss that is smoothed differently for each."""
        return self

    def constant(self, targets: Rows, weight: OfRows) -> Outputs:
        """Raw prediction of least loss that is the same for all rows."""
        if not self.predicts_mean or self.link is None:
            raise NotImplementedError(f"{type(self).__name__} needs a method constant.")
        mean = weight @ targets / weight.sum()
        if self.link == "exponential":
            return np.log(np.maximum(mean, RAREST))
        if self.link != "softmax":
            return mean
        if len(mean) > 1:
            return np.log(np.maximum(mean, LEAST_SHARE))
        mean = np.clip(mean, LEAST_SHARE, 1.0 - LEAST_SHARE)
        return np.log(mean) - np.log1p(-mean)

    def of_constant(self, mean: Outputs) -> Outputs | None:
        """Loss of the best constant, if the means of the targets determine it."""

    @abstractmethod
    def noise(
        self, error: Float[np.ndarray, "*shape"], mean: Float[np.ndarray, "*shape"]
    ) -> Float[np.ndarray, "*shape"]:
        """Variance of raw predictions that costs a mean loss, at a mean of targets."""

    def typical(self, targets: Rows, value: Rows, weight: OfRows) -> Outputs:
        """Typical loss of a row that is no outlier; by default the mean of all rows."""
        return weight @ self.losses(targets, value) / weight.sum()

    def check_deviations(self) -> None:
        """Refuse to give standard deviations about predictions that are no means."""
        if not (self.predicts_mean and self.link in ("identity", "exponential")):
            raise ValueError(
                "Standard deviations and intervals need loss='squared' or another one "
                f"of means, and the model was fitted with {self!r}. For an interval "
                "fit two quantiles: loss=Quantile(level=0.05) and Quantile(level=0.95)."
            )

    def deviations(self, prediction: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        """Standard deviations of targets, given those of raw predictions."""
        self.check_deviations()
        # Those of logarithms are shares.
        return deviation if self.link == "identity" else deviation * prediction

    def reported(self, error: float, scale: float) -> float:
        """Mean loss as readers are told it, given the scale of the target."""
        return max(error, 0.0) ** 0.5 * scale if self.least_squares else error

    def row_losses(self, value: jax.Array, targets: jax.Array) -> jax.Array:
        """Loss of every row up to a constant, which JAX differentiates, (n_rows,)."""
        losses: Any = self.losses
        return jnp.sum(losses(targets, value), axis=1)


def check_loss(loss: Loss, targets: Rows, weight: OfRows) -> None:
    """Refuse a loss of one's own whose methods return what is none, on a few rows."""
    if type(loss).__module__.startswith("secret_jax."):
        return
    name = type(loss).__name__
    for option, allowed in (
        ("link", (*get_args(Link), None)),
        ("units", get_args(Units)),
    ):
        if (given := getattr(loss, option)) not in allowed:
            raise ValueError(f"{name}.{option} is {given!r}. Allowed: {allowed}.")

    def check(method: str, found: Any, shape: tuple[int, ...]) -> None:
        found = np.asarray(found)
        if found.shape != shape:
            raise ValueError(
                f"{name}.{method} returned an array of shape {found.shape} for targets "
                f"of shape {targets.shape}. Return {shape}."
            )
        if not np.isfinite(found.astype(np.float64)).all():
            raise ValueError(f"{name}.{method} returned NaN or infinity.")

    constant = loss.constant(targets, weight)
    check("constant", constant, targets.shape[1:])
    value = np.tile(constant, (len(targets), 1))
    each, found = loss.losses(targets, value), loss.working(targets, value)
    check("losses", each, targets.shape)
    if not isinstance(found, tuple) or len(found) != 2:
        raise TypeError(f"{name}.working should return two arrays: slope, curvature.")
    for part in found:
        check("working", part, targets.shape)
    if not (found[1] >= 0).all():
        raise ValueError(
            f"{name}.working returned a negative curvature. Return a parabola's that "
            "lies above the loss where its own is none."
        )
    noise = loss.noise(each.mean(axis=0), targets.mean(axis=0))
    check("noise", noise, targets.shape[1:])


class QuasiLikelihood(Loss):
    """Base of losses whose curvature is information up to a factor, the dispersion."""

    @abstractmethod
    def dispersion(
        self, targets: Rows, value: Rows, weight: OfRows, free: float
    ) -> Outputs:
        """Estimate the factor at raw predictions that leave so many degrees free."""


class Likelihood(Loss):
    """Base of negative log-likelihoods up to a constant: curvature is information."""


class OfLosses(Value):
    """Base of the values that may be defined for trees of some losses only."""

    def knows(self, loss: Loss) -> bool:
        """Whether it is defined for trees of a loss."""
        return True

    def conflict(self, options: Mapping[str, Any]) -> str:
        loss = options["leaf"].loss
        known = self.knows(loss)
        return "" if known else f"another one: it is not defined for {loss!r}"


def logistic(value: AnyArray) -> AnyArray:
    """Probabilities of log-odds, of NumPy or of JAX."""
    return expit(value) if namespace(value) is np else jax.nn.sigmoid(value)


def quantile(values: OfRows, weight: OfRows, level: float) -> float:
    """Smallest value with at least a share ``level`` of the weight up to it."""
    order = np.argsort(values)  # `np.quantile` with weights takes three times as long
    below = np.cumsum(weight[order])
    place = np.searchsorted(below, (1.0 - _ROUNDING) * level * below[-1])
    return float(values[order[place]])


def robust_scale(deviations: OfRows, weight: OfRows) -> float:
    """Standard deviation of normal numbers with the same median absolute deviation."""
    used = (deviations != 0) & (weight > 0)  # what most rows share is no scale
    if not used.any():
        return 0.0
    return _NORMAL * quantile(np.abs(deviations[used]), weight[used], 0.5)
