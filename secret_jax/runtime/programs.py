"""Compiling: faster programs of many small steps, and programs kept on disk."""

from __future__ import annotations

import os
from pathlib import Path

# Programs that compile faster are not worth a file: reading one takes about as long.
_LEAST_SECONDS = 0.1


def small_steps() -> dict[str, bool] | None:
    """Compiler options for programs that are chains of many small steps.

    XLA's older code generator for processors makes faster ones, in half the time
    (measured with jaxlib 0.10.2). It is gone from 0.11.1 on (tried with 0.11.0, 0.11.1,
    0.11.2 and 0.12.0), and an option that is not known is an error.
    """
    from jaxlib.version import __version__

    known = tuple(map(int, __version__.split(".")[:3])) < (0, 11, 1)
    return {"xla_cpu_use_fusion_emitters": False} if known else None


def enable_compilation_cache(folder: str | os.PathLike[str] | None = None) -> Path:
    """Keep compiled programs in a folder, from now on and for every later process.

    The first fit of a process compiles its programs, which takes longer than fitting;
    with the cache only the very first process of a machine does. Call it before the
    first fit. It sets options of JAX for the whole process, which is why nothing in
    this package calls it by itself; the command line does unless told ``--no-cache``.

    Parameters
    ----------
    folder : path, optional
        Made if it does not exist. By default that of the environment variable
        ``JAX_COMPILATION_CACHE_DIR``, or else ``secret-jax`` in the user's cache
        folder.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    OSError
        If the folder cannot be made.

    Examples
    --------
    >>> import secret_jax
    >>> folder = secret_jax.enable_compilation_cache()  # doctest: +SKIP
    """
    import jax

    if folder is None:
        folder = os.environ.get("JAX_COMPILATION_CACHE_DIR") or _user_folder()
    path = Path(folder).expanduser()
    path.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", _LEAST_SECONDS)
    return path


def _user_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".cache") / "secret-jax"
