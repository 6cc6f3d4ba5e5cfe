"""The scikit-learn face of the boosters: validate, call, store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, ClassVar, Literal, overload

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from secret_jax.boost.distill import Teacher, distil, teacher_of
from secret_jax.boost.fit import Boosted, BoostPlan, Interrupted, boost
from secret_jax.boost.options import SIZES, TreeRecipe, TreeSize
from secret_jax.boost.race import Limits
from secret_jax.boost.reading import BoosterReading
from secret_jax.data.encoding import encode
from secret_jax.data.rows import Rows, Table, merged
from secret_jax.data.sampling import ROW_ORDER
from secret_jax.data.schema import TableSchema
from secret_jax.data.sharded import computing_for
from secret_jax.data.validation import (
    checked_weight,
    fitted_names,
    names_of,
    restore_names,
    scaled_weight,
    validated,
    validated_rows_beside,
    validated_targets,
    validated_weight,
)
from secret_jax.estimator import SecretRegressor
from secret_jax.fit import CheckedRows, Plan, read_rows
from secret_jax.inspect.intervals import conformal_factor, conformity_scores
from secret_jax.parameters import CONSTRAINTS, plan_of
from secret_jax.prune.cross_validation import parts_of
from secret_jax.refine.distillation import Distillation
from secret_jax.refine.interface import RefinementWarning
from secret_jax.runtime.parallel import one_thread_for_products
from secret_jax.runtime.progress import Progress
from secret_jax.runtime.progress_line import shown
from secret_jax.runtime.values import (
    at_least,
    check_constraints,
    is_integer,
    is_real,
    real,
)
from secret_jax.runtime.warning import warn

# Parameters that say how a table is read, and where: those of the tree.
_OF_THE_TREE = (
    *("discrete_features", "split_features", "indicators", "missing_values"),
    *("random_state", "device", "max_memory", "verbose"),
)


class SecretBoostingRegressor(BoosterReading, RegressorMixin, BaseEstimator):
    """Boosted trees with linear models in their leaves.

    The first model is linear; every round adds a small tree with linear models that
    has learned what is still missing (Friedman 2001, 2002). Five boosters that each
    leave out a fifth of the rows say how large the trees should be and when to stop,
    and predict together with a sixth that has seen all rows.

    `distill` gives one readable tree that has learned what the boosters say.

    Parameters
    ----------
    size : "auto", int or TreeSize, default="auto"
        Of the trees. "auto" lets four sizes race (8, 16 and 32 leaves, and 16 with
        oblique splits) and keeps the one that errs least on rows left out. A number:
        most leaves of a tree, with splits on one column.
    learning_rate : float, default=0.2
        Share of each tree in the prediction.
    n_rounds : int or "auto", default="auto"
        Trees of each booster after the linear model. "auto": until the error on rows
        left out, or on ``eval_set``, has not fallen for ``patience`` rounds. 0: the
        linear model alone.
    subsample : float, default=0.7
        Share of the rows that each tree sees, drawn without replacement.
    max_rounds : int, default=200
        Most rounds of ``n_rounds="auto"``.
    patience : int, default=10
    n_folds : int, default=5
        Boosters that leave out a part of the rows each. Of more than 32,768 rows a
        tenth is left out by a single one.
    average : bool, default=True
        Whether to predict with the mean of the boosters of all folds and the one of all
        rows. False: only the latter; a sixth of the size, at a few per cent more error.
    warm_start : bool, default=False
        Whether another `fit`, of the same rows, goes on with the trees that there are.
        Of an interrupted fit the rounds so far are kept.
    discrete_features, split_features, indicators, missing_values
        How the table is read; see `SecretRegressor`.
    random_state : int, RandomState instance or None, default=None
        Draws the rows of the trees. None: the same rows in every fit.
    device, max_memory, verbose
        See `SecretRegressor`.

    Attributes
    ----------
    ensemble_ : secret_jax.boost.model.Ensemble
    n_rounds_ : int
        Trees of a booster after the linear model.
    size_ : TreeSize
    n_trees_ : int
        Trees of all boosters, the linear models not counted.
    validation_errors_ : ndarray of shape (n_rounds_run + 1,)
        Mean squared error on rows left out, or on ``eval_set``, after each round, in
        units of the variance of the target. Empty if there were none.
    size_errors_ : list of [TreeSize, float]
        Sizes that raced, and the least of these errors of each.
    conformity_scores_, conformity_weight_ : ndarray of shape (n_rows,)
        What `predict_interval` is made of.
    deviation_ : float, or ndarray of shape (n_outputs,) of several outputs
        Root of the mean squared error on rows left out (on the training rows, if none
        were), in units of the target.
    n_outputs_ : int
    feature_importances_ : ndarray of shape (n_features_in_,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if the training data had names.

    References
    ----------
    J. H. Friedman. Greedy Function Approximation: A Gradient Boosting Machine. Annals
    of Statistics 29, 2001.

    J. H. Friedman. Stochastic Gradient Boosting. Computational Statistics and Data
    Analysis 38, 2002.

    Y. Shi, J. Li and Z. Li. Gradient Boosting with Piece-Wise Linear Regression Trees.
    IJCAI 2019.

    Examples
    --------
    >>> from secret_jax import SecretBoostingRegressor
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(400, random_state=0)
    >>> model = SecretBoostingRegressor(size=8, n_rounds=10).fit(X, y)
    >>> model.n_rounds_, model.n_trees_
    (10, 60)
    >>> model.score(X, y) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "size": [StrOptions({"auto"}), at_least(1), TreeSize],
        "learning_rate": [real(0.0, 1.0, closed="right")],
        "n_rounds": [StrOptions({"auto"}), at_least(0)],
        "subsample": [real(0.0, 1.0, closed="right")],
        "max_rounds": [at_least(1)],
        "patience": [at_least(1)],
        "n_folds": [at_least(2)],
        "average": ["boolean"],
        "warm_start": ["boolean"],
        **{name: CONSTRAINTS[name] for name in _OF_THE_TREE},
    }

    def __init__(
        self,
        size: Literal["auto"] | int | TreeSize = "auto",
        *,
        learning_rate: float = 0.2,
        n_rounds: int | Literal["auto"] = "auto",
        subsample: float = 0.7,
        max_rounds: int = 200,
        patience: int = 10,
        n_folds: int = 5,
        average: bool = True,
        warm_start: bool = False,
        discrete_features: Any = None,
        split_features: Any = None,
        indicators: bool | Literal["auto"] = "auto",
        missing_values: Literal["learn", "mean", "error"] = "learn",
        random_state: Any = None,
        device: str | None = None,
        max_memory: int | None = None,
        verbose: int = 0,
    ):
        self.size = size
        self.learning_rate = learning_rate
        self.n_rounds = n_rounds
        self.subsample = subsample
        self.max_rounds = max_rounds
        self.patience = patience
        self.n_folds = n_folds
        self.average = average
        self.warm_start = warm_start
        self.discrete_features = discrete_features
        self.split_features = split_features
        self.indicators = indicators
        self.missing_values = missing_values
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, eval_set: Any = None
    ) -> SecretBoostingRegressor:
        """Grow boosters, and choose the size of their trees and the rounds.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        sample_weight : array-like of shape (n_rows,), optional
            Integers count as so many rows.
        eval_set : tuple (X, y) or (X, y, sample_weight), optional
            Rows that say when to stop, and which size is best, in place of folds. One
            booster is grown, on all rows of X, and none of these train it.

        Returns
        -------
        SecretBoostingRegressor
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
        reading = self._reading()
        names_before = fitted_names(self)
        try:
            with (
                shown(self.verbose) as progress,
                one_thread_for_products(),
                self._computing(X),
            ):
                self._fit(reading, progress, X, y, sample_weight, eval_set)
        except Interrupted as stop:
            if not (self.warm_start and stop.so_far):
                restore_names(self, names_before)
            raise KeyboardInterrupt from None
        except BaseException:
            restore_names(self, names_before)
            raise
        return self

    def _fit(
        self,
        reading: Plan,
        progress: Progress,
        X: Any,
        y: Any,
        sample_weight: Any,
        eval_set: Any,
    ) -> None:
        so_far = self.__dict__.get("_boosted") if self.warm_start else None
        X = validated(self, X, reset=so_far is None)
        targets = validated_targets(y, X, type(self).__name__)
        weight = scaled_weight(checked_weight(sample_weight, X))
        plan = self._plan(reading.seed, progress, so_far)
        if so_far is None:
            names = names_of(y, targets.shape[1])
            given = CheckedRows(X, targets, weight, names)
            schema, source, _ = read_rows(reading, given)
            rows = source.sample(source.n_rows, ROW_ORDER)
        else:
            schema = so_far.ensemble.schema
            rows = merged(_encoded(schema, X, targets, weight), ROW_ORDER)
            _check_same_rows(self._rows, rows)
        others = self._eval_rows(eval_set, schema)
        try:
            found = boost(plan, rows, schema, others, so_far)
        except Interrupted as stop:
            if self.warm_start and stop.so_far:
                self._keep(stop.so_far, rows)
            raise
        self._keep(found, rows)

    def _keep(self, found: Boosted, rows: Rows) -> None:
        self.ensemble_ = found.ensemble
        self.validation_errors_ = np.array(found.errors)
        self.size_errors_ = [[size, error] for size, error in found.sizes]
        self._boosted, self._rows = found, rows
        for name in ("conformity_scores_", "conformity_weight_"):
            self.__dict__.pop(name, None)
        schema, unseen = found.ensemble.schema, found.unseen
        said = self.ensemble_.values(rows.table) if unseen is None else unseen
        residual = np.array(schema.target_scales) * (rows.targets - said)
        known = np.isfinite(residual).all(axis=1)
        residual, weight = residual[known], rows.weight[known]
        each = np.sqrt(weight @ residual**2 / weight.sum())
        self.deviation_ = float(each[0]) if len(each) == 1 else each
        if unseen is not None and schema.n_outputs == 1:
            self._calibrated(residual[:, 0], weight)

    def _calibrated(self, residual: np.ndarray, weight: np.ndarray) -> None:
        """Note the residuals of rows that had no part in their predictions."""
        deviation = np.full(len(residual), self._unit())
        found = conformity_scores(residual, deviation, weight)
        self.conformity_scores_, self.conformity_weight_ = found

    def _unit(self) -> float:
        """Unit of the conformity scores: of predictions without any error 1."""
        deviation = float(self.deviation_)
        return deviation if deviation > np.finfo(float).tiny else 1.0

    def _reading(self) -> Plan:
        """How the table is read, as the tree would; the parameters are checked."""
        own = self.get_params(deep=False)
        check_constraints(self._parameter_constraints, own, type(self).__name__)
        if isinstance(self.size, TreeSize):
            self.size.check()
        seed = 0
        if self.random_state is not None:
            try:
                random = check_random_state(self.random_state)
            except ValueError as error:
                message = f"random_state={self.random_state!r}: {error}."
                raise ValueError(message) from None
            seed = int(random.randint(2**31 - 1))
        of_tree = SecretRegressor(
            max_split_samples=None, **{name: own[name] for name in _OF_THE_TREE}
        )
        plan = plan_of(of_tree.get_params(deep=False), type(self).__name__, seed=seed)
        # The trees' own search is not random: the seed is for their rows.
        return replace(plan, seed=seed)

    def _plan(self, seed: int, progress: Progress, so_far: Boosted | None) -> BoostPlan:
        if isinstance(self.size, TreeSize):
            sizes = (self.size,)
        elif isinstance(self.size, str):
            sizes = SIZES
        else:
            sizes = (TreeSize(max_leaf_nodes=int(self.size)),)
        decided = self.n_rounds if is_integer(self.n_rounds) else None
        if so_far is not None:
            rate = so_far.learning_rate
            if self.learning_rate != rate:
                raise ValueError(
                    f"learning_rate is {self.learning_rate!r}, but the trees that "
                    f"warm_start goes on with count {rate!r} each. Set it back, or set "
                    "warm_start=False."
                )
            if decided is not None and decided < so_far.n_rounds:
                raise ValueError(
                    f"n_rounds={decided} is less than the {so_far.n_rounds} rounds "
                    "that warm_start goes on with. Ask for more, or set "
                    "warm_start=False."
                )
            sizes = (so_far.size,)
        recipe = TreeRecipe(
            learning_rate=float(self.learning_rate),
            subsample=float(self.subsample),
            seed=seed,
        )
        limits = Limits(
            n_rounds=decided, most_rounds=self.max_rounds, patience=self.patience
        )
        return BoostPlan(
            sizes=sizes,
            recipe=recipe,
            limits=limits,
            n_folds=self.n_folds,
            average=bool(self.average),
            progress=progress,
        )

    def _eval_rows(self, eval_set: Any, schema: TableSchema) -> Rows | None:
        if eval_set is None:
            return None
        X, targets, weight = validated_rows_beside(
            self, eval_set, schema.n_outputs, "eval_set", "stop by"
        )
        try:
            rows = _encoded(schema, X, targets, scaled_weight(weight))
        except ValueError as error:
            raise ValueError(f"In eval_set: {error}") from None
        return rows

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> np.ndarray: ...

    @overload
    def predict(
        self, X: Any, return_std: Literal[True]
    ) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(
        self, X: Any, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the target.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        return_std : bool, default=False
            Also return the standard deviation of a new output about its prediction: the
            root of the mean squared error on rows left out, the same for all rows.

        Returns
        -------
        prediction : ndarray of shape (n_rows,), or (n_rows, n_outputs), float64
        deviation : ndarray of the same shape, float64
            Only with ``return_std``.
        """
        check_is_fitted(self)
        with self._computing(X, fall_back=True):
            prediction = self.ensemble_.predict(self._encoded(X))
        if not return_std:
            return prediction
        return prediction, np.broadcast_to(self.deviation_, prediction.shape).copy()

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Predictions after every round, the first of the linear model alone.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Yields
        ------
        ndarray of shape (n_rows,), or (n_rows, n_outputs), float64
        """
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

    def conformalize(
        self, X: Any, y: Any, sample_weight: Any = None
    ) -> SecretBoostingRegressor:
        """Calibrate `predict_interval` on rows that were not used in `fit`.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        SecretBoostingRegressor
            Itself; another `fit` forgets the calibration.
        """
        prediction = self.predict(X)
        if self.n_outputs_ > 1:
            raise ValueError(
                f"conformalize knows a single output, and the model has "
                f"{self.n_outputs_}. Fit a model for each of them."
            )
        y = validated_targets(y, X, type(self).__name__)[:, 0]
        self._calibrated(y - prediction, validated_weight(sample_weight, X))
        return self

    def predict_interval(
        self, X: Any, coverage: float = 0.9
    ) -> tuple[np.ndarray, np.ndarray]:
        """Intervals that hold the outputs of new rows with a given probability.

        The prediction plus and minus a quantile of the errors on rows left out (as the
        jackknife and cross-validation do; Barber et al. 2021), or on the rows of
        `conformalize`, whose promise is exact (Lei et al. 2018).

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        coverage : float, default=0.9
            In (0, 1).

        Returns
        -------
        lower, upper : ndarray of shape (n_rows,), float64

        Raises
        ------
        ValueError
            If the calibration rows are too few for the coverage.
        sklearn.exceptions.NotFittedError
            If no rows were left out and `conformalize` was not called.
        """
        check_is_fitted(self)
        if not hasattr(self, "conformity_scores_"):
            raise NotFittedError(
                "predict_interval needs rows that the boosters have not seen, and the "
                "last fit left none out. Call conformalize(X, y) with other rows."
            )
        if not is_real(coverage) or not 0 < coverage < 1:
            raise ValueError(f"coverage must be a number in (0, 1). Got {coverage!r}.")
        factor = conformal_factor(
            self.conformity_scores_, self.conformity_weight_, float(coverage)
        )
        prediction, width = self.predict(X), factor * self._unit()
        return prediction - width, prediction + width

    @property
    def n_rounds_(self) -> int:
        """Trees of a booster after the linear model."""
        check_is_fitted(self)
        return self.ensemble_.n_rounds

    @property
    def n_trees_(self) -> int:
        """Trees of all boosters, the linear models not counted."""
        check_is_fitted(self)
        return self.ensemble_.n_rounds * self.ensemble_.n_boosters

    @property
    def size_(self) -> TreeSize:
        """Size of the trees."""
        check_is_fitted(self)
        return self.ensemble_.size

    @property
    def n_outputs_(self) -> int:
        """Number of targets."""
        check_is_fitted(self)
        return self.ensemble_.schema.n_outputs

    def distill(
        self,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        *,
        max_leaf_nodes: int | None = None,
        refine: Literal["soft"] | None = None,
        oblique: bool | Literal["auto"] = "auto",
        tau: float = 0.03,
    ) -> SecretRegressor:
        """One readable tree that has learned what the boosters say.

        Parameters
        ----------
        X, y, sample_weight : optional
            Rows to learn at, where those that trained the boosters are not at hand (a
            model from a file). Of other rows nothing is left out, so ``max_leaf_nodes``
            should be given.
        max_leaf_nodes : int or None, default=None
            Most leaves. None: students of the boosters of the folds say how many, on
            rows that neither has seen.
        refine : "soft" or None, default=None
            "soft": gates and leaves are trained on what the boosters say, see
            `SoftGates`; it is taken if it is better on rows held out.
        oblique : bool or "auto", default="auto"
        tau : float, default=0.03
            How short the equations are, see `SecretRegressor`.

        Returns
        -------
        SecretRegressor
            Fitted. Its attribute ``distillation_`` is a dict: ``error``, the mean
            squared error of such students on rows that neither they nor their teachers
            have seen, and ``booster_error``, that of the boosters, in units of the
            variance of the target; ``fidelity``, their R² to the boosters on these
            rows; ``numbers``, how many there are to read. NaN where nobody can tell:
            without folds, and error and fidelity of a soft tree.

        Examples
        --------
        >>> from secret_jax import SecretBoostingRegressor
        >>> from secret_jax.datasets import make_fried
        >>> X, y = make_fried(400, random_state=0)
        >>> booster = SecretBoostingRegressor(size=8, n_rounds=10).fit(X, y)
        >>> tree = booster.distill(max_leaf_nodes=4)
        >>> tree.n_leaves_, tree.distillation_["fidelity"] > 0.8
        (4, True)
        """
        check_is_fitted(self)
        model = SecretRegressor(
            oblique=oblique,
            refine=refine,
            tau=tau,
            max_leaf_nodes=max_leaf_nodes,
            max_split_samples=2048,
            **{name: getattr(self, name) for name in _OF_THE_TREE},
        )
        plan = plan_of(model.get_params(deep=False), type(model).__name__, seed=0)
        if refine not in (None, "soft"):
            raise ValueError(f"refine must be 'soft' or None. Got {refine!r}.")
        with (
            shown(self.verbose) as progress,
            one_thread_for_products(),
            self._computing(X),
        ):
            rows, teacher = self._teacher(X, y, sample_weight)
            found = distil(
                teacher,
                rows,
                replace(plan, progress=progress),
                self.ensemble_.schema,
                max_leaf_nodes=max_leaf_nodes,
                soft=refine == "soft",
                options=Distillation(),
            )
        if found.refusal:
            warn(f"The hard tree was kept: {found.refusal}.", RefinementWarning)
        for name, value in fitted_names(self).items():
            setattr(model, name, value)
        model.tree_ = found.tree
        model.n_leaves_grown_, model.n_refine_steps_ = (
            found.n_leaves_grown,
            found.n_steps,
        )
        errors = self.validation_errors_[: 1 + self.n_rounds_]
        of_folds = X is None and len(teacher.folds) > 0
        model.distillation_ = {
            "error": float(found.error),
            "booster_error": float(errors[-1]) if of_folds else float("nan"),
            "fidelity": float(found.fidelity),
            "numbers": model.reading_cost_,
        }
        return model

    def _teacher(self, X: Any, y: Any, sample_weight: Any) -> tuple[Rows, Teacher]:
        ensemble = self.ensemble_
        if X is None:
            rows, boosted = self._some_rows(None), self._boosted
            parts = parts_of(rows.weight, len(boosted.folds)) if boosted.folds else []
            return rows, teacher_of(boosted, rows, parts)
        X = validated(self, X, reset=False)
        targets = validated_targets(y, X, type(self).__name__)
        weight = validated_weight(sample_weight, X)
        rows = merged(_encoded(ensemble.schema, X, targets, weight), ROW_ORDER)
        return rows, Teacher(ensemble.values, ensemble.values(rows.table), [], [])

    def save(self, path: Any) -> None:
        """Write the fitted model to one file; see `secret_jax.boost.file`."""
        from secret_jax.boost.file import save_booster

        save_booster(self, path)

    @classmethod
    def load(cls, path: Any) -> SecretBoostingRegressor:
        """Read a model written by `save`."""
        from secret_jax.boost.file import load_booster

        return load_booster(path, cls)

    def _encoded(self, X: Any) -> Table:
        X = validated(self, X, reset=False)
        return encode(self.ensemble_.schema, X)

    def _computing(
        self, X: Any, fall_back: bool = False
    ) -> AbstractContextManager[None]:
        # A model that was fitted on a GPU predicts on a machine that has none.
        return computing_for(X, self.device, self.max_memory, fall_back=fall_back)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing_values != "error"
        tags.input_tags.string = tags.input_tags.categorical = True
        tags.target_tags.multi_output = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ensemble_")


def _encoded(
    schema: TableSchema, X: Any, targets: np.ndarray, weight: np.ndarray
) -> Rows:
    """Rows of positive weight, encoded on the host."""
    used = weight > 0
    table = encode(schema, X).on_host()
    rows = Rows(table, schema.scale_targets(targets), weight)
    return rows if used.all() else rows.take(used)


def _check_same_rows(before: Rows, rows: Rows) -> None:
    """An error unless these are the rows that the trees so far were grown on."""
    if before.n_rows != rows.n_rows:
        what = f"there are {rows.n_rows} different ones, and there were {before.n_rows}"
    else:
        pairs = zip(
            (*before.table, before.targets, before.weight),
            (*rows.table, rows.targets, rows.weight),
            strict=True,
        )
        if all(np.array_equal(*pair) for pair in pairs):
            return
        what = "X, y or sample_weight is not what it was"
    raise ValueError(
        f"warm_start goes on with the rows of the last fit, but {what}. Fit with the "
        "same rows, or set warm_start=False."
    )
