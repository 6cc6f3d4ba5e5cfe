"""Synthetic data sets of section 5.1 of Dobra & Gehrke 2002.

``random_state`` is None, a seed, or a `numpy.random.Generator`: it is advanced, so that
several calls with one give independent parts (training, pruning, test).

With a ``device`` rows are born where they are used: float32 arrays of JAX, from one key
by counting (Salmon et al. 2011), so that every kind of device draws the same bits.
They are other rows than those that NumPy draws without a device.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.runtime.devices import computing_on
from secret_jax.runtime.linalg import namespace
from secret_jax.runtime.programs import program
from secret_jax.runtime.values import at_least, check_constraints, real

# X and y, of NumPy or of JAX.
Columns: TypeAlias = tuple[Any, Any]
_ALLOWED = {
    "n_samples": [at_least(1)],
    "n_features": [at_least(5)],
    "noise": [real(0.0)],
    "device": [str, None],
}


def make_3dsin(
    n_samples: int = 16384, *, random_state: Any = None, device: str | None = None
) -> Columns:
    """Generate 3DSin: a smooth surface of two attributes, without noise.

    Both are uniform on [-3, 3] and independent; ``y = 3 sin(x1) sin(x2)``.

    Parameters
    ----------
    n_samples : int, at least 1
    random_state : None, int or numpy.random.Generator
    device : str, optional
        Where JAX makes the rows, as "gpu", "gpu:1" or "cpu"; by default NumPy does.

    Returns
    -------
    X, y : arrays of shape (n_samples, 2) and (n_samples,)
        Of NumPy, float64; on a device of JAX, float32.

    Examples
    --------
    >>> X, y = make_3dsin(100, random_state=0)
    >>> X.shape, y.shape
    ((100, 2), (100,))
    """
    return _drawn(_3dsin, random_state, device, n_samples=n_samples)


def _3dsin(random: Any, *, n_samples: int) -> Columns:
    X = random.uniform(-3.0, 3.0, (n_samples, 2))
    waves = namespace(X).sin(X)
    return X, 3.0 * waves[:, 0] * waves[:, 1]


def make_fried(
    n_samples: int = 16384,
    *,
    noise: float = 1.0,
    n_features: int = 10,
    random_state: Any = None,
    device: str | None = None,
) -> Columns:
    """Generate Fried: the first function of Friedman (1991).

    All attributes are uniform on [0, 1] and independent, those after the fifth without
    influence;
    ``y = 10 sin(pi x1 x2) + 20 (x3 - 0.5)^2 + 10 x4 + 5 x5 + noise * N(0, 1)``.
    Other parameters, and X and y, are as in `make_3dsin`.

    Examples
    --------
    >>> X, y = make_fried(100, random_state=0)
    >>> X.shape, y.shape
    ((100, 10), (100,))
    """
    sizes = {"n_samples": n_samples, "n_features": n_features, "noise": noise}
    return _drawn(_fried, random_state, device, **sizes)


def _fried(random: Any, *, n_samples: int, n_features: int, noise: float) -> Columns:
    X = random.uniform(0.0, 1.0, (n_samples, n_features))
    x1, x2, x3, x4, x5 = X.T[:5]
    signal = 10.0 * namespace(X).sin(np.pi * x1 * x2) + 20.0 * (x3 - 0.5) ** 2
    signal = signal + 10.0 * x4 + 5.0 * x5
    return X, signal + noise * random.standard_normal(n_samples)


def make_cart(
    n_samples: int = 16384,
    *,
    noise: float = 1.0,
    random_state: Any = None,
    device: str | None = None,
) -> Columns:
    """Generate Cart: two linear functions, a binary attribute (Breiman et al. 1984).

    X1 is -1 or 1, X2 to X10 are -1, 0 or 1, all equally likely and independent;
    ``y = 3 + 3 x2 + 2 x3 + x4`` where x1 = 1 and ``y = -3 + 3 x5 + 2 x6 + x7``
    where x1 = -1, plus ``noise * N(0, 1)``. X8 to X10 have no influence. The paper
    prints a variance of the noise of 2, but an error below 2, which is reached with a
    variance of 1; it takes all attributes as discrete
    (``categorical_features=range(10)``). Other parameters, and X and y, are as in
    `make_3dsin`.

    Examples
    --------
    >>> X, y = make_cart(100, random_state=0)
    >>> np.unique(X[:, 0]), np.unique(X[:, 1])
    (array([-1.,  1.]), array([-1.,  0.,  1.]))
    """
    return _drawn(_cart, random_state, device, n_samples=n_samples, noise=noise)


def _cart(random: Any, *, n_samples: int, noise: float) -> Columns:
    of_three = random.integers(-1, 2, (n_samples, 10))
    first = 2.0 * random.integers(0, 2, (n_samples,)) - 1.0
    xp = namespace(of_three)
    X = xp.concatenate([first[:, None], of_three[:, 1:].astype(first.dtype)], axis=1)
    one = 3.0 + 3.0 * X[:, 1] + 2.0 * X[:, 2] + X[:, 3]
    other = -3.0 + 3.0 * X[:, 4] + 2.0 * X[:, 5] + X[:, 6]
    signal = xp.where(first == 1.0, one, other)
    return X, signal + noise * random.standard_normal(n_samples)


class _Counting:
    """Draws of JAX, called as those of `numpy.random.Generator`."""

    def __init__(self, key: jax.Array):
        self._keys = iter(jax.random.split(key, 4))

    def uniform(self, low: float, high: float, shape: tuple[int, ...]) -> jax.Array:
        return jax.random.uniform(next(self._keys), shape, jnp.float32, low, high)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> jax.Array:
        drawn = jax.random.randint(next(self._keys), shape, low, high)
        return drawn.astype(jnp.float32)

    def standard_normal(self, n: int) -> jax.Array:
        return jax.random.normal(next(self._keys), (n,), jnp.float32)


def _drawn(
    formula: Callable[..., Columns], random_state: Any, device: str | None, **sizes: Any
) -> Columns:
    """Rows of a formula, which draws them, made by NumPy or on a device."""
    given = {**sizes, "device": device}
    allowed = {name: _ALLOWED[name] for name in given}
    check_constraints(allowed, given, f"make{formula.__name__}")
    random = np.random.default_rng(random_state)
    if device is None:
        return formula(random, **sizes)
    seed = random.integers(2**32, dtype=np.uint32)
    there = computing_on(device, shape=(sizes["n_samples"],))
    with there, jax.threefry_partitionable(True):
        return _drawn_on_device(seed, formula=formula, sizes=tuple(sizes.items()))


@program(static_argnames=("formula", "sizes"))
def _drawn_on_device(
    seed: jax.Array, *, formula: Callable[..., Columns], sizes: tuple[Any, ...]
) -> Columns:
    # Whatever generator of bits the user has chosen for JAX.
    key = jax.random.key(seed, impl="threefry2x32")
    return formula(_Counting(key), **dict(sizes))
