"""Choice of the device, and rows that one step takes there."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import jax
from sklearn import config_context, get_config

_PLATFORMS = ("cpu", "gpu", "cuda", "rocm", "tpu")
# Minimum number of rows that go through a device together.
LEAST_ROWS = 1024

# With fewer rows an accelerator should wait for its launches longer than processors
# compute: reckoned from counts of launches, not measured.
FEW_ROWS = 1 << 17


def device_named(name: str) -> Any:
    """Find the device of a name like "gpu" or "gpu:1"; ValueError if JAX sees none."""
    platform, _, number = name.partition(":")
    if platform not in _PLATFORMS or (number and not number.isdecimal()):
        raise ValueError(
            f"device={name!r} names no device. Name one of {', '.join(_PLATFORMS)}, "
            "with a number behind a colon if there are several ('gpu:1'), or leave "
            "device=None for the one that JAX prefers."
        )
    try:
        found = jax.local_devices(backend=platform)
    except RuntimeError:
        found = []
    if int(number or 0) >= len(found):
        there = found or jax.local_devices()
        seen = ", ".join(f"{each.platform}:{k}" for k, each in enumerate(there))
        remedy = "Name one of these"
        if not found:
            remedy = (
                "Install JAX for that device (pip install 'secret-jax[cuda13]', say) "
                "and keep JAX_PLATFORMS from leaving it out"
            )
        raise ValueError(
            f"device={name!r} does not exist here: JAX sees {seen}. {remedy}, or leave "
            "device=None."
        )
    return found[int(number or 0)]


@contextmanager
def computing_on(
    device: str | None,
    *,
    fall_back: bool = False,
    n_rows: int | None = None,
    shape: Sequence[int] = (),
    stays: bool = False,
) -> Iterator[None]:
    """Compute on a device inside a with block.

    Without a name it is what JAX prefers, but a processor for few rows of the host
    (``n_rows``). A device that does not exist is an error, or, to ``fall_back``, what
    JAX prefers. Out of memory is a MemoryError that names the rows and columns of the
    table (``shape``) and what to change: not the device of rows that lie on one
    (``stays``), since they are read there whatever is named.
    """
    chosen = None
    if device is not None:
        try:
            chosen = device_named(device)
        except ValueError:
            if not fall_back:
                raise
    elif n_rows is not None and n_rows <= FEW_ROWS and _preferred() is None:
        usual = jax.default_backend()
        with suppress(RuntimeError):  # JAX was told to have accelerators only
            chosen = None if usual == "cpu" else jax.local_devices(backend="cpu")[0]
    try:
        with (
            jax.default_device(_preferred() if chosen is None else chosen),
            own_settings(),
        ):
            yield
    except jax.errors.JaxRuntimeError as error:
        if not is_out_of_memory(error):
            raise
        limit = get_config()["working_memory"]
        if not shape and n_rows is not None:
            shape = (n_rows,)
        names = zip(shape, ("rows", "columns"), strict=False)
        table = " of ".join(f"{n:,} {name}" for n, name in names) or "these rows"
        elsewhere = "set device='cpu'"
        if stays:
            elsewhere = "give them from the host (np.asarray(X))"
        raise MemoryError(
            f"The device ran out of memory for {table} (one step may take {limit} "
            "MiB). Give fewer rows, or a step less by "
            f"sklearn.set_config(working_memory=...), or {elsewhere}."
        ) from error


def is_out_of_memory(error: Exception) -> bool:
    """Whether a program failed because its device has too little memory."""
    return isinstance(error, jax.errors.JaxRuntimeError) and (
        "RESOURCE_EXHAUSTED" in str(error)
    )


def _preferred() -> Any:
    """Device set by a surrounding ``jax.default_device``, if any."""
    return jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]


def chosen_device() -> Any:
    """Device that a call made now would run on."""
    device = _preferred()
    if device is None:
        return jax.local_devices()[0]  # not those of other processes
    return jax.local_devices(backend=device)[0] if isinstance(device, str) else device


def on_accelerator() -> bool:
    """Whether programs compiled now run on something other than a CPU."""
    return chosen_device().platform != "cpu"


def runs_triton(device: Any) -> bool:
    """Whether a device is a GPU for which JAX compiles kernels of Triton."""
    capability = getattr(device, "compute_capability", "")
    major, _, _ = str(capability).partition(".")
    return major.isdecimal() and int(major) >= 8


def in_32_bits() -> AbstractContextManager[Any]:
    """Trace programs with float32 and int32, whatever ``jax_enable_x64`` says."""
    return jax.enable_x64(False)


@contextmanager
def own_settings() -> Iterator[None]:
    """Set JAX as fits need it, whatever the caller's settings are.

    Run step by step one would take hours; what is no number in a node is sorted out
    afterwards.
    """
    with (
        in_32_bits(),
        jax.disable_jit(False),
        jax.debug_nans(False),
        jax.debug_infs(False),
        jax.transfer_guard("allow"),
        jax.numpy_rank_promotion("allow"),
    ):
        yield


def carried(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to use this thread's device and settings in any other thread."""
    device, limit = _preferred(), get_config()["working_memory"]

    def function_there(*arguments: Any) -> Any:
        with (
            jax.default_device(device),
            own_settings(),
            config_context(working_memory=limit),
        ):
            return function(*arguments)

    return function_there


def rows_at_once(row_bytes: int, usual: int) -> int:
    """Number of rows that may go through the device at once, a power of two.

    scikit-learn's ``working_memory`` bounds it; on processors, so does what is
    ``usual`` for their caches.
    """
    rows = int(get_config()["working_memory"] * (1 << 20)) // max(row_bytes, 1)
    rows = max(1 << max(rows.bit_length() - 1, 0), LEAST_ROWS)
    return rows if on_accelerator() else min(rows, usual)
