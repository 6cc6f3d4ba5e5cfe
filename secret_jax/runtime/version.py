"""Version of the package, without importing it."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("secret-jax")
except PackageNotFoundError:  # a checkout that was never installed
    VERSION = "0+unknown"
