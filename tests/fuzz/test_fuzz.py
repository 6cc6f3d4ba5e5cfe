"""A few cases of the search for broken laws, the same in every run."""

import pytest

from tests.fuzz.laws import broken


@pytest.mark.parametrize(
    ("kind", "seed"), [("tree", 1), ("classes", 2), ("booster", 3)]
)
def test_no_law_is_broken(kind, seed):
    for law, error in broken(kind, seed):
        raise AssertionError(law) from error
