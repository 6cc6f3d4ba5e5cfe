"""Leaf models for losses other than the squared one, by weighted least squares.

Every step puts a parabola in place of the loss, row by row, and fits it from the same
statistics as least squares does: Fisher scoring, or a step of majorisation
(McCullagh & Nelder 1989, section 2.5). What is penalised is the correction of the
parent's model, as in `secret_jax.models.ridge`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.losses.interface import Loss
from secret_jax.models.attach import described, host_statistics, inherited, roots
from secret_jax.models.interface import LeafModel, Models
from secret_jax.models.ridge import shrunken
from secret_jax.models.statistics import NodeStatistics, slice_statistics
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.runtime.values import at_least, real
from secret_jax.tree.routing import descend
from secret_jax.tree.structure import Tree

# A step moves the value of a row by no more than this: parabolas hold nearby.
_LONGEST_STEP = 4.0
# Regressors are standardised over the table: a smaller variance is rounding.
_CONSTANT = 1e-12
# Values that move less than this have settled.
_SETTLED = 1e-3


@dataclass(frozen=True, kw_only=True)
class LossModel(LeafModel):
    """Base of the leaf models that are fitted to a loss; a subclass names the loss.

    Attributes
    ----------
    prior : float, default=5.0
        The parent's prediction counts as so many rows: no share of a class is 0.
    gcv_factor : float, default=2.0
        Of the choice of the ridge, see `secret_jax.Ridge`.
    n_steps : int, default=6
        Most steps of weighted least squares.
    """

    prior: float = 5.0
    gcv_factor: float = 2.0
    n_steps: int = 6

    _parameter_constraints: ClassVar[dict] = {
        **LeafModel._parameter_constraints,
        "prior": [real(0.0)],
        "gcv_factor": [real(0.0)],
        "n_steps": [at_least(1)],
    }
    needs_rows: ClassVar[bool] = True

    @property
    @abstractmethod
    def loss(self) -> Loss:
        """What the models are fitted to."""

    def toward(self, statistics: NodeStatistics, base: np.ndarray) -> Models:
        """Statistics alone do not tell a loss; see `from_rows`."""
        raise TypeError(f"{type(self).__name__} is fitted to rows, not to statistics.")

    def from_rows(
        self, tree: Tree, rows: Rows, root: np.ndarray, stage: Stage = UNTOLD
    ) -> Tree:
        """Models of all nodes of a tree, or of trees side by side, from the roots down.

        Parameters
        ----------
        tree : Tree
        rows : Rows
        root : ndarray of shape (n_rows,), int
            The node where each row begins.
        stage : Stage, optional
            Told how many nodes have their models.

        Returns
        -------
        Tree
        """
        statistics = host_statistics(tree, rows, root)
        shape = (tree.n_nodes, rows.targets.shape[1], 1 + statistics.n_regressors)
        coefficient, degrees = np.zeros(shape), np.zeros(tree.n_nodes)
        done = 0
        for group in groups_of_levels(tree, rows, root):
            parent = tree.parent[group.node]
            base = coefficient[parent]
            base[parent < 0] = 0.0
            base[parent < 0, :, 0] = self._constants(group)[parent < 0]
            found = self._fitted(group, base)
            coefficient[group.node], degrees[group.node] = found
            done += len(group.node)
            stage.at(done, tree.n_nodes)
        coefficient = inherited(coefficient, statistics.weight > 0, tree.parent)
        tree = described(tree, statistics, Models(coefficient, degrees), self)
        return measured(replace(tree, loss=self.loss), rows, root, self)

    def _fitted(self, group: RowGroups, base: np.ndarray) -> Models:
        """Models of the nodes of a group that correct given ones."""
        loss, weight = self.loss, group.weight
        said = loss.prediction(group.values(base))
        total = np.add.reduceat(weight, group.start)[group.slot, None]
        targets = (total * group.targets + self.prior * said) / (total + self.prior)
        if group.x.shape[1] == 0:
            constant = self._constants(group._replace(targets=targets))
            return Models(constant[:, :, None], np.ones(len(constant)))
        coefficient, degrees = base.copy(), np.ones((len(base), targets.shape[1]))
        value = group.values(coefficient)
        penalties: list[np.ndarray] = []
        for output in range(targets.shape[1]):
            # How strong the ridge is, is decided where the parent's model stands:
            # parabolas at a good fit would let it become better and better.
            statistics = _working_statistics(loss, group, targets, value, output)
            mean = statistics.weight / total[group.start, 0]
            unit = np.where(mean > 0, mean, 1.0)
            scaled = statistics._replace(
                weight=statistics.weight / unit,
                scatter=statistics.scatter / unit[:, None, None],
            )
            found = shrunken(scaled, base[:, output], self.gcv_factor)
            degrees[:, output] = found.degrees
            variance = np.einsum("nii->ni", statistics.scatter)[:, :-1]
            strength = np.repeat(found.strength[:, None], variance.shape[1], axis=1)
            strength[variance > 0] *= variance[variance > 0]
            penalties.append(strength)
        for _ in range(self.n_steps):
            before = value.copy()
            for output, penalty in enumerate(penalties):
                statistics = _working_statistics(loss, group, targets, value, output)
                coefficient[:, output] = _penalised(
                    statistics, base[:, output], penalty
                )
                value[:, output] = group.values(coefficient, output)
            if np.abs(value - before).max() < _SETTLED:
                break
        return Models(coefficient, degrees.mean(axis=1))

    def _constants(self, group: RowGroups) -> np.ndarray:
        """The best constants of the nodes, shape (n_nodes, n_outputs)."""
        parts = map(slice, group.start, group.stop)
        return np.array(
            [
                self.loss.constant(group.targets[part], group.weight[part])
                for part in parts
            ]
        )


def _working_statistics(
    loss: Loss, group: RowGroups, targets: np.ndarray, value: np.ndarray, output: int
) -> NodeStatistics:
    """Of the regressors and the values that the next step of a loss aims at."""
    slope, curvature = loss.working(targets, value, output)
    # A steeper parabola takes a shorter step, and both are still where slopes are.
    curvature = np.maximum(curvature, np.abs(slope) / _LONGEST_STEP)
    step = slope / curvature
    return slice_statistics(
        group.x,
        None,
        (value[:, output] + step)[:, None],
        group.weight * curvature,
        group.x.shape[1],
        np.arange(len(group.weight)),
        group.start,
        group.stop,
    )


def _penalised(
    statistics: NodeStatistics, base: np.ndarray, penalty: np.ndarray
) -> np.ndarray:
    """Least squares with a price for what differs from the slopes of given models.

    Parameters
    ----------
    statistics : NodeStatistics
        Of one output.
    base : ndarray of shape (n_nodes, 1 + n_regressors)
    penalty : ndarray of shape (n_nodes, n_regressors)
        Of every squared difference; infinite: it stays.

    Returns
    -------
    ndarray of shape (n_nodes, 1 + n_regressors), float64
    """
    mean, scatter = statistics.mean, statistics.scatter
    slopes, gram = base[:, 1:], scatter[:, :-1, :-1]
    moment = scatter[:, :-1, -1] - np.einsum("nij,nj->ni", gram, slopes)
    # What does not vary, or must not change, gets a row of the identity.
    varies = np.einsum("nii->ni", gram) > _CONSTANT * statistics.weight[:, None]
    free = varies & np.isfinite(penalty)
    both = free[:, :, None] & free[:, None, :]
    gram = np.where(both, gram, 0.0)
    n = np.arange(gram.shape[1])
    gram[:, n, n] += np.where(free, penalty, 1.0)
    correction = np.linalg.solve(gram, np.where(free, moment, 0.0)[:, :, None])[..., 0]
    found = slopes + correction
    constant = mean[:, -1] - np.einsum("ni,ni->n", found, mean[:, :-1])
    return np.concatenate([constant[:, None], found], axis=1)


class RowGroups(NamedTuple):
    """The rows of several nodes, one node after the other.

    Attributes
    ----------
    node : ndarray of shape (n_nodes,), int
    start, stop : ndarray of shape (n_nodes,), int
    slot : ndarray of shape (n_rows,), int
        Which of the nodes each row is in.
    x : ndarray of shape (n_rows, n_regressors), float64
    targets : ndarray of shape (n_rows, n_outputs), float64
    weight : ndarray of shape (n_rows,), float64
    """

    node: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    slot: np.ndarray
    x: np.ndarray
    targets: np.ndarray
    weight: np.ndarray

    def values(self, coefficient: np.ndarray, output: int | None = None) -> np.ndarray:
        """What models of the nodes say of their rows: of all outputs, or of one."""
        own = coefficient if output is None else coefficient[:, output : output + 1]
        value = np.empty((len(self.slot), own.shape[1]))
        for model, first, last in zip(own, self.start, self.stop, strict=True):
            value[first:last] = model[:, 0] + self.x[first:last] @ model[:, 1:].T
        return value if output is None else value[:, 0]


def groups_of_levels(tree: Tree, rows: Rows, root: np.ndarray) -> Iterator[RowGroups]:
    """The nodes of a tree, or of trees side by side, that have rows, level by level."""
    n_regressors = tree.schema.n_regressors
    table, node = rows.table.on_host(), np.array(root)
    for level in range(int(tree.depth.max()) + 1):
        here = np.flatnonzero(tree.depth[node] == level)
        here = here[np.argsort(node[here], kind="stable")]
        occupied, start, slot = np.unique(
            node[here], return_index=True, return_inverse=True
        )
        yield RowGroups(
            node=occupied,
            start=start,
            stop=np.append(start, len(here))[1:],
            slot=slot,
            x=table.x[here, :n_regressors].astype(np.float64),
            targets=rows.targets[here],
            weight=rows.weight[here],
        )
        node = descend(tree, table, node, 1)


def measured(tree: Tree, rows: Rows, root: np.ndarray, leaf: LeafModel) -> Tree:
    """A tree with a loss, with errors and ranges of its models on rows.

    Parameters
    ----------
    tree : Tree
        With models, and the weights of the nodes.
    rows : Rows
    root : ndarray of shape (n_rows,), int
    leaf : LeafModel
        How values are clipped.

    Returns
    -------
    Tree
        Its errors are mean losses; values are clipped to those of the node's rows, and
        where these are few to those of the nearest ancestor with enough as well.
    """
    assert tree.loss is not None
    error = np.zeros((tree.n_nodes, tree.n_outputs))
    lower, upper = np.full(error.shape, np.inf), np.full(error.shape, -np.inf)
    for group in groups_of_levels(tree, rows, root):
        value = group.values(tree.coefficient[group.node])
        losses = group.weight[:, None] * tree.loss.losses(group.targets, value)
        total = np.add.reduceat(group.weight, group.start)[:, None]
        error[group.node] = np.add.reduceat(losses, group.start) / total
        lower[group.node] = np.minimum.reduceat(value, group.start)
        upper[group.node] = np.maximum.reduceat(value, group.start)
    weight = tree.weight
    of_root = weight[roots(tree)]
    enough = (weight >= np.minimum(leaf.clip_min_samples, of_root)) & (weight > 0)
    return replace(
        tree,
        train_error=error,
        lower=np.minimum(lower, inherited(lower, enough, tree.parent)),
        upper=np.maximum(upper, inherited(upper, enough, tree.parent)),
    )


def recentred(short: Tree, full: Tree, rows: Rows, leaf: LeafModel) -> Tree:
    """A tree with short equations, at the level of its full ones, measured again.

    Two steps of weighted least squares for the constants bring the mean prediction in
    every node back to that of the full model; models that say no means are at their
    level already.

    Parameters
    ----------
    short, full : Tree
        The same nodes.
    rows : Rows
    leaf : LeafModel
        How values are clipped.

    Returns
    -------
    Tree
    """
    loss = short.loss
    assert loss is not None
    root, coefficient = np.zeros(rows.n_rows, int), short.coefficient.copy()
    if not loss.predicts_means:
        return measured(short, rows, root, leaf)
    for group in groups_of_levels(short, rows, root):
        said = loss.prediction(group.values(full.coefficient[group.node]))
        for _ in range(2):
            for output in range(short.n_outputs):
                value = group.values(coefficient[group.node])
                slope, curvature = loss.working(said, value, output)
                step = np.add.reduceat(group.weight * slope, group.start)
                step /= np.add.reduceat(group.weight * curvature, group.start)
                coefficient[group.node, output, 0] += np.clip(
                    step, -_LONGEST_STEP, _LONGEST_STEP
                )
    return measured(replace(short, coefficient=coefficient), rows, root, leaf)
