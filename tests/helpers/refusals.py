"""What counts as a refusal: an error that was meant, with a message that says why."""

from __future__ import annotations

import linecache
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import narwhals
import pytest
import sklearn
from sklearn.exceptions import DataConversionWarning

import secret_jax

_HOMES = tuple(
    str(Path(module.__file__).parent) for module in (secret_jax, sklearn, narwhals)
)

# Warnings that strange input deserves.
_DESERVED = (
    (secret_jax.UnseenCategoryWarning, ""),
    (secret_jax.RefinementWarning, ""),
    (DataConversionWarning, "A column-vector y was passed"),
    (UserWarning, ".*equals the target in every row"),
    (UserWarning, "X does not have valid feature names"),
    (UserWarning, "X has feature names, but SecretRegressor"),
)


@contextmanager
def only_deserved_warnings() -> Iterator[None]:
    """Every other warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for category, message in _DESERVED:
            warnings.filterwarnings("ignore", message=message, category=category)
        yield


def assert_meant(error: Exception) -> None:
    """An error is a ValueError or TypeError that this package or scikit-learn raised.

    Others, from the depths of NumPy or JAX, tell users nothing. OSErrors are meant too:
    they name a file.
    """
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    way = " > ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames[-4:])
    story = f"{type(error).__name__}: {error} ({way}: {line})"
    assert isinstance(error, ValueError | TypeError), story
    assert last.filename.startswith(_HOMES), story
    assert line.startswith(("raise", "refuse")), story
    assert len(str(error)) > 20, story


def assert_fails(result: tuple[int, str, str], message: str, code: int = 2) -> None:
    """A command ended with its code and one line that says why, and printed nothing."""
    found, out, err = result
    assert found == code
    assert out == ""
    *progress, last = err.splitlines()
    assert not any("error" in line for line in progress)
    assert last.startswith("secret-jax: error: ")
    with pytest.raises(ValueError, match=message):
        raise ValueError(last)
