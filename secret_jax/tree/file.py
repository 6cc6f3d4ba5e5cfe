"""Model files: a compressed NumPy archive with a JSON header, without pickle.

The archive holds the arrays of the tree, the scaling of its table, and ``header``: a
JSON text with the format's name and version, the rest of the table's schema, an
estimator's parameters and a checksum of all of it. ``numpy.load`` opens it as well.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from secret_jax.losses.numbers import SquaredError
from secret_jax.runtime.warning import warn
from secret_jax.tree.archive import Archive, ModelFileError, checksum_of, replacing
from secret_jax.tree.header import (
    SCALING,
    from_json,
    loss_to_json,
    schema_from_json,
    schema_to_json,
    to_json,
)
from secret_jax.tree.sound import flaw_of
from secret_jax.tree.structure import ARRAY_FIELDS, Tree, joined, separated

FORMAT = "secret_jax model"
# Raised when older files can no longer be read; those before the first release are not.
FORMAT_VERSION = 5

_HEADER = "header"
# Nodes of each tree, in the header of a file that holds several.
_SIZES = "nodes_of_trees"


def save_tree(
    tree: Tree, path: str | os.PathLike[str], *, extra: dict[str, Any] | None = None
) -> None:
    """Write a tree to a file, atomically.

    Parameters
    ----------
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
    arrays = {name: np.asarray(getattr(tree, name)) for name in ARRAY_FIELDS}
    arrays |= {f"column_{name}": np.asarray(getattr(schema, name)) for name in SCALING}
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "package_version": _package_version(),
        "schema": schema_to_json(schema),
        "clip_margin": tree.clip_margin,
        "clip_leaves": tree.clip_leaves,
        "extra": extra or {},
        **({} if tree.corrects_parent else {"corrects_parent": False}),
        **({} if tree.bounds is None else {"bounds": tree.bounds}),
        **({} if tree.full_error is None else {"full_error": tree.full_error}),
        "loss": loss_to_json(tree.loss),
    }
    header["checksum"] = checksum_of(header, arrays)
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
    """Write a fitted estimator: tree, parameters and other fitted state.

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

    check_is_fitted(model, "tree_")
    save_tree(model.tree_, path, extra=state_of(model, leave_out="tree_"))


def state_of(model: Any, leave_out: str) -> dict[str, Any]:
    """Collect an estimator's parameters and fitted attributes for a file header.

    Parameters
    ----------
    leave_out : str
        The fitted attribute that the arrays of the file hold.
    """
    parameters = {}
    for name, value in model.get_params(deep=False).items():
        try:
            parameters[name] = to_json(value)
        except TypeError:
            warn(
                f"The parameter {name}={value!r} cannot be kept in a model file; the "
                "loaded model will have the default. Predictions do not depend on it."
            )
    fitted = {}
    for name, value in vars(model).items():
        if name.endswith("_") and not name.startswith("_") and name != leave_out:
            try:
                fitted[name] = to_json(value)
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
    """Whether a model file holds a classifier; raises errors as `load_tree` does."""
    _, extra = _read(path)
    return "classes_" in extra.get("fitted", {})


def load_trees(path: str | os.PathLike[str]) -> tuple[list[Tree], dict[str, Any]]:
    """Read the trees of a booster's file, and the extra part of its header.

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
    """Restore an estimator from parameters and fitted attributes (`state_of`)."""
    if "parameters" not in extra:
        raise ModelFileError(
            f"{os.fspath(path)!r} holds a tree without its estimator. "
            "Read it with load_tree."
        )
    try:
        model = model_class(**from_json(extra["parameters"]))
        fitted = from_json(extra["fitted"])
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


def _read(path: str | os.PathLike[str]) -> tuple[list[Tree], dict[str, Any]]:
    """Read and check the trees and the extra header of a model file."""
    name = repr(os.fspath(path))
    archive = Archive(path)
    if _HEADER not in archive:
        raise ModelFileError(
            f"{name} is not a secret_jax model file: it is an archive without the "
            f"member {_HEADER}.npy."
        )
    try:
        header = json.loads(archive.text(_HEADER))
        found = header["format"], header["format_version"]
    except Exception:  # NumPy, JSON: damage shows in many ways
        raise archive.altered from None
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
        members = [*ARRAY_FIELDS, *(f"column_{name}" for name in SCALING)]
        arrays = {key: archive.array(key) for key in members}
        expected = header.pop("checksum")
        if expected != checksum_of(header, arrays):
            raise archive.altered
        scaling = {name: arrays[f"column_{name}"] for name in SCALING}
        schema = schema_from_json(header["schema"], scaling)
    except Exception:
        raise archive.altered from None
    tree = Tree(
        **{key: arrays[key] for key in ARRAY_FIELDS},
        schema=schema,
        clip_margin=header["clip_margin"],
        bounds=_bounds_of(header),
        full_error=_full_error_of(header),
        clip_leaves=header["clip_leaves"],
        corrects_parent=header.get("corrects_parent", True),
        loss=from_json(header.get("loss")) or SquaredError(),
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


def _full_error_of(header: dict[str, Any]) -> tuple[float, ...] | None:
    error = header.get("full_error")
    return None if error is None else tuple(error)


def _package_version() -> str:
    try:
        return importlib.metadata.version("secret-jax")
    except importlib.metadata.PackageNotFoundError:  # run from a source folder
        return "unknown"
