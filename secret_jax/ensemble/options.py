"""Options of boosters: tree sizes, and settings of growth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions

from secret_jax.learners.cart import CartSplits
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import SQUARED_ERROR
from secret_jax.models.interface import LeafModel
from secret_jax.models.linear import Constant
from secret_jax.models.ridge import Ridge
from secret_jax.runtime.values import Value, at_least, is_integer
from secret_jax.splits.interface import SplitFinder
from secret_jax.splits.rss import RssSplits


@dataclass(frozen=True, kw_only=True)
class TreeSize(Value):
    """Size of the trees of a booster.

    Attributes
    ----------
    max_leaf_nodes : int, default=16
    min_samples_leaf : int or float, default=5
        Minimum number of rows of a leaf, or their share of the rows that a tree sees.
    oblique : bool, default=False
        Whether splits may be linear inequalities in several attributes.
    leaf : {"linear", "constant"}, default="linear"
        Leaf models. Trees of constants split on one attribute. Before them
        stands the mean, of classes a logistic regression.

    Examples
    --------
    >>> from secret_jax import SecretBoostingRegressor, TreeSize
    >>> model = SecretBoostingRegressor(max_leaf_nodes=TreeSize(leaf="constant"))
    >>> model.max_leaf_nodes.max_leaf_nodes
    16
    """

    max_leaf_nodes: int = 16
    min_samples_leaf: float = 5
    oblique: bool = False
    leaf: Literal["linear", "constant"] = "linear"

    _parameter_constraints: ClassVar[dict] = {
        "max_leaf_nodes": [at_least(1)],
        "min_samples_leaf": [
            at_least(1),
            Interval(RealNotInt, 0.0, 1.0, closed="neither"),
        ],
        "oblique": ["boolean"],
        "leaf": [StrOptions({"linear", "constant"})],
    }

    def check(self) -> None:
        """Refuse invalid fields and combinations of fields."""
        super().check()
        if self.oblique and self.leaf == "constant":
            raise ValueError(
                "Trees with leaf='constant' split on one attribute: set oblique=False, "
                "or leaf='linear'."
            )

    def __str__(self) -> str:
        kind = "constant" if self.leaf == "constant" else ""
        kind = "oblique" if self.oblique else kind
        return f"{self.max_leaf_nodes} leaves" + (f" ({kind})" if kind else "")

    def least_weight(self, total: float) -> float:
        """Least weight of a leaf, for a tree of a total weight."""
        least = self.min_samples_leaf
        return max(1.0, least if is_integer(least) else least * total)


# Which is best differs by table: few leaves for small ones, many for maps and
# calendars, oblique ones for smooth functions of many columns. Constants are rarely
# best, but often worth a share in the prediction.
SIZES = (
    TreeSize(max_leaf_nodes=8, min_samples_leaf=0.01),
    TreeSize(max_leaf_nodes=16),
    TreeSize(max_leaf_nodes=32),
    TreeSize(max_leaf_nodes=16, oblique=True),
    TreeSize(max_leaf_nodes=16, leaf="constant"),
)


# Cheaper than the search of a single tree: later trees mend what it misses.
_SPLITS = RssSplits(n_hinge=1, hinge_steps=2)
_LEAF = Ridge()
_CONSTANT_SPLITS = CartSplits(n_thresholds=16)
_CONSTANT_LEAF = Constant()


@dataclass(frozen=True, kw_only=True)
class TreeRecipe:
    """Growth settings common to the trees of all boosters of a fit.

    Attributes
    ----------
    learning_rate : float
        Share of each tree but the first in the prediction.
    subsample : float
        Share of a booster's rows that each tree sees.
    splits : SplitFinder
        Split finder of trees with linear models in their leaves,
    leaf : LeafModel
        and these models.
    sample : int
        Maximum number of rows of a node in a search,
    smallest_sample : int
        the padded size of small nodes,
    batch_rows : int
        and the padded rows of nodes that are searched together.
    most_rows : int
        Maximum number of rows of a tree.
    min_gain : float
        Minimum gain of a split, in noise variances for each coefficient that it adds.
    loss : Loss
        Squared error, or cross-entropy of classes.
    """

    learning_rate: float = 0.2
    subsample: float = 0.7
    splits: SplitFinder = _SPLITS
    leaf: LeafModel = _LEAF
    sample: int = 2048
    smallest_sample: int = 128
    batch_rows: int = 1 << 13
    most_rows: int = 1 << 16
    min_gain: float = 0.0
    loss: Loss = SQUARED_ERROR
    seed: int = 0

    def way(self, size: TreeSize) -> tuple[SplitFinder, LeafModel]:
        """Split finder and leaf model for trees of a size."""
        if size.leaf == "constant":
            return _CONSTANT_SPLITS, _CONSTANT_LEAF
        return self.splits, self.leaf
