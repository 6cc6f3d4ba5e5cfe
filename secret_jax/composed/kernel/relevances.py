"""Weights of columns in distances, by the likelihood of a process (MacKay 1996)."""

import numpy as np
from scipy.linalg import get_lapack_funcs
from scipy.optimize import minimize

from secret_jax.composed.kernel.covariances import Metric
from secret_jax.composed.kernel.kernels import KERNELS, products

# Deviation of the logarithms of weights that are as likely as not: with few rows the
# likelihood alone would leave columns out by chance.
_PRIOR = 0.5
# Bounds of logarithms of weights and of the noise, as a share of the variance.
_OF_WEIGHT, _OF_NOISE = (-6.0, 4.0), (-9.0, 5.0)
_STEP = 1e-4  # relative, of differences of the kernel's logarithm
_LEAST_SQUARE = 1e-9


def relevances(
    x: np.ndarray, rest: np.ndarray, weight: np.ndarray, metric: Metric, kernel: str
) -> np.ndarray:
    """Weights of the columns of greatest likelihood and prior, shape (n_columns,).

    ``rest`` (n_rows, n_outputs), about zero, is what the process is to explain;
    ``weight`` (n_rows,) is positive; ``metric`` gives distances before columns are
    weighted; ``kernel`` falls with the distance.
    """
    root, x = np.sqrt(weight), x - metric.center
    form, width = metric.root @ metric.root.T, float(np.sqrt(max(x.shape[1], 1)))
    target, n = root[:, None] * rest, len(x)
    target = target / np.maximum(np.abs(target).max(axis=0), np.finfo(float).tiny)
    factored, inverted = get_lapack_funcs(("potrf", "potri"), (target,))

    def deviance(place: np.ndarray) -> tuple[float, np.ndarray]:
        scale, noise = np.exp(place[:-1]), np.exp(place[-1])
        z = x * scale @ metric.root
        gram, slope = _with_slope(kernel, products(z, z)[0], width)
        both = np.outer(root, root)
        factor, info = factored(both * gram + noise * np.eye(n), lower=1)
        if info:
            return 1e15, np.zeros_like(place)
        inverse = inverted(factor, lower=1)[0]
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        said = inverse @ target
        variance = np.maximum((target * said).sum(axis=0) / n, np.finfo(float).tiny)
        off = place[:-1] - place[:-1].mean()
        value = n * np.log(variance).sum() + (off @ off) / _PRIOR**2
        value += 2.0 * rest.shape[1] * np.log(np.diag(factor)).sum()
        inner = rest.shape[1] * inverse - (said / variance) @ said.T
        by_square = both * slope * inner
        spread = x.T @ (by_square.sum(axis=1)[:, None] * x - by_square @ x)
        gradient = 4.0 * scale * ((form * spread) @ scale) + 2.0 * off / _PRIOR**2
        return value, np.append(gradient, noise * np.trace(inner))

    bounds = [_OF_WEIGHT] * x.shape[1] + [_OF_NOISE]
    start = np.append(np.zeros(x.shape[1]), np.log(0.1))
    options = {"maxiter": 50}
    found = minimize(
        deviance, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return np.exp(found.x[:-1])


def _with_slope(
    kernel: str, square: np.ndarray, width: float
) -> tuple[np.ndarray, np.ndarray]:
    """A kernel of unit variance, and its derivative by the squared distance."""
    log = KERNELS[kernel].log
    assert log is not None
    square = np.maximum(square, _LEAST_SQUARE)
    value = np.exp(log(square, width) - log(np.zeros(1), width))
    step = log(square * (1 + _STEP), width) - log(square * (1 - _STEP), width)
    return value, value * step / (2.0 * _STEP * square)
