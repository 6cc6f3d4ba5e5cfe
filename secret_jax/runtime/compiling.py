"""Compiling: faster programs of many small steps, and programs kept on disk."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# Of programs that are chains of many small steps this code generator makes faster ones
# on processors, in half the time (measured with jaxlib 0.10.2); later ones lack it.
_SMALL_STEPS = {"xla_cpu_use_fusion_emitters": False}
# Programs that compile faster are not worth a file.
_LEAST_SECONDS = 0.1


def jit(
    function: Callable[..., Any],
    *,
    static_argnames: Sequence[str] = (),
    small_steps: bool = False,
) -> Any:
    """`jax.jit`, in 32 bits whether or not ``jax_enable_x64`` is set.

    Programs are written for float32 and int32; twice as wide they would bring nothing
    but time, and other trees.

    Parameters
    ----------
    function : callable
    static_argnames : sequence of str
    small_steps : bool
        Whether the program is a chain of many small steps.

    Returns
    -------
    callable
        Its ``program()`` is what `jax.jit` made, when it was first called.
    """
    import jax

    lock = threading.Lock()
    made: list[Any] = []

    def program() -> Any:
        with lock:  # threads may be the first to call, side by side
            if not made:
                options = _known_options() if small_steps else None
                made.append(
                    jax.jit(
                        function,
                        static_argnames=static_argnames,
                        compiler_options=options,
                    )
                )
        return made[0]

    @functools.wraps(function)
    def run(*arguments: Any, **named: Any) -> Any:
        with jax.enable_x64(False):  # for this thread alone
            return program()(*arguments, **named)

    run.__dict__["program"] = program
    return run


@functools.cache
def _known_options() -> dict[str, bool] | None:
    """The options if this version of JAX knows them; nobody else can say."""
    import jax

    try:
        jax.jit(lambda: 0, compiler_options=_SMALL_STEPS).lower().compile()
    except jax.errors.JaxRuntimeError:
        return None
    return _SMALL_STEPS


def enable_compilation_cache(folder: str | os.PathLike[str] | None = None) -> Path:
    """Keep compiled programs in a folder, from now on and for every later process.

    The first fit of a process compiles its programs, which takes longer than fitting;
    with the cache only the very first process of a machine does. Call it before the
    first fit. It sets options of JAX for the whole process, which is why nothing in
    this package calls it by itself; the command line does with ``--cache``.

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
