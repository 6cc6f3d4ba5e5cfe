"""Readable regression trees with linear models: SECRET on JAX, and beyond."""

from importlib.metadata import PackageNotFoundError, version

from secret_jax.estimator import SecretRegressor as SecretRegressor
from secret_jax.table import UnseenCategoryWarning as UnseenCategoryWarning

try:
    __version__ = version("secret-jax")
except PackageNotFoundError:  # a checkout that was never installed
    __version__ = "0+unknown"
