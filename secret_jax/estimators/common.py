"""What all estimators are made of: files, devices, nested parameters, targets."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

import jax
import numpy as np
from jax.core import Tracer
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.encoding import encode
from secret_jax.data.foreign import of_kind_of_x, taken
from secret_jax.data.hashes import group_numbers
from secret_jax.data.schema import TableSchema
from secret_jax.data.shards import computing_for
from secret_jax.data.validation import (
    ArrayLike,
    CheckedRows,
    TableLike,
    checked_weight,
    names_of,
    of_eval_set,
    validated,
    validated_targets,
)
from secret_jax.estimators.parameters import NAMED, Named, TableParameters, value_of
from secret_jax.inspect.view import with_all_classes
from secret_jax.losses.interface import Loss
from secret_jax.runtime.parallel import one_thread_for_products
from secret_jax.runtime.progress import Progress, shown
from secret_jax.tree.file import load_model, save_model
from secret_jax.tree.functions import Model, encoded_rows, traceable

# What scikit-learn notes of the features.
_NOTED = "n_features_in_", "feature_names_in_"
# Fitted attributes of one fit, and of what was done with it.
_OF_ONE_FIT = (
    *("conformity_scores_", "conformity_weight_", "deviation_", "distillation_"),
    *("oob_prediction_", "oob_score_", "reading_", "search_", "training_rows_"),
    *_NOTED,
)


class SavedEstimator(BaseEstimator):
    """Base of all estimators, which are saved to files."""

    _predicts_with: ClassVar[str] = "tree_"  # fitted attribute
    _method: ClassVar[str] = "SECRET tree"  # its name among other methods
    _schema: TableSchema  # columns that the fitted model reads

    def save(self, path: Any) -> None:
        """Write the fitted model to one file; see `secret_jax.tree.file.save_model`."""
        save_model(self, path)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Read a model written by `save`."""
        return load_model(path, cls)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, self._predicts_with)

    def _noted(self) -> dict[str, Any]:
        """Names of the features, as of a copy that has checked some rows."""
        return {name: vars(self)[name] for name in _NOTED if name in vars(self)}

    def _become(self, **fitted: Any) -> None:
        """Take on what was fitted, at one stroke; what was of the last fit goes."""
        kept = {k: v for k, v in vars(self).items() if k not in _OF_ONE_FIT}
        self.__dict__ = kept | fitted


