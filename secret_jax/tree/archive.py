"""Archives of arrays, written atomically and read within size limits.

An archive can hold a thousand times its own size of zeros. Nothing is unpacked before
the length that the archive says was compared with what such a file may hold.
"""

import hashlib
import io
import json
import os
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

_ARCHIVE_START = b"PK\x03\x04"  # what every non-empty zip archive begins with
_ARCHIVE_END = b"PK\x05\x06"  # and how the last 22 bytes of one begin
# Maximum unpacked size: in bytes, or as a multiple of the file's size. Trees with
# thousands of categories reach a hundred times, headers with many numbers twelve times.
_MOST_BYTES, _MOST_TIMES = 1 << 26, 256
_MOST_OF_TEXT, _MOST_TIMES_OF_TEXT = 1 << 24, 32
# Both are unpacked a bounded part at a time.
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class ModelFileError(ValueError):
    """Error of a file that is no readable model, or a model that cannot be saved."""


class Archive:
    """Arrays of a file, each unpacked on demand.

    ``altered``: error to raise if the content differs from what was written.

    Raises
    ------
    ModelFileError
        If the file is no archive, its end is missing, or it holds too much.
    OSError
        If it cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]):
        name = repr(os.fspath(path))
        content = Path(path).read_bytes()
        if not content.startswith(_ARCHIVE_START):
            what = "is empty" if not content else "does not begin like one"
            raise ModelFileError(f"{name} is not a secret_jax model file: it {what}.")
        if not content[-22:].startswith(_ARCHIVE_END):
            raise ModelFileError(
                f"{name} is truncated: the end of the archive is missing. "
                "Copy or save it again."
            )
        self.altered = ModelFileError(
            f"{name} was altered or damaged after it was written. Copy or save it "
            "again."
        )
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(content))
        except Exception:  # zipfile documents BadZipFile, but damage raises others too
            raise self.altered from None
        size = sum(member.file_size for member in self._archive.infolist())
        if size > max(_MOST_BYTES, _MOST_TIMES * len(content)):
            raise ModelFileError(
                f"{name} is no model file that can be read: its {len(content)} bytes "
                f"would take {size} in memory."
            )
        self._most_of_text = max(_MOST_OF_TEXT, _MOST_TIMES_OF_TEXT * len(content))

    def __contains__(self, name: str) -> bool:
        return f"{name}.npy" in self._archive.namelist()

    def text(self, name: str) -> str:
        """Read an array that holds a single text."""
        if self._archive.getinfo(f"{name}.npy").file_size > self._most_of_text:
            raise self.altered
        return self.array(name).item()

    def array(self, name: str) -> np.ndarray:
        """Read an array.

        Raises
        ------
        ModelFileError
            If it is not what was written.
        """
        try:
            member = self._archive.getinfo(f"{name}.npy")
            if member.compress_type not in _COMPRESSIONS:
                raise self.altered
            # Read whole, which checks the archive's own checksum, before any of it is
            # believed; and no further than the archive says.
            with self._archive.open(member) as file:
                content = io.BytesIO(file.read(member.file_size))
            return np.lib.format.read_array(content, allow_pickle=False)
        except Exception:  # zlib, zipfile, NumPy: damage shows in many ways
            raise self.altered from None


def checksum_of(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """Compute the SHA-256 of a header (without checksum) and arrays, hexadecimal."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file that replaces ``path`` only once it is complete.

    Raises
    ------
    OSError
        If the folder cannot be written to, or ``path`` is something other than a file.
    """
    target = Path(path).resolve()  # a link stays a link, its file is replaced
    if target.exists() and not target.is_file():
        raise OSError(f"{os.fspath(path)!r} exists and is not a regular file")
    # In the same folder, since os.replace does not cross file systems. Not tempfile,
    # whose files nobody else may read.
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # a name must not outlive its content
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
