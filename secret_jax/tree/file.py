"""Model files: a compressed NumPy archive with a JSON header, without pickle.

It holds arrays, and ``header``: a JSON text of format, version, checksum, and the
estimator: frozen values by the names of their classes and fields, arrays by theirs.
"""

import hashlib
import io
import json
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from secret_jax.data.schema import Role, TableSchema
from secret_jax.losses.interface import Loss
from secret_jax.runtime.environment import VERSION, replacing, warn
from secret_jax.runtime.values import Value, value_class
from secret_jax.tree.structure import LongerTree, Tree, flaw_of

FORMAT = "secret_jax model"
# Raised when older files can no longer be read; those before the first release are not.
FORMAT_VERSION = 7
# An archive can hold a thousand times its size of zeros. Unpacked at most, in bytes or
# times its size (trees with thousands of categories reach a hundred, headers twelve).
_MOST_BYTES, _MOST_TIMES, _MOST_OF_HEADER = 1 << 26, 256, 1 << 24

_Kind = TypeVar("_Kind", bound=type)
_Path = str | os.PathLike[str]
_Arrays = dict[str, np.ndarray]
_OURS, _FITTED = "secret_jax.", re.compile(r"(?!_).*_")  # modules, attributes
_PLAIN = str | int | float | bool | None
# Classes that a file may hold beside the package's option values; see `recorded`.
_RECORDS: dict[str, Any] = {k.__name__: k for k in (Tree, TableSchema, LongerTree)}


class ModelFileError(ValueError):
    """Error of a file that is no readable model, or a model that cannot be saved."""


def _refused(path: _Path, why: str) -> ModelFileError:
    return ModelFileError(f"{os.fspath(path)!r} {why}.")


def save_model(model: Any, path: _Path) -> None:
    """Write a fitted estimator: parameters and fitted attributes.

    A parameter that cannot be written (a random generator, say) is a warning, a fitted
    attribute or category a ModelFileError. A file that is there is replaced, or stays.
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    arrays: _Arrays = {}
    write(_estimator_to_json(model, arrays, ""), arrays, path)


def load_model(path: _Path, model_class: type) -> Any:
    """Read an estimator that `save_model` wrote; it predicts what that one did.

    ModelFileError says why it cannot be read, OSError that it cannot be opened.
    """
    (content, arrays), name = _read(path), model_class.__name__
    held = content["estimator"]
    if held not in [kind.__name__ for kind in model_class.__mro__]:
        raise _refused(path, f"holds a {held}, no {name}. Read it with {held}.load")
    try:
        model = _estimator_of(model_class, _from_json(content, arrays))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        why = f"fits no {name} of version {VERSION}: {error}"
        raise _refused(path, f"{why}. Load it with the version that wrote it") from None
    # An ensemble checks its trees itself.
    if getattr(model_class, "_predicts_with", "tree_") != "ensemble_":
        tree: Any = getattr(model, "tree_", None)
        if flaw := flaw_of(getattr(tree, "tree_", tree)):
            raise _refused(path, f"holds no sound tree: {flaw}. Save it again")
    return model


def estimator_name(path: _Path) -> str:
    """Name of the class that wrote a model file; errors are those of `load_model`."""
    return _read(path)[0]["estimator"]


def recorded(kind: _Kind) -> _Kind:
    """Let model files hold a dataclass, a NamedTuple, or an estimator in another."""
    _RECORDS[kind.__name__] = kind
    return kind


def to_json(value: Any, arrays: _Arrays, path: str) -> Any:
    """Convert a value to JSON; TypeError if there is none.

    Records become ``{"value": class, "fields": ...}``, tuples lists, arrays
    ``{"array": name}`` (of objects ``{"dtype": "|O", "items": ...}``), and mappings of
    numbers ``{"keys": ..., "values": ...}``. ``arrays`` receives the arrays, by path.
    """

    def of(items: Mapping[Any, Any]) -> dict[Any, Any]:
        return {k: to_json(item, arrays, f"{path}.{k}") for k, item in items.items()}

    value = value.item() if isinstance(value, np.generic) else value
    kind = type(value).__name__
    is_record = type(value) is _RECORDS.get(kind)
    is_option = isinstance(value, Value) and type(value).__module__.startswith(_OURS)
    if is_record and hasattr(value, "get_params"):
        return {"value": kind, "fields": _estimator_to_json(value, arrays, f"{path}.")}
    if is_record or is_option:
        if isinstance(value, TableSchema):
            for column, several in zip(value.discrete, value.categories, strict=True):
                odd = [k for k in several if not isinstance(k, _PLAIN | np.generic)]
                if odd:
                    raise TypeError(
                        f"column {value.names[column]!r} has the category {odd[0]!r}, "
                        "which is not text, a number or a boolean"
                    )
        names = getattr(value, "_fields", None) or [one.name for one in fields(value)]
        own = {name: getattr(value, name) for name in names}
        return {"value": kind, "fields": of(own)}
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return {"dtype": "|O", **of({"items": value.tolist()})}
        arrays[path] = value
        return {"array": path}
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


def _from_json(value: Any, arrays: _Arrays) -> Any:
    """Restore a value from `to_json`."""
    if isinstance(value, list):
        return [_from_json(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"array"}:
        return arrays[value["array"]]
    if value.keys() == {"dtype", "items"}:
        return np.array(value["items"], object)
    own = {key: _from_json(item, arrays) for key, item in value.items()}
    if value.keys() == {"keys", "values"}:
        return dict(zip(own["keys"], own["values"], strict=True))
    if value.keys() != {"value", "fields"}:
        return own
    kind, own = own["value"], own["fields"]
    record = _RECORDS.get(kind) or value_class(kind)
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
    kinds = [one for one in type(model).__mro__ if one.__module__.startswith(_OURS)]
    content: dict[str, Any] = {"estimator": (kinds or [type(model)])[0].__name__}
    content |= {"parameters": {}, "fitted": {}}
    given = [("parameters", *item) for item in model.get_params(deep=False).items()]
    fitted = filter(_FITTED.fullmatch, vars(model))
    given += [("fitted", name, getattr(model, name)) for name in fitted]
    for part, name, value in given:
        value, its = value.saved() if hasattr(value, "saved") else value, {}
        try:
            content[part][name] = to_json(value, its, f"{path}{part}.{name}")
            arrays |= its
        except TypeError as error:
            kept = "cannot be kept in a model file"
            if part == "fitted":
                raise ModelFileError(
                    f"The fitted attribute {name} {kept}: {error}. Turn categories "
                    "into text before fitting."
                ) from None
            warn(
                f"The parameter {name}={value!r} {kept}; the loaded model will have "
                "the default. Predictions do not depend on it."
            )
    return content


def _estimator_of(model_class: type, content: dict[str, Any]) -> Any:
    model = model_class(**content["parameters"])
    for name, value in content["fitted"].items():
        if not _FITTED.fullmatch(name) or hasattr(model_class, name):
            raise ValueError(f"it sets {name!r}, which is no fitted attribute")
        setattr(model, name, value)
    return model


def write(content: dict[str, Any], arrays: _Arrays, path: _Path) -> None:
    """Write an estimator's JSON and its arrays to a file, atomically."""
    header = {"format": FORMAT, "format_version": FORMAT_VERSION}
    header |= {"package_version": VERSION, "content": content}
    header["checksum"] = _checksum_of(header, arrays)
    with replacing(path) as file:
        # The header goes in as text: np.load(path)["header"] reads well.
        members: Any = {"header": np.array(json.dumps(header)), **arrays}
        np.savez_compressed(file, **members)


