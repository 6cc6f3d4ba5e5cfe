"""Growth of the trees of ensembles, many at once from one frontier.

Friedman's (2002) stochastic gradient boosting, with models in the leaves. Only
the target changes from round to round: the encoded table stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.fit.grow.frontier import Root
from secret_jax.fit.grow.grower import grown
from secret_jax.fit.grow.search import GrowOptions
from secret_jax.fit.grow.trees import with_leaf_models
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import SQUARED_ERROR
from secret_jax.models.errors import weighted_errors
from secret_jax.models.fitting import fit_models
from secret_jax.models.glm import Logistic
from secret_jax.models.ridge import Ridge
from secret_jax.runtime.hashing import mix
from secret_jax.splits.rss import RssSplits
from secret_jax.tree.routing import values
from secret_jax.tree.structure import Tree

# Cheaper than the search of a single tree: later trees mend what it misses, and nobody
# reads their splits.
SPLITS = RssSplits(
    n_hessian=1,
    n_finalists=1,
    n_thresholds=8,
    sparse_terms=(),
    least_share=1 / 16,
    max_samples=512,
)
# Of boosters: fewer steps are as accurate where one tree mends another; with one
# finalist of eight thresholds they err 2 % more, and take no less time.
BOOSTER_SPLITS = replace(
    SPLITS,
    n_finalists=3,
    n_thresholds=16,
    hinge_steps=1,
    max_split_features=None,
    max_samples=2048,
)
# Maximum number of rows of a booster's tree, and least weight of a leaf of it.
_MOST_ROWS, _LEAST_WEIGHT = 1 << 14, 5.0
# The greatest curvature of cross-entropy, of two classes and of more.
_OF_TWO, _OF_MORE = 0.25, 0.5


@dataclass(frozen=True, kw_only=True)
class BoostOptions:
    """Options of a fit of boosters."""

    max_leaf_nodes: int
    learning_rate: float  # share of each tree but the first in the prediction
    subsample: float  # share of a booster's rows that each tree sees
    loss: Loss
    seed: int
    # Maximum number of rounds, or with ``early_stopping=False`` their number.
    max_iter: int
    early_stopping: bool
    n_iter_no_change: int  # rounds without a lower error on held-out rows to stop after
    n_folds: int
    ensemble: bool  # whether the boosters of the folds are part of the model


def grown_with_models(
    rows: Rows,
    schema: TableSchema,
    roots: Sequence[Root],
    finder: RssSplits,
    *,
    max_leaf_nodes: int | None = None,
    max_features: int | None = None,
) -> list[Tree]:
    """Grow trees with linear models in their leaves, on the roots' weights."""
    options = GrowOptions(
        finder=finder,
        sample=finder.max_samples,
        min_gain=0.0,
        max_leaf_nodes=max_leaf_nodes,
        max_features=max_features,
        in_batches=True,
        models_of_all=True,
    )
    found = grown(rows, schema, options, roots)
    training = [root.rows_of(rows) for root in roots]
    leaves = [each.leaf for each in found]
    return with_leaf_models(found, training, Ridge(), Ridge(), leaves=leaves)


@dataclass(eq=False, kw_only=True)
class Booster:
    """Sum of trees while it grows."""

    key: int  # which rows its trees see
    training: np.ndarray  # (n_training,), int: rows of the table that train it, rising
    held_out: np.ndarray  # (n_held_out,), int: rows that judge it
    # (n_rows, n_outputs), float64: predictions for all rows of the table, in
    # standardised units.
    prediction: np.ndarray
    trees: list[Tree] = field(default_factory=list)  # the first is a single leaf


def add_round(
    boosters: Sequence[Booster],
    rows: Rows,
    schema: TableSchema,
    options: BoostOptions,
) -> None:
    """Grow the next tree of every booster, all together."""
    roots = [_root(booster, rows, options) for booster in boosters]
    trees = grown_with_models(rows, schema, roots, BOOSTER_SPLITS)
    is_first = not boosters[0].trees
    step = 1.0 if is_first else options.learning_rate
    if is_first and options.loss.labels(schema.target_names) is not None:
        trees = _started(trees, [rows.take(root.rows) for root in roots])
    for booster, tree in zip(boosters, trees, strict=True):
        booster.trees.append(tree)
        booster.prediction = booster.prediction + step * values(tree, rows.table)


def total_error(loss: Loss, rows: Rows, value: np.ndarray) -> float:
    """Total weighted loss of rows at raw predictions (n_rows, n_outputs), float64.

    Squared errors are averaged over the outputs.
    """
    total = float(weighted_errors(value, rows, loss).sum())
    return total / (value.shape[1] if loss == SQUARED_ERROR else 1)


def _root(booster: Booster, rows: Rows, options: BoostOptions) -> Root:
    part = _rows_of_tree(booster, options)
    targets, weight = options.loss.steps(
        rows.targets[part], booster.prediction[part], rows.weight[part]
    )
    return Root(
        rows=part,
        min_split_weight=2 * _LEAST_WEIGHT,
        min_leaf_weight=_LEAST_WEIGHT,
        key=key_of(booster.key, len(booster.trees)),
        weight=weight,
        targets=targets,
        max_leaf_nodes=options.max_leaf_nodes if booster.trees else 1,
    )


def key_of(*numbers: int) -> int:
    """Key of a root from numbers."""
    return int(mix(np.array(numbers, np.uint64)).sum() >> np.uint64(1))


def _rows_of_tree(booster: Booster, options: BoostOptions) -> np.ndarray:
    """Draw rows of a booster without replacement; all rows for its first tree."""
    n_rows = len(booster.training)
    share = options.subsample if booster.trees else 1.0
    wanted = min(max(round(share * n_rows), 1), _MOST_ROWS)
    if wanted == n_rows:
        return booster.training
    random = np.random.default_rng([options.seed, booster.key, len(booster.trees)])
    chosen = random.choice(n_rows, wanted, replace=False, shuffle=False)
    return booster.training[np.sort(chosen)]


def _started(trees: Sequence[Tree], parts: Sequence[Rows]) -> list[Tree]:
    """Fit logistic regressions as single leaves: the first models of classifiers.

    Their errors are in the units of the steps of further trees.
    """
    new = []
    for tree, rows in zip(fit_models(trees, parts, Logistic()), parts, strict=True):
        probability = tree.loss.prediction(values(tree, rows.table).astype(np.float64))
        share = rows.weight / rows.weight.sum()
        greatest = _OF_TWO if tree.n_outputs == 1 else _OF_MORE
        error = share @ (rows.targets - probability) ** 2 / greatest**2
        new.append(
            replace(
                tree,
                loss=SQUARED_ERROR,
                train_error=error[None],
                deviation=tree.deviation / greatest,
            )
        )
    return new
