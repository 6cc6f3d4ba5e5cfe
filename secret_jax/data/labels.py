"""Class labels as outputs: indicators, class weights, priors and costs."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import narwhals as nw
import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from secret_jax.data.columns import is_missing, listed, refuse_complex, refuse_none
from secret_jax.data.foreign import taken
from secret_jax.runtime.values import is_real

# Labels that a model file can keep.
_PLAIN = (str, bool, int, float, np.integer, np.floating, np.bool_)
# The most classes of a fit: models have a part for each, and the time of a fit grows
# with their square. Tables of classes have some dozens; ids and amounts have hundreds.
MOST_CLASSES = 50


def validated_labels(y: Any, X: Any, caller: str) -> np.ndarray:
    """Check class labels and return them, shape (n_rows,)."""
    refuse_none(y, caller)
    y = taken(y)
    labels = np.asarray(y)
    if isinstance(y, list | tuple) and labels.dtype.kind == "U":
        # Numbers of such a list, and what is missing, have become text.
        given = np.array(y, object)
        labels = labels if all(isinstance(one, str) for one in given.flat) else given
    refuse_complex(labels, "y")
    if labels.ndim == 2 and labels.shape[1] > 1:
        raise ValueError(
            f"y has {labels.shape[1]} columns: bad input shape {labels.shape}. Fit a "
            "classifier for each of them."
        )
    labels = column_or_1d(labels, warn=True)
    check_consistent_length(X, labels)
    for row, label in enumerate(
        labels.tolist() if labels.dtype.kind not in "biuSU" else ()
    ):
        if is_missing(label):
            raise ValueError(
                f"Input y contains NaN: the class of row {row} is missing. Drop such "
                "rows, or name a class for them."
            )
        if isinstance(label, float) and abs(label) == np.inf:
            raise ValueError(
                f"Input y contains infinity: row {row} is {label}, which is no class."
            )
    if labels.dtype.kind not in "biufU":
        labels = _of_one_type(labels)
    try:
        check_classification_targets(labels)
    except ValueError as error:
        raise ValueError(
            f"{error} Classes are text, whole numbers or truth values, as scikit-learn "
            "has them: turn a few halves into text (y.astype(str)), group numbers into "
            "classes, or use SecretRegressor."
        ) from None
    return labels


def classes_of(
    labels: np.ndarray, weight: np.ndarray, caller: str, y: Any
) -> np.ndarray:
    """Classes, at most `MOST_CLASSES` and two with weight, sorted, or as ``y`` orders.

    ``y``: that from which the labels were read; a category without rows is no class.
    """
    classes = np.unique(labels)
    if len(classes) > MOST_CLASSES:
        _refuse_many_classes(labels, classes, caller, y)
    if order := _order_of(y):
        classes = classes[np.argsort([order[label] for label in classes.tolist()])]
    present = np.unique(labels[weight > 0])
    if len(present) < 2:
        raise ValueError(
            f"{caller} needs rows of at least two classes, but y holds only one class: "
            f"{present.tolist()[0]!r}. Give rows of another class, with a positive "
            "weight."
        )
    return classes


def indicators(labels: np.ndarray, classes: np.ndarray, where: str) -> np.ndarray:
    """Encode labels as indicators: a column per class, one column for two classes."""
    unknown = ~np.isin(labels, classes)
    if unknown.any():
        first = labels[unknown].tolist()[0]
        raise ValueError(
            f"{where} holds the class {first!r}, which y does not: it has "
            f"{listed(classes)}."
        )
    member = labels[:, None] == classes
    return member[:, 1:].astype(float) if len(classes) == 2 else member.astype(float)


def at_least(member: np.ndarray) -> np.ndarray:
    """Indicators of classes in order as those of "this class or a later one".

    From shape (n_rows, n_classes), also of probabilities, to (n_rows, n_classes - 1):
    the first class is always reached. They are what the cumulative indicators of
    Lanning (2008, equation 6.8), "this class or an earlier one", leave to one.
    """
    return np.cumsum(member[:, :0:-1], axis=1)[:, ::-1]


def from_at_least(reached: np.ndarray) -> np.ndarray:
    """Probabilities of classes from those of reaching them; see `at_least`.

    Where a later class would be likelier to be reached than an earlier one, both
    probabilities become their mean, as far as that is in question.
    """
    lower = np.minimum.accumulate(reached, axis=1)
    upper = np.maximum.accumulate(reached[:, ::-1], axis=1)[:, ::-1]
    falling = np.clip(0.5 * (lower + upper), 0.0, 1.0)
    every = np.pad(falling, [(0, 0), (1, 1)], constant_values=((0, 0), (1, 0)))
    return every[:, :-1] - every[:, 1:]


def warn_of_letters(classes: np.ndarray, y: Any) -> None:
    """Warn where the order of several classes is that of the letters of their names."""
    if len(classes) > 2 and classes.dtype.kind in "OUST" and not _order_of(y):
        warnings.warn(
            f"y is text without an order, and its classes are taken in that of the "
            f"letters: {' < '.join(map(repr, classes.tolist()))}. Give their order, "
            "for example with pd.Categorical(y, categories=[...], ordered=True).",
            UserWarning,
            stacklevel=2,
        )


def rank_error(y_true: Any, y_predicted: Any, classes: Any) -> float:
    """Mean number of places by which predicted classes in order are wrong.

    ``y_true``, ``y_predicted`` (n_rows,); ``classes``: from the least to the greatest,
    such as ``classes_`` of a classifier.

    Examples
    --------
    >>> rank_error(["low", "high"], ["low", "low"], ["low", "middle", "high"])
    1.0
    """
    place = {label: i for i, label in enumerate(np.asarray(classes).tolist())}
    pairs = zip(*(np.asarray(y).tolist() for y in (y_true, y_predicted)), strict=True)
    try:
        off = [abs(place[true] - place[said]) for true, said in pairs]
    except KeyError as error:
        names = listed(place)
        raise ValueError(f"{error.args[0]!r} is none of the classes {names}.") from None
    return float(np.mean(off))


def _order_of(y: Any) -> dict[Any, int]:
    """Place of every category of a column of ordered ones; empty of others."""
    if getattr(y, "ordered", False):  # pandas.Categorical
        return {label: i for i, label in enumerate(y.categories)}
    series = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(series, nw.Series) and isinstance(series.dtype, nw.Enum):
        # Of pandas these are texts; other labels are told by the native categories.
        native = getattr(getattr(y, "cat", None), "categories", series.dtype.categories)
        return {label: i for i, label in enumerate(native)}
    return {}


def class_weights(
    labels: np.ndarray,
    classes: np.ndarray,
    weight: np.ndarray,
    class_weight: Any,
    priors: Any,
) -> np.ndarray:
    """Multiply row weights by class weights and by priors; their sum stays."""
    if class_weight is None and priors is None:
        return weight
    member, found = labels[:, None] == classes, weight
    shares = [] if priors is None else [priors]
    if isinstance(class_weight, Mapping):
        given = _of_classes("class_weight", _known(class_weight, classes), classes, 1.0)
        found = found * (member @ given)
    elif class_weight is not None:  # "balanced"
        shares = [np.full(len(classes), 1.0 / len(classes)), *shares]
    for wanted in shares:  # of each class that is there
        share = found @ member / found.sum()
        factor = np.where(share > 0, wanted / np.where(share > 0, share, 1.0), 0.0)
        found = found * (member @ factor)
    used = found > 0
    if not used.any():
        raise ValueError("All rows have a weight of zero by their class.")
    return found * (weight[used].sum() / found[used].sum())


def _known(class_weight: Mapping[Any, Any], classes: np.ndarray) -> dict[Any, Any]:
    """Weights of the classes that are there; of others, which a fold may lack, warn."""
    labels = classes.tolist()
    unlike = [label for label in class_weight if label not in labels]
    if unlike:
        warnings.warn(
            f"class_weight names the class {unlike[0]!r}, which these rows do not "
            f"hold: its weight has no effect. Their classes are {listed(labels)}.",
            UserWarning,
            stacklevel=2,
        )
    return {label: class_weight[label] for label in labels if label in class_weight}


def checked_priors(priors: Any, classes: np.ndarray) -> np.ndarray | None:
    """Check class priors and normalise them to sum to one, float64."""
    if priors is None:
        return None
    shares = _of_classes("priors", priors, classes)
    if (shares > 0).sum() < 2:
        raise ValueError(
            f"priors must be positive for two classes or more. Got {shares.tolist()}."
        )
    return shares / shares.sum()


def checked_costs(costs: Any, classes: np.ndarray) -> np.ndarray | None:
    """Check the cost of taking a class (row) for another (column), float64."""
    if costs is None:
        return None
    n = len(classes)
    try:
        table = np.asarray(costs, np.float64)
    except (TypeError, ValueError):
        table = np.empty(0)
    if table.shape != (n, n):
        raise ValueError(
            f"costs must be a table of numbers with {n} rows, the classes "
            f"{listed(classes)}, and as many columns, what they are taken for. Got "
            f"{costs!r}."
        )
    bad = ~(np.isfinite(table) & (table >= 0))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"costs must be finite and not negative: to take "
            f"{classes.tolist()[row]!r} for {classes.tolist()[column]!r} costs "
            f"{table[row, column]}. Give a number of at least 0."
        )
    return table


def _of_one_type(labels: np.ndarray) -> np.ndarray:
    """Labels of an array of objects, if all are text, numbers or truth values."""
    first: dict[str, int] = {}
    for row, label in enumerate(labels):
        if not isinstance(label, _PLAIN):
            raise ValueError(
                f"y holds the class {str(label)!r}, a {type(label).__name__}; classes "
                "are text, whole numbers or truth values, not dates, tuples or other "
                "objects. Turn them into text, for example with y.astype(str)."
            )
        is_truth = isinstance(label, bool | np.bool_)
        kind = "str" if isinstance(label, str) else "bool" if is_truth else "number"
        first.setdefault(kind, row)
    if len(first) > 1:
        types = sorted({type(labels[row]).__name__ for row in first.values()})
        found = [f"{labels[row]!r} in row {row}" for row in first.values()]
        raise ValueError(
            f"The classes in y are of several types: {', '.join(types)}, such as "
            f"{' and '.join(found)}. Give them one: all of them are text after "
            "y.astype(str)."
        )
    return labels if "str" in first else np.array(labels.tolist())


def _refuse_many_classes(
    labels: np.ndarray, classes: np.ndarray, caller: str, y: Any
) -> NoReturn:
    """Refuse what is hardly meant as classes: amounts, ids, free text."""
    name = getattr(y, "name", None)
    column = "y" if name is None else f"The column {name!r}"
    remedy = (
        "For numbers use a regressor, such as SecretRegressor; for ranges of them give "
        "pd.cut(y, 5, labels=False)."
        if labels.dtype.kind in "iuf"
        else "For fewer classes join the rare ones: y.where(y.map(y.value_counts()) >= "
        "20, 'other') of a Series y. A column of ids or free text is no target."
    )
    raise ValueError(
        f"{column} holds {len(classes)} different classes in {len(labels)} rows, and "
        f"{caller} takes at most {MOST_CLASSES}. {remedy}"
    )


def _of_classes(
    name: str, given: Any, classes: np.ndarray, default: float | None = None
) -> np.ndarray:
    """Numbers of at least 0 that are given by class, or in the order of the classes."""
    labels = classes.tolist()
    if isinstance(given, Mapping):
        unlike = [label for label in given if label not in labels]
        without = [label for label in labels if default is None and label not in given]
        if unlike or without:
            what = (
                f"names the class {unlike[0]!r}, which y does not hold"
                if unlike
                else f"has no number for the class {without[0]!r}"
            )
            raise ValueError(
                f"{name} {what}: its classes are {listed(labels)}. Give numbers for "
                "these."
            )
        given = [given.get(label, default) for label in labels]
    given = given.tolist() if hasattr(given, "tolist") else given
    if not isinstance(given, Sequence) or len(given) != len(labels):
        raise ValueError(
            f"{name} must hold one number for each of the {len(labels)} classes "
            f"{listed(labels)}. Got {given!r}."
        )
    for label, value in zip(labels, given, strict=True):
        if not (is_real(value) and np.isfinite(value) and value >= 0):
            raise ValueError(
                f"{name} must be finite and not negative, but that of the class "
                f"{label!r} is {value!r}. Give a number of at least 0."
            )
    return np.asarray(given, np.float64)
