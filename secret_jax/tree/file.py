"""Model files: a compressed NumPy archive with a JSON header, without pickle.

The archive holds arrays, and ``header``: a JSON text with the format's name and
version, a checksum, and everything else (`secret_jax.tree.state`). ``numpy.load`` opens
it as well.
"""

import json
import os
from typing import Any

import numpy as np

from secret_jax.runtime.version import VERSION
from secret_jax.tree.archive import Archive, ModelFileError, checksum_of, replacing
from secret_jax.tree.sound import flaw_of
from secret_jax.tree.state import (
    array_names,
    estimator_of,
    estimator_state,
    from_json,
    to_json,
)

FORMAT = "secret_jax model"
# Raised when older files can no longer be read; those before the first release are not.
FORMAT_VERSION = 6

_HEADER = "header"
# What a file holds that has a fitted attribute, the telling ones first, and its reader.
_HOLDERS = {
    "ensemble_": ("the trees of a booster", "SecretBoostingRegressor"),
    "fitted_head_": ("a tree with kernels over it", "KernelTreeRegressor"),
    "tree_": ("a single tree, no booster", "SecretRegressor"),
}
_Path = str | os.PathLike[str]


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

    check_is_fitted(model, _attribute_of(type(model)))
    write(estimator_state(model), path)


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
    header, arrays = _read(path)
    wanted = _attribute_of(model_class)
    fitted = header["content"]["fitted"]
    held = next((name for name in _HOLDERS if name in fitted), "tree_")
    if held != wanted:
        holds, reader = _HOLDERS[held]
        raise ModelFileError(
            f"{os.fspath(path)!r} holds {holds}. Read it with {reader}.load."
        )
    if ("classes_" in fitted) != hasattr(model_class, "predict_proba"):
        holds = "classes" if "classes_" in fitted else "numbers"
        raise ModelFileError(
            f"{os.fspath(path)!r} holds a model of {holds}, which "
            f"{model_class.__name__} does not read. Read it with the one that wrote it."
        )
    try:
        model = estimator_of(model_class, from_json(header["content"], arrays))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{os.fspath(path)!r} fits no {model_class.__name__} of version {VERSION}: "
            f"{error}. Load it with the version that wrote it."
        ) from None
    if wanted != "ensemble_":
        tree = getattr(model, "tree_", None)
        _check(path, getattr(tree, "tree_", tree))
    return model


def estimator_name(path: _Path) -> str:
    """Name of the class that wrote a model file; raises errors as `load_model` does."""
    content = _read(path)[0]["content"]
    fitted = content.get("fitted", {})
    reader = next((name for key, (_, name) in _HOLDERS.items() if key in fitted), "")
    if "classes_" in fitted:
        reader = reader.replace("Regressor", "Classifier")
    # Early files do not name it.
    return content.get("estimator", reader or "SecretRegressor")


def write(content: dict[str, Any], path: _Path) -> None:
    """Write parameters, attributes and trees to a file, atomically."""
    arrays: dict[str, np.ndarray] = {}
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "package_version": VERSION,
        "content": to_json(content, arrays),
    }
    header["checksum"] = checksum_of(header, arrays)
    with replacing(path) as file:
        # The header goes in as text: np.load(path)["header"] reads well.
        members: dict[str, Any] = {_HEADER: np.array(json.dumps(header)), **arrays}
        np.savez_compressed(file, **members)


def _read(path: _Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read and check the header and the arrays of a model file."""
    name, archive = repr(os.fspath(path)), Archive(path)
    if _HEADER not in archive:
        raise ModelFileError(
            f"{name} is not a secret_jax model file: it is an archive without the "
            f"member {_HEADER}.npy."
        )
    try:
        header = json.loads(archive.text(_HEADER))
        kind, version = header["format"], header["format_version"]
    except Exception:  # NumPy, JSON: damage shows in many ways
        raise archive.altered from None
    if kind != FORMAT:
        raise ModelFileError(
            f"{name} is not a secret_jax model file: its format is {kind!r}."
        )
    if version != FORMAT_VERSION:
        raise ModelFileError(
            f"{name} has format version {version!r}, and secret_jax "
            f"{VERSION} reads version {FORMAT_VERSION}. Use the version "
            f"of the package that wrote it: {header.get('package_version')}."
        )
    try:
        arrays = {key: archive.array(key) for key in array_names(header["content"])}
        if header.pop("checksum") != checksum_of(header, arrays):
            raise archive.altered
    except Exception:
        raise archive.altered from None
    return header, arrays


def _attribute_of(model_class: type) -> str:
    """Name of the fitted attribute that predicts."""
    return getattr(model_class, "_predicts_with", "tree_")


def _check(path: _Path, tree: Any) -> None:
    try:
        flaw = flaw_of(tree)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        flaw = "its schema or an array is of another kind"
    if flaw:
        raise ModelFileError(
            f"{os.fspath(path)!r} holds no sound tree: {flaw}. Save it again."
        )
