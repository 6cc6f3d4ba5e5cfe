"""Data sets with classes: files, scikit-learn's own, and tables cut at their median."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets as bundled
from sklearn.model_selection import train_test_split

from benchmarks.shared import Part, randomness_of

WITH_CLASSES = ("iris", "wine", "vowel", "cancer", "digits")
# Ordinary tables; their target is whether it was above its median.
CUT = (
    *("ames", "saratoga", "sacramento", "bikeshare", "gapminder", "epa2021"),
    *("births", "servo"),
)
NAMES = WITH_CLASSES + CUT
_TEST_SHARE = 0.3


class Division(NamedTuple):
    """Rows to train and to test on."""

    train: Part
    test: Part


def divided(name: str, folder: Path, repeat: int) -> Division | None:
    """The rows of one repeat; None where a set has no more of them.

    Vowel has its own test rows, of other speakers; of all other sets 30 % are drawn,
    the same share of every class.
    """
    if name == "vowel":
        if repeat:
            return None
        parts = [_labelled(_read(folder, f"vowel_{part}")) for part in _VOWEL_PARTS]
        return Division(*parts)
    X, y = _table(name, folder)
    random, _ = randomness_of(name, repeat)
    rows = train_test_split(
        np.arange(len(y)),
        test_size=_TEST_SHARE,
        stratify=y,
        random_state=int(random.integers(2**31)),
    )
    return Division(*(Part(X.iloc[part], y[part]) for part in rows))


_VOWEL_PARTS = ("train", "test")


def _table(name: str, folder: Path) -> Part:
    if name in ("cancer", "digits"):
        load = bundled.load_breast_cancer if name == "cancer" else bundled.load_digits
        X, y = load(return_X_y=True, as_frame=True)
        return Part(X, np.asarray(y))
    frame = _read(folder, name)
    if name in WITH_CLASSES:
        return _labelled(frame)
    target = frame.pop(frame.columns[-1])
    return Part(frame, np.where(target > target.median(), "above", "below"))


def _labelled(frame: Any) -> Part:
    label = frame.pop(frame.columns[-1])
    return Part(frame, np.array(label.tolist()))


def _read(folder: Path, name: str) -> Any:
    import pandas

    return pandas.read_csv(folder / f"{name}.csv")
