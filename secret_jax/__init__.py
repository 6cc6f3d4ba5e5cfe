"""Readable regression trees with linear models: SECRET on JAX, and beyond."""

import lazy_loader

from secret_jax.runtime.environment import VERSION

__version__ = VERSION

# The names stand in `__init__.pyi`, and are imported when first used: the command
# ``secret-jax --help`` need not wait for JAX.
__getattr__, _, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