class TableEstimator(SavedEstimator, TableParameters):
    """Base of estimators that read tables themselves."""

    def _computing(
        self, X: TableLike, fall_back: bool = False
    ) -> AbstractContextManager[None]:
        # A model that was fitted on a GPU predicts on a machine that has none.
        return computing_for(taken(X), self.device, fall_back=fall_back)

    def to_jax(self) -> tuple[Callable[[Any, Any], jax.Array], dict[str, Any]]:
        """Return the fitted model as a pure function of JAX, and its parameters.

        The function works within ``jax.jit``, ``vmap``, ``grad`` and ``jax.export``,
        and in a loss of one's own. On accelerators `predict` runs the same function.

        Returns
        -------
        function : callable
            ``function(parameters, rows)`` predicts rows that `encode` has made, of
            shape (..., n_encoded), in the units of the target: (...,) or (...,
            n_outputs); of classes their probabilities, (..., n_classes). It computes
            in the precision of the parameters.
        parameters : dict of str to ndarray, float32
            Directions and thresholds of the splits, widths of gates, coefficients and
            ranges of the leaves, weights of the trees of a sum. Splits without gates
            have no slope in directions and thresholds.

        Raises
        ------
        ValueError
            If the loss is one of your own without a ``link``.

        Examples
        --------
        >>> import jax
        >>> import numpy as np
        >>> from secret_jax import SecretRegressor
        >>> size = np.linspace(50.0, 150.0, 200)[:, None]
        >>> model = SecretRegressor().fit(size, 2.0 * size[:, 0])
        >>> function, parameters = model.to_jax()
        >>> price = lambda x: function(parameters, model.encode(x))
        >>> round(float(jax.grad(price)(np.array([80.0], np.float32))[0]), 2)
        2.0
        """
        check_is_fitted(self)
        schema, (model, loss) = self._schema, self._model_and_loss()
        if loss.link is None:
            raise ValueError(
                f"{type(loss).__name__} has no link, so JAX cannot know how its "
                "predictions follow from raw ones. Give the class one of the links of "
                "secret_jax.losses.interface.Link."
            )

        def finish(value: jax.Array) -> jax.Array:
            found = schema.restore_outputs(loss.prediction(value))
            if hasattr(self, "classes_"):
                return with_all_classes(found)
            return found[:, 0] if found.shape[1] == 1 else found

        return traceable(model, schema, finish)

    def encode(self, X: TableLike) -> Any:
        """Encode rows for the function of `to_jax`.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Within ``jax.grad`` or another trace an array of plain numbers, of shape
            (..., n_features), is encoded by JAX, in its precision, so that derivatives
            are in the units of X.

        Returns
        -------
        ndarray of shape (n_rows, n_encoded), float32
            Standardised numbers and indicators, then the numbers of categories that
            are only split on. An array of JAX for one of JAX.
        """
        check_is_fitted(self)
        if isinstance(X, Tracer):
            return encoded_rows(self._schema, X)
        return self._encoded(X)

    @of_kind_of_x
    def _encoded(self, X: TableLike) -> Any:
        schema = self._schema
        x, codes = encode(schema, validated(self, X, reset=False)).on_host()
        return np.concatenate([x, codes.astype(np.float32)], axis=1)

    def _model_and_loss(self) -> tuple[Model, Loss]:
        """What `to_jax` is made of."""
        raise NotImplementedError

    @contextmanager
    def _fitting(self, X: TableLike) -> Iterator[Progress]:
        """Compute as parameters say, and show the progress."""
        with (
            shown(self.verbose) as progress,
            one_thread_for_products(),
            self._computing(X),
        ):
            yield progress

    def _targets(
        self, y: ArrayLike, X: Any, weight: np.ndarray, known: CheckedRows | None
    ) -> CheckedRows:
        """Check outputs of checked rows; ``known`` are the training rows."""
        y = taken(y)
        targets = validated_targets(y, X, type(self).__name__)
        n_outputs = targets.shape[1]
        if known is not None and n_outputs != known.targets.shape[1]:
            raise ValueError(
                f"There are {n_outputs} output(s), but the training y has "
                f"{known.targets.shape[1]}. Give both the same columns."
            )
        lying = y if isinstance(y, jax.Array) else None
        return CheckedRows(X, targets, weight, names_of(y, n_outputs), y=lying)

    def _given(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None = None,
        known: CheckedRows | None = None,
    ) -> CheckedRows:
        """Check rows; of those of a fit the names of the features are noted."""
        X = validated(self, X, reset=known is None)
        rows = self._targets(y, X, checked_weight(sample_weight, X), known)
        if groups is None:
            return rows
        return rows._replace(group=group_numbers(taken(groups), len(rows.weight)))

    def _given_beside(self, eval_set: Any, use: str, known: CheckedRows) -> CheckedRows:
        """Check the rows of ``eval_set``, which are not for training."""
        if not isinstance(eval_set, tuple | list) or len(eval_set) not in (2, 3):
            raise ValueError(
                f"eval_set should be a pair (X, y) of rows to {use}, or a triple "
                f"(X, y, sample_weight), got {type(eval_set).__name__}."
            )
        X, y, weight = (*eval_set, None)[:3]
        with of_eval_set():
            return self._given(X, y, weight, known=known)

    def _fitted_targets(self, schema: TableSchema) -> CheckedRows:
        """What further rows have to agree with, of a fitted estimator."""
        nothing = np.zeros((0, schema.n_outputs))
        learned = {"classes_": getattr(self, "classes_", None)}
        return CheckedRows(None, nothing, nothing[:, 0], learned=learned)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing_values != "error"
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags


class NestedParameters(BaseEstimator):
    """Mixin for fields of option values as parameters with two underscores."""

    _named: ClassVar[Named] = NAMED

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of this estimator, with ``deep`` also those of its values.

        A name like "rss" stands for a value: ``splits__n_thresholds`` is there as well.
        """
        parameters = super().get_params(deep=False)
        if deep:
            for name in filter(parameters.__contains__, self._named):
                value = value_of(name, parameters[name], self._named)
                for field, content in value.get_params().items() if value else ():
                    parameters[f"{name}__{field}"] = content
        return parameters

    def set_params(self, **params: Any) -> Any:
        """Set parameters of this estimator and, with two underscores, of its values.

        Values are frozen: one with another field takes the place of the old one. An
        unknown name changes nothing, whatever else is set with it.
        """
        new, nested = copy(self), dict[str, dict[str, Any]]()
        for name in [name for name in params if "__" in name]:
            head, _, field = name.partition("__")
            nested.setdefault(head, {})[field] = params.pop(name)
        BaseEstimator.set_params(new, **params)
        for head, changes in nested.items():
            parameter = new.get_params(deep=False).get(head)
            value = value_of(head, parameter, self._named)
            known = value.get_params() if value else {}
            for unknown in sorted(changes.keys() - known):
                raise ValueError(
                    f"Invalid parameter '{head}__{unknown}' for estimator "
                    f"{self!r}. Valid parameters are: {sorted(new.get_params())}."
                )
            # A name stays a name if nothing is changed.
            if not all(_same(known[field], its) for field, its in changes.items()):
                setattr(new, head, replace(value, **changes))
        self.__dict__ = vars(new)
        return self


def _same(one: Any, other: Any) -> bool:
    """Whether two fields are equal; fields that hold arrays never are."""
    try:
        return type(one) is type(other) and bool(one == other)
    except (TypeError, ValueError):
        return False
