"""Weights of rows: of any unit, none, zero, and one larger than all others together."""

import numpy as np
import pytest

from secret_jax.data.rows import all_count, all_one, unweighted
from secret_jax.data.validation import CheckedRows, checked_weight, scaled_rows


def checked(weight: np.ndarray) -> CheckedRows:
    X = np.arange(2.0 * len(weight)).reshape(-1, 2)
    return CheckedRows(X, X[:, :1].copy(), weight, group=X[:, 1])


WEIGHTS = {
    "fractions": np.random.default_rng(0).lognormal(size=1000),
    "zeros": np.random.default_rng(1).integers(0, 3, 1000) * 0.1,
    "a huge one": np.r_[1e12, np.ones(999)],
    "all but alike": np.r_[1.0 + 1e-6, np.ones(999)],
}


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("n_parts", [1, 3])
def test_weights_are_scaled_to_a_mean_of_one(kind, n_parts):
    weight = WEIGHTS[kind]
    parts = scaled_rows(*map(checked, np.split(weight, [100, 300][: n_parts - 1])))
    found = np.concatenate([part.weight for part in parts])
    mean = np.longdouble(weight).sum() / sum(weight > 0)
    np.testing.assert_array_equal(found == 0, weight == 0)
    # Rounded to 36 bits of each.
    np.testing.assert_allclose(found, (weight / mean).astype(float), rtol=2.0**-36)
    digits = np.frexp(found)[0] * 2.0**36
    np.testing.assert_array_equal(digits, np.rint(digits))
    assert not all_one(parts[-1].weight)


def test_weights_that_are_alike_are_none_and_take_no_memory():
    n_rows = 10**9
    assert all_one(checked_weight(None, range(n_rows)))
    assert all_one(unweighted(n_rows)[5 : n_rows // 2])
    (given,) = scaled_rows(checked(unweighted(1000)))
    for unit in (1.0, 7.0, 1e-300):
        for part in scaled_rows(checked(np.full(300, unit)), checked(np.full(2, unit))):
            assert all_one(part.weight)
            assert not part.weight.flags.writeable
    X, targets, _, group = given.counting()
    assert X is given.X
    assert targets is given.targets
    assert group is given.group
    for others in (np.ones(3), np.broadcast_to(2.0, 3), unweighted(0)):
        assert not all_one(others)


def test_rows_without_a_weight_do_not_count():
    (given,) = scaled_rows(checked(WEIGHTS["zeros"]))
    assert not all_count(given.weight)
    _, targets, weight, group = given.counting()
    used = np.flatnonzero(WEIGHTS["zeros"])
    np.testing.assert_array_equal(targets[:, 0], 2.0 * used)
    np.testing.assert_array_equal(group, 2.0 * used + 1)
    assert all_count(weight)
    assert weight.mean() == pytest.approx(1.0)
