"""Functions compiled once per shape and cached in memory and on disk.

A program found in the folder of `secret_jax.runtime.program_files` is neither traced
nor lowered nor compiled: the first fit of a process is nearly as fast as a later one.
`secret_jax.runtime.program_memory` limits the number that a process holds.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable, Hashable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jax.experimental import serialize_executable

from secret_jax.runtime.devices import chosen_device
from secret_jax.runtime.program_files import ProgramFolder, default_folder, key_of
from secret_jax.runtime.program_memory import Compiled, make_room
from secret_jax.runtime.program_sources import sources_of

# Optimisation level of LLVM, 0 to 3, for chains of small steps on processors: with 1
# they are as fast as with 3, and compile in four fifths of the time (jaxlib 0.10.2).
OPTIMIZATION_LEVEL = 1


def _small_steps(platform: str) -> dict[str, bool | int]:
    """Compiler options for programs that are chains of many small steps.

    On GPUs their many tiny products are not worth a search for the best kernel. On
    processors XLA's older code generator makes faster ones, in half the time
    (measured with jaxlib 0.10.2). It is gone from 0.11.1 on (tried with 0.11.0, 0.11.1,
    0.11.2 and 0.12.0), and an option that is not known is an error.
    """
    from jaxlib.version import __version__

    if platform in ("gpu", "cuda"):
        return {"xla_gpu_autotune_level": 0}
    if platform != "cpu":
        return {}
    options: dict[str, bool | int] = {
        "xla_backend_optimization_level": OPTIMIZATION_LEVEL
    }
    if tuple(map(int, __version__.split(".")[:3])) < (0, 11, 1):
        options["xla_cpu_use_fusion_emitters"] = False
    return options


_FOLDER: list[ProgramFolder | None] = []


def _folder() -> ProgramFolder | None:
    if not _FOLDER:
        _FOLDER.append(default_folder())
    return _FOLDER[0]


def keep_programs(
    folder: str | os.PathLike[str] | bool | None = True,
    *,
    max_megabytes: int = 512,
) -> Path | None:
    """Choose the folder that keeps compiled programs between processes, or none.

    Compiling takes longer than fitting. So programs are kept on disk without being
    asked, in the folder that the environment variable ``SECRET_JAX_CACHE`` names
    (``off``: nowhere), or else in the user's cache folder. What it holds is code: the
    folder must be the user's own, and nobody else may write to it.

    Parameters
    ----------
    folder : path or bool, default=True
        True: the usual folder. False or None: none.
    max_megabytes : int, default=512
        Maximum size of the folder; the least recently used programs are deleted first.

    Returns
    -------
    Path or None
        Where they are kept.

    Examples
    --------
    >>> import secret_jax
    >>> folder = secret_jax.keep_programs("~/programs")  # doctest: +SKIP
    >>> secret_jax.keep_programs(False)  # doctest: +SKIP
    """
    if max_megabytes <= 0:
        raise ValueError(
            f"max_megabytes is {max_megabytes!r}; it must be positive. To keep "
            "nothing, say keep_programs(False)."
        )
    chosen = None
    if folder is True:
        usual = default_folder()
        folder = None if usual is None else usual.path
    if folder:
        chosen = ProgramFolder(
            Path(folder).expanduser(), named=True, most_bytes=max_megabytes << 20
        )
    _FOLDER[:] = [chosen]
    return None if chosen is None else chosen.path


_PROGRAMS: weakref.WeakSet[Program] = weakref.WeakSet()


def forget_programs() -> None:
    """Drop all programs of this process; those on disk stay."""
    for each in list(_PROGRAMS):
        each.forget()


class Program:
    """Function of arrays, compiled for every shape, dtype and device.

    It is pure, from pytrees of arrays to a pytree of arrays; keyword arguments among
    ``static_argnames`` are hashable values, and part of the program. ``small_steps``
    says that it is a chain of many small steps, which processors compile long.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        static_argnames: tuple[str, ...],
        small_steps: bool,
    ):
        functools.update_wrapper(self, function)
        self._function, self._static_names = function, frozenset(static_argnames)
        self._small_steps = small_steps
        self._jit = jax.jit(function, static_argnames=static_argnames)
        self._compiled: dict[Hashable, Compiled] = {}
        self._locks: dict[Hashable, threading.Lock] = {}
        _PROGRAMS.add(self)

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        static = {k: v for k, v in more.items() if k in self._static_names}
        traced = {k: v for k, v in more.items() if k not in self._static_names}
        leaves, structure = jax.tree.flatten((arguments, traced))
        device = _device_of(leaves)
        # Inside another program, on several devices, or where nothing is compiled.
        if device is None or getattr(jax.config, "jax_disable_jit"):  # noqa: B009
            return self._jit(*arguments, **more)
        shapes = tuple(map(_shape, leaves))
        key = (device, structure, shapes, tuple(sorted(static.items())), _settings())
        program = self._compiled.get(key)
        if program is None:
            with self._locks.setdefault(key, threading.Lock()):
                program = self._compiled.get(key)
                if program is None:
                    make_room(each._compiled for each in list(_PROGRAMS))
                    program = Compiled(
                        self._made(leaves, structure, shapes, static, device)
                    )
                    self._compiled[key] = program
        return program(*leaves)

    @property
    def n_compiled(self) -> int:
        """Number of programs compiled or loaded so far."""
        return len(self._compiled)

    def forget(self) -> None:
        self._compiled.clear()
        self._jit.clear_cache()  # pyright: ignore[reportAttributeAccessIssue]

    def _made(
        self, leaves: list[Any], structure: Any, shapes: Any, static: dict, device: Any
    ) -> Callable[..., Any]:
        folder = _folder() if all(map(_is_known, static.values())) else None
        options = _small_steps(device.platform) if self._small_steps else {}
        key = ""
        if folder is not None:
            key = key_of(
                sources_of({self._function.__module__, *_modules_of(static)}),
                f"{self._function.__module__}.{self._function.__qualname__}",
                *(device.platform, device.device_kind, device.id, str(structure)),
                *(shapes, sorted(static.items()), sorted(options.items())),
                _settings(),
            )
            found = folder.read(key)
            if found is not None:
                try:
                    return _loaded(found, len(leaves), device)
                except Exception:  # of a machine that only looked alike
                    folder.forget(key)

        def flat(*leaves: Any) -> list[Any]:
            arguments, traced = jax.tree.unflatten(structure, leaves)
            result = self._function(*arguments, **traced, **static)
            outer.append(jax.tree.structure(result))
            return jax.tree.leaves(result)

        outer: list[Any] = []
        flat.__name__ = self._function.__name__
        compiled = jax.jit(flat, compiler_options=options).lower(*leaves).compile()
        if folder is not None:
            payload = _serialized(compiled)
            if payload is not None:
                whole = jax.tree.unflatten(outer[0], range(outer[0].num_leaves))
                folder.write(key, (payload, whole))
        return _called(compiled, outer[0])


