"""Whether sums over rows are computed by kernels, or by XLA: tried, not believed.

A kernel is used on cards that compile it once its sums were right there, and no longer
when it fails: the fit goes on with XLA. `SECRET_JAX_KERNELS=off` turns kernels off.
"""

from __future__ import annotations

import hashlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from jaxlib.version import __version__ as JAXLIB

from secret_jax.data import kernels, mixtures
from secret_jax.data.ragged import RaggedRows
from secret_jax.runtime.devices import (
    chosen_device,
    is_out_of_memory,
    own_settings,
    runs_triton,
)
from secret_jax.runtime.environment import VERSION, warn

Found = TypeVar("Found")

_SWITCH = "SECRET_JAX_KERNELS"
# Largest relative error of a sum in the trial.
_TOLERANCE = 1e-4
# Whether programs that are traced now may use kernels: part of the key of a program.
MAY_USE_KERNELS = jax.make_user_context(default_value=False)
# Whether kernels were right on a device; False also from the first failure on.
_WORKS: dict[Any, bool] = {}
_UNSAID: dict[Any, Exception] = {}  # failures that nobody was warned of
_TRYING = threading.Lock()


def with_fallback(compute: Callable[[], Found]) -> Found:
    """Call a function whose programs may use kernels; again without if these fail.

    Running out of memory is no failure of a kernel, and what fails without kernels as
    well is raised.
    """
    device = chosen_device()
    if not runs_triton(device) or _is_off() or not _WORKS.get(device, True):
        return compute()
    try:
        with MAY_USE_KERNELS(True), _without_deprecations():
            found = compute()
    except Exception as error:
        if is_out_of_memory(error) or not _WORKS.get(device):  # no kernel was used
            raise
        found = compute()
        _WORKS[device], _UNSAID[device] = False, error
    failure = _UNSAID.pop(device, None)
    if failure is not None:
        _warn(device, failure)
    return found


def uses_kernels() -> bool:
    """Whether a program that is traced now is to use kernels.

    The first call on a device tries them there.
    """
    if not MAY_USE_KERNELS.value:
        return False
    device = chosen_device()
    with _TRYING, ThreadPoolExecutor(1) as outside_of_the_trace:
        if device not in _WORKS:
            failure = outside_of_the_trace.submit(_failure_on, device).result()
            _WORKS[device] = failure is None
            if failure is not None:
                _UNSAID[device] = failure
    return _WORKS[device]


def _is_off() -> bool:
    value = os.environ.get(_SWITCH, "on").lower()
    if value not in ("on", "off"):
        raise ValueError(f"{_SWITCH}={value!r} is neither 'on' nor 'off'.")
    return value == "off"


@contextmanager
def _without_deprecations() -> Iterator[None]:
    """Ignore that JAX plans to drop Triton, also where warnings are errors."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*Triton.*", DeprecationWarning)
        yield


def _warn(device: Any, failure: Exception) -> None:
    why = f"{type(failure).__name__}: {failure}".split("\n")[0]
    warn(
        f"A kernel of Triton does not work on {device} ({why}). XLA computes the same "
        f"in more time. {_SWITCH}=off in the environment turns kernels off, and this "
        "warning; another version of JAX may mend them."
    )


def _failure_on(device: Any) -> Exception | None:
    """What goes wrong with kernels on a device, unless an earlier process tried it."""
    note = _note_of(device)
    if note is not None and note.exists():
        return None
    try:
        with own_settings(), jax.default_device(device):
            _try_kernels()
    except Exception as error:
        return error
    if note is not None:
        try:
            note.parent.mkdir(parents=True, exist_ok=True)
            note.touch()
        except OSError:  # a later process tries again
            pass
    return None


def _note_of(device: Any) -> Path | None:
    """File that is there if kernels were right on such a card, with such software."""
    driver = Path("/proc/driver/nvidia/version")
    try:
        software = driver.read_text() if driver.exists() else ""
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except (OSError, RuntimeError):
        return None
    known = software, device.client.platform_version, device.device_kind
    key = repr((*known, VERSION, jax.__version__, JAXLIB))
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    return Path(home) / "secret_jax" / f"kernels-{digest}"


def _try_kernels() -> None:
    """Compare an E step of tiles as fits have them with NumPy; ValueError if wrong."""
    tile, n_starts, n_joint = 256, 2, kernels.MOST_NUMBERS
    length = np.array([tile + 44, tile])  # a node of two tiles, and one of a full tile
    rng = np.random.default_rng(0)
    z = rng.normal(1.0, 0.5, (n_joint, length.sum()))  # no sum is nearly zero
    z[0], weight = 1.0, rng.uniform(0.5, 2.0, length.sum())
    constant = rng.normal(size=(2, n_starts, 2))
    factor = np.tril(rng.normal(0.1, 0.1, (2, n_starts, 2, n_joint - 1, n_joint)), 1)
    expected = mixtures.expectation(RaggedRows(length), (constant, factor), (z, weight))
    numbers = np.zeros((n_joint + 1, 3 * tile))
    place = np.arange(length.sum()) + np.repeat([0, 2 * tile - length[0]], length)
    numbers[:, place] = np.concatenate([z, weight[None]])
    tiles = numbers.reshape(-1, 3, tile).swapaxes(0, 1).astype(np.float32)
    layout = (np.array(each, np.int32) for each in (length, [0, 2], [0, 0, 1]))
    forms = constant.astype(np.float32), factor.astype(np.float32)
    arrays = tiles[:, :-1].copy(), tiles[:, -1].copy()
    sums = jax.jit(kernels.sums_of_tiles)(tuple(layout), forms, arrays)
    sums = np.add.reduceat(np.asarray(sums, np.float64), [0, 2])
    for found, right in zip(kernels.unpacked(sums, n_joint), expected, strict=True):
        apart = np.max(np.abs(found / right - 1.0))
        if not apart < _TOLERANCE:
            raise ValueError(f"a sum is wrong by {apart:.1g} of itself")
