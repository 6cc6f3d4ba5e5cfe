"""Model files: a compressed NumPy archive with a JSON header, without pickle.

The archive holds arrays, and ``header``: a JSON text with the format's name and
version, a checksum, and the estimator: frozen values by the names of their classes and
fields, and arrays by theirs. ``numpy.load`` opens it as well.
"""

import hashlib
import io
import json
import os
import re
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from secret_jax.data.schema import Role, TableSchema
from secret_jax.losses.interface import Loss
from secret_jax.runtime.optional import VERSION
from secret_jax.runtime.values import Value, value_class
from secret_jax.runtime.warning import warn
from secret_jax.tree.structure import AXES, WHOLE, LongerTree, SplitKind, Tree

FORMAT = "secret_jax model"
# Raised when older files can no longer be read; those before the first release are not.
FORMAT_VERSION = 7
# An archive can hold a thousand times its own size of zeros. So much is unpacked at
# most, in bytes or as a multiple of the file's size: trees with thousands of categories
# reach a hundred times, headers with many numbers, of which it is an eighth, twelve.
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


def save_model(model: Any, path: _Path) -> None:
    """Write a fitted estimator: parameters and fitted attributes.

    A parameter that cannot be written (a random generator, for example) is a warning,
    and the loaded model has the default in its place. NotFittedError if there is no
    tree yet; ModelFileError if a category or a fitted attribute is not text, numbers or
    booleans; OSError if the file cannot be written, and stays as it was.
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    arrays: _Arrays = {}
    write(_estimator_to_json(model, arrays, ""), arrays, path)


def load_model(path: _Path, model_class: type) -> Any:
    """Read an estimator that `save_model` wrote; it predicts what that one did.

    ModelFileError says if the file is no model file, has another format version, was
    truncated or altered, holds another kind of model, or a parameter that this version
    of the package does not know; OSError, that it cannot be opened.
    """
    (content, arrays), name = _read(path), repr(os.fspath(path))
    held = content["estimator"]
    if held not in [kind.__name__ for kind in model_class.__mro__]:
        raise ModelFileError(
            f"{name} holds a {held}, no {model_class.__name__}. Read it with "
            f"{held}.load."
        )
    try:
        model = _estimator_of(model_class, _from_json(content, arrays))
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
    kind = type(value).__name__
    is_record = type(value) is _RECORDS.get(kind)
    is_option = isinstance(value, Value) and type(value).__module__.startswith(_OURS)
    if is_record and hasattr(value, "get_params"):
        own = _estimator_to_json(value, arrays, f"{path}.")
        return {"value": kind, "fields": own}
    if is_record or is_option:
        if isinstance(value, TableSchema):
            categories = zip(value.discrete, value.categories, strict=True)
            for column, one in (
                (i, one) for i, several in categories for one in several
            ):
                if not isinstance(one, _PLAIN | np.generic):
                    raise TypeError(
                        f"column {value.names[column]!r} has the category {one!r}, "
                        "which is not text, a number or a boolean"
                    )
        names = getattr(value, "_fields", None) or [one.name for one in fields(value)]
        own = of({name: getattr(value, name) for name in names})
        return {"value": kind, "fields": own}
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
    if value.keys() == {"keys", "values"}:
        return dict(
            zip(value["keys"], _from_json(value["values"], arrays), strict=True)
        )
    if value.keys() != {"value", "fields"}:
        return {key: _from_json(item, arrays) for key, item in value.items()}
    kind = value["value"]
    record = _RECORDS[kind] if kind in _RECORDS else value_class(kind)
    own = {name: _from_json(item, arrays) for name, item in value["fields"].items()}
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
    name = (kinds or [type(model)])[0].__name__
    content: dict[str, Any] = {"estimator": name, "parameters": {}, "fitted": {}}
    given = [("parameters", *item) for item in model.get_params(deep=False).items()]
    fitted = filter(_FITTED.fullmatch, vars(model))
    given += [("fitted", name, getattr(model, name)) for name in fitted]
    for part, name, value in given:
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
                f"The parameter {name}={value!r} cannot be kept in a model file; the "
                "loaded model will have the default. Predictions do not depend on it."
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
    name, packed = repr(os.fspath(path)), Path(path).read_bytes()
    foreign, n_bytes = f"{name} is not a secret_jax model file: ", len(packed)
    if not packed.startswith(b"PK\x03\x04"):  # as every archive that is not empty
        what = "does not begin like one" if packed else "is empty"
        raise ModelFileError(f"{foreign}it {what}.")
    try:
        archive = zipfile.ZipFile(io.BytesIO(packed))
        members = {one.filename.removesuffix(".npy"): one for one in archive.infolist()}
        size = sum(member.file_size for member in members.values())
        if size > max(_MOST_BYTES, _MOST_TIMES * n_bytes):
            raise ModelFileError(
                f"{name} is no model file that can be read: its {n_bytes} bytes would "
                f"take {size} in memory."
            )
        if "header" not in members:
            what = "it is an archive without the member header."
            raise ModelFileError(f"{foreign}{what}")
        packed_header = members.pop("header")
        if packed_header.file_size > max(_MOST_OF_HEADER, _MOST_TIMES * n_bytes // 8):
            raise ValueError
        header = json.loads(_array(archive, packed_header).item())
        kind, version = header["format"], header["format_version"]
        if kind != FORMAT:
            raise ModelFileError(f"{foreign}its format is {kind!r}.")
        if version != FORMAT_VERSION:
            raise ModelFileError(
                f"{name} has format version {version!r}, and secret_jax {VERSION} "
                f"reads version {FORMAT_VERSION}. Use the version of the package that "
                f"wrote it: {header.get('package_version')}."
            )
        arrays = {name: _array(archive, member) for name, member in members.items()}
        if header.pop("checksum") != _checksum_of(header, arrays):
            raise ValueError
        return header["content"], arrays
    except ModelFileError:
        raise
    except Exception:  # zipfile, zlib, NumPy, JSON: damage shows in many ways
        raise ModelFileError(
            f"{name} was truncated, altered or damaged after it was written. Copy or "
            "save it again."
        ) from None


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    # Other compression is not unpacked a bounded part at a time.
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

    OSError if the folder cannot be written to, or ``path`` is no file.
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


def flaw_of(tree: Tree) -> str:
    """Say why a tree cannot be traversed; empty if it is sound.

    In a sound tree every index is valid, and every path from the root ends in a leaf.
    """
    try:
        schema, n, further = tree.schema, len(tree.left), len(tree.further)
        if not _is_sound(schema):
            return "its schema is of columns, categories or outputs that are not there"
        n_categories = max([tree.goes_left.shape[1], *map(len, schema.categories)])
        sizes = {"nodes": n, "further": further, "comparisons": n + further}
        sizes |= {"columns": schema.n_columns, "categories": n_categories}
        sizes |= {"regressors": schema.n_regressors, "outputs": schema.n_outputs}
        sizes["coefficients"] = 1 + schema.n_regressors
        for name, axes in AXES.items():
            array, shape = getattr(tree, name), tuple(sizes[axis] for axis in axes)
            whole, found = name in WHOLE, array.dtype
            right = found == "i4" if whole else found.kind in "fb"
            if array.shape != shape or not right:
                wanted = "int32" if whole else "float or bool"
                return (
                    f"{name} is {found} of shape {array.shape}, not {wanted} of shape "
                    f"{shape}"
                )
        if tree.full_error is not None and len(tree.full_error) != schema.n_outputs:
            return "an output has no error of full equations"
        inner = np.flatnonzero(tree.left >= 0)
        child, above = np.append(tree.left[inner], tree.right[inner]), np.tile(inner, 2)
        # Each node but the root is the child of one node that comes before it.
        if not (
            np.array_equal(np.sort(child), np.arange(1, n))
            and (child > above).all()
            and (tree.right[tree.left < 0] < 0).all()
            and np.array_equal(tree.parent[child], above)
            and np.array_equal(tree.depth[child], tree.depth[above] + 1)
            and (tree.parent[0], tree.depth[0]) == (-1, 0)
        ):
            return "its nodes make no tree"
        if not _within(tree.further, n) or not _within(tree.kind, len(SplitKind)):
            return "a comparison is of no node or kind"
        if not np.array_equal(tree.kind > 0, tree.left[tree.node_of] >= 0):
            return "a node has a kind of split that it cannot have"
        limits = {SplitKind.AXIS: schema.n_columns}
        limits |= {SplitKind.DISCRETE: len(schema.discrete)}
        if all(_within(tree.attribute[tree.kind == k], m) for k, m in limits.items()):
            return ""
        return "a split asks for an attribute that is not there"
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return "its schema or an array is of another kind"


def _is_sound(schema: TableSchema) -> bool:
    """Whether a schema names nothing that is not there."""
    discrete, n_columns = schema.discrete, schema.n_columns
    gaps = schema.missing_modelled + schema.missing_split
    named = (*schema.continuous, *discrete, *gaps, *schema.whole)
    return (
        _within(named, len(schema.names))
        and len(schema.roles) == len(schema.names)
        and {*gaps, *(one for one, *_ in schema.tails)} <= {*schema.continuous}
        and all(low < high for _, low, high in schema.tails)
        and len(schema.categories) == len(discrete)
        and _within([attribute for attribute, _ in schema.indicators], len(discrete))
        and all(_within([i], len(schema.categories[a])) for a, i in schema.indicators)
        and schema.n_indicators <= schema.n_regressors <= n_columns
        and schema.center.shape == schema.scale.shape == (n_columns,)
        and len(schema.target_centers) == len(schema.target_scales) == schema.n_outputs
    )


def _within(positions: object, most: int) -> bool:
    """Whether all positions are integers of at least 0 and below ``most``."""
    array = np.asarray(positions)
    whole = array.size == 0 or array.dtype.kind in "iu"
    return bool(whole and ((array >= 0) & (array < most)).all())
