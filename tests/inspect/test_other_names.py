"""Options by the names of scikit-learn's trees: taken, or refused with a remedy."""

from __future__ import annotations

import inspect

import pytest
from configurations import crease, regressor
from sklearn import tree

from secret_jax import SecretRegressor

NAMES = ("length", "width", "height")


@pytest.fixture(scope="module")
def model() -> SecretRegressor:
    return regressor("paper", prune=None, max_depth=1).fit(*crease())


def test_names_given_to_the_text_are_those_of_a_frame(model):
    found = model.export_text(feature_names=NAMES)
    expected = model.export_text()
    for column, name in enumerate(NAMES):
        expected = expected.replace(f"x{column}", name)
    assert "length" in found
    assert found.split() == expected.split()
    assert "height" in model.export_dot(feature_names=NAMES)
    assert "x0" in model.export_text()  # the tree keeps its own


def test_names_that_do_not_fit_are_refused(model):
    for names, message in (
        (NAMES[:2], "each of the 3 columns that the tree was fitted on, got 2"),
        ("abc", "got 'abc'"),
        (("a", "b", "a"), "holds 'a' twice"),
    ):
        with pytest.raises(ValueError, match=message):
            model.export_text(feature_names=names)


@pytest.mark.parametrize("method", ["export_text", "plot_tree"])
def test_every_option_of_scikit_learn_is_taken_or_explained(model, method):
    ours = inspect.signature(getattr(SecretRegressor, method)).parameters
    theirs = inspect.signature(getattr(tree, method)).parameters
    for name in set(theirs) - set(ours):
        with pytest.raises(TypeError, match=rf"{method}\(\) has no option '{name}': "):
            getattr(model, method)(**{name: None})
    with pytest.raises(TypeError, match="unexpected keyword argument 'depth'"):
        getattr(model, method)(depth=3)