def _read(path: _Path) -> tuple[dict[str, Any], _Arrays]:
    """Read and check an estimator's JSON and its arrays."""
    packed, foreign = Path(path).read_bytes(), "is not a secret_jax model file: it"
    n_bytes = len(packed)
    if not packed.startswith(b"PK\x03\x04"):  # as every archive that is not empty
        what = "does not begin like one" if packed else "is empty"
        raise _refused(path, f"{foreign} {what}")
    try:
        archive = zipfile.ZipFile(io.BytesIO(packed))
        members = {one.filename.removesuffix(".npy"): one for one in archive.infolist()}
        size = sum(member.file_size for member in members.values())
        if size > max(_MOST_BYTES, _MOST_TIMES * n_bytes):
            what = f"is too large: its {n_bytes} bytes would take {size} in memory"
            raise _refused(path, what)
        if "header" not in members:
            raise _refused(path, f"{foreign} is an archive without the member header")
        packed_header = members.pop("header")
        if packed_header.file_size > max(_MOST_OF_HEADER, _MOST_TIMES * n_bytes // 8):
            raise ValueError
        header = json.loads(_array(archive, packed_header).item())
        kind, version = header["format"], header["format_version"]
        if kind != FORMAT:
            raise _refused(path, f"{foreign}s format is {kind!r}")
        if version != FORMAT_VERSION:
            raise _refused(
                path,
                f"has format version {version!r}, and secret_jax {VERSION} reads "
                f"version {FORMAT_VERSION}. Use the version of the package that wrote "
                f"it: {header.get('package_version')}",
            )
        arrays = {name: _array(archive, member) for name, member in members.items()}
        if header.pop("checksum") != _checksum_of(header, arrays):
            raise ValueError
        return header["content"], arrays
    except ModelFileError:
        raise
    except Exception:  # zipfile, zlib, NumPy, JSON: damage shows in many ways
        what = "was truncated, altered or damaged after it was written"
        raise _refused(path, f"{what}. Copy or save it again") from None


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    # Other compression is not unpacked a bounded part at a time.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError
    # Whole, which checks the archive's own checksum, and no further than it says.
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
