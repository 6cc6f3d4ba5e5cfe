"""How much of a tree stays when it is grown on other rows of the same kind.

The tree is fitted again on resamples of the rows, and what the new trees split on is
counted (Philipp, Zeileis & Strobl, A Toolkit for Stability Assessment of Tree-Based
Learners, COMPSTAT 2016); how far their predictions lie apart is measured as well. A
resample is a set of integer weights. A row that is drawn twice weighs two, but is one
row: were its copies to judge each other, trees would grow far too large.
"""

import math
import warnings
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.validation import copies_of, validated_weight
from secret_jax.inspect.arguments import check_choice, check_share
from secret_jax.inspect.classes import Classes, with_all_classes
from secret_jax.inspect.stability import SplitColumns, Stability
from secret_jax.runtime.parallel import one_thread_for_products
from secret_jax.runtime.progress import Stage
from secret_jax.runtime.progress_line import shown
from secret_jax.runtime.values import is_integer

Method = Literal["bootstrap", "subsample"]


def stability(
    model: Any,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    n_resamples: int = 30,
    method: Method = "bootstrap",
    fraction: float = 0.8,
    random_state: Any = None,
) -> Stability:
    """Fit a model again on resamples of rows, and compare the trees.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_rows, n_features)
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        The rows that the model was fitted on, or others like them.
    sample_weight : array-like of shape (n_rows,), optional
        Integers count as so many rows, which are drawn one by one.
    n_resamples : int, default=30
        At least 2.
    method : {"bootstrap", "subsample"}, default="bootstrap"
        As many rows as there are, drawn with replacement; or a ``fraction`` of them,
        drawn without.
    fraction : float, default=0.8
        In (0, 1).
    random_state : int, RandomState instance or None
        Draws the rows.

    Raises
    ------
    ValueError
        If a parameter means nothing, or the rows cannot be used.
    """
    check_is_fitted(model)
    if not is_integer(n_resamples) or n_resamples < 2:
        raise ValueError(f"n_resamples is {n_resamples}; give at least 2.")
    check_choice("method", method, ("bootstrap", "subsample"))
    check_share("fraction", fraction)
    tree, targets = model.tree_, model._targets(y, X, np.ones(len(X))).values
    if targets.shape[1] != tree.n_outputs:
        raise ValueError(
            f"y has {targets.shape[1]} output(s), but the tree has {tree.n_outputs}. "
            "Give the targets that it was fitted on."
        )
    weight = validated_weight(sample_weight, X)
    random = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    resamples, predictions = [], []
    with shown(model.verbose) as progress:
        stage = Stage("fitting on resamples", progress)
        for done in range(n_resamples):
            stage.at(done, n_resamples, f"{done + 1} of {n_resamples}")
            drawn, copies = resampled(weight, random, method, fraction)
            again: Any = clone(model)
            again.set_params(verbose=0)
            with warnings.catch_warnings(), one_thread_for_products():
                # What a resample lacks is no news to whoever has all rows.
                warnings.simplefilter("ignore", UserWarning)
                again._fit(again._plan(), X, y, drawn, copies=copies)
                predictions.append(again._outputs(X).reshape(targets.shape))
            resamples.append(SplitColumns.of(again.tree_))
    apart = np.average(np.std(predictions, axis=0), axis=0, weights=weight)
    classes, equal = Classes.of_estimator(model), math.nan
    if classes is None:
        mean = np.average(targets, axis=0, weights=weight)
        spread = np.sqrt(np.average((targets - mean) ** 2, axis=0, weights=weight))
        apart = apart / np.where(spread > 0, spread, 1.0)
    else:
        every = [model._outputs(X).reshape(targets.shape), *predictions]
        chosen = np.array([classes.chosen(with_all_classes(one)) for one in every])
        same = (chosen[1:] == chosen[0]).mean(axis=0)
        equal = float(np.average(same, weights=weight))
    return Stability(
        names=tuple(map(str, tree.schema.names)),
        original=SplitColumns.of(tree),
        resamples=resamples,
        target_names=tree.schema.target_names,
        deviation=apart,
        equal_classes=equal,
    )


def resampled(
    weight: np.ndarray,
    random: np.random.Generator,
    method: Method = "bootstrap",
    fraction: float = 0.8,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows: their weights, 0 for those not drawn, and how many of them differ.

    Where all weights are integers, a row stands for so many, and each of them is drawn
    by itself; with replacement as many differ as are to be expected. Otherwise rows are
    drawn and keep their weights.
    """
    whole = bool(np.equal(np.mod(weight, 1), 0).all())
    copies = weight.astype(np.int64) if whole else (weight > 0).astype(np.int64)
    total = int(copies.sum())
    if method == "bootstrap":
        drawn = random.multinomial(total, copies / total)
    else:
        size = max(1, round(fraction * total))
        drawn = random.multivariate_hypergeometric(copies, size, method="marginals")
    drawn = drawn.astype(np.float64) if whole else drawn * weight
    copies, different = np.maximum(copies_of(weight), 1), copies_of(drawn)
    if method == "bootstrap":
        different = np.rint(copies * (1.0 - (1.0 - 1.0 / copies) ** different))
    return drawn, np.clip(different, 1, copies).astype(np.int64)
