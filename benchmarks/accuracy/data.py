"""The data sets of this benchmark, and how their rows are dealt out to the models.

Real sets give 50 % of their rows to train, 30 % to prune and 20 % to test; of synthetic
sets every part is generated anew.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
from pandas.util import hash_pandas_object
from sklearn import datasets as bundled

from benchmarks.accuracy.hard_sets import GENERATORS
from benchmarks.shared import Experiment, InputError, Part, dealt_out, randomness_of
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
    read: Callable[[], Data]
    n_rows: int = 0  # of each part of a synthetic set, which is not read


def sources_of(
    tables: Any, target: str | None, data_home: str | None, n_rows: int
) -> list[Source]:
    """Sources of what `benchmarks.accuracy.grid.experiments` takes as tables."""
    if isinstance(tables, Mapping):
        return [_source_of_table(*one, target) for one in tables.items()]
    if isinstance(tables, str | Path | pandas.DataFrame):
        tables = [tables]
    if not all(isinstance(word, str | Path) for word in tables):
        raise InputError("Tables that are no names or files are given by name: a dict.")
    found = [
        source
        for word in dict.fromkeys(tables)
        for source in _sources_of_word(word, target, data_home, n_rows)
    ]
    found = list({(one.name, one.version): one for one in found}.values())
    if len({source.name for source in found}) < len(found):
        raise InputError("Two of the sets have the same name. Rename one of them.")
    return found


def _sources_of_word(
    word: str | Path, target: str | None, data_home: str | None, n_rows: int
) -> Sequence[Source]:
    known = {*_at_hand(data_home), *(n for group in GROUPS.values() for n in group)}
    word = str(word)
    if word in GROUPS or word in known:
        names = GROUPS.get(word, (word,))
        return [named_source(name, data_home, n_rows) for name in names]
    place = Path(word)
    paths = sorted(place.glob("*.csv")) if place.is_dir() else [place]
    if not paths:
        raise InputError(f"There is no CSV file in the folder {word!r}.")
    if not paths[0].is_file():
        raise InputError(
            f"There is no data set {word!r}, nor a file or folder of this name. "
            f"Known are {', '.join(sorted(known))}; the groups {', '.join(GROUPS)}."
        )
    return [_source_of_table(path.stem, path, target) for path in paths]


def _at_hand(data_home: str | None) -> tuple[str, ...]:
    try:
        return available(data_home)
    except ValueError as error:
        raise InputError(str(error)) from error


def named_source(name: str, data_home: str | None, n_rows: int) -> Source:
    """Source of a set that has a name here or in the folder ``data_home``."""
    read = functools.partial(_read, name, data_home)
    if name not in SYNTHETIC:
        return Source(name, "", read)
    return Source(name, f"{n_rows} rows", read, n_rows)


def _source_of_table(name: str, table: Any, target: str | None) -> Source:
    """Source of a file or DataFrame whose target is a column, by default the last."""
    try:
        frame = pandas.read_csv(table) if isinstance(table, str | Path) else table
        content: Any = hash_pandas_object(frame, index=False)  # pyright: ignore[reportCallIssue]
        target = frame.columns[-1] if target is None else target
    except (ValueError, OSError, TypeError, IndexError) as error:
        raise InputError(f"{name}: {error}") from error
    if target not in frame:
        columns = ", ".join(map(str, frame.columns))
        raise InputError(
            f"{name} has no column {target!r} to be the target; it has {columns}."
        )
    X = frame[frame[target].notna()].reset_index(drop=True)
    y = np.asarray(pandas.to_numeric(X.pop(target), errors="coerce"), np.float64)
    if len(y) < 5 or not np.isfinite(y).all():
        raise InputError(
            f"{name} needs numbers in its target {target!r}, and at least five of them."
        )
    discrete = [c for c in not_numeric(X) if X[c].dtype.kind not in "mM"]
    data = Data(X, y, discrete)
    checksum = zlib.crc32(content.to_numpy().tobytes() + repr([*frame]).encode())
    return Source(str(name), f"{target} {checksum:08x}", lambda: data)


@functools.cache
def _read(name: str, data_home: str | None) -> Data:
    """Read a set that is not synthetic."""
    if name in BUNDLED:
        return _read_bundled(name)
    data = load(name, data_home)
    return Data(data.X, data.y, list(data.discrete))


def make_experiment(source: Source, seed: int) -> Experiment:
    """Deal out or generate the rows of one seed: the same ones for every model."""
    random, seed_of_fits = randomness_of(source.name, seed)
    if source.n_rows:
        made = [GENERATORS[source.name](source.n_rows, random) for _ in range(3)]
        parts = [Part(X, y) for X, y in made]
        discrete = not_numeric(parts[0].X)
    else:
        data = source.read()
        parts = dealt_out(data.X, data.y, random)
        discrete = data.discrete
    return Experiment(*parts, discrete=discrete, seed=seed_of_fits)


def default_names(data_home: str | None) -> list[str]:
    """Real sets that are at hand, and scikit-learn's own."""
    at_hand = _at_hand(data_home)
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


def not_numeric(frame: Any) -> list[str]:
    """Columns of a DataFrame that hold no numbers."""
    numeric = set(frame.select_dtypes("number").columns)
    return [column for column in frame.columns if column not in numeric]
