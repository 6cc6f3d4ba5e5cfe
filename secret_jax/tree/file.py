"""Model files: a compressed NumPy archive with a JSON header, without pickle.

The archive holds arrays, and ``header``: a JSON text with the format's name and
version, a checksum, and the estimator: frozen values by the names of their classes and
fields, and arrays by theirs. ``numpy.load`` opens it as well.
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
from typing import IO, Any, TypeVar

import numpy as np

from secret_jax.data.schema import Role, TableSchema
from secret_jax.losses.interface import Loss
from secret_jax.runtime.optional import VERSION
from secret_jax.runtime.values import Value, value_class
from secret_jax.runtime.warning import warn
from secret_jax.tree.sound import flaw_of
from secret_jax.tree.structure import LongerTree, Tree

FORMAT = "secret_jax model"
# Raised when older files can no longer be read; those before the first release are not.
FORMAT_VERSION = 7

_Kind = TypeVar("_Kind", bound=type)
_Path = str | os.PathLike[str]
_Arrays = dict[str, np.ndarray]
# Classes that a file may hold beside the package's option values; see `recorded`.
_RECORDS: dict[str, Any] = {
    kind.__name__: kind for kind in (Tree, TableSchema, LongerTree)
}
_HEADER = "header.npy"
# An archive can hold a thousand times its own size of zeros. So much is unpacked at
# most, in bytes or as a multiple of the file's size: trees with thousands of categories
# reach a hundred times, headers with many numbers, of which it is an eighth, twelve.
_MOST_BYTES, _MOST_TIMES = 1 << 26, 256
_MOST_OF_HEADER = 1 << 24


class ModelFileError(ValueError):
    """Error of a file that is no readable model, or a model that cannot be saved."""


def save_model(model: Any, path: _Path) -> None:
    """Write a fitted estimator: parameters and fitted attributes.

    Parameters
    ----------
    path : path-like
        An existing file is replaced. No suffix is added.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If there is no tree yet.
    ModelFileError
        If a category or a fitted attribute is not text, numbers or booleans.
    OSError
        If the file cannot be written.

    Warns
    -----
    UserWarning
        If a parameter cannot be written (a random generator as ``random_state``, for
        example); the loaded model has the default in its place.
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    arrays: _Arrays = {}
    write(_estimator_to_json(model, arrays, ""), arrays, path)


def load_model(path: _Path, model_class: type) -> Any:
    """Read an estimator that `save_model` wrote.

    Parameters
    ----------
    model_class : type
        The estimator's class; it is called with the parameters that were saved.

    Returns
    -------
    model_class
        Fitted; its predictions are those of the model that was saved.

    Raises
    ------
    ModelFileError
        If the file is no model file, has another format version, was truncated or
        altered, holds another kind of model, or a parameter that this version of the
        package does not know; the message says which.
    OSError
        If the file cannot be opened.
    """
    (content, arrays), name = _read(path), repr(os.fspath(path))
    held = content["estimator"]
    if held not in [kind.__name__ for kind in model_class.__mro__]:
        raise ModelFileError(
            f"{name} holds a {held}, no {model_class.__name__}. Read it with "
            f"{held}.load."
        )
    try:
        model = _estimator_of(model_class, from_json(content, arrays))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{name} fits no {model_class.__name__} of version {VERSION}: {error}. "
            "Load it with the version that wrote it."
        ) from None
    # An ensemble checks its trees itself.
    if getattr(model_class, "_predicts_with", "tree_") != "ensemble_":
        tree: Any = getattr(model, "tree_", None)
        if flaw := flaw_of(getattr(tree, "tree_", tree)):
            raise ModelFileError(f"{name} holds no sound tree: {flaw}. Save it again.")
    return model


def estimator_name(path: _Path) -> str:
    """Name of the class that wrote a model file; raises errors as `load_model` does."""
    return _read(path)[0]["estimator"]


