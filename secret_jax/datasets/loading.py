"""Load real data sets from a folder of CSV files, or else from OpenML.

Both sources give the same columns under the same names.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.datasets import fetch_openml

from secret_jax.datasets.catalogue import CATALOGUE, Entry

if TYPE_CHECKING:
    import pandas

FOLDER_VARIABLE = "SECRET_JAX_DATA"


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """Regression data set.

    Attributes
    ----------
    X : pandas.DataFrame of shape (n_rows, n_columns)
        Predictor attributes.
    y : ndarray of shape (n_rows,), float64
        Target, finite.
    target : str
        Name of the target.
    discrete : tuple of str
        Columns of ``X`` to take as discrete (``categorical_features=`` when fitting).
    """

    name: str
    X: pandas.DataFrame = field(repr=False)
    y: np.ndarray = field(repr=False)
    target: str
    discrete: tuple[str, ...]
    description: str


def load(name: str, data_home: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a data set from a folder, or else from OpenML.

    Any CSV file of the folder can be loaded, ``<name>.csv`` by its name: commas between
    the values, one header row, the numeric target in the last column. Sets of the paper
    that are not there come from OpenML, without their rows with missing values;
    scikit-learn keeps them on disk for the next time.

    Parameters
    ----------
    name : str
        See `available`.
    data_home : path, optional
        The folder; by default the one that the environment variable SECRET_JAX_DATA
        names, if any.

    Raises
    ------
    ValueError
        If there is no such data set or folder, or the file is no regression data set.
    OSError
        If OpenML cannot be reached.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = "colour,size,price\\nred,1,10\\nblue,2,30\\n"
    ...     _ = pathlib.Path(folder, "houses.csv").write_text(table)
    ...     houses = load("houses", folder)
    >>> houses.target, houses.y, houses.discrete
    ('price', array([10., 30.]), ('colour',))
    """
    files = _files(data_home)
    if not isinstance(name, str):
        raise TypeError(f"name is {name!r}; give the name of a data set as text.")
    entry = CATALOGUE.get(name)
    if name in files:
        frame = _read_csv(files[name])
    elif entry is not None and entry.openml_id is not None:
        frame = _fetch(name, entry)
    else:
        known = ", ".join(available(data_home))
        raise ValueError(
            f"There is no data set {name!r}. Known are {known}. To load one of your "
            f"own, put {name}.csv (the target in the last column) into a folder and "
            "name the folder in data_home or in the environment variable "
            f"{FOLDER_VARIABLE}."
        )
    target = str(frame.columns[-1])
    if entry is None or entry.target != target:  # a file of the user's own
        entry = Entry(target=target, description=f"Read from {name}.csv.")
    X = frame.iloc[:, :-1]
    numeric = set(X.select_dtypes("number").columns)
    return Dataset(
        name=name,
        X=X,
        y=_target_values(frame.iloc[:, -1], name),
        target=target,
        discrete=tuple(
            column
            for column in X.columns
            if column in entry.discrete or column not in numeric
        ),
        description=entry.description,
    )


def available(data_home: str | os.PathLike[str] | None = None) -> tuple[str, ...]:
    """Names that `load` knows: CSV files of the folder, and sets on OpenML.

    Parameters
    ----------
    data_home : path, optional
        As in `load`.
    """
    on_openml = {name for name, e in CATALOGUE.items() if e.openml_id is not None}
    return tuple(sorted(on_openml | set(_files(data_home))))


def _files(data_home: str | os.PathLike[str] | None) -> dict[str, Path]:
    """CSV files of the folder by name; empty if no folder is given."""
    named_by = "data_home"
    if data_home is None:
        named_by = f"the environment variable {FOLDER_VARIABLE}"
        data_home = os.environ.get(FOLDER_VARIABLE)
        if not data_home:
            return {}
    try:
        folder = Path(data_home).expanduser()
    except TypeError:
        raise TypeError(f"data_home is {data_home!r}; give a path.") from None
    if not folder.is_dir():
        raise ValueError(
            f"There is no folder {str(folder)!r}, which {named_by} names. Mend the "
            "path, or leave it out to load from OpenML."
        )
    return {path.stem: path for path in sorted(folder.glob("*.csv"))}


def _pandas() -> ModuleType:
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "Loading data sets needs pandas. Install it with the extra 'data': "
            "pip install 'secret-jax[data]'."
        ) from error
    return pandas


def _read_csv(path: Path) -> pandas.DataFrame:
    expected = (
        "Expected are comma-separated values: one header row, at least one row of "
        "data, at least one predictor column, the target in the last column."
    )
    pandas = _pandas()
    try:
        frame = pandas.read_csv(path)
    except ValueError as error:  # the base of pandas' parser errors
        raise ValueError(f"{path} is no table: {error}. {expected}") from error
    if len(frame) < 1 or frame.shape[1] < 2:
        raise ValueError(
            f"{path} holds {len(frame)} rows of {frame.shape[1]} columns. {expected}"
        )
    return frame


def _fetch(name: str, entry: Entry) -> pandas.DataFrame:
    """Fetch a set from OpenML, with the columns and types of its CSV file."""
    pandas = _pandas()
    try:
        fetched: Any = fetch_openml(data_id=entry.openml_id, as_frame=True)
    except OSError as error:
        raise OSError(
            f"Data set {name!r} could not be fetched from OpenML (id "
            f"{entry.openml_id}): {error}. Try again later, or put {name}.csv into a "
            f"folder and name the folder in data_home or in {FOLDER_VARIABLE}."
        ) from error
    columns = fetched.frame[list(entry.openml_columns)].dropna()
    columns = columns.rename(columns=entry.openml_columns).reset_index(drop=True)
    frame = pandas.DataFrame(
        {name: _numbers_if_all_are(column) for name, column in columns.items()}
    )
    if entry.log_target:
        frame[entry.target] = np.log(frame[entry.target])
    return frame


def _numbers_if_all_are(column: pandas.Series) -> pandas.Series:
    """Convert a nominal OpenML column to numbers if all its values are numbers."""
    if column.dtype != "category":
        return column
    text = column.astype(str)
    try:
        return _pandas().to_numeric(text)
    except ValueError:
        return text


def _target_values(column: pandas.Series, name: str) -> np.ndarray:
    values = _pandas().to_numeric(column, errors="coerce").to_numpy(np.float64)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise ValueError(
            f"Column {column.name!r} of data set {name!r} is its target, the last "
            f"column, but row {wrong[0]} holds {column.iloc[wrong[0]]!r}, which is no "
            "finite number. Mend or drop the row, or move the target to the end."
        )
    return values
