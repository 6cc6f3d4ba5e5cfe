"""Growth of the small trees of ensembles, many at once from one frontier.

Friedman's (2002) stochastic gradient boosting, with models in the leaves. Only
the target changes from round to round: the encoded table stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.ensemble.options import BoostOptions, TreeSize
from secret_jax.grow.bins import Bins
from secret_jax.grow.frontier import Root
from secret_jax.grow.grower import grown
from secret_jax.grow.search import GrowOptions
from secret_jax.grow.trees import with_leaf_models
from secret_jax.learners.cart import CartSplits
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import SQUARED_ERROR
from secret_jax.models.errors import weighted_errors
from secret_jax.models.fitting import fit_models
from secret_jax.models.glm import Logistic
from secret_jax.models.linear import Constant
from secret_jax.models.ridge import Ridge
from secret_jax.runtime.devices import on_accelerator
from secret_jax.runtime.hashing import mix
from secret_jax.splits.rss import RssSplits
from secret_jax.tree.routing import values
from secret_jax.tree.structure import Tree

# Cheaper than the search of a single tree: later trees mend what it misses, and nobody
# reads their splits.
SPLITS = RssSplits(n_hessian=1, n_finalists=3, sparse_terms=())
# Maximum number of rows of a booster's tree.
_MOST_ROWS = 1 << 14
# The greatest curvature of cross-entropy, of two classes and of more.
_OF_TWO, _OF_MORE = 0.25, 0.5


def bins_of(rows: Rows, schema: TableSchema) -> Bins | None:
    """Bins of a table for the trees of an ensemble; none for an accelerator."""
    return None if on_accelerator() else Bins.of(rows.table.on_host(), schema)


def grown_with_models(
    rows: Rows,
    schema: TableSchema,
    bins: Bins | None,
    roots: Sequence[Root],
    *,
    max_leaf_nodes: int | None = None,
    max_features: int | None = None,
) -> list[Tree]:
    """Grow small trees, with models in their leaves, on the roots' weights."""
    trees: list[Tree | None] = [None] * len(roots)
    options = GrowOptions(
        finder=SPLITS,
        min_gain=0.0,
        max_leaf_nodes=max_leaf_nodes,
        max_features=max_features,
        in_batches=True,
        smallest_sample=128,
        batch_rows=1 << 13,
    )
    found = None
    if bins is not None:
        found = grown(rows, schema, options, roots, bins=bins)
    for constant, leaf in ((False, Ridge()), (True, Constant())):
        which = [i for i, root in enumerate(roots) if root.constant == constant]
        if not which:
            continue
        alike = [roots[i] for i in which]
        if found is not None:
            part = [found[i] for i in which]
        else:
            finder = CartSplits(n_thresholds=16) if constant else SPLITS
            part = grown(rows, schema, replace(options, finder=finder), alike)
        training = [root.rows_of(rows) for root in alike]
        leaves = [each.leaf for each in part if each.leaf is not None]
        fitted = with_leaf_models(part, training, leaf, leaf, leaves=leaves)
        for i, tree in zip(which, fitted, strict=True):
            trees[i] = tree
    return [tree for tree in trees if tree is not None]


@dataclass(eq=False, kw_only=True)
class Booster:
    """Sum of trees while it grows."""

    size: TreeSize
    key: int  # which rows its trees see: boosters of one key see the same
    training: np.ndarray  # (n_training,), int: rows of the table that train it, rising
    held_out: np.ndarray  # (n_held_out,), int: rows that judge it
    # (n_rows, n_outputs), float64: predictions for all rows of the table, in
    # standardised units.
    prediction: np.ndarray
    trees: list[Tree] = field(default_factory=list)  # the first is a single leaf
    # Total loss on the held-out rows after each tree.
    losses: list[float] = field(default_factory=list)


class Candidate(NamedTuple):
    """Boosters of one tree size."""

    size: TreeSize
    folds: list[Booster]  # each has not seen its held-out rows
    # Of all rows that train; without folds it may have held-out rows itself.
    whole: Booster

    @property
    def boosters(self) -> list[Booster]:
        """All boosters."""
        return [*self.folds, self.whole]

    @property
    def judged(self) -> list[Booster]:
        """Boosters with held-out rows."""
        return self.folds or [self.whole]

    @property
    def n_rounds(self) -> int:
        """Number of rounds so far; the first tree, a single leaf, is not counted."""
        return len(self.whole.trees) - 1

    @property
    def errors(self) -> np.ndarray:
        """Total loss on held-out rows after each round, the first without any."""
        return np.sum([booster.losses for booster in self.judged], axis=0)

    @property
    def least(self) -> float:
        """Least error so far."""
        return float(self.errors.min())

    @property
    def best_round(self) -> int:
        """Round of the least error."""
        return int(self.errors.argmin())

    def is_done(self, options: BoostOptions, measured: bool) -> bool:
        """Whether no more rounds are needed."""
        stop = options.early_stopping and measured and self.n_rounds >= 0
        stalled = stop and self.n_rounds - self.best_round >= options.patience
        return self.n_rounds >= options.max_iter or stalled


def add_round(
    boosters: Sequence[Booster],
    rows: Rows,
    schema: TableSchema,
    options: BoostOptions,
    bins: Bins | None,
) -> None:
    """Grow the next tree of every booster, all together.

    An interruption leaves all boosters unchanged.
    """
    new: list[tuple[Booster, Tree, np.ndarray, float]] = []
    for first in (True, False):
        group = [booster for booster in boosters if first != bool(booster.trees)]
        if not group:
            continue
        roots = [_root(booster, rows, options) for booster in group]
        trees = grown_with_models(rows, schema, bins, roots)
        if first and options.loss.labels(schema.target_names) is not None:
            trees = _started(trees, [rows.take(root.rows) for root in roots])
        for booster, tree in zip(group, trees, strict=True):
            step = options.learning_rate if booster.trees else 1.0
            prediction = booster.prediction + step * values(tree, rows.table)
            judges, said = rows.take(booster.held_out), prediction[booster.held_out]
            error = total_error(options.loss, judges, said)
            new.append((booster, tree, prediction, error))
    for booster, tree, prediction, error in new:
        booster.trees.append(tree)
        booster.prediction = prediction
        booster.losses.append(error)


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
    least = booster.size.least_weight(float(rows.weight[part].sum()))
    return Root(
        rows=part,
        min_split_weight=2 * least,
        min_leaf_weight=least,
        oblique=booster.size.oblique,
        key=key_of(booster.key, len(booster.trees)),
        weight=weight,
        targets=targets,
        max_leaf_nodes=booster.size.max_leaf_nodes if booster.trees else 1,
        constant=booster.size.leaf == "constant",
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
