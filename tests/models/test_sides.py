"""Models between borders, against cases whose answer is known."""

import numpy as np
import pytest

from secret_jax.models.sides import Limits, NodeRows, _within


@pytest.mark.parametrize("seed", range(10))
def test_a_model_between_borders_that_touch_stays(seed):
    rng = np.random.default_rng(seed)
    low, mean, high = np.sort(rng.normal(size=(3, 4)), axis=0)
    floor, rise = rng.normal(size=5), rng.uniform(size=4)
    # They meet in the lowest corner of the box, and the model goes through it.
    model, ceiling = (
        floor + share * np.concatenate([[-rise @ low], rise]) for share in (0.5, 1.0)
    )
    limits = Limits(ceiling[None], floor[None], anchor=floor)
    rows = NodeRows(1.0, mean, np.eye(4), np.stack([low, high]))
    np.testing.assert_allclose(_within(model, limits, rows), model, atol=1e-9)
