"""Base of all estimators: their files, the devices they compute on, their tags."""

from contextlib import AbstractContextManager
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator

from secret_jax.data.given import TableLike
from secret_jax.data.shards import computing_for
from secret_jax.estimators.parameters import TableParameters
from secret_jax.tree.file import load_model, save_model


class SavedEstimator(BaseEstimator):
    """Base of all estimators, which are saved to files."""

    # Fitted attribute by which its files are told from those of other kinds.
    _predicts_with: ClassVar[str] = "tree_"
    _method: ClassVar[str] = "SECRET tree"  # its name among other methods

    def save(self, path: Any) -> None:
        """Write the fitted model to one file; see `secret_jax.tree.file.save_model`."""
        save_model(self, path)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Read a model written by `save`."""
        return load_model(path, cls)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, self._predicts_with)


class TableEstimator(SavedEstimator, TableParameters):
    """Base of estimators that read tables themselves."""

    def _computing(
        self, X: TableLike, fall_back: bool = False
    ) -> AbstractContextManager[None]:
        # A model that was fitted on a GPU predicts on a machine that has none.
        return computing_for(X, self.device, fall_back=fall_back)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing_values != "error"
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags
