"""Interface of leaf models: from statistics, or from rows, of nodes to their models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from secret_jax.data.rows import Rows
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import SQUARED_ERROR
from secret_jax.models.statistics import NodeStatistics
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.runtime.shapes import slice_positions
from secret_jax.runtime.values import Value, at_least, real
from secret_jax.tree.structure import Tree
from secret_jax.tree.walk import descend


class RowGroups(NamedTuple):
    """Rows of several nodes, concatenated node by node."""

    node: np.ndarray  # (n_nodes,), int
    # start, stop (n_nodes,), int.
    start: np.ndarray
    stop: np.ndarray
    slot: np.ndarray  # (n_rows,), int: position of each row's node
    x: np.ndarray  # (n_rows, n_regressors), float64
    targets: np.ndarray  # (n_rows, n_outputs), float64
    weight: np.ndarray  # (n_rows,), float64

    @classmethod
    def of(
        cls, node: np.ndarray, length: np.ndarray, *of_rows: np.ndarray
    ) -> RowGroups:
        """Groups of rows (x, targets, weight) that lie one after the other."""
        stop, slot = np.cumsum(length), np.repeat(np.arange(len(node)), length)
        return cls(node, stop - length, stop, slot, *of_rows)

    @property
    def rows(self) -> list[slice]:
        return list(map(slice, self.start, self.stop))

    @property
    def total(self) -> np.ndarray:
        """Weights of the nodes."""
        return np.add.reduceat(self.weight, self.start)

    def values(self, coefficient: np.ndarray) -> np.ndarray:
        """Raw predictions of the nodes' models for their rows, (n_rows, n_outputs)."""
        value = np.empty((len(self.slot), coefficient.shape[1]))
        for model, rows in zip(coefficient, self.rows, strict=True):
            value[rows] = model[:, 0] + self.x[rows] @ model[:, 1:].T
        return value

    def take(self, which: np.ndarray) -> tuple[RowGroups, np.ndarray]:
        """Select nodes; return also the positions of their rows."""
        start, stop = self.start[which], self.stop[which]
        row = slice_positions(start, stop)
        own = (array[row] for array in (self.x, self.targets, self.weight))
        return RowGroups.of(self.node[which], stop - start, *own), row

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Weighted sum over the rows of each node."""
        weight = self.weight.reshape((-1,) + (1,) * (values.ndim - 1))
        return np.add.reduceat(weight * values, self.start)

    def mean_losses(self, loss: Loss, value: np.ndarray) -> np.ndarray:
        """Mean losses of raw predictions in each node, (n_nodes, n_outputs)."""
        return self.sums(loss.losses(self.targets, value)) / self.total[:, None]

    def with_centers(self, prediction: np.ndarray, weight: float) -> RowGroups:
        """Add a row of some weight per node: its mean row, and mean prediction."""
        total = self.total[:, None]
        means = self.sums(self.x) / total, self.sums(prediction) / total
        x, targets = (
            np.insert(own, self.stop, mean, axis=0)
            for own, mean in zip((self.x, self.targets), means, strict=True)
        )
        of_rows = np.insert(self.weight, self.stop, weight)
        return RowGroups.of(self.node, self.stop - self.start + 1, x, targets, of_rows)


# The rows of the nodes of each level, from the roots down.
Levels = Callable[[], Iterator[RowGroups]]


def groups_of_levels(
    tree: Tree, rows: Rows, root: np.ndarray | int = 0
) -> Iterator[RowGroups]:
    """Group rows by the nodes of each level, from the node where each begins down."""
    n_regressors = tree.schema.n_regressors
    table, node = rows.table.on_host(), np.full(rows.n_rows, root)
    for level in range(int(tree.depth.max()) + 1):
        here = np.flatnonzero(tree.depth[node] == level)
        if not len(here):  # neither is there a row below
            return
        here = here[np.argsort(node[here], kind="stable")]
        occupied, length = np.unique(node[here], return_counts=True)
        x = table.x[here, :n_regressors].astype(np.float64)
        yield RowGroups.of(occupied, length, x, rows.targets[here], rows.weight[here])
        node = descend(tree, table, node, 1)


class Models(NamedTuple):
    """Linear models of several nodes, in standardised units.

    Attributes
    ----------
    coefficient : ndarray of shape (n_nodes, n_outputs, 1 + n_regressors), float64
        Intercepts and slopes.
    degrees : ndarray of shape (n_nodes,), float64
        Effective degrees of freedom that each of them spent on an output.
    corrects_parent : bool, default=True
        Whether on a correction of the parent's model, whose own then count as well, as
        far as it is left in place. False: on the whole model, whatever the parent's is.
    """

    coefficient: np.ndarray
    degrees: np.ndarray
    corrects_parent: bool = True


@dataclass(frozen=True, kw_only=True)
class LeafModel(Value, ABC):
    """Base of the leaf models; a new one is a subclass with a method `fit`.

    Attributes
    ----------
    clip_margin : float or None, default=0.1
        Predictions are clipped to the range of the outputs in their leaf, widened on
        both sides by this share of it. None: no clipping.
    clip_min_samples : int, default=50
        A leaf of less weight takes that range from the nearest ancestor with more.
    indicators : bool or "auto", default="auto"
        Whether the models see indicators of categories and of missing values. "auto":
        of those with 30 or more rows and as many others (of fewer than 600 rows,
        categories with 5 % of them, but at least 5). Only where the split finder knows
        them: `RssSplits`.
    tail_share : float, default=0.005
        A regressor with values further from its median than the range of its inner 98 %
        is wide counts as the bound beyond the quantiles of this share at both ends,
        unless a line in the values as they are errs clearly less, each row predicted
        without itself. 0: no bounds.
    drops_regressors : bool, default=True
        Whether columns whose terms add 2 % or more to the errors in held-out rows, or
        in those of the folds, are left to the splits, if a tree that is grown without
        their terms errs less there. Before growth, where there are fewer than three
        rows for each numeric regressor, only columns are looked at that the lasso
        keeps, or that explain alone more than the best of as many columns of noise;
        nine categories or more get indicators only where their means differ by more
        than chance, and are not split on where their slopes do not either. Streams,
        rows that lie on devices, and the trees under kernels keep all.
    """

    clip_margin: Annotated[float, real(0.0)] | None = 0.1
    clip_min_samples: Annotated[int, at_least(0)] = 50
    indicators: bool | Literal["auto"] = "auto"
    tail_share: Annotated[float, real(0.0, 0.5)] = 0.005
    drops_regressors: bool = True

    uses_regressors: ClassVar[bool] = True
    """False makes every continuous attribute split-only."""

    @property
    def loss(self) -> Loss:
        """Loss that it minimises."""
        return SQUARED_ERROR

    def fits_like(self, other: LeafModel) -> bool:
        """Whether both fit the same models: options of all models are not of a fit."""
        common = {field.name: getattr(self, field.name) for field in fields(LeafModel)}
        return type(self) is type(other) and replace(other, **common) == self

    @abstractmethod
    def fit(
        self,
        statistics: NodeStatistics,
        parent: Float[np.ndarray, "n_nodes n_outputs _"],
    ) -> Models:
        """Fit models of any nodes, given those of their parents: zero at a root."""

    def fit_tree(
        self,
        tree: Tree,
        statistics: NodeStatistics,
        levels: Levels,
        stage: Stage = UNTOLD,
    ) -> Models:
        """Fit models of all nodes of one or several trees, from the roots down.

        ``levels`` yields the rows of the nodes of each, if statistics are not enough.
        """
        n_nodes, width = tree.n_nodes, 1 + statistics.n_regressors
        coefficient = np.zeros((n_nodes, statistics.n_outputs, width))
        degrees, corrects, done = np.zeros(n_nodes), True, 0
        for level in range(tree.depth.max() + 1):
            node = np.flatnonzero(tree.depth == level)
            parent = coefficient[tree.parent[node]] if level else coefficient[node]
            models = fitted_models(self, statistics.take(node), parent)
            coefficient[node], degrees[node], corrects = models
            done += len(node)
            stage.at(done, n_nodes)
        return Models(coefficient, degrees, corrects)


def fitted_models(
    leaf: LeafModel,
    statistics: NodeStatistics,
    parent: Float[np.ndarray, "n_nodes n_outputs _"],
) -> Models:
    """Fit models of several nodes, and refuse what are none."""
    models, name = leaf.fit(statistics, parent), f"{type(leaf).__name__}.fit"
    if not isinstance(models, Models):
        raise TypeError(
            f"{name} returned {type(models).__name__}. Return Models(coefficient, "
            "degrees) of secret_jax.models.interface."
        )
    given = np.shape(models.coefficient), np.shape(models.degrees)
    if given != (parent.shape, parent.shape[:1]):
        raise ValueError(
            f"{name} returned coefficients and degrees of shapes {given[0]} and "
            f"{given[1]}. Return {parent.shape}, that of the parents' models, and "
            f"{parent.shape[:1]}."
        )
    occupied = statistics.weight > 0
    for part in (models.coefficient, models.degrees):
        if not np.isfinite(np.asarray(part)[occupied]).all():
            raise ValueError(
                f"{name} returned NaN or infinity for a node with rows. A regressor "
                "need not vary in a node: do not divide by its variance then."
            )
    return models
