"""Residuals of rows left out, against one fit without each of them."""

import numpy as np
import pytest

from secret_jax.runtime.left_out import left_out_residuals


def refitted(x, y, weight, penalty):
    found = []
    for row in range(len(x)):
        rest = weight.copy()
        rest[row] = 0.0
        gram = (rest[:, None] * x).T @ x + penalty * weight.sum() * np.eye(x.shape[1])
        found.append(y[row] - x[row] @ np.linalg.solve(gram, x.T @ (rest * y)))
    return np.array(found)


@pytest.mark.parametrize("are_whole", [True, False])
def test_a_row_is_left_out_however_heavy(are_whole):
    random = np.random.default_rng(0)
    x, y = random.normal(size=(20, 3)), random.normal(size=20)
    weight = random.integers(1, 6, 20) if are_whole else random.uniform(0.2, 4.0, 20)
    weight = weight.astype(np.float64)
    found = left_out_residuals(x, y[:, None], weight, 0.01)[:, 0]
    np.testing.assert_allclose(found, refitted(x, y, weight, 0.01), rtol=1e-9)
