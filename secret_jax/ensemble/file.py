"""Model files of boosters: files of trees with several trees."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from secret_jax.ensemble.model import ensemble_of
from secret_jax.ensemble.options import TreeSize
from secret_jax.tree.file import (
    ModelFileError,
    load_trees,
    save_trees,
    state_of,
    with_state,
)

_LEFT_OUT = "ensemble_"


def save_booster(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted booster to a file: trees, parameters and fitted state.

    The rows that trained it are not in the file: a loaded model predicts, explains and
    is exported, but `distill` asks for rows then, and ``warm_start`` begins anew.

    Parameters
    ----------
    path : path-like
        An existing file is replaced. No suffix is added.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If there are no trees yet.
    ModelFileError, OSError
        See `secret_jax.tree.file.save_model`.
    """
    check_is_fitted(model, _LEFT_OUT)
    ensemble = model.ensemble_
    about = {
        "lengths": [len(trees) for trees in ensemble.boosters],
        "shares": list(ensemble.shares),
        "learning_rate": ensemble.learning_rate,
        "size": ensemble.size.get_params(),
    }
    trees = [tree for booster in ensemble.boosters for tree in booster]
    extra = {**state_of(model, _LEFT_OUT), "booster": about}
    save_trees(trees, path, extra=extra)


def load_booster(path: str | os.PathLike[str], model_class: type) -> Any:
    """Read a booster that `save_booster` wrote.

    Returns
    -------
    model_class
        Fitted; its predictions are those of the model that was saved.

    Raises
    ------
    ModelFileError, OSError
        See `secret_jax.tree.file.load_model`.
    """
    trees, extra = load_trees(path)
    model = with_state(path, extra, model_class, _LEFT_OUT)
    try:
        about = extra["booster"]
        size, lengths = TreeSize(**about["size"]), list(map(int, about["lengths"]))
        size.check()
        if not lengths or min(lengths) < 1 or sum(lengths) != len(trees):
            raise ValueError(
                f"its boosters should have {lengths} trees, and there are {len(trees)}"
            )
        ends = np.cumsum(lengths)
        boosters = [trees[end - n : end] for end, n in zip(ends, lengths, strict=True)]
        shares = [float(share) for share in about["shares"]]
        whole = np.isclose(sum(shares), 1.0) and min(shares) >= 0.0
        if len(shares) != len(lengths) or not whole:
            raise ValueError(f"the shares of its boosters are {shares}")
        rate = float(about["learning_rate"])
        if not np.isfinite(rate):
            raise ValueError("the learning rate is no number")
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{os.fspath(path)!r} holds no sound booster: {error}. Save it again."
        ) from None
    model.ensemble_ = ensemble_of(boosters, rate, size, shares)
    return model
