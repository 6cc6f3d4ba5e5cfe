"""Functions compiled once per shape: the package's `jax.jit`, and where it is kept."""

from __future__ import annotations

import functools
import gc
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
from jax._src.xla_bridge import backends_are_initialized  # there is no public name
from jax.core import Tracer
from jax.experimental.compilation_cache import compilation_cache

from secret_jax.runtime.devices import chosen_device

# Optimisation level of LLVM, 0 to 3, for chains of small steps on processors: with 1
# they are as fast as with 3, and compile in four fifths of the time (jaxlib 0.10.2).
OPTIMIZATION_LEVEL = 1
# A program takes 150 to 400 memory maps (jaxlib 0.10.2 on Linux). A process may have
# 65,530 of them, and the compiler ends one that asks for more: most are left to others.
MOST_MAPS = 16_000
_MAPS = Path("/proc/self/maps")


def _compiler_options(platform: str, small_steps: bool) -> dict[str, bool | int]:
    """Compiler options for programs, and for those that are chains of small steps.

    On GPUs nothing is tuned: which kernel of a product is the fastest is timed, so
    every process could choose another one, with another order of sums and another tree,
    and the search triples the time of compiling. On processors XLA's older code
    generator makes faster small steps, in half the time (measured with jaxlib 0.10.2).
    It is gone from 0.11.1 on (tried with 0.11.0, 0.11.1, 0.11.2 and 0.12.0), and an
    option that is not known is an error.
    """
    from jaxlib.version import __version_info__

    if platform in ("gpu", "cuda"):
        return {"xla_gpu_autotune_level": 0}
    if platform != "cpu" or not small_steps:
        return {}
    options: dict[str, bool | int] = {
        "xla_backend_optimization_level": OPTIMIZATION_LEVEL
    }
    if __version_info__[:3] < (0, 11, 1):
        options["xla_cpu_use_fusion_emitters"] = False
    return options


@contextmanager
def keep_programs(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Keep compiled programs in a folder, for later processes, inside a with block.

    Accelerators compile what they run, once in every process; on processors only the
    training of gates is compiled, and finders of one node. This is JAX's own cache, for
    all that any thread compiles meanwhile; its settings are restored after the last
    block. For a whole process name the folder in ``JAX_COMPILATION_CACHE_DIR``. What it
    holds is code: it must be the user's own, and nobody else may write to it.

    Examples
    --------
    >>> import secret_jax
    >>> with secret_jax.keep_programs(getfixture("tmp_path")):
    ...     model = secret_jax.SecretRegressor.paper().fit([[0], [1], [2]], [0, 1, 5])
    """
    path = Path(folder).expanduser()
    settings: dict[str, Any] = {
        "jax_compilation_cache_dir": str(path),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    with _CHANGING:
        if not _SETTINGS:
            _SETTINGS.append({name: getattr(jax.config, name) for name in settings})
        _SETTINGS.append(settings)
        _set_last()
    try:
        yield path
    finally:
        with _CHANGING:
            _SETTINGS.remove(settings)
            _set_last()
            if len(_SETTINGS) == 1:
                _SETTINGS.clear()


# Settings of JAX before all blocks, and those of the open ones: threads may leave them
# in another order than they came.
_SETTINGS: list[dict[str, Any]] = []
_CHANGING = threading.Lock()


def _set_last() -> None:
    for name, value in _SETTINGS[-1].items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()  # it looks at the settings once


_PROGRAMS: weakref.WeakSet[Program] = weakref.WeakSet()


# Of every fork that led to this process, whether JAX had started before it: its threads
# survive no fork, and a program would wait for them for ever.
_STARTED_BEFORE_FORK: list[bool] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        after_in_child=lambda: _STARTED_BEFORE_FORK.append(backends_are_initialized())
    )


def refuse_after_fork() -> None:
    """Raise RuntimeError where JAX would wait for threads that a fork left behind."""
    if any(_STARTED_BEFORE_FORK):
        raise RuntimeError(
            "This process was forked from one that had fitted or predicted, and in it "
            "JAX can compile nothing. Start processes with "
            "multiprocessing.get_context('spawn') or 'forkserver', or with joblib, or "
            "fork before the first fit. On processors trees, boosters and forests "
            "compile nothing, and work in such a process; gates (refine='soft') are "
            "trained by a compiled program."
        )


class Program:
    """Pure function of pytrees of arrays, compiled for every shape, dtype and device.

    Keyword arguments among ``static_argnames`` are part of the program; ``small_steps``
    says that it is a chain of many small steps, which processors compile long.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        static_argnames: tuple[str, ...],
        small_steps: bool,
    ):
        functools.update_wrapper(self, function)
        self._jit = functools.partial(
            jax.jit, function, static_argnames=static_argnames
        )
        self._small_steps = small_steps
        self._jits: dict[str, Any] = {"": self._jit()}  # by platform
        _PROGRAMS.add(self)

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        refuse_after_fork()
        jitted = self.jitted(arguments, more)
        n_before = jitted._cache_size()
        found = jitted(*arguments, **more)
        if jitted._cache_size() > n_before and n_maps() > MOST_MAPS:
            forget_programs()
        return found

    def jitted(self, *arguments: Any) -> Any:
        """Jitted function, with compiler options where it is a program of its own."""
        inside = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(arguments))
        platform = "" if inside else chosen_device().platform
        if platform not in self._jits:
            options = _compiler_options(platform, self._small_steps)
            usual = self._jits[""]
            jitted = self._jit(compiler_options=options) if options else usual
            self._jits[platform] = jitted
        return self._jits[platform]

    @property
    def n_compiled(self) -> int:
        """Number of programs held, by what they were called with."""
        different = {id(jitted): jitted for jitted in self._jits.values()}
        return sum(jitted._cache_size() for jitted in different.values())


def program(
    *, static_argnames: tuple[str, ...] = (), small_steps: bool = False
) -> Callable[[Callable[..., Any]], Program]:
    """Decorate a function as a `Program`: the package's ``jax.jit``."""
    return lambda function: Program(function, static_argnames, small_steps)


def n_maps() -> int:
    """Number of memory maps of this process; 0 where the system hides it."""
    try:
        return _MAPS.read_bytes().count(b"\n")
    except OSError:
        return 0


def forget_programs() -> None:
    """Drop all programs of this process; they are compiled again when called."""
    for each in list(_PROGRAMS):
        for jitted in each._jits.values():
            jitted.clear_cache()
    gc.collect()  # executables are parts of circles
