"""Interface of leaf models: values that turn sufficient statistics into models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float

from secret_jax.data.rows import Rows
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import SQUARED_ERROR
from secret_jax.models.statistics import NodeStatistics
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.runtime.values import Value, at_least, real
from secret_jax.tree.structure import Tree


class Models(NamedTuple):
    """Linear models of several nodes.

    Attributes
    ----------
    coefficient : ndarray of shape (n_nodes, n_outputs, 1 + n_regressors), float64
        Intercept and slopes, in standardised units.
    degrees : ndarray of shape (n_nodes,), float64
        Effective degrees of freedom that each of them spent on an output.
    """

    coefficient: np.ndarray
    degrees: np.ndarray


@dataclass(frozen=True, kw_only=True)
class LeafModel(Value, ABC):
    """Base of the leaf models; a new one is a subclass with a method `toward`.

    Attributes
    ----------
    clip_margin : float or None, default=0.1
        Predictions are clipped to the range of the outputs in their leaf, widened on
        both sides by this share of it. None: no clipping.
    clip_min_samples : int, default=50
        A leaf of less weight takes that range from the nearest ancestor with more.
    """

    clip_margin: float | None = 0.1
    clip_min_samples: int = 50

    _parameter_constraints: ClassVar[dict] = {
        "clip_margin": [real(0.0), None],
        "clip_min_samples": [at_least(0)],
    }
    uses_regressors: ClassVar[bool] = True
    """False makes every continuous attribute split-only."""
    corrects_parent: ClassVar[bool] = True
    """Whether its degrees of freedom are those of corrections of parents' models."""
    needs_rows: ClassVar[bool] = False
    """Whether it is fitted to rows, by `from_rows`: statistics are not enough."""

    @property
    def loss(self) -> Loss:
        """Loss that it minimises."""
        return SQUARED_ERROR

    @abstractmethod
    def toward(
        self, statistics: NodeStatistics, base: Float[np.ndarray, "n_nodes n_outputs _"]
    ) -> Models:
        """Fit models of several nodes, given those of their parents.

        Parameters
        ----------
        statistics : NodeStatistics
            Statistics of any nodes; pruning needs a model in every node of a tree.
        base : ndarray of shape (n_nodes, n_outputs, 1 + n_regressors)
            Models of their parents; zero at a root.

        Returns
        -------
        Models
        """

    def fit(
        self, statistics: NodeStatistics, tree: Tree, stage: Stage = UNTOLD
    ) -> Models:
        """Fit models of all nodes of one or several trees, from the roots down.

        Parameters
        ----------
        statistics : NodeStatistics
        tree : Tree
            Its links are read.
        stage : Stage, optional
            Receives the number of nodes that have models.

        Returns
        -------
        Models
        """
        n_nodes, width = len(tree.parent), 1 + statistics.n_regressors
        coefficient = np.zeros((n_nodes, statistics.n_outputs, width))
        degrees = np.zeros(n_nodes)
        done = 0
        for level in range(tree.depth.max() + 1):
            node = np.flatnonzero(tree.depth == level)
            base = coefficient[tree.parent[node]] if level else coefficient[node]
            found = self.toward(statistics.take(node), base)
            coefficient[node], degrees[node] = found
            done += len(node)
            stage.at(done, n_nodes)
        return Models(coefficient, degrees)

    def from_rows(
        self, tree: Tree, rows: Rows, root: np.ndarray, stage: Stage = UNTOLD
    ) -> Tree:
        """Fit the models of a tree, or of concatenated trees, to rows.

        Parameters
        ----------
        tree : Tree
        rows : Rows
        root : ndarray of shape (n_rows,), int
            The node where each row begins.
        stage : Stage, optional
            Receives the number of nodes that have models.

        Returns
        -------
        Tree
        """
        raise NotImplementedError(f"{type(self).__name__} needs no rows.")


def squared_errors(
    statistics: NodeStatistics, coefficient: Float[np.ndarray, "n_nodes n_outputs _"]
) -> Float[np.ndarray, "n_nodes n_outputs"]:
    """Sum of squared errors of the nodes' models on the rows of the statistics.

    Parameters
    ----------
    statistics : NodeStatistics
        Statistics of any rows, not only those that trained the models.
    coefficient : ndarray of shape (n_nodes, n_outputs, 1 + n_regressors)

    Returns
    -------
    ndarray of shape (n_nodes, n_outputs), float64
    """
    errors = np.empty(coefficient.shape[:2])
    for output in range(coefficient.shape[1]):
        _, mean, scatter, *_ = statistics.output(output)
        model = coefficient[:, output]
        # The residual as a sum of the regressors and the output.
        residual = np.concatenate([-model[:, 1:], np.ones((len(model), 1))], axis=1)
        bias = np.einsum("ni,ni->n", residual, mean) - model[:, 0]
        spread = np.einsum("ni,nij,nj->n", residual, scatter, residual)
        errors[:, output] = np.maximum(spread, 0.0) + statistics.weight * bias**2
    return errors
