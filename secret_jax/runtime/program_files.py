"""Compiled programs on disk: keyed by what made them, and safe to read.

What a folder of programs holds is code that this process will run. So the folder is the
user's own and nobody else may write to it; a file that is broken, or of another
machine, version or setting, counts as absent.
"""

import contextlib
import functools
import hashlib
import os
import pickle
import platform
import stat
import tempfile
import threading
import zlib
from pathlib import Path
from typing import Any

from secret_jax.runtime.warning import warn

# ``SECRET_JAX_CACHE`` names a folder, or is one of these for none.
VARIABLE = "SECRET_JAX_CACHE"
_NO = ("0", "off", "no", "false", "none")
_SUFFIX = ".program"
_UNFINISHED = ".program-unfinished"
_MAGIC = b"secret_jax program 1\n"
# Maximum size of the folder; the least recently used files are deleted first.
_MOST_BYTES = 1 << 29


class ProgramFolder:
    """Folder of compiled programs, made when the first one is kept.

    If somebody asked for it (``named``), a folder that cannot be used gets a warning;
    otherwise programs are just compiled again. Beyond ``most_bytes`` those are deleted
    that were not used for longest.
    """

    def __init__(self, path: Path, *, named: bool, most_bytes: int = _MOST_BYTES):
        self.path, self._named, self._most_bytes = path, named, most_bytes
        self._lock = threading.Lock()
        self._usable: bool | None = None

    def read(self, key: str) -> Any:
        """Read the value of a key; None if there is none that can be trusted."""
        if not self.path.is_dir() or not self._trusted():
            return None
        path = self._file(key)
        try:
            with path.open("rb") as file:
                if not _is_ours(os.fstat(file.fileno())):
                    return None
                content = file.read()
            body = content[len(_MAGIC) + 32 :]
            digest = content[len(_MAGIC) : len(_MAGIC) + 32]
            if (
                not content.startswith(_MAGIC)
                or hashlib.sha256(body).digest() != digest
            ):
                path.unlink(missing_ok=True)
                return None
            found = pickle.loads(zlib.decompress(body))
            os.utime(path)
        except Exception:  # whatever is wrong with a file, the program can be compiled
            return None
        return found

    def forget(self, key: str) -> None:
        with contextlib.suppress(OSError):
            self._file(key).unlink(missing_ok=True)

    def write(self, key: str, value: Any) -> None:
        """Write the value of a key atomically."""
        try:
            body = zlib.compress(pickle.dumps(value), 1)
        except Exception:  # of classes that cannot be pickled: it is compiled again
            return
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._trusted():
                return
            with tempfile.NamedTemporaryFile(
                dir=self.path, suffix=_UNFINISHED, delete=False
            ) as file:
                try:
                    file.write(_MAGIC + hashlib.sha256(body).digest() + body)
                    file.close()
                    os.replace(file.name, self._file(key))
                except OSError:  # a full disk, say
                    os.unlink(file.name)
                    raise
            self._keep_small()
        except OSError as error:
            self._refuse(f"cannot be written to ({error})")

    def _file(self, key: str) -> Path:
        return self.path / (key + _SUFFIX)

    def _trusted(self) -> bool:
        with self._lock:
            if self._usable is None:
                try:
                    ours = _is_ours(self.path.stat())
                except OSError:
                    return False
                if ours:
                    self._usable = True
                else:
                    self._refuse(
                        "belongs to another user, or others may write to it, and what "
                        "it holds would be run (chmod 700 mends the latter)"
                    )
            return bool(self._usable)

    def _refuse(self, why: str) -> None:
        """Warn once why programs are not kept, if the user named the folder."""
        if self._usable is False:
            return
        self._usable = False
        if self._named:
            warn(
                f"Compiled programs are not kept: the folder {self.path} {why}. Name "
                f"another one with the environment variable {VARIABLE} or with "
                f"secret_jax.keep_programs(folder), or say {VARIABLE}=off.",
                RuntimeWarning,
            )

    def _keep_small(self) -> None:
        files = []
        with os.scandir(self.path) as entries:
            for entry in entries:
                # Other files in this folder are somebody else's. Temporary files of
                # ours are what a killed process has left.
                if not entry.name.endswith((_SUFFIX, _UNFINISHED)):
                    continue
                # Another writer may have renamed its file meanwhile.
                with contextlib.suppress(FileNotFoundError):
                    if entry.is_file(follow_symlinks=False):
                        files.append((entry.stat(), entry.path))
        excess = sum(status.st_size for status, _ in files) - self._most_bytes
        for status, path in sorted(files, key=lambda file: file[0].st_mtime):
            if excess <= 0:
                break
            Path(path).unlink(missing_ok=True)
            excess -= status.st_size


def _is_ours(status: os.stat_result) -> bool:
    """Whether a folder or file belongs to the user and nobody else may write to it."""
    if not hasattr(os, "geteuid"):
        return True  # Windows: folders of users are their own
    others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid == os.geteuid() and not others


def default_folder() -> ProgramFolder | None:
    """Folder named by the environment, or one in the user's cache folder."""
    named = os.environ.get(VARIABLE, "")
    if named.lower() in _NO:
        return None
    if named:
        return ProgramFolder(Path(named).expanduser(), named=True)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    try:
        folder = Path(base) if base else Path.home() / ".cache"
    except RuntimeError:  # a user without a home
        return None
    return ProgramFolder(folder / "secret-jax" / "programs", named=False)


def key_of(*parts: Any) -> str:
    """Compute the key of a program from its parts, this machine and the versions."""
    text = "\n".join([*_surroundings(), *map(repr, parts)])
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def _surroundings() -> tuple[str, ...]:
    """Further dependencies of a program: versions, CPU model, flags."""
    import jax
    from jaxlib.version import __version__ as jaxlib_version

    return (
        jax.__version__,
        jaxlib_version,
        platform.platform(),
        _processor(),
        str(os.cpu_count()),
        *(f"{k}={os.environ.get(k)}" for k in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")),
    )


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features", "CPU part")
    first = text.split("\n\n")[0].splitlines()
    return "\n".join(line for line in first if line.startswith(wanted))
