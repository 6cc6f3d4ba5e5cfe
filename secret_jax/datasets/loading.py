"""Load real data sets from a folder of CSV files, or else from OpenML."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import fetch_openml

from secret_jax.runtime.environment import imported

# Number of every set, since names and versions of OpenML change, and its columns, the
# target last: "theirs=ours", or one name that is ours in small letters.
OPENML = {
    "abalone": (
        183,
        """Sex Length Diameter Height Whole_weight Shucked_weight Viscera_weight
        Shell_weight Class_number_of_rings=rings""",
    ),
    "auto_mpg": (
        196,
        """cylinders displacement horsepower weight acceleration model=model_year origin
        class=mpg""",
    ),
    "baseball": (
        525,
        """number_of_times_at_bat_in_1986=at_bat number_of_hits_in_1986=hits
        number_of_home_runs_in_1986=home_runs number_of_runs_in_1986=runs
        number_of_runs_batted_in_in_1986=rbi number_of_walks_in_1986=walks
        number_of_years_in_the_major_leagues=years
        number_of_times_at_bat_during_his_career=career_at_bat
        number_of_hits_during_his_career=career_hits
        number_of_home_runs_during_his_career=career_home_runs
        number_of_runs_during_his_career=career_runs
        number_of_runs_batted_in_during_his_career=career_rbi
        number_of_walks_during_his_career=career_walks
        players_league_at_the_end_of_1986=league86
        players_division_at_the_end_of_1986=division86
        players_team_at_the_end_of_1986=team86 players_position(s)_in_1986=position86
        number_of_put_outs_in_1986=put_outs number_of_assists_in_1986=assists
        number_of_errors_in_1986=errors
        players_league_at_the_beginning_of_1987=league87
        players_team_at_the_beginning_of_1987=team87
        1987_annual_salary_on_opening_day_in_thousands_of_dollars=salary""",
    ),
    "boston": (531, "CRIM ZN INDUS CHAS NOX RM AGE DIS RAD TAX PTRATIO B LSTAT MEDV"),
    "kin8nm": (189, "theta1 theta2 theta3 theta4 theta5 theta6 theta7 theta8 y"),
    "stock": (223, " ".join(f"company{i}" for i in range(1, 11))),
    "ta": (
        48,
        """Whether_of_not_the_TA_is_a_native_English_speaker=native_speaker
        Course_instructor=instructor Course Summer_or_regular_semester=semester
        Class_size Class_attribute=score""",
    ),
    "tecator": (
        505,
        " ".join(f"principal_component_{i}=pc{i}" for i in range(1, 11)) + " fat",
    ),
}
# Columns of numbers that the paper takes as discrete, as it does all that are none.
DISCRETE = {
    "auto_mpg": {"cylinders", "model_year", "origin"},
    "boston": {"chas", "rad"},
    "ta": {"native_speaker", "instructor", "course", "semester"},
}


class Dataset(NamedTuple):
    """Regression data set."""

    X: Any  # DataFrame of shape (n_rows, n_columns)
    y: np.ndarray  # (n_rows,), float64, finite
    target: str  # its name
    discrete: tuple[str, ...]  # columns to name as ``categorical_features`` of a fit


def load(name: str, data_home: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a data set by its name from a folder of CSV files, or else from OpenML.

    Of OpenML are sets of the paper, without rows with missing values. Column b of
    boston assumes that segregation raises prices: compare it with published results
    only. Publications are asked to say that tecator was recorded on a Tecator Infratec
    Food and Feed Analyzer.

    Parameters
    ----------
    name : str
        A set of OpenML, or a file of the folder: with a header, the numeric target in
        the last column. See `available`.
    data_home : path, optional
        The folder; by default that of the environment variable SECRET_JAX_DATA.

    Raises
    ------
    ValueError, OSError
        If there is no such set, its target is not numeric, or OpenML cannot be reached.

    Examples
    --------
    >>> folder, table = getfixture("tmp_path"), "colour,size,price\\nred,1,10"
    >>> _ = (folder / "houses.csv").write_text(table)
    >>> houses = load("houses", folder)
    >>> houses.target, houses.y, houses.discrete
    ('price', array([10.]), ('colour',))
    """
    pandas, name = imported("pandas", "Data sets", "data"), str(name)
    files = _files(data_home)
    if name in files:
        frame = pandas.read_csv(files[name])
    elif name in OPENML:
        frame = _fetched(name, pandas.to_numeric)
    else:
        known = ", ".join(available(data_home))
        raise ValueError(
            f"There is no data set {name!r}. Known are {known}. To load one of your "
            f"own, put {name}.csv into a folder that data_home names."
        )
    X, last = frame.iloc[:, :-1], frame.iloc[:, -1]
    y = pandas.to_numeric(last, errors="coerce").to_numpy(np.float64)
    if len(wrong := np.flatnonzero(~np.isfinite(y))):
        raise ValueError(
            f"Column {last.name!r} is the target of {name!r}, being the last, but row "
            f"{wrong[0]} holds {last.iloc[wrong[0]]!r}, which is no finite number."
        )
    numbers = {*X.select_dtypes("number")} - DISCRETE.get(name, set())
    discrete = tuple(column for column in X if column not in numbers)
    return Dataset(X, y, str(last.name), discrete)


def available(data_home: str | os.PathLike[str] | None = None) -> tuple[str, ...]:
    """List the names that `load` knows: CSV files of the folder, and sets on OpenML."""
    return tuple(sorted(OPENML.keys() | _files(data_home).keys()))


def _files(data_home: str | os.PathLike[str] | None) -> dict[str, Path]:
    """CSV files of the folder by name."""
    own = data_home is not None
    place = str(data_home) if own else os.environ.get("SECRET_JAX_DATA")
    if not place:
        return {}
    folder = Path(place).expanduser()
    if not folder.is_dir():
        named_by = "data_home" if own else "the variable SECRET_JAX_DATA"
        raise ValueError(f"There is no folder {place!r}, which {named_by} names.")
    return {path.stem: path for path in folder.glob("*.csv")}


def _fetched(name: str, to_numeric: Callable[[Any], Any]) -> Any:
    """A set of OpenML, with the columns and types of its CSV file."""
    number, columns = OPENML[name]
    try:
        fetched: Any = fetch_openml(data_id=number, as_frame=True)
    except OSError as error:
        raise OSError(
            f"Data set {name!r} could not be fetched from OpenML: {error}. Try again "
            f"later, or put {name}.csv into a folder that data_home names."
        ) from error
    pairs = (name.partition("=") for name in columns.split())
    names = {theirs: ours or theirs.lower() for theirs, _, ours in pairs}
    frame = fetched.frame[list(names)].dropna().rename(columns=names)
    for column in frame.select_dtypes("category"):
        frame[column] = frame[column].astype(str)
        with suppress(ValueError):  # nominal columns may hold numbers
            frame[column] = to_numeric(frame[column])
    return frame.reset_index(drop=True)
