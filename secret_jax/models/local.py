"""Leaf models that keep rows: kernel regression and local linear models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.models.interface import LeafModel, Models
from secret_jax.models.least_squares import Constant
from secret_jax.models.ridge import Ridge
from secret_jax.models.statistics import NodeStatistics
from secret_jax.tree.kept import KeptRows, LocalRows
from secret_jax.tree.routing import apply
from secret_jax.tree.structure import Tree

# Bandwidths that are compared, the widest first, in units of the root mean square
# distance of two rows of the leaf: from nearly equal weights to the next neighbours.
_BANDWIDTHS = 2.0 ** np.arange(2.0, -5.5, -0.5)
# Number of rows of a leaf that are left out one at a time to choose the bandwidth.
_MOST_LEFT_OUT = 512


@dataclass(frozen=True, kw_only=True)
class LocalModel(LeafModel):
    """Base of the leaf models that keep rows.

    Every node gets a linear model of its statistics, which grows and prunes the tree;
    in the leaves of the finished tree nearby training rows correct its predictions.
    """

    keeps_rows: ClassVar[bool] = True
    degree: ClassVar[int]

    def keeping(self, tree: Tree, rows: Rows) -> Tree:
        """Store rows in the leaves of a tree, and choose the bandwidths.

        The training error of a leaf becomes that of rows left out one at a time, which
        have spent no degrees of freedom: it is what deviations and intervals are of.
        """
        table = rows.table.on_host()
        leaf = apply(tree, table)
        order = np.argsort(leaf, kind="stable")
        leaf, x = leaf[order], table.x[order, : tree.schema.n_regressors]
        model = tree.coefficient[leaf]
        said = model[:, :, 0] + np.einsum("ij,ikj->ik", x, model[:, :, 1:])
        kept = KeptRows(
            degree=self.degree,
            x=x.astype(np.float32),
            residual=(rows.targets[order] - said).astype(np.float32),
            weight=rows.weight[order],
            first=np.searchsorted(leaf, np.arange(tree.n_nodes + 1)),
            bandwidth=np.full(tree.n_nodes, np.nan),
        )
        error = tree.train_error.copy()
        for node in np.unique(leaf):
            width, error[node] = chosen_bandwidth(kept.of(node), self.degree)
            kept.bandwidth[node] = width
        return replace(
            tree,
            kept=kept,
            train_error=error,
            degrees=np.where(tree.is_leaf, 0.0, tree.degrees),
            corrects_parent=False,
        )


@dataclass(frozen=True, kw_only=True)
class KernelMean(LocalModel):
    """Kernel regression in the leaves: a mean weighted by distance.

    The weights are Gaussian in the distance of the standardised regressors, with one
    bandwidth for each leaf: the one of least leave-one-out error (over up to
    512 rows of a leaf). The tree is grown by ``splits`` and pruned with
    constants in its nodes, as Torgo does.

    Notes
    -----
    The leaves keep their rows, so the model grows with the data, and the time to
    predict a row with the rows of its leaf. There is no equation to read: such trees
    are neither shortened, distilled nor refined, and give no code and no terms.

    References
    ----------
    E. A. Nadaraya. On Estimating Regression. Theory of Probability and its
    Applications 9, 1964.

    L. Torgo. Functional Models for Regression Tree Leaves. ICML 1997.

    Examples
    --------
    >>> import numpy as np
    >>> from secret_jax import SecretRegressor
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> model = SecretRegressor(leaf="kernel", max_depth=0).fit(X, np.sin(X[:, 0]))
    >>> model.score(X, np.sin(X[:, 0])) > 0.999
    True
    """

    degree: ClassVar[int] = 0

    def toward(self, statistics: NodeStatistics, base: np.ndarray) -> Models:
        """Return the mean of the node."""
        return Constant().toward(statistics, base)


@dataclass(frozen=True, kw_only=True)
class LocalLinear(LocalModel):
    """Locally weighted linear models in the leaves, fitted per predicted row.

    As `KernelMean`, but the residuals of the leaf's ridge regression are fitted by a
    weighted linear model about the row, which has no bias at the borders of a leaf. The
    tree is grown and pruned with `Ridge`.

    References
    ----------
    W. S. Cleveland and S. J. Devlin. Locally Weighted Regression: An Approach to
    Regression Analysis by Local Fitting. Journal of the American Statistical
    Association 83, 1988.

    L. Torgo. Functional Models for Regression Tree Leaves. ICML 1997.
    """

    degree: ClassVar[int] = 1

    def toward(self, statistics: NodeStatistics, base: np.ndarray) -> Models:
        """Fit the ridge regression of the node."""
        return Ridge().toward(statistics, base)


def chosen_bandwidth(rows: LocalRows, degree: int) -> tuple[float, np.ndarray]:
    """Choose the bandwidth of least leave-one-out error, the widest of ties.

    Parameters
    ----------
    rows : LocalRows
        Rows of one leaf; the first ones are left out in turn.

    Returns
    -------
    error : ndarray of shape (n_outputs,), float64
        Mean squared error with it of the rows that were left out.
    """
    distance = float(np.sqrt(2.0 * rows.variance.sum()))
    bandwidths = _BANDWIDTHS * (distance or 1.0)
    if len(rows.weight) < 2:
        return float(bandwidths[0]), np.zeros(rows.target.shape[1])
    n_left_out = min(len(rows.weight), _MOST_LEFT_OUT)
    errors = np.zeros((len(bandwidths), rows.target.shape[1]))
    for some in rows.blocks(n_left_out):
        own = np.arange(n_left_out)[some]
        square = rows.squared_distances(rows.x[own])
        square[np.arange(len(own)), own] = np.inf
        for i, bandwidth in enumerate(bandwidths):
            found = rows.smoothed(rows.x[own], square, bandwidth, degree)
            errors[i] += rows.weight[own] @ (rows.target[own] - found) ** 2
    best = int(np.argmin(errors.sum(axis=1)))
    return float(bandwidths[best]), errors[best] / rows.weight[:n_left_out].sum()
