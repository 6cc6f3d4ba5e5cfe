"""Losses of classes: models predict log-odds or class frequencies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit, log_expit, log_softmax, logit

from secret_jax.losses.interface import LEAST_SHARE, Likelihood, Loss, Pair, logistic
from secret_jax.runtime.linalg import AnyArray

# Where a probability is this close to 0 or 1 a parabola is too flat to step by.
_LEAST_CURVATURE = 1e-4


def class_in_words(name: str) -> str:
    """Name of a class for text output; names like numbers get a prefix.

    >>> [class_in_words(name) for name in ("setosa", "0", "-1", "<50K")]
    ['setosa', 'class 0', 'class -1', '<50K']
    """
    try:
        float(name)
    except ValueError:
        return name
    return f"class {name}"


class ClassLoss(Loss):
    """Base of the losses whose targets indicate classes, or are shares of them."""

    units: ClassVar = "given"

    def conflict(self, options: Mapping[str, Any]) -> str:
        return "a loss of numbers; for classes use SecretClassifier"

    def degrees_of_row(self, degrees: np.ndarray, n_outputs: int) -> np.ndarray:
        return degrees * self.n_free(n_outputs)  # classes share their rows

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        # Of two classes only the second is an output.
        return tuple(names) if len(names) > 1 else (f"not {names[0]}", names[0])

    def name_of_value(self, target: str, several: bool) -> str:
        of_logarithms = "score" if several else "log-odds"
        word = of_logarithms if self.link == "softmax" else "share"
        return f"{word} of {class_in_words(target)}"


@dataclass(frozen=True, kw_only=True)
class CrossEntropy(Likelihood, ClassLoss):
    """Negative log-likelihood of classes, in nats.

    Of two classes there is one output, the second: its value is the log-odds. Of more
    there is one output for each class, and probabilities are proportional to the
    exponentials of the values (symmetric multinomial logistic regression).
    """

    trains_gates: ClassVar[bool] = True
    link: ClassVar = "softmax"
    error_word: ClassVar[str] = "log-loss"
    regression: ClassVar[str] = "logistic"

    def n_free(self, n_outputs: int) -> int:
        return max(n_outputs - 1, 1)  # a shift of all of them cancels

    def meaning(self, name: str, several: bool) -> str:
        if several:
            return "a class's probability is in proportion to exp(score)"
        return f"probability of {name}: 1 / (1 + exp(-log-odds))"

    def losses(self, targets: np.ndarray, value: np.ndarray) -> np.ndarray:
        if value.shape[1] == 1:
            return -targets * log_expit(value) - (1.0 - targets) * log_expit(-value)
        return -targets * log_softmax(value, axis=1)

    def working(self, targets: np.ndarray, value: np.ndarray) -> Pair:
        # For one class at a time, with the others fixed.
        probability = self.prediction(value)
        curvature = np.maximum(probability * (1.0 - probability), _LEAST_CURVATURE)
        return targets - probability, curvature

    def of_constant(self, mean: np.ndarray) -> np.ndarray:
        return self.losses(mean[None], self.constant(mean[None], np.ones(1))[None])[0]

    def noise(self, error: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return 2.0 * error / np.maximum(mean * (1.0 - mean), _LEAST_CURVATURE)

    def row_losses(self, value: jax.Array, targets: jax.Array) -> jax.Array:
        # A single output stands beside the log-odds of its complement: zero.
        scores = jnp.pad(value, ((0, 0), (1, 0))) if value.shape[1] == 1 else value
        return jax.nn.logsumexp(scores, axis=1) - jnp.sum(targets * value, axis=1)


@dataclass(frozen=True, kw_only=True)
class Brier(ClassLoss):
    """Squared errors of the probabilities of all classes (Brier 1950).

    Models predict the class frequencies themselves; a single output stands for two
    classes. The training loss of the best constant is the Gini impurity.
    """

    link: ClassVar = "clip"
    error_word: ClassVar[str] = "Brier score"

    def losses(self, targets: np.ndarray, value: np.ndarray) -> np.ndarray:
        return (2.0 if value.shape[1] == 1 else 1.0) * (targets - value) ** 2

    def working(self, targets: np.ndarray, value: np.ndarray) -> Pair:
        curvature = np.full(value.shape, 4.0 if value.shape[1] == 1 else 2.0)
        return curvature * (targets - value), curvature

    def of_constant(self, mean: np.ndarray) -> np.ndarray:
        return (2.0 if len(mean) == 1 else 1.0) * mean * (1.0 - mean)

    def noise(self, error: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return error * (0.5 if mean.shape[-1] == 1 else 1.0)


@dataclass(frozen=True, kw_only=True)
class CumulativeLogits(Likelihood):
    """Negative log-likelihoods of classes in order: whether each is reached, in nats.

    There is an output for every class but the first, which indicates that class or a
    later one; its value is the log-odds. All are added up. Slopes are those of all
    outputs together (proportional odds, McCullagh 1980), and differ as the rows say.
    """

    is_cumulative: ClassVar[bool] = True

    units: ClassVar = "given"
    trains_gates: ClassVar[bool] = True
    link: ClassVar = "softmax"  # of a single output the logistic function
    error_word: ClassVar[str] = "log-loss"
    regression: ClassVar[str] = "logistic"

    def check_targets(self, targets: np.ndarray) -> None:
        if (targets < 0).any() or (targets > 1).any():
            raise ValueError(
                "Cumulative logits need shares of rows, between 0 and 1: the targets "
                f"are between {targets.min():g} and {targets.max():g}."
            )

    def name_of_value(self, target: str, several: bool) -> str:
        return f"log-odds of {target}"

    def meaning(self, name: str, several: bool) -> str:
        return f"probability of {name}: 1 / (1 + exp(-log-odds))"

    def prediction(self, value: AnyArray) -> AnyArray:
        return logistic(value)

    def losses(self, targets: np.ndarray, value: np.ndarray) -> np.ndarray:
        return -targets * log_expit(value) - (1.0 - targets) * log_expit(-value)

    def working(self, targets: np.ndarray, value: np.ndarray) -> Pair:
        probability = expit(value)
        curvature = np.maximum(probability * (1.0 - probability), _LEAST_CURVATURE)
        return targets - probability, curvature

    def constant(self, targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
        mean = weight @ targets / weight.sum()
        return logit(np.clip(mean, LEAST_SHARE, 1.0 - LEAST_SHARE))

    def of_constant(self, mean: np.ndarray) -> np.ndarray:
        return self.losses(mean, self.constant(mean[None], np.ones(1)))

    def noise(self, error: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return 2.0 * error / np.maximum(mean * (1.0 - mean), _LEAST_CURVATURE)

    def row_losses(self, value: jax.Array, targets: jax.Array) -> jax.Array:
        return jnp.sum(jax.nn.softplus(value) - targets * value, axis=1)
