"""What users give: its types, and its validation as scikit-learn's users expect it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, cast

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    column_or_1d,
    validate_data,
)

from secret_jax.data.columns import (
    as_array,
    as_frame,
    is_index,
    read_target,
    refuse_complex,
    refuse_none,
)
from secret_jax.data.foreign import taken
from secret_jax.data.rows import all_count, all_one, unweighted
from secret_jax.data.shards import check_array, is_resident, is_sharded

TableLike: TypeAlias = Any
"""Rows of a table: a NumPy array, a DataFrame of pandas or polars, an Arrow table, an
array of JAX, `secret_jax.data.shards.RowShards`, or nested lists."""

ArrayLike: TypeAlias = Any
"""Values for rows, one each, or a column for each output: an array, a Series, a
DataFrame, or a list."""

# Bits of a weight: enough for the moments of columns, and far from the last ones.
_WEIGHT_BITS = 36


class CheckedRows(NamedTuple):
    """Validated input of a fit."""

    X: Any  # array or DataFrame of shape (n_rows, n_columns)
    # (n_rows, n_outputs), float64: perhaps the user's own, to which nobody writes.
    targets: np.ndarray
    # (n_rows,), float64: perhaps a read-only number, see `rows.unweighted`.
    weight: np.ndarray
    target_names: tuple[str, ...] = ("y",)
    # (n_rows,), float64, see `secret_jax.data.rows.Rows`.
    group: np.ndarray | None = None
    y: jax.Array | None = None  # the targets, if they were given as an array of JAX
    # Attributes that tell of the outputs, as classes.
    learned: Mapping[str, Any] = MappingProxyType({})

    @property
    def on_device(self) -> bool:
        """Whether X lies on devices."""
        return is_resident(self.X) or is_sharded(self.X)

    @property
    def used(self) -> np.ndarray | None:
        """Mask of the rows that have a weight; None: all."""
        return None if all_count(self.weight) else self.weight > 0

    def counting(self) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray | None]:
        """X, on the host; of rows that have a weight targets, weights and groups."""
        X = np.asarray(self.X) if self.on_device else self.X
        used, group = self.used, self.group
        if used is None:
            return X, np.ascontiguousarray(self.targets), self.weight, group
        group = None if group is None else group[used]
        return X, self.targets[used], self.weight[used], group


def validated(model: BaseEstimator, X: TableLike, *, reset: bool) -> Any:
    """Validate features and note or check their names; DataFrames stay DataFrames."""
    X = taken(X)
    there, X = is_resident(X) or is_sharded(X), cast(Any, X)
    if there:
        check_array(X)
        validate_data(model, X, reset=reset, skip_check_array=True)
        return X
    frame = as_frame(X)
    if frame is None:
        X = X if hasattr(X, "ndim") else as_array(X)
        refuse_complex(X, "X")
        return validate_data(model, X, reset=reset, dtype=None, ensure_all_finite=False)
    if index := [name for name in frame.columns if is_index(name)]:
        X = frame.drop(index).to_native()
    if len(X) == 0 or len(X.columns) == 0:
        raise ValueError(
            f"Found array with {len(X)} sample(s) and {len(X.columns)} feature(s): X "
            "is an empty table, a minimum of 1 is required."
        )
    if reset or not hasattr(model, "feature_names_in_"):
        # With names on both sides columns are found by name, in any order.
        validate_data(model, X, reset=reset, skip_check_array=True)
    return X


def validated_targets(y: Any, X: Any, caller: str = "SecretRegressor") -> np.ndarray:
    """Check targets and convert them to float64, shape (n_rows, n_outputs)."""
    refuse_none(y, caller)
    y = taken(y)
    try:
        refuse_complex(y, "y")
        values = np.asarray(y)
        if values.ndim != 2 or values.shape[1] < 2:
            values = column_or_1d(y, warn=True)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"The target y must hold numbers, one column for each output: {error}"
        ) from None
    values = read_target(values)
    values = values[:, None] if values.ndim == 1 else values
    refuse_targets(values, names_of(y, values.shape[1]))
    check_consistent_length(X, values)
    return values


def checked_weight(sample_weight: Any, X: Any) -> np.ndarray:
    """Check sample weights and convert them to float64; None: see `unweighted`."""
    if sample_weight is None:
        return unweighted(len(X))
    sample_weight = taken(sample_weight)
    try:
        refuse_complex(sample_weight, "sample_weight")
        weight = np.asarray(sample_weight, np.float64)
        refuse_weights(weight)
        weight = _check_sample_weight(
            weight if weight.ndim else float(weight), np.empty((len(X), 1))
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"Bad sample weights: {error}") from None
    if weight.max() == 0:
        raise ValueError(
            "Sample weights must contain at least one non-zero number: all are zero."
        )
    return weight


def refuse_targets(targets: np.ndarray, names: Sequence[str]) -> None:
    """Refuse targets (n_rows, n_outputs) that are no finite numbers."""
    bad = ~np.isfinite(targets)
    if bad.any():
        row, output = np.argwhere(bad)[0]
        raise ValueError(
            f"Input y contains NaN or infinity: {names[output]!r} in row {row} is "
            f"{targets[row, output]}. Drop such rows before fitting."
        )


def refuse_weights(weight: np.ndarray) -> None:
    """Refuse weights that are no finite numbers of at least 0."""
    if not (weight.min(initial=0.0) >= 0.0 and weight.max(initial=0.0) < np.inf):
        row = int(np.argmin((weight >= 0) & (weight < np.inf)))
        raise ValueError(
            "Sample weights contain NaN, infinity or negative numbers: row "
            f"{row} is {np.ravel(weight)[row]}. Give finite numbers of at least 0."
        )


def scaled_weight(weight: np.ndarray) -> np.ndarray:
    """Scale weights to a mean of one over the rows that have any.

    In another unit they are the same to the last digit, but by a rare accident.
    """
    weight = weight / weight.max()  # the sum cannot overflow
    return rounded_weight(weight / (weight.sum() / np.count_nonzero(weight)))


def scaled_rows(*several: CheckedRows) -> list[CheckedRows]:
    """Scale weights to a mean of one over all the rows that are given."""
    if all(all_one(rows.weight) for rows in several):
        return [*several]
    weight = np.concatenate([rows.weight for rows in several])
    alike = weight.min() == weight.max()
    weight = unweighted(len(weight)) if alike else scaled_weight(weight)
    ends = np.cumsum([len(rows.weight) for rows in several])
    parts = zip(several, np.split(weight, ends[:-1]), strict=True)
    return [rows._replace(weight=part) for rows, part in parts]


def rounded_weight(weight: np.ndarray) -> np.ndarray:
    """Round weights to fewer digits than those in which their unit shows."""
    digits, power = np.frexp(weight)
    return np.ldexp(np.rint(np.ldexp(digits, _WEIGHT_BITS)), power - _WEIGHT_BITS)


@contextmanager
def of_eval_set() -> Iterator[None]:
    """Say of errors that they are about the rows of ``eval_set``."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"In eval_set: {error}") from None


def names_of(y: Any, n_outputs: int) -> tuple[str, ...]:
    """Names of the outputs, from a Series or DataFrame, else made up."""
    names = list(getattr(y, "columns", [getattr(y, "name", None)]))
    named = all(isinstance(name, str) and name for name in names)
    if named and len(set(names)) == n_outputs:
        return tuple(names)
    return tuple(f"y{i}" for i in range(n_outputs)) if n_outputs > 1 else ("y",)
