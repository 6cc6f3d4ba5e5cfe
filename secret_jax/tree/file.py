"""Model files: one compressed NumPy archive with a JSON header, and no pickle inside.

The archive holds the arrays of the tree, the scaling of its table, and ``header``: a
JSON text with the format's name and version, the rest of the table's schema, an
estimator's parameters and a checksum of all of it. ``numpy.load`` opens it as well.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import os
import secrets
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import IO, Any

import numpy as np

from secret_jax.additive import options as _options  # noqa: F401
from secret_jax.additive.stage import STAGE_ARRAYS, AdditiveStage
from secret_jax.data.schema import Role, TableSchema
from secret_jax.losses import classes as _classes  # noqa: F401  (read by name)
from secret_jax.losses import numbers as _numbers  # noqa: F401
from secret_jax.losses import quantile as _quantile  # noqa: F401
from secret_jax.losses.interface import Loss
from secret_jax.runtime.values import Value, value_class
from secret_jax.runtime.warning import warn
from secret_jax.tree.kept import KeptRows
from secret_jax.tree.sound import flaw_of
from secret_jax.tree.structure import ARRAY_FIELDS, Tree, joined, separated

FORMAT = "secret_jax model"
# Raised when older files can no longer be read; those before the first release are not.
FORMAT_VERSION = 5

_HEADER = "header"
_SCALING = ("center", "scale")
# Of leaves that keep their rows; the header says the degree of their models.
_KEPT = ("x", "residual", "weight", "first", "bandwidth")
# Of curves in front of the tree, in the header.
_CURVE_NUMBERS = ("intercept", "degrees")
_ARCHIVE_START = b"PK\x03\x04"  # what every non-empty zip archive begins with
_ARCHIVE_END = b"PK\x05\x06"  # and how the last 22 bytes of one begin
_PLAIN = (str, int, float, bool)
# Nodes of each tree, in the header of a file that holds several.
_SIZES = "nodes_of_trees"


class ModelFileError(ValueError):
    """A file that is not a readable model, or a model that cannot be written."""


def save_tree(
    tree: Tree, path: str | os.PathLike[str], *, extra: dict[str, Any] | None = None
) -> None:
    """Write a tree to one file, in one step: never half a file.

    Parameters
    ----------
    tree : Tree
    path : path-like
        An existing file is replaced. No suffix is added.
    extra : dict, optional
        Anything JSON can hold; kept in the header. `save_model` keeps the estimator's
        parameters there.

    Raises
    ------
    ModelFileError
        If a category is not text, a number or a boolean, or the loss is none of the
        package.
    OSError
        If the file cannot be written.
    """
    schema = tree.schema
    loss = {} if tree.loss is None else {"loss": _loss_to_json(tree.loss)}
    arrays = {name: np.asarray(getattr(tree, name)) for name in ARRAY_FIELDS}
    arrays |= {f"column_{name}": np.asarray(getattr(schema, name)) for name in _SCALING}
    kept = {}
    if tree.kept is not None:
        arrays |= {f"kept_{name}": getattr(tree.kept, name) for name in _KEPT}
        kept = {"kept": tree.kept.degree}
    curves = {}
    if tree.additive is not None:
        arrays |= {f"curves_{n}": getattr(tree.additive, n) for n in STAGE_ARRAYS}
        curves = {
            "curves": {name: getattr(tree.additive, name) for name in _CURVE_NUMBERS}
        }
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "package_version": _package_version(),
        "schema": _schema_to_json(schema),
        "clip_margin": tree.clip_margin,
        "clip_leaves": tree.clip_leaves,
        "extra": extra or {},
        **({} if tree.corrects_parent else {"corrects_parent": False}),
        **({} if tree.bounds is None else {"bounds": tree.bounds}),
        **loss,
        **kept,
        **curves,
    }
    header["checksum"] = _checksum(header, arrays)
    with replacing(path) as file:
        # The header goes in as text: np.load(path)["header"] reads well.
        members: dict[str, Any] = {_HEADER: np.array(json.dumps(header)), **arrays}
        np.savez_compressed(file, **members)


def load_tree(path: str | os.PathLike[str]) -> Tree:
    """Read the tree of a model file.

    Parameters
    ----------
    path : path-like
        A file that `save_tree` or ``SecretRegressor.save`` wrote.

    Returns
    -------
    Tree

    Raises
    ------
    ModelFileError
        If the file is no model file, has another format version, or was truncated or
        altered; the message says which.
    OSError
        If the file cannot be opened.
    """
    trees, extra = _read(path)
    _refuse_several(path, extra)
    return trees[0]


def _refuse_several(path: str | os.PathLike[str], extra: dict[str, Any]) -> None:
    if _SIZES in extra:
        raise ModelFileError(
            f"{os.fspath(path)!r} holds the {len(extra[_SIZES])} trees of a booster. "
            "Read it with SecretBoostingRegressor.load."
        )


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator: its tree, its parameters and its other fitted state.

    Parameters
    ----------
    model : SecretRegressor
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

    check_is_fitted(model, "tree_")
    save_tree(model.tree_, path, extra=state_of(model, leave_out="tree_"))


def state_of(model: Any, leave_out: str) -> dict[str, Any]:
    """Parameters and fitted attributes of an estimator, for the header of a file.

    Parameters
    ----------
    model : estimator
    leave_out : str
        The fitted attribute that the arrays of the file hold.
    """
    parameters = {}
    for name, value in model.get_params(deep=False).items():
        try:
            parameters[name] = _to_json(value)
        except TypeError:
            warn(
                f"The parameter {name}={value!r} cannot be kept in a model file; the "
                "loaded model will have the default. Predictions do not depend on it."
            )
    fitted = {}
    for name, value in vars(model).items():
        if name.endswith("_") and not name.startswith("_") and name != leave_out:
            try:
                fitted[name] = _to_json(value)
            except TypeError as error:
                raise ModelFileError(
                    f"The fitted attribute {name} cannot be kept in a model file: "
                    f"{error}."
                ) from None
    return {"parameters": parameters, "fitted": fitted}


def load_model(path: str | os.PathLike[str], model_class: type) -> Any:
    """Read an estimator that `save_model` wrote.

    Parameters
    ----------
    path : path-like
    model_class : type
        The estimator's class; it is called with the parameters that were saved.

    Returns
    -------
    model_class
        Fitted; its predictions are those of the model that was saved.

    Raises
    ------
    ModelFileError
        See `load_tree`; also if the file holds a bare tree, or a parameter that this
        version of the package does not know.
    OSError
        If the file cannot be opened.
    """
    trees, extra = _read(path)
    _refuse_several(path, extra)
    model = with_state(path, extra, model_class, "tree_")
    model.tree_ = trees[0]
    return model


def holds_classes(path: str | os.PathLike[str]) -> bool:
    """Whether a model file is one of a classifier; errors as those of `load_tree`."""
    _, extra = _read(path)
    return "classes_" in extra.get("fitted", {})


def load_trees(path: str | os.PathLike[str]) -> tuple[list[Tree], dict[str, Any]]:
    """Read the trees of a booster's file, and what its header keeps beside them.

    Raises
    ------
    ModelFileError
        See `load_tree`; also if the file holds a single tree.
    OSError
        If the file cannot be opened.
    """
    trees, extra = _read(path)
    if _SIZES not in extra:
        raise ModelFileError(
            f"{os.fspath(path)!r} holds a single tree, no booster. Read it with "
            "SecretRegressor.load."
        )
    return trees, extra


def save_trees(
    trees: Sequence[Tree],
    path: str | os.PathLike[str],
    *,
    extra: dict[str, Any],
) -> None:
    """Write several trees of one schema to one file; see `save_tree`."""
    sizes = [tree.n_nodes for tree in trees]
    save_tree(joined(trees), path, extra={**extra, _SIZES: sizes})


def with_state(
    path: str | os.PathLike[str],
    extra: dict[str, Any],
    model_class: type,
    left_out: str,
) -> Any:
    """An estimator with the parameters and fitted attributes of `state_of`."""
    if "parameters" not in extra:
        raise ModelFileError(
            f"{os.fspath(path)!r} holds a tree without its estimator. "
            "Read it with load_tree."
        )
    try:
        model = model_class(**_from_json(extra["parameters"]))
        fitted = _from_json(extra["fitted"])
    except (AttributeError, TypeError) as error:
        raise ModelFileError(
            f"{os.fspath(path)!r} fits no {model_class.__name__} of version "
            f"{_package_version()}: {error}. Load it with the version that wrote it."
        ) from None
    for name, value in fitted.items():
        fitted_name = name.endswith("_") and not name.startswith("_")
        if not fitted_name or hasattr(model_class, name) or name == left_out:
            raise ModelFileError(
                f"{os.fspath(path)!r} sets {name!r}, which is no fitted attribute."
            )
        setattr(model, name, value)
    return model


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of ``path`` only once it is complete.

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


def _read(path: str | os.PathLike[str]) -> tuple[list[Tree], dict[str, Any]]:
    """The trees and the extra header of a model file, all of it checked."""
    name = repr(os.fspath(path))
    with open(path, "rb") as file:
        content = file.read()
    if not content.startswith(_ARCHIVE_START):
        what = "is empty" if not content else "does not begin like one"
        raise ModelFileError(f"{name} is not a secret_jax model file: it {what}.")
    if not content[-22:].startswith(_ARCHIVE_END):
        raise ModelFileError(
            f"{name} is truncated: the end of the archive is missing. "
            "Copy or save it again."
        )
    altered = ModelFileError(
        f"{name} was altered or damaged after it was written. Copy or save it again."
    )
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except Exception:  # zipfile documents BadZipFile, but damage raises others too
        raise altered from None
    with archive:
        if f"{_HEADER}.npy" not in archive.namelist():
            raise ModelFileError(
                f"{name} is not a secret_jax model file: it is an archive without the "
                f"member {_HEADER}.npy."
            )
        try:
            header = json.loads(_member(archive, _HEADER).item())
            found = header["format"], header["format_version"]
        except Exception:  # zlib, zipfile, NumPy, JSON: damage shows in many ways
            raise altered from None
        if found[0] != FORMAT:
            raise ModelFileError(
                f"{name} is not a secret_jax model file: its format is {found[0]!r}."
            )
        if found[1] != FORMAT_VERSION:
            raise ModelFileError(
                f"{name} has format version {found[1]!r}, and secret_jax "
                f"{_package_version()} reads version {FORMAT_VERSION}. Use the version "
                "of the package that wrote it: "
                f"{header.get('package_version')}."
            )
        try:
            scaling = tuple(f"column_{name}" for name in _SCALING)
            members = ARRAY_FIELDS + scaling
            if "kept" in header:
                members += tuple(f"kept_{name}" for name in _KEPT)
            if "curves" in header:
                members += tuple(f"curves_{name}" for name in STAGE_ARRAYS)
            arrays = {key: _member(archive, key) for key in members}
            expected = header.pop("checksum")
            if expected != _checksum(header, arrays):
                raise altered
            schema = _schema_from_json(header["schema"], arrays)
        except Exception:
            raise altered from None
    kept = None
    if "kept" in header:
        rows = {key: arrays[f"kept_{key}"] for key in _KEPT}
        kept = KeptRows(degree=header["kept"], **rows)
    stage = None
    if "curves" in header:
        stage = AdditiveStage(
            **{key: arrays[f"curves_{key}"] for key in STAGE_ARRAYS},
            **header["curves"],
        )
    tree = Tree(
        **{key: arrays[key] for key in ARRAY_FIELDS},
        schema=schema,
        clip_margin=header["clip_margin"],
        bounds=_bounds_of(header),
        clip_leaves=header["clip_leaves"],
        corrects_parent=header.get("corrects_parent", True),
        loss=_from_json(header.get("loss")),
        kept=kept,
        additive=stage,
    )
    sizes = header["extra"].get(_SIZES)
    try:
        trees = [tree] if sizes is None else separated(tree, sizes)
        flaw = next(filter(None, map(flaw_of, trees)), "")
        if sizes is not None and (min(sizes) < 1 or sum(sizes) != tree.n_nodes):
            flaw = "its trees have another number of nodes"
    except (IndexError, KeyError, TypeError, ValueError):
        flaw = "its schema or an array is of another kind"
    if flaw:
        raise ModelFileError(f"{name} holds no sound tree: {flaw}. Save it again.")
    return trees, header["extra"]


def _bounds_of(header: dict[str, Any]) -> Any:
    bounds = header.get("bounds")
    return None if bounds is None else tuple(map(tuple, bounds))


def _member(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    # Read whole, which checks the archive's own checksum, before any of it is believed.
    content = io.BytesIO(archive.read(f"{name}.npy"))
    return np.lib.format.read_array(content, allow_pickle=False)


def _checksum(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    """SHA-256 of a header (without its checksum) and of the arrays, hexadecimal."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _schema_to_json(schema: TableSchema) -> dict[str, Any]:
    # JSON keeps text, integers, floats and booleans apart, and Python writes a float
    # with as many digits as bring it back exactly.
    header = {
        field.name: getattr(schema, field.name)
        for field in fields(schema)
        if field.name not in _SCALING
    }
    header["categories"] = [
        [_category(value, schema.names[column]) for value in values]
        for column, values in zip(schema.discrete, schema.categories, strict=True)
    ]
    return _to_json(header)


