"""The data sets of this benchmark, and how their rows are dealt out to the models.

Real sets give 50 % of their rows to train, 30 % to prune and 20 % to test; of synthetic
sets every part is generated anew.
"""

from __future__ import annotations

import functools
import json
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
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
MANIFEST = "manifest.json"


class Data(NamedTuple):
    """A data set: a DataFrame, its target, and its columns that are discrete."""

    X: Any
    y: np.ndarray
    discrete: list[str]


class Source(NamedTuple):
    """Where a data set comes from.

    Attributes
    ----------
    name : str
    version : str
        What tells two sets of the same name apart: rows of each part of a synthetic
        set, a checksum of a file and its target, or nothing.
    place : Path or None
        A CSV file, or the folder for `secret_jax.datasets.load`.
    target : str or None
        Target column of a file; None: the last one.
    n_rows : int
        Rows in each part of a synthetic set; 0 for all others.
    """

    name: str
    version: str
    place: Path | None = None
    target: str | None = None
    n_rows: int = 0


def named_source(name: str, data_home: str | None, n_rows: int) -> Source:
    """Source of a set that has a name here or in the folder ``data_home``."""
    if name in GENERATORS:
        return Source(name, f"{n_rows} rows", n_rows=n_rows)
    return Source(name, "", Path(data_home) if data_home else None)


def folder_sources(folder: Path, target: str | None) -> list[Source]:
    """Sources of the CSV files in a folder.

    ``manifest.json`` in the folder may say more of a file, by its name without the
    ending: ``{"houses": {"target": "price", "discrete": ["zip"], "drop": ["id"]}}``.
    """
    paths = sorted(folder.glob("*.csv"))
    if not paths:
        raise ValueError(f"There is no CSV file in the folder {str(folder)!r}.")
    manifest = _manifest(folder)
    sources = []
    for path in paths:
        entry = manifest.get(path.stem, {})
        chosen = target or entry.get("target")
        content = path.read_bytes() + json.dumps([entry, chosen]).encode()
        checksum = f"crc {zlib.crc32(content):08x}"
        sources.append(Source(path.stem, checksum, path, chosen))
    return sources


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
    if name == "diabetes":
        X, y = bundled.load_diabetes(return_X_y=True, as_frame=True)
    elif name == "digits":
        X, y = bundled.load_digits(return_X_y=True, as_frame=True)
    else:
        kind, target = {
            "iris_petal_width": (bundled.load_iris, "petal width (cm)"),
            "wine_proline": (bundled.load_wine, "proline"),
        }[name]
        frame: Any = kind(return_X_y=True, as_frame=True)[0]
        X, y = frame.drop(columns=target), frame[target]
    return Data(X, np.asarray(y, np.float64), [])


def _read_file(source: Source) -> Data:
    import pandas

    assert source.place is not None
    entry = _manifest(source.place.parent).get(source.name, {})
    frame = pandas.read_csv(source.place).drop(columns=entry.get("drop", []))
    target = source.target or str(frame.columns[-1])
    if target not in frame:
        columns = ", ".join(map(str, frame.columns))
        raise ValueError(
            f"{source.place} has no column {target!r} to be the target; it has "
            f"{columns}. Name one with --target or in {MANIFEST}."
        )
    frame = frame.dropna().reset_index(drop=True)
    y = np.asarray(pandas.to_numeric(frame.pop(target), errors="coerce"), np.float64)
    if len(y) < 5 or not np.isfinite(y).all():
        raise ValueError(
            f"{source.place} needs at least five rows without missing values, and "
            f"numbers in its target {target!r}."
        )
    discrete = {*entry.get("discrete", []), *not_numeric(frame)}
    return Data(frame, y, [column for column in frame if column in discrete])


def _manifest(folder: Path) -> dict[str, dict[str, Any]]:
    path = folder / MANIFEST
    return json.loads(path.read_text()) if path.exists() else {}


def not_numeric(frame: Any) -> list[str]:
    """Columns of a DataFrame that hold no numbers."""
    numeric = set(frame.select_dtypes("number").columns)
    return [column for column in frame.columns if column not in numeric]
