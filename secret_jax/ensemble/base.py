"""Base of boosters: parameters, fits, warm starts."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from secret_jax.data import validation
from secret_jax.data.given import ArrayLike, TableLike
from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.ensemble.boosting import Boosting
from secret_jax.ensemble.estimator import EnsembleEstimator
from secret_jax.ensemble.model import Boosted
from secret_jax.ensemble.options import SIZES, BoostOptions, TreeSize
from secret_jax.estimators.targets import Targets
from secret_jax.fit.prepare import CheckedRows, rows_for
from secret_jax.inspect.intervals import forget_calibration
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import SQUARED_ERROR
from secret_jax.runtime.progress import Stage
from secret_jax.runtime.values import at_least, real

# Parameters that a warm start may change: number of rounds, device, verbosity.
_MAY_CHANGE = ("max_iter", "early_stopping", "n_iter_no_change", "warm_start")
_MAY_CHANGE += ("verbose", "device")


@dataclass(kw_only=True, eq=False, repr=False)
class BoostingParameters:
    """Parameters of every booster."""

    max_leaf_nodes: Literal["auto"] | Annotated[int, at_least(1)] | TreeSize = "auto"
    learning_rate: Annotated[float, real(0.0, 1.0, closed="right")] = 0.2
    max_iter: Annotated[int, at_least(0)] = 1000
    early_stopping: bool = True
    n_iter_no_change: Annotated[int, at_least(1)] = 10
    subsample: Annotated[float, real(0.0, 1.0, closed="right")] = 0.7
    n_folds: Annotated[int, at_least(2)] = 5
    ensemble: bool = True
    warm_start: bool = False


@dataclass(kw_only=True, eq=False, repr=False)
class BoostingEstimator(EnsembleEstimator, BoostingParameters):
    """Base of the boosters; a subclass defines the outputs and predictions."""

    # What the values of the sums mean; None: they are the outputs.
    _loss: ClassVar[Loss] = SQUARED_ERROR

    def fit(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        eval_set: Any = None,
    ) -> Self:
        """Grow boosters, and choose the size of their trees and the number of rounds.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,), or (n_rows, n_outputs) of numbers
        sample_weight : array-like of shape (n_rows,), optional
        groups : array-like of shape (n_rows,), optional
            Names of what rows belong to, as persons or places: folds keep them
            together.
        eval_set : tuple (X, y) or (X, y, sample_weight), optional
            Rows that determine, in place of folds, when to stop, which size is best,
            and the weights of the best size of each kind of leaves. One booster of a
            size is grown, on all rows of X, and none of these train it.

        Returns
        -------
        self
            Itself.

        Raises
        ------
        ValueError
            If the data or a parameter cannot be used, with what can be done about it.

        Notes
        -----
        A fit that is interrupted (by Ctrl-C, say) leaves the estimator as it was, or
        with ``warm_start=True`` fitted with the rounds so far: the next `fit` goes on.
        The KeyboardInterrupt is passed on in both cases.
        """
        kept = validation.names_restored(self, "_boosting")
        with kept, self._fitting(X) as (reading, progress):
            boosting = vars(self).get("_boosting") if self.warm_start else None
            parameters = self.get_params(deep=False)
            fixed = {k: v for k, v in parameters.items() if k not in _MAY_CHANGE}
            seed = reading.seed
            if boosting is not None:
                fixed_before, seed = vars(self)["_grown_with"]
                _check_same_parameters(fixed_before, fixed)
            options = self._options(seed)
            schema = None if boosting is None else boosting.schema
            X = validation.validated(self, X, reset=boosting is None)
            schema, rows, targets = self._read(
                reading, X, y, sample_weight, schema, groups
            )
            others = self._eval_rows(eval_set, schema, targets)
            if boosting is None:
                boosting = Boosting(options, rows, schema, others)
            else:
                told = "X, y, sample_weight or groups"
                _check_same_rows(boosting.training, rows, told)
                _check_same_rows(boosting.others, others, "eval_set")
                kept = self.n_iter_
                if not self.early_stopping and self.max_iter < kept:
                    raise ValueError(
                        f"max_iter={self.max_iter} is less than the {kept} rounds "
                        "that warm_start goes on with. Ask for more, or set "
                        "warm_start=False."
                    )

            def keep() -> None:
                new = object.__new__(type(self))
                vars(new).update(vars(self))
                new._keep(boosting, boosting.result(options), targets)
                # At one stroke: an interruption leaves all as it was.
                self.__dict__ = vars(new) | {"_grown_with": (fixed, seed)}

            try:
                boosting.run(options, Stage("boosting", progress))
            except KeyboardInterrupt:
                if not (self.warm_start and boosting.n_rounds >= 0):
                    raise
                keep()
                raise
            keep()
        return self

    def _keep(self, boosting: Boosting, found: Boosted, targets: Targets) -> None:
        forget_calibration(self)
        vars(self).update(targets.learned)
        self.ensemble_ = found.ensemble
        self.validation_errors_ = found.members[0].errors
        self.validation_error_ = found.error
        self.shares_ = [[member.size, member.share] for member in found.members]
        self.size_errors_ = found.sizes
        self._boosting, self._boosted, self._rows = boosting, found, boosting.training

    def _options(self, seed: int) -> BoostOptions:
        sizes = SIZES
        if isinstance(self.max_leaf_nodes, TreeSize):
            self.max_leaf_nodes.check()
            sizes = (self.max_leaf_nodes,)
        elif not isinstance(self.max_leaf_nodes, str):
            sizes = (TreeSize(max_leaf_nodes=int(self.max_leaf_nodes)),)
        return BoostOptions(
            sizes=sizes,
            learning_rate=float(self.learning_rate),
            subsample=float(self.subsample),
            loss=self._loss,
            seed=seed,
            max_iter=int(self.max_iter),
            early_stopping=bool(self.early_stopping),
            patience=int(self.n_iter_no_change),
            n_folds=int(self.n_folds),
            average=bool(self.ensemble),
        )

    def _eval_rows(
        self, eval_set: Any, schema: TableSchema, training: Targets
    ) -> Rows | None:
        if eval_set is None:
            return None
        X, y, weight = validation.given_beside(self, eval_set, "stop by")
        try:
            targets = self._targets(y, X, weight, schema, training.learned)
            weight = validation.scaled_weight(targets.weight)
            return rows_for(schema, CheckedRows(X, targets.values, weight)).take(None)
        except ValueError as error:
            raise ValueError(f"In eval_set: {error}") from None

    def _staged(self, X: TableLike) -> Iterator[np.ndarray]:
        """Predictions of the ensemble after every round, in the units of the target."""
        check_is_fitted(self)
        with self._computing(X, fall_back=True):
            table = self._encoded(X)
        stages = self.ensemble_.staged(table)
        while True:
            with self._computing(X, fall_back=True):
                found = next(stages, None)
            if found is None:
                return
            yield found

    @property
    def n_iter_(self) -> int:
        """Number of rounds of the leading size, not counting the first model."""
        check_is_fitted(self)
        return self.ensemble_.n_rounds

    @property
    def n_trees_(self) -> int:
        """Number of trees of all boosters, not counting their first models."""
        check_is_fitted(self)
        return self.ensemble_.n_trees

    @property
    def size_(self) -> TreeSize:
        """Size of the trees; of two sizes the leading one."""
        check_is_fitted(self)
        return self.ensemble_.size


def _check_same_parameters(before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise an error unless parameters equal those of the trees so far."""
    for name, value in now.items():
        old = before[name]
        if value is not old and not (
            type(value) is type(old) and np.array_equal(value, old)
        ):
            raise ValueError(
                f"{name} is {value!r}, but the trees that warm_start goes on with were "
                f"grown with {old!r}. Set it back, or set warm_start=False."
            )


def _check_same_rows(before: Rows | None, rows: Rows | None, name: str) -> None:
    """Raise an error unless rows equal those of the trees so far."""
    if before is None and rows is None:
        return
    counts = ""
    if before is not None and rows is not None:
        if before.n_rows != rows.n_rows:
            counts = f" (there are {rows.n_rows} rows, and there were {before.n_rows})"
        else:
            pairs: Any = zip(
                (*before.table, *before[1:]), (*rows.table, *rows[1:]), strict=True
            )
            if all(np.array_equal(*pair) for pair in pairs):
                return
    raise ValueError(
        f"warm_start goes on with the rows of the last fit, but {name} is not what it "
        f"was{counts}. Fit with the same rows, or set warm_start=False."
    )