def recorded(kind: _Kind) -> _Kind:
    """Let model files hold a record, or an estimator as a part of another one.

    Of a record (a dataclass or a NamedTuple) a file holds all fields; of an estimator
    the parameters and the fitted attributes.
    """
    _RECORDS[kind.__name__] = kind
    return kind


def to_json(value: Any, arrays: _Arrays, path: str) -> Any:
    """Convert a value to JSON; TypeError if there is none.

    Records become ``{"value": class, "fields": ...}``, tuples lists, arrays
    ``{"array": name}`` (of objects ``{"dtype": "|O", "items": ...}``), and mappings of
    numbers ``{"keys": ..., "values": ...}``. ``arrays`` receives the arrays by name:
    their path in the value.
    """

    def of(items: Mapping[Any, Any]) -> dict[Any, Any]:
        return {k: to_json(item, arrays, f"{path}.{k}") for k, item in items.items()}

    value = value.item() if isinstance(value, np.generic) else value
    kind, own = type(value).__name__, None
    if type(value) is _RECORDS.get(kind):
        if hasattr(value, "get_params"):
            own = _estimator_to_json(value, arrays, f"{path}.")
        else:
            names = getattr(value, "__dataclass_fields__", ()) or value._fields
            own = of({name: getattr(value, name) for name in names})
    elif isinstance(value, Value) and type(value).__module__.startswith("secret_jax."):
        own = of(value.get_params())
    if own is not None:
        return {"value": kind, "fields": own}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        arrays[path] = value
        return {"array": path}
    if isinstance(value, np.ndarray):
        return {"dtype": "|O", **of({"items": value.tolist()})}
    if isinstance(value, list | tuple):
        return [*of(dict(enumerate(value))).values()]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return of(value)
    if isinstance(value, dict) and all(isinstance(key, int) for key in value):
        return {"keys": [*value], **of({"values": [*value.values()]})}
    if isinstance(value, Loss):  # without it predictions would be others
        raise ModelFileError(
            f"{value!r} cannot be kept in a model file: it is a loss of your own, and "
            "a file holds no code. Pickle the estimator instead."
        )
    raise TypeError(f"{value!r} at {path} is a {kind}, not text, a number or a boolean")


def from_json(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Restore a value from `to_json`."""
    if isinstance(value, list):
        return [from_json(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"array"}:
        return arrays[value["array"]]
    if set(value) == {"dtype", "items"}:
        return np.array(value["items"], object)
    if set(value) == {"keys", "values"}:
        values = from_json(value["values"], arrays)
        return dict(zip(value["keys"], values, strict=True))
    if set(value) != {"value", "fields"}:
        return {key: from_json(item, arrays) for key, item in value.items()}
    kind = value["value"]
    record = _RECORDS[kind] if kind in _RECORDS else value_class(kind)
    own = {name: from_json(item, arrays) for name, item in value["fields"].items()}
    if kind in _RECORDS and hasattr(record, "get_params"):
        return _estimator_of(record, own)
    own = {name: _tuples(item) for name, item in own.items()}
    if record is TableSchema:
        own["roles"] = tuple(map(Role, own["roles"]))
    return record(**own)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _estimator_to_json(model: Any, arrays: _Arrays, path: str) -> dict[str, Any]:
    """Class, parameters and fitted attributes of an estimator."""
    # It may be of a subclass that no other program has.
    own = (
        kind for kind in type(model).__mro__ if kind.__module__[:11] == "secret_jax."
    )
    fitted = {name: value for name, value in vars(model).items() if _is_fitted(name)}
    parts = {"parameters": model.get_params(deep=False), "fitted": fitted}
    content: dict[str, Any] = {"estimator": next(own, type(model)).__name__}
    for part, values in parts.items():
        content[part] = {}
        for name, value in values.items():
            value, its = value.saved() if hasattr(value, "saved") else value, {}
            try:
                content[part][name] = to_json(value, its, f"{path}{part}.{name}")
                arrays |= its
            except TypeError as error:
                if part == "fitted":
                    raise ModelFileError(
                        f"The fitted attribute {name} cannot be kept in a model file: "
                        f"{error}. Turn categories into text before fitting."
                    ) from None
                warn(
                    f"The parameter {name}={value!r} cannot be kept in a model file; "
                    "the loaded model will have the default. Predictions do not depend "
                    "on it."
                )
    return content


def _estimator_of(model_class: type, content: dict[str, Any]) -> Any:
    model = model_class(**content["parameters"])
    for name, value in content["fitted"].items():
        if not _is_fitted(name) or hasattr(model_class, name):
            raise ValueError(f"it sets {name!r}, which is no fitted attribute")
        setattr(model, name, value)
    return model


def _is_fitted(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


def write(content: dict[str, Any], arrays: _Arrays, path: _Path) -> None:
    """Write an estimator's JSON and its arrays to a file, atomically."""
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "package_version": VERSION,
        "content": content,
    }
    header["checksum"] = _checksum_of(header, arrays)
    with replacing(path) as file:
        # The header goes in as text: np.load(path)["header"] reads well.
        members: Any = {"header": np.array(json.dumps(header)), **arrays}
        np.savez_compressed(file, **members)