def program(
    *,
    static_argnames: tuple[str, ...] = (),
    small_steps: bool = False,
) -> Callable[[Callable[..., Any]], Program]:
    """Decorate a function as a `Program`: the package's ``jax.jit``."""
    return lambda function: Program(function, static_argnames, small_steps)


def _settings() -> tuple[Any, ...]:
    names = ("jax_enable_x64", "jax_default_matmul_precision")
    return tuple(getattr(jax.config, name) for name in names)


def _called(compiled: Any, structure: Any) -> Callable[..., Any]:
    return lambda *leaves: jax.tree.unflatten(structure, compiled(*leaves))


def _serialized(compiled: Any) -> bytes | None:
    try:
        return serialize_executable.serialize(compiled)[0]
    except Exception:  # not every device's programs can be
        return None


def _loaded(found: Any, n_leaves: int, device: Any) -> Callable[..., Any]:
    payload, whole = found
    structure = jax.tree.structure(whole)
    compiled = serialize_executable.deserialize_and_load(
        payload,
        jax.tree.structure(((0,) * n_leaves, {})),
        jax.tree.structure([0] * structure.num_leaves),
        backend=device.client,
        execution_devices=[device],
    )
    return _called(compiled, structure)


def _shape(leaf: Any) -> tuple[Any, ...]:
    """Shape, dtype and weak type of an argument, for the key of a program."""
    if isinstance(leaf, jax.Array):
        return leaf.shape, leaf.dtype.name, leaf.weak_type
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.shape, leaf.dtype.name, False
    return (), type(leaf).__name__, True


def _device_of(leaves: list[Any]) -> Any:
    """Device where a program would run; None if it is not a single one."""
    found = set()
    for leaf in leaves:
        if isinstance(leaf, Tracer):
            return None
        if isinstance(leaf, jax.Array) and leaf.committed:
            found |= leaf.devices()
    if len(found) > 1:
        return None
    return found.pop() if found else chosen_device()


def _modules_of(value: Any) -> set[str]:
    if is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, f.name) for f in fields(value)]
        return {type(value).__module__}.union(*map(_modules_of, parts))
    if isinstance(value, dict):
        return set().union(*map(_modules_of, value.values()))
    if isinstance(value, tuple):
        return set().union(*map(_modules_of, value))
    return set()


def _is_known(value: Any) -> bool:
    """Whether a static value consists of plain values and this package's classes."""
    if is_dataclass(value) and not isinstance(value, type):
        own = type(value).__module__.partition(".")[0] == __name__.partition(".")[0]
        return own and all(_is_known(getattr(value, f.name)) for f in fields(value))
    if isinstance(value, tuple):
        return all(map(_is_known, value))
    return value is None or isinstance(value, bool | int | float | str)
