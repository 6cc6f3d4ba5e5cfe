"""Leaf models for losses other than squared error, by weighted least squares.

Every step replaces the loss by a parabola, row by row, and fits it from the same
statistics as least squares: Fisher scoring, or a step of majorisation
(McCullagh & Nelder 1989, section 2.5). The penalty is on the correction of the
parent's model, as in `secret_jax.models.ridge`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.losses.interface import Loss
from secret_jax.models.attach import described, host_statistics, inherited
from secret_jax.models.interface import LeafModel, Models
from secret_jax.models.loss_steps import corrected
from secret_jax.models.measured import measured
from secret_jax.models.row_groups import RowGroups, groups_of_levels
from secret_jax.models.statistics import NodeStatistics
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.runtime.values import at_least, real
from secret_jax.tree.structure import Tree


@dataclass(frozen=True, kw_only=True)
class LossModel(LeafModel):
    """Base of the leaf models that are fitted to a loss; a subclass names the loss.

    Attributes
    ----------
    prior : float, default=1.0
        Number of rows, in the middle of a node's, that the parent's mean prediction
        counts as: no class frequency is 0.
    gcv_factor : float, default=1.2
        Weight of a degree of freedom in choosing the ridge, see `secret_jax.Ridge`.
    n_steps : int, default=20
        Maximum number of steps of weighted least squares; converged models take no
        more.
    """

    prior: float = 1.0
    gcv_factor: float = 1.2
    n_steps: int = 20

    _parameter_constraints: ClassVar[dict] = {
        "prior": [real(0.0)],
        "gcv_factor": [real(0.0)],
        "n_steps": [at_least(1)],
    }
    needs_rows: ClassVar[bool] = True

    @property
    @abstractmethod
    def loss(self) -> Loss:
        """Loss that the models minimise."""

    def toward(self, statistics: NodeStatistics, base: np.ndarray) -> Models:
        """Raise a TypeError: statistics do not determine a loss; see `from_rows`."""
        raise TypeError(f"{type(self).__name__} is fitted to rows, not to statistics.")

    def from_rows(
        self, tree: Tree, rows: Rows, root: np.ndarray, stage: Stage = UNTOLD
    ) -> Tree:
        """Fit models of all nodes of one or several trees, from the roots down.

        Parameters
        ----------
        root : ndarray of shape (n_rows,), int
            The node where each row begins.
        stage : Stage, optional
            Receives the number of nodes that have models.
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
        """Fit the models of a group of nodes, shrunk toward given ones."""
        loss = self.loss
        if self.prior > 0:
            group = group.with_centers(loss.prediction(group.values(base)), self.prior)
        if group.x.shape[1] == 0:
            constant = self._constants(group)
            return Models(constant[:, :, None], np.ones(len(constant)))
        return corrected(loss, group, base, self.gcv_factor, self.n_steps)

    def _constants(self, group: RowGroups) -> np.ndarray:
        """Best constants of the nodes, shape (n_nodes, n_outputs)."""
        parts = map(slice, group.start, group.stop)
        return np.array(
            [
                self.loss.constant(group.targets[part], group.weight[part])
                for part in parts
            ]
        )
