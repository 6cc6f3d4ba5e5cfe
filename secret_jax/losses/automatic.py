"""A loss that is one function of JAX, which says its slopes and curvatures."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import jax
import numpy as np

from secret_jax.losses.interface import Loss, Pair
from secret_jax.runtime.shapes import next_power_of_two, padded

_FEWEST = 512  # rows after padding: one program for all smaller nodes
# Least curvature, relative to the mean of the rows: steps stay finite.
_LEAST_SHARE = 0.01
_HALVINGS = 60


@dataclass(frozen=True, kw_only=True)
class FunctionLoss(Loss):
    """Loss given by one function of JAX, differentiated by `jax.grad`.

    Attributes
    ----------
    function : callable
        Of a target and a prediction, both scalars, in units of the standardised target;
        it gives the loss. It should be convex in the prediction, or nearly so, and
        least where the two are equal. It must be hashable, as functions are.
    standardised : bool, default=True
        False: the function sees targets and predictions in their own units.

    Examples
    --------
    What is predicted too low costs four times as much:

    >>> import jax.numpy as jnp
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.datasets import make_fried
    >>> def dear_if_low(target, prediction):
    ...     error = target - prediction
    ...     return jnp.where(error > 0, 4.0, 1.0) * error**2
    >>> X, y = make_fried(300, random_state=0)
    >>> loss = FunctionLoss(function=dear_if_low)
    >>> model = SecretRegressor(max_depth=0, loss=loss).fit(X, y)
    >>> bool((y <= model.predict(X)).mean() > 0.6)
    True
    """

    function: Callable[[Any, Any], Any]
    standardised: bool = True
    link: ClassVar = "identity"
    says_means: ClassVar = False  # a function of any kind may say something else

    def check(self) -> None:
        """Refuse invalid fields; compiled programs are kept by the function's hash."""
        super().check()
        if not isinstance(self.function, Hashable):
            raise TypeError(
                f"The function of FunctionLoss is a {type(self.function).__name__}, "
                "which has no hash. Give a plain function, or make its class a frozen "
                "dataclass."
            )

    def scaling(
        self, targets: np.ndarray, weight: np.ndarray, moments: tuple[float, float]
    ) -> tuple[float, float]:
        return moments if self.standardised else (0.0, 1.0)

    def _evaluated(self, targets: np.ndarray, value: np.ndarray) -> list[np.ndarray]:
        """Loss, slope and curvature of every row and output, float64."""
        both = np.broadcast_arrays(targets, value)
        flat = [np.ravel(each).astype(np.float32) for each in both]
        size = next_power_of_two(max(len(flat[0]), _FEWEST))
        found = _derivatives(self.function)(*(padded(each, size, 0) for each in flat))
        n = len(flat[0])
        return [np.asarray(x, np.float64)[:n].reshape(both[0].shape) for x in found]

    def losses(self, targets: np.ndarray, value: np.ndarray) -> np.ndarray:
        return self._evaluated(targets, value)[0]

    def working(self, targets: np.ndarray, value: np.ndarray) -> Pair:
        """See `Loss`; where the function is flat or not convex, some curvature."""
        _, slope, second = self._evaluated(targets, value)
        least = _LEAST_SHARE * np.abs(second).mean(axis=0)
        return slope, np.maximum(second, np.where(least > 0, least, 1.0))

    def derivatives(self, targets: np.ndarray, value: np.ndarray) -> Pair:
        _, slope, second = self._evaluated(targets, value)
        return slope, second

    def constant(self, targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Halve the range of the targets until its slope is zero."""
        low, high = targets.min(axis=0), targets.max(axis=0)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            rising = weight @ self._evaluated(targets, middle)[1] > 0
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        return 0.5 * (low + high)

    def noise(self, error: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """See `Loss`: small errors cost what a parabola of its curvature does."""
        second = self._evaluated(mean, mean)[2]
        return 2.0 * error / np.where(second > 0, second, 1.0)


@lru_cache(maxsize=32)
def _derivatives(function: Callable[[Any, Any], Any]) -> Any:
    """Compile loss, negative slope and curvature of many rows."""
    slope = jax.grad(function, argnums=1)

    def of_row(target: jax.Array, value: jax.Array) -> tuple[Any, Any, Any]:
        second = jax.grad(slope, argnums=1)(target, value)
        return function(target, value), -slope(target, value), second

    return jax.jit(jax.vmap(of_row))
