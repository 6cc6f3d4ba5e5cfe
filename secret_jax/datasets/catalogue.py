"""Known data sets: what is in no file.

Which columns the paper takes as discrete, and where OpenML keeps the set.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Catalogue entry; OpenML's columns are mapped to ours, the target last."""

    target: str
    description: str
    discrete: tuple[str, ...] = ()
    openml_id: int | None = None  # names and versions of OpenML change, ids do not
    openml_columns: dict[str, str] = field(default_factory=dict)
    log_target: bool = False  # OpenML has the target, we want its natural logarithm


_ABALONE = (
    "Sex Length Diameter Height Whole_weight Shucked_weight Viscera_weight Shell_weight"
)
_BOSTON = "crim zn indus chas nox rm age dis rad tax ptratio b lstat medv"
_MPG = "cylinders displacement horsepower weight acceleration"
_SUMS = {"at_bat": "times_at_bat", "hits": "hits", "home_runs": "home_runs"}
_SUMS |= {"runs": "runs", "rbi": "runs_batted_in", "walks": "walks"}
_BASEBALL_COLUMNS = {
    **{f"number_of_{theirs}_in_1986": ours for ours, theirs in _SUMS.items()},
    "number_of_years_in_the_major_leagues": "years",
    **{
        f"number_of_{theirs}_during_his_career": f"career_{ours}"
        for ours, theirs in _SUMS.items()
    },
    "players_league_at_the_end_of_1986": "league86",
    "players_division_at_the_end_of_1986": "division86",
    "players_team_at_the_end_of_1986": "team86",
    "players_position(s)_in_1986": "position86",
    "number_of_put_outs_in_1986": "put_outs",
    "number_of_assists_in_1986": "assists",
    "number_of_errors_in_1986": "errors",
    "players_league_at_the_beginning_of_1987": "league87",
    "players_team_at_the_beginning_of_1987": "team87",
}
_SALARY = "1987_annual_salary_on_opening_day_in_thousands_of_dollars"
_BASEBALL_DISCRETE = ("league86", "division86", "team86", "position86")
_BASEBALL_DISCRETE += ("league87", "team87")

CATALOGUE = {
    "abalone": Entry(
        target="rings",
        description="Age of abalone, as shell rings, from physical measurements (UCI).",
        discrete=("sex",),
        openml_id=183,
        openml_columns={name: name.lower() for name in _ABALONE.split()}
        | {"Class_number_of_rings": "rings"},
    ),
    "auto_mpg": Entry(
        target="mpg",
        description="Miles per gallon of 392 cars of 1970 to 1982 (UCI).",
        discrete=("cylinders", "model_year", "origin"),
        openml_id=196,
        openml_columns={name: name for name in _MPG.split()}
        | {"model": "model_year", "origin": "origin", "class": "mpg"},
    ),
    "baseball": Entry(
        target="salary",
        description="Salaries of baseball hitters in 1987, thousand dollars (StatLib).",
        discrete=_BASEBALL_DISCRETE,
        openml_id=525,
        openml_columns=_BASEBALL_COLUMNS | {_SALARY: "salary"},
    ),
    "baseball_log": Entry(
        target="log_salary",
        description="The baseball set with the natural logarithm of the salary.",
        discrete=_BASEBALL_DISCRETE,
        openml_id=525,
        openml_columns=_BASEBALL_COLUMNS | {_SALARY: "log_salary"},
        log_target=True,
    ),
    "boston": Entry(
        target="medv",
        description="House values in Boston tracts, thousand dollars (StatLib). "
        "Its column b assumes that racial segregation raises prices: use the set to "
        "compare with published results only.",
        discrete=("chas", "rad"),
        openml_id=531,
        openml_columns={name.upper(): name for name in _BOSTON.split()},
    ),
    "kin8nm": Entry(
        target="y",
        description="Distance from a target of an 8-link robot arm's end (DELVE).",
        openml_id=189,
        openml_columns={f"theta{i}": f"theta{i}" for i in range(1, 9)} | {"y": "y"},
    ),
    "mumps_1968_2002": Entry(
        target="log_count",
        description="Natural logarithm of yearly mumps cases by state of the USA, 1968 "
        "to 2002; a stand-in for the paper's set (Project Tycho).",
    ),
    "stock": Entry(
        target="company10",
        description="Daily stock prices of ten aerospace companies, 1988 to 1991, in "
        "order of time (StatLib).",
        openml_id=223,
        openml_columns={f"company{i}": f"company{i}" for i in range(1, 11)},
    ),
    "ta": Entry(
        target="score",
        description="Evaluations of teaching assistants, 1 (low) to 3 (high) (UCI).",
        discrete=("native_speaker", "instructor", "course", "semester"),
        openml_id=48,
        openml_columns={
            "Whether_of_not_the_TA_is_a_native_English_speaker": "native_speaker",
            "Course_instructor": "instructor",
            "Course": "course",
            "Summer_or_regular_semester": "semester",
            "Class_size": "class_size",
            "Class_attribute": "score",
        },
    ),
    "tecator": Entry(
        target="fat",
        description="Fat of pork, percent, from the first ten principal components of "
        "its absorbance spectrum (StatLib). Recorded on a Tecator Infratec Food and "
        "Feed Analyzer, which publications are asked to mention.",
        openml_id=505,
        openml_columns={f"principal_component_{i}": f"pc{i}" for i in range(1, 11)}
        | {"fat": "fat"},
    ),
}
