"""A few cases of the search for broken laws, and one law that is broken."""

import pytest

from tests.fuzz import laws

CASES = [
    ("tree", laws.LAWS[1:5]),
    ("forest", [*laws.LAWS[2:6], *laws.LAWS[9:]]),
    ("classes", laws.LAWS[8:]),
]


@pytest.mark.parametrize(("kind", "some"), CASES)
def test_no_law_is_broken(kind, some):
    for law, error in laws.broken(kind, 3, some):
        raise AssertionError(law) from error


def test_a_broken_law_is_told():
    def predictions_are_zero(case):
        case.near(0.0)

    ((name, _),) = laws.broken("tree", 3, [predictions_are_zero])
    assert name == "predictions are zero"
