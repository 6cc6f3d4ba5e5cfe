"""The data sets of this benchmark, and how their rows are dealt out to the models.

Real sets give 50 % of their rows to train, 30 % to prune and 20 % to test; of synthetic
sets every part is generated anew.
"""

from __future__ import annotations

import functools
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
from sklearn import datasets as bundled

from benchmarks.accuracy.hard_sets import GENERATORS
from benchmarks.shared import Experiment, Part, dealt_out, randomness_of
from secret_jax.datasets import available, load

REAL = (
    *("abalone", "auto_mpg", "baseball_log", "boston", "kin8nm", "mumps_1968_2002"),
    *("stock", "ta", "tecator", "tecator_absorbance"),
)
BUNDLED = ("diabetes", "digits", "iris_petal_width", "wine_proline")
SYNTHETIC = tuple(GENERATORS)
# Tables as people bring them: text, gaps, codes, calendars.
TABLES = (
    *("ames", "saratoga", "sacramento", "bikeshare", "gapminder", "epa2021", "servo"),
    "births",
)
GROUPS = {"real": REAL, "bundled": BUNDLED, "synthetic": SYNTHETIC, "tables": TABLES}


class Data(NamedTuple):
    """A data set: a DataFrame, its target, and its columns that are discrete."""

    X: Any
    y: np.ndarray
    discrete: list[str]


class Source(NamedTuple):
    """Where a data set comes from."""

    name: str
    version: str  # tells two sets of one name apart
    place: Path | None = None  # a CSV file, or a folder for `secret_jax.datasets.load`
    target: str | None = None  # of the file; else its last column
    n_rows: int = 0  # of each part of a synthetic set


def named_source(name: str, data_home: str | None, n_rows: int) -> Source:
    """Source of a set that has a name here or in the folder ``data_home``."""
    if name in GENERATORS:
        return Source(name, f"{n_rows} rows", n_rows=n_rows)
    return Source(name, "", Path(data_home) if data_home else None)


def folder_sources(folder: Path, target: str | None) -> list[Source]:
    """Sources of the CSV files in a folder; without a target it is the last column."""
    paths = sorted(folder.glob("*.csv"))
    if not paths:
        raise ValueError(f"There is no CSV file in the folder {str(folder)!r}.")
    return [
        Source(path.stem, f"{target} {zlib.crc32(path.read_bytes()):08x}", path, target)
        for path in paths
    ]


@functools.cache
def read(source: Source) -> Data:
    """Read a set that is not synthetic."""
    if source.place is not None and source.place.is_file():
        return _read_file(source)
    if source.name in BUNDLED:
        return _read_bundled(source.name)
    data = load(source.name, source.place)
    return Data(data.X, data.y, list(data.discrete))


def make_experiment(source: Source, seed: int) -> Experiment:
    """Deal out or generate the rows of one seed: the same ones for every model."""
    random, seed_of_fits = randomness_of(source.name, seed)
    if source.n_rows:
        made = [GENERATORS[source.name](source.n_rows, random) for _ in range(3)]
        parts = [Part(X, y) for X, y in made]
        discrete = not_numeric(parts[0].X)
    else:
        data = read(source)
        parts = dealt_out(data.X, data.y, random)
        discrete = data.discrete
    return Experiment(*parts, discrete=discrete, seed=seed_of_fits)


def default_names(data_home: str | None) -> list[str]:
    """Real sets that are at hand, and scikit-learn's own."""
    at_hand = available(data_home)
    return [*(name for name in REAL if name in at_hand), *BUNDLED]


def _read_bundled(name: str) -> Data:
    """Data that come with scikit-learn; classes give way to an attribute as target."""
    whole = {"diabetes": bundled.load_diabetes, "digits": bundled.load_digits}
    if name in whole:
        X, y = whole[name](return_X_y=True, as_frame=True)
        return Data(X, np.asarray(y, np.float64), [])
    load_set, target = {
        "iris_petal_width": (bundled.load_iris, "petal width (cm)"),
        "wine_proline": (bundled.load_wine, "proline"),
    }[name]
    frame: Any = load_set(return_X_y=True, as_frame=True)[0]
    X, y = frame.drop(columns=target), frame[target]
    return Data(X, np.asarray(y, np.float64), [])


def _read_file(source: Source) -> Data:
    assert source.place is not None
    frame = pandas.read_csv(source.place)
    target = source.target or str(frame.columns[-1])
    if target not in frame:
        columns = ", ".join(map(str, frame.columns))
        raise ValueError(
            f"{source.place} has no column {target!r} to be the target; it has "
            f"{columns}. Name one with --target."
        )
    frame = frame.dropna().reset_index(drop=True)
    y = np.asarray(pandas.to_numeric(frame.pop(target), errors="coerce"), np.float64)
    if len(y) < 5 or not np.isfinite(y).all():
        raise ValueError(
            f"{source.place} needs at least five rows without missing values, and "
            f"numbers in its target {target!r}."
        )
    return Data(frame, y, not_numeric(frame))


def not_numeric(frame: Any) -> list[str]:
    """Columns of a DataFrame that hold no numbers."""
    numeric = set(frame.select_dtypes("number").columns)
    return [column for column in frame.columns if column not in numeric]
