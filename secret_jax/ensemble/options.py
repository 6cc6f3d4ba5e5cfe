"""Options of boosters: tree sizes, and settings of growth."""

from dataclasses import dataclass
from typing import Annotated, Literal

from secret_jax.losses.interface import Loss
from secret_jax.runtime.values import SHARE, Value, at_least, is_integer


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

    max_leaf_nodes: Annotated[int, at_least(1)] = 16
    min_samples_leaf: Annotated[int, at_least(1)] | Annotated[float, SHARE] = 5
    oblique: bool = False
    leaf: Literal["linear", "constant"] = "linear"

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


# Which is best differs by table: few leaves for small ones, more for maps and
# calendars, oblique ones for smooth functions of many columns. Constants are rarely
# best, but often worth a share in the prediction.
SIZES = (
    TreeSize(max_leaf_nodes=8, min_samples_leaf=0.01),
    TreeSize(max_leaf_nodes=16),
    TreeSize(max_leaf_nodes=16, oblique=True),
    TreeSize(max_leaf_nodes=16, leaf="constant"),
)


@dataclass(frozen=True, kw_only=True)
class BoostOptions:
    """Options of a fit of boosters."""

    sizes: tuple[TreeSize, ...]  # sizes to choose from
    learning_rate: float  # share of each tree but the first in the prediction
    subsample: float  # share of a booster's rows that each tree sees
    loss: Loss
    seed: int
    # Maximum number of rounds, or with ``early_stopping=False`` their number.
    max_iter: int
    early_stopping: bool
    # Rounds without a lower error on held-out rows after which a size stops.
    patience: int
    n_folds: int
    average: bool  # whether the boosters of the folds are part of the model
