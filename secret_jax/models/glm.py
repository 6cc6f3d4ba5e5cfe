"""Leaf models for losses other than squared error: generalised linear models.

They are fitted by `secret_jax.models.newton`, with a penalty on the correction of the
parent's model, as in `secret_jax.models.ridge`.
"""

from abc import abstractmethod
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from secret_jax.losses.classes import Brier, CrossEntropy
from secret_jax.losses.interface import Loss
from secret_jax.models.interface import LeafModel, Levels, Models
from secret_jax.models.linear import Constant, LeastSquares
from secret_jax.models.newton import penalised_models
from secret_jax.models.ridge import Ridge
from secret_jax.models.row_groups import RowGroups
from secret_jax.models.statistics import NodeStatistics
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.runtime.values import at_least, real
from secret_jax.tree.structure import Tree


@dataclass(frozen=True, kw_only=True)
class GLMLeaf(LeafModel):
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

    prior: Annotated[float, real(0.0)] = 1.0
    gcv_factor: Annotated[float, real(0.0)] = 1.2
    n_steps: Annotated[int, at_least(1)] = 20

    @property
    @abstractmethod
    def loss(self) -> Loss:
        """Loss that the models minimise."""

    def fit(self, statistics: NodeStatistics, parent: np.ndarray) -> Models:
        """Raise a TypeError: statistics do not determine a loss; see `fit_tree`."""
        raise TypeError(f"{type(self).__name__} is fitted to rows, not to statistics.")

    def fit_tree(
        self,
        tree: Tree,
        statistics: NodeStatistics,
        levels: Levels,
        stage: Stage = UNTOLD,
    ) -> Models:
        """See `LeafModel`: fitted to the rows."""
        shape = (tree.n_nodes, statistics.n_outputs, 1 + statistics.n_regressors)
        coefficient, degrees = np.zeros(shape), np.zeros(tree.n_nodes)
        done = 0
        for group in levels():
            parent = tree.parent[group.node]
            base = coefficient[parent]
            base[parent < 0] = 0.0
            base[parent < 0, :, 0] = self._constants(group)[parent < 0]
            if self.prior > 0:  # rows that the parents' mean predictions count as
                mean = self.loss.prediction(group.values(base))
                group = group.with_centers(mean, self.prior)
            if group.x.shape[1]:
                options = self.gcv_factor, self.n_steps
                models = penalised_models(self.loss, group, base, *options)
                coefficient[group.node], degrees[group.node], _ = models
            else:
                coefficient[group.node, :, 0] = self._constants(group)
                degrees[group.node] = 1.0
            done += len(group.node)
            stage.at(done, tree.n_nodes)
        return Models(coefficient, degrees)

    def _constants(self, group: RowGroups) -> np.ndarray:
        """Best constants of the nodes, shape (n_nodes, n_outputs)."""
        targets, weight, constant = group.targets, group.weight, self.loss.constant
        return np.array([constant(targets[rows], weight[rows]) for rows in group.rows])


@dataclass(frozen=True, kw_only=True)
class Logistic(GLMLeaf):
    """Logistic regression shrunk toward the parent's model, by a GCV penalty.

    Iterated weighted least squares (McCullagh & Nelder 1989) with the ridge of least
    generalised cross-validation error, as `secret_jax.Ridge` has it, in units of the
    curvature of the likelihood; the parent's mean probabilities count as ``prior`` rows
    more in the middle of the node's, so that none becomes 0 or 1.

    Attributes
    ----------
    clip_margin : float or None, default=0.1
        Log-odds are clipped to the range of those of the training rows in their leaf,
        widened on both sides by this share of it. None: no clipping.
    clip_min_samples : int, default=50
        A leaf of less weight takes that range from the nearest ancestor with more.
    prior, gcv_factor, n_steps
        See `secret_jax.models.glm.GLMLeaf`.

    References
    ----------
    P. McCullagh and J. A. Nelder. Generalized Linear Models. Chapman & Hall, 1989.

    Examples
    --------
    >>> from secret_jax import Logistic, SecretClassifier
    >>> SecretClassifier(leaf=Logistic(prior=2.0)).leaf.prior
    2.0
    """

    @property
    def loss(self) -> Loss:
        return CrossEntropy()


@dataclass(frozen=True, kw_only=True)
class ClassFrequencies(GLMLeaf):
    """Class frequencies; every continuous attribute is split-only.

    Those of the parent count as ``prior`` further rows; with 0 they are the plain
    frequencies in the node.

    Attributes
    ----------
    impurity : {"entropy", "gini"}, default="entropy"
        Criterion of pruning: the entropy or the Gini impurity of the frequencies in a
        leaf; on other rows the cross-entropy or the Brier score.
    clip_margin, clip_min_samples, prior, gcv_factor, n_steps
        As in `Logistic`; the last two have no effect.
    """

    impurity: Literal["entropy", "gini"] = "entropy"

    uses_regressors: ClassVar[bool] = False

    @property
    def loss(self) -> Loss:
        return CrossEntropy() if self.impurity == "entropy" else Brier()


@dataclass(frozen=True, kw_only=True)
class LinearOfLoss(GLMLeaf):
    """Linear model of the raw prediction of a loss ``of`` numbers."""

    of: Loss
    prior: float = 0.0

    @property
    def loss(self) -> Loss:
        return self.of


@dataclass(frozen=True, kw_only=True)
class ConstantOfLoss(LinearOfLoss):
    """Constant of least loss."""

    uses_regressors: ClassVar[bool] = False


def leaf_for_loss(leaf: LeafModel, loss: Loss) -> LeafModel | None:
    """Counterpart of a squared-error leaf model for a loss; None if there is none."""
    if leaf.loss == loss:
        return leaf
    names = [field.name for field in fields(LeafModel)]
    options: dict[str, Any] = {name: getattr(leaf, name) for name in names}
    if type(leaf) is Constant:
        return ConstantOfLoss(of=loss, **options)
    if type(leaf) is LeastSquares:
        return LinearOfLoss(of=loss, gcv_factor=0.0, **options)
    if type(leaf) is Ridge:  # what a subclass makes of it is not known
        return LinearOfLoss(of=loss, gcv_factor=leaf.gcv_factor, **options)
    return None
