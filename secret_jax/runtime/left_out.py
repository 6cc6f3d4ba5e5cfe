"""Residuals of rows that a line has not seen, of all rows at once."""

import numpy as np
from jaxtyping import Float


def left_out_residuals(
    x: Float[np.ndarray, "n_rows n_columns"],
    outputs: Float[np.ndarray, "n_rows n_outputs"],
    weight: Float[np.ndarray, " n_rows"],
    penalty: float,
) -> Float[np.ndarray, "n_rows n_outputs"]:
    """Residuals of ridge regression on x, every row predicted without itself.

    A row is one observation, however heavy (Allen 1974, "The relationship between
    variable selection and data augmentation and a method for prediction").
    ``penalty``: of all coefficients, per unit of weight.

    Examples
    --------
    A mean of two values, each told by the other:

    >>> residuals = left_out_residuals(
    ...     np.ones((2, 1)), np.array([[1.0], [3.0]]), np.ones(2), penalty=0.0
    ... )
    >>> residuals.round(6).tolist()
    [[-2.0], [2.0]]
    """
    hat = np.sqrt(weight)[:, None] * x
    gram = hat.T @ hat + penalty * weight.sum() * np.eye(x.shape[1])
    np.matmul(x, np.linalg.inv(gram), out=hat)
    residual = outputs - hat @ (x.T @ (weight[:, None] * outputs))
    leverage = np.einsum("ij,ij->i", x, hat) * weight
    return residual / (1.0 - leverage)[:, None]
