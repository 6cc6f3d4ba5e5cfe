"""Leading eigenvectors by powers of the matrix."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from secret_jax.runtime.eigenvectors import leading_eigenvectors


def test_leading_eigenvectors():
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    matrix = basis @ np.diag([5, -4, 1, 0.5, 0.2, 0]) @ basis.T
    got = np.asarray(leading_eigenvectors(jnp.asarray(matrix, jnp.float32), 2))
    np.testing.assert_allclose(np.abs(got @ basis[:, :2]), np.eye(2), atol=1e-3)