def _read(path: _Path) -> tuple[dict[str, Any], _Arrays]:
    """Read and check an estimator's JSON and its arrays."""
    name, packed = repr(os.fspath(path)), Path(path).read_bytes()
    foreign = f"{name} is not a secret_jax model file: "
    if not packed.startswith(b"PK\x03\x04"):  # as every archive that is not empty
        what = "does not begin like one" if packed else "is empty"
        raise ModelFileError(f"{foreign}it {what}.")
    try:
        return _unpacked(packed, name, foreign)
    except ModelFileError:
        raise
    except Exception:  # zipfile, zlib, NumPy, JSON: damage shows in many ways
        raise ModelFileError(
            f"{name} was truncated, altered or damaged after it was written. Copy or "
            "save it again."
        ) from None


def _unpacked(packed: bytes, name: str, foreign: str) -> tuple[dict[str, Any], _Arrays]:
    """Unpack an archive; errors that say more than damage are `ModelFileError`."""
    archive, n_bytes = zipfile.ZipFile(io.BytesIO(packed)), len(packed)
    members = {member.filename: member for member in archive.infolist()}
    size = sum(member.file_size for member in members.values())
    if size > max(_MOST_BYTES, _MOST_TIMES * n_bytes):
        raise ModelFileError(
            f"{name} is no model file that can be read: its {n_bytes} bytes would take "
            f"{size} in memory."
        )
    if _HEADER not in members:
        raise ModelFileError(f"{foreign}it is an archive without the member {_HEADER}.")
    if members[_HEADER].file_size > max(_MOST_OF_HEADER, _MOST_TIMES * n_bytes // 8):
        raise ValueError
    header = json.loads(_array(archive, members.pop(_HEADER)).item())
    kind, version = header["format"], header["format_version"]
    if kind != FORMAT:
        raise ModelFileError(f"{foreign}its format is {kind!r}.")
    if version != FORMAT_VERSION:
        raise ModelFileError(
            f"{name} has format version {version!r}, and secret_jax {VERSION} reads "
            f"version {FORMAT_VERSION}. Use the version of the package that wrote it: "
            f"{header.get('package_version')}."
        )
    arrays = {
        member.removesuffix(".npy"): _array(archive, members[member])
        for member in members
    }
    if header.pop("checksum") != _checksum_of(header, arrays):
        raise ValueError
    return header["content"], arrays


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    # Others are not unpacked a bounded part at a time.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError
    # Read whole, which checks the archive's own checksum, before any of it is believed;
    # and no further than the archive says.
    with archive.open(member) as file:
        content = io.BytesIO(file.read(member.file_size))
    return np.lib.format.read_array(content, allow_pickle=False)


def _checksum_of(header: Mapping[str, Any], arrays: _Arrays) -> str:
    """SHA-256 of a header (without checksum) and arrays, hexadecimal."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@contextmanager
def replacing(path: _Path) -> Iterator[IO[bytes]]:
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
