"""Synthetic data sets of section 5.1 of Dobra & Gehrke 2002.

``random_state`` is None, a seed, or a `numpy.random.Generator`: it is advanced, so that
several calls with one give independent parts (training, pruning, test).
"""

from typing import Any

import numpy as np

from secret_jax.runtime.values import at_least, check_constraints, real


def make_3dsin(
    n_samples: int = 16384, *, random_state: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Generate 3DSin: a smooth surface of two attributes, without noise.

    Both are uniform on [-3, 3] and independent; ``y = 3 sin(x1) sin(x2)``.

    Parameters
    ----------
    n_samples : int, at least 1
    random_state : None, int or numpy.random.Generator

    Returns
    -------
    X, y : ndarrays of shape (n_samples, 2) and (n_samples,), float64

    Examples
    --------
    >>> X, y = make_3dsin(100, random_state=0)
    >>> X.shape, y.shape
    ((100, 2), (100,))
    """
    _check("make_3dsin", n_samples=n_samples)
    random = np.random.default_rng(random_state)
    X = random.uniform(-3.0, 3.0, (n_samples, 2))
    return X, 3.0 * np.sin(X[:, 0]) * np.sin(X[:, 1])


def make_fried(
    n_samples: int = 16384,
    *,
    noise: float = 1.0,
    n_features: int = 10,
    random_state: Any = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Generate Fried: the first function of Friedman (1991).

    All attributes are uniform on [0, 1] and independent;
    ``y = 10 sin(pi x1 x2) + 20 (x3 - 0.5)^2 + 10 x4 + 5 x5 + noise * N(0, 1)``.
    Attributes after the fifth have no influence.

    Parameters
    ----------
    n_samples : int, at least 1
    noise : float, at least 0
        Standard deviation of the noise.
    n_features : int, at least 5
    random_state : None, int or numpy.random.Generator

    Returns
    -------
    X, y : ndarrays of shape (n_samples, n_features) and (n_samples,), float64

    Examples
    --------
    >>> X, y = make_fried(100, random_state=0)
    >>> X.shape, y.shape
    ((100, 10), (100,))
    """
    _check("make_fried", n_samples=n_samples, noise=noise, n_features=n_features)
    random = np.random.default_rng(random_state)
    X = random.uniform(0.0, 1.0, (n_samples, n_features))
    x1, x2, x3, x4, x5 = X.T[:5]
    signal = 10.0 * np.sin(np.pi * x1 * x2) + 20.0 * (x3 - 0.5) ** 2
    signal = signal + 10.0 * x4 + 5.0 * x5
    return X, signal + noise * random.standard_normal(n_samples)


def make_cart(
    n_samples: int = 16384, *, noise: float = 1.0, random_state: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Generate Cart: two linear functions, a binary attribute (Breiman et al. 1984).

    X1 is -1 or 1, X2 to X10 are -1, 0 or 1, all equally likely and independent;
    ``y = 3 + 3 x2 + 2 x3 + x4`` where x1 = 1 and ``y = -3 + 3 x5 + 2 x6 + x7``
    where x1 = -1, plus ``noise * N(0, 1)``. X8 to X10 have no influence.

    The paper takes all of them as discrete (``categorical_features=range(10)``).

    Parameters
    ----------
    n_samples : int, at least 1
    noise : float, at least 0
        Standard deviation of the noise. The paper prints a variance of 2,
        but an error below 2; with a variance of 1 the error is reached.
    random_state : None, int or numpy.random.Generator

    Returns
    -------
    X, y : ndarrays of shape (n_samples, 10) and (n_samples,), float64

    Examples
    --------
    >>> X, y = make_cart(100, random_state=0)
    >>> np.unique(X[:, 0]), np.unique(X[:, 1])
    (array([-1.,  1.]), array([-1.,  0.,  1.]))
    """
    _check("make_cart", n_samples=n_samples, noise=noise)
    random = np.random.default_rng(random_state)
    X = random.integers(-1, 2, (n_samples, 10)).astype(np.float64)
    X[:, 0] = random.choice([-1.0, 1.0], n_samples)
    slopes = [3.0, 2.0, 1.0]
    one, other = 3.0 + X[:, 1:4] @ slopes, -3.0 + X[:, 4:7] @ slopes
    signal = np.where(X[:, 0] == 1.0, one, other)
    return X, signal + noise * random.standard_normal(n_samples)


def _check(caller: str, **given: Any) -> None:
    allowed = {"n_samples": at_least(1), "n_features": at_least(5), "noise": real(0.0)}
    check_constraints({name: [allowed[name]] for name in given}, given, caller)
