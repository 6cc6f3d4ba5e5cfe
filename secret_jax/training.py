"""From what a user hands over, and an estimator's parameters, to a fitted tree.

`rows_to_train_on` checks and encodes, `parts_of` says which rows train and which prune,
`grown_tree` and `refined_tree` call the numerics with options from the parameters.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.utils import check_random_state

from secret_jax.data.device import is_resident, moments
from secret_jax.data.rows import hold_out
from secret_jax.data.table import TableSchema, learn_schema, numeric_schema
from secret_jax.data.validation import (
    name_of,
    validated,
    validated_target,
    validated_weight,
    warn_of_target_among_features,
)
from secret_jax.fitting import (
    FittedTree,
    LeafOptions,
    Rows,
    fit_tree,
    join,
    merged,
    sampled,
    with_models,
)
from secret_jax.options import (
    GrowOptions,
    MixtureOptions,
    PruneOptions,
    SplitOptions,
)
from secret_jax.parameters import is_integer
from secret_jax.refine.distillation import born_again
from secret_jax.refine.refine import refine
from secret_jax.tree.structure import Tree

# With more rows ``prune="auto"`` holds some out.
_MOST_CROSS_VALIDATED = 8192
# A tree is grown and pruned on so many samples of nodes, or on this share of the rows.
_NODE_SAMPLES = 32
_SAMPLED_SHARE = 1 / 32
# "auto" for the least rows of a split and a leaf: shares of the rows, and of the rows
# that a search sees of a node where the tree is grown on a sample.
_LEAST_SPLIT, _SAMPLED_SPLIT = 0.005, 0.5
# Smaller nodes of small tables are not worth the search: pruning cuts them off.
_LEAST_SPLIT_OF_FEW, _FEW = 0.02, 80.0
_LEAST_LEAF, _SAMPLED_LEAF = 0.0025, 0.125
# The price of a split rises from that of so many rows to this many times it for four
# times as many. Small tables need small gains, which pruning judges; large ones only
# lose time with them (measured from 250 to 300,000 rows).
_CHEAP_ROWS, _DEAREST = 1000.0, 5 / 3


class Prepared(NamedTuple):
    """Rows in the order of their hashes, and what was learned from them.

    Attributes
    ----------
    rows : Rows
        All rows, identical ones as one, or a sample of them.
    hashed : ndarray of shape (n_rows,), uint64
    schema : TableSchema
    seed : int
    everything : Rows or None
        All rows where ``rows`` are a sample.
    given : Rows or None
        Those of ``prune_set``.
    """

    rows: Rows
    hashed: np.ndarray
    schema: TableSchema
    seed: int
    everything: Rows | None
    given: Rows | None


class Parts(NamedTuple):
    """Which rows train, which prune, and how.

    Attributes
    ----------
    training : Rows
    pruning : Rows or None
        None where pruning needs no rows of its own.
    everything : Rows or None
        Rows that give the final models where the others are a sample.
    sampled_share : float
        Share of the weight of all training rows that the sample holds.
    prune : PruneOptions
    """

    training: Rows
    pruning: Rows | None
    everything: Rows | None
    sampled_share: float
    prune: PruneOptions


def rows_to_train_on(
    model: Any, X: Any, y: Any, sample_weight: Any, prune_set: Any = None
) -> Prepared:
    """Check and encode rows, and take a sample of very many.

    Parameters
    ----------
    model : SecretRegressor
        Its parameters are read; the names of the features are noted in it.
    X, y, sample_weight, prune_set
        As in ``fit``.

    Returns
    -------
    Prepared
    """
    X = validated(model, X, reset=True)
    target_name = name_of(y)
    y = validated_target(y, X)
    weight = validated_weight(sample_weight, X)
    if is_resident(X) and not _stays(model, X, weight):
        X = np.asarray(X)
    schema = _learned_schema(model, X, y, weight, target_name)
    if not is_resident(X):
        warn_of_target_among_features(X, y, schema)
    table = schema.encode(X, weight > 0)
    if not weight.all():
        y, weight = y[weight > 0], weight[weight > 0]
    given = _pruning_rows(model, prune_set, schema)
    rows = Rows(table, schema.scale_target(y), weight)
    try:
        seed = int(check_random_state(model.random_state).randint(2**31 - 1))
    except ValueError as error:
        raise ValueError(f"random_state={model.random_state!r}: {error}.") from None
    found = _sample(model, rows, seed)
    everything = None if found is None else rows
    if found is None:
        found = merged(rows, seed)
        fewer = _sample(model, found[0], seed)  # if most rows were alike
        if fewer is not None:
            everything, found = found[0], fewer
    return Prepared(*found, schema, seed, everything, given)


def _stays(model: Any, X: jax.Array, weight: np.ndarray) -> bool:
    """Whether rows on a device are worth keeping there: many plain numbers."""
    plain = model.discrete_features is None and model.split_features is None
    many = model.em_sample is not None and len(X) > _NODE_SAMPLES * model.em_sample
    return plain and many and model.leaf != "constant" and bool(weight.all())


def _learned_schema(
    model: Any, X: Any, y: np.ndarray, weight: np.ndarray, target_name: str
) -> TableSchema:
    if is_resident(X):
        measured = moments(X)
        if measured is not None:
            return numeric_schema(
                *measured,
                y,
                weight,
                allow_missing=model.missing_values != "error",
                target_name=target_name,
            )
        X = np.asarray(X)
    linear = model.criterion == "rss" and model.leaf != "constant"
    learnable = model.criterion == "rss" or model.missing_values != "learn"
    return learn_schema(
        X,
        y,
        weight,
        discrete_features=model.discrete_features,
        split_features=model.split_features,
        use_regressors=model.leaf != "constant",
        indicators=model.discrete_regressors if linear else False,
        missing=model.missing_values if learnable else "mean",
        missing_regressors=model.missing_regressors,
        target_name=target_name,
    )


def _sample(model: Any, rows: Rows, seed: int) -> tuple[Rows, np.ndarray] | None:
    """Rows that are enough to grow and prune a tree on, if there are many more."""
    if model.em_sample is None:
        return None
    n_wanted = max(_NODE_SAMPLES * model.em_sample, int(_SAMPLED_SHARE * len(rows.y)))
    return sampled(rows, n_wanted, seed) if n_wanted < len(rows.y) else None


def _pruning_rows(model: Any, prune_set: Any, schema: TableSchema) -> Rows | None:
    if prune_set is None:
        return None
    if model.prune not in ("auto", "holdout"):
        raise ValueError(
            f"prune_set was given, but prune={model.prune!r} uses no such rows. "
            "Set prune='auto' or 'holdout', or leave prune_set out."
        )
    if model.ccp_alpha is not None:
        raise ValueError(
            f"prune_set was given, and ccp_alpha={model.ccp_alpha!r}: they are two "
            "ways to choose one subtree. Leave one of them out."
        )
    if not isinstance(prune_set, tuple | list) or len(prune_set) != 2:
        raise ValueError(
            "prune_set should be a pair (X, y) of rows to prune on, got "
            f"{type(prune_set).__name__}."
        )
    try:
        X = validated(model, prune_set[0], reset=False)
        y = validated_target(prune_set[1], X)
        table = schema.encode(X)
    except ValueError as error:
        raise ValueError(f"In prune_set: {error}") from None
    return Rows(table, schema.scale_target(y), np.ones(len(y)))


def parts_of(model: Any, prepared: Prepared, *, hold_rows_out: bool = False) -> Parts:
    """Training rows, those to prune on, and how to prune.

    Parameters
    ----------
    model : SecretRegressor
    prepared : Prepared
    hold_rows_out : bool
        Whatever ``model.prune`` says.

    Returns
    -------
    Parts
    """
    rows, given, everything = prepared.rows, prepared.given, prepared.everything
    all_weight = (rows if everything is None else everything).weight.sum()
    share = float(rows.weight.sum() / all_weight)
    rule = "holdout" if hold_rows_out else model.prune
    if rule == "auto" and model.ccp_alpha is not None:
        rule = None
    if rule == "auto":
        n_rows = len(rows.y) + (0 if given is None else len(given.y))
        few = model.refit and n_rows <= _MOST_CROSS_VALIDATED
        rule = "cross-validation" if few else "holdout"
    if given is not None:
        found = _sample(model, given, prepared.seed)
        if model.refit and not (found is None and everything is None):
            everything = join(rows if everything is None else everything, given)
        given = (merged(given, prepared.seed) if found is None else found)[0]
    elif not model.refit:
        everything = None
    if rule == "cross-validation" and given is not None:
        rows, given = merged(join(rows, given), prepared.seed)[0], None
    if rule == "holdout" and given is None:
        cut = hold_out(prepared.hashed, rows.weight, model.validation_fraction)
        if cut < len(rows.y):
            rows, given = rows.take(slice(cut)), rows.take(slice(cut, None))
    options = PruneOptions(rule=rule, ccp_alpha=model.ccp_alpha)
    return Parts(rows, given, everything, share, options)


def grown_tree(model: Any, prepared: Prepared, parts: Parts) -> FittedTree:
    """Grow and prune, and grow again what was cross-validated.

    See `secret_jax.fitting.fit_tree` and `secret_jax.refine.distillation.born_again`.
    """
    progress = _print_progress if model.verbose else None

    def options(total: float) -> GrowOptions:
        return _grow_options(model, total, parts.sampled_share)

    fitted = fit_tree(
        parts.training,
        parts.pruning,
        prepared.schema,
        options,
        _leaf_options(model),
        prune=parts.prune,
        refit=model.refit,
        seed=prepared.seed,
        everything=parts.everything,
        progress=progress,
    )
    committee = len(fitted.trials) > 1 and fitted.tree.n_leaves > 1
    sampled = parts.everything is not None or parts.sampled_share < 1
    if not (model.born_again and committee) or sampled:
        return fitted
    growing = options(parts.training.weight.sum())
    if model.min_samples_leaf == "auto":
        # Points between the rows support the models of smaller leaves.
        fewest = 0.5 * growing.min_samples_leaf
        growing = replace(growing, min_samples_leaf=fewest)
    return born_again(
        fitted,
        parts.training,
        prepared.schema,
        growing,
        _leaf_options(model),
        model._born_again,
        seed=prepared.seed,
        progress=progress,
    )


def refined_tree(
    model: Any, prepared: Prepared, parts: Parts, fitted: FittedTree
) -> tuple[Tree, int]:
    """The refinement of a fitted tree, and its number of steps.

    See `secret_jax.refine.refine.refine`.
    """
    if model.refine == "soft" and parts.pruning is None and fitted.trials:
        # Gradients need rows held out for good to say when to stop.
        parts = parts_of(model, prepared, hold_rows_out=True)
        started = grown_tree(model, prepared, parts)
        fitted = started._replace(tree=fitted.tree, lesson=fitted.lesson)
    total = parts.training.weight.sum()
    if model.refit and parts.pruning is not None:
        total = total + parts.pruning.weight.sum()
    options, leaf = (
        _grow_options(model, total, parts.sampled_share),
        _leaf_options(model),
    )
    tree, n_steps = refine(
        fitted,
        method=model.refine,
        training=parts.training,
        pruning=parts.pruning,
        leaf=leaf,
        min_weight=options.min_samples_leaf,
        oblique=bool(model.oblique) and model.max_split_features is None,
        refit=model.refit,
        seed=prepared.seed,
        progress=_print_progress if model.verbose else None,
    )
    if model.refine == "hard" and n_steps and parts.everything is not None:
        tree = with_models(tree, parts.everything, prepared.schema, leaf)
    return tree, n_steps


def _leaf_options(model: Any) -> LeafOptions:
    return LeafOptions(
        kind=model.leaf,
        clip_margin=model.clip_margin,
        clip_min_weight=model.clip_min_samples,
        gcv_factor=model._rss.gcv_factor,
    )


def _grow_options(model: Any, total: float, sampled_share: float) -> GrowOptions:
    def count(value: Any, least: float) -> float:
        # Numbers of rows are of all rows, not of a sample.
        absolute = is_integer(value)
        return max(least, value * sampled_share if absolute else value * total)

    split, leaf = model.min_samples_split, model.min_samples_leaf
    # Where there are more rows than are sampled, a search need not make do with few.
    plenty = model.em_sample if sampled_share < 1 else 0
    if split == "auto":
        few = min(_LEAST_SPLIT_OF_FEW * total, _FEW)
        split = max(_LEAST_SPLIT * total, few, _SAMPLED_SPLIT * plenty)
    else:
        split = count(split, 2.0)
    if leaf == "auto":
        leaf = max(5.0, _LEAST_LEAF * total, _SAMPLED_LEAF * plenty)
    else:
        leaf = count(leaf, 1.0)
    dearer = float(np.clip(0.5 * np.log2(max(total, 1.0) / _CHEAP_ROWS), 0.0, 1.0))
    stop_factor = model._rss.stop_factor * (1.0 + dearer * (_DEAREST - 1.0))
    return GrowOptions(
        min_samples_split=split,
        min_samples_leaf=leaf,
        max_depth=model.max_depth,
        max_leaf_nodes=model.max_leaf_nodes,
        keep_mixture_models=model.leaf == "em",
        mixture=MixtureOptions(
            start=model.em_start,
            n_starts=model.n_starts,
            max_iter=model.max_iter,
            tolerance=model.tol,
            sample=model.em_sample,
        ),
        split=SplitOptions(
            criterion=model.criterion,
            oblique=model.oblique,
            gini_gain=model.gini_gain,
        ),
        rss=replace(
            model._rss,
            sample=model.em_sample,
            max_split_features=model.max_split_features,
            stop_factor=stop_factor,
        ),
    )


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