def _schema_from_json(
    header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> TableSchema:
    values: dict[str, Any] = {n: _tuples(value) for n, value in header.items()}
    values["roles"] = tuple(Role(role) for role in values["roles"])
    values |= {name: arrays[f"column_{name}"] for name in _SCALING}
    return TableSchema(**values)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _category(value: Any, column: str) -> str | int | float | bool | None:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, _PLAIN):
        return value
    raise ModelFileError(
        f"Column {column!r} has the category {value!r}, a {type(value).__name__}; a "
        "model file holds text, numbers and booleans. Turn the column into text before "
        "fitting."
    )


def _to_json(value: Any) -> Any:
    """A parameter or a fitted attribute for JSON; a TypeError if it has no form there.

    Arrays become ``{"dtype": ..., "array": ...}``, values of this package
    ``{"value": class, "fields": ...}``, tuples become lists.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _to_json(item) for key, item in value.items()}
    if isinstance(value, Value) and type(value).__module__.startswith("secret_jax."):
        its = {name: _to_json(field) for name, field in value.get_params().items()}
        return {"value": type(value).__name__, "fields": its}
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.str, "array": _to_json(value.tolist())}
    raise TypeError(f"a {type(value).__name__} is not text, a number or a boolean")


def _loss_to_json(loss: Loss) -> Any:
    try:
        return _to_json(loss)
    except TypeError:
        raise ModelFileError(
            f"{loss!r} cannot be kept in a model file: it is a loss of your own, and a "
            "file holds no code. Pickle the estimator instead."
        ) from None


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    if isinstance(value, dict):
        if set(value) == {"dtype", "array"}:
            return np.array(value["array"], np.dtype(value["dtype"]))
        if set(value) == {"value", "fields"}:
            its = {name: _tuples(field) for name, field in value["fields"].items()}
            return value_class(value["value"])(**its)
        return {key: _from_json(item) for key, item in value.items()}
    return value


def _package_version() -> str:
    try:
        return importlib.metadata.version("secret-jax")
    except importlib.metadata.PackageNotFoundError:  # run from a source folder
        return "unknown"
