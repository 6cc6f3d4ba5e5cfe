"""Presets of estimators: the most accurate tree, and learners of the literature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from secret_jax.estimators.parameters import value_of
from secret_jax.fit.prune.rules import HoldOut, StandardErrors, Unpruned
from secret_jax.learners.cart import CartSplits
from secret_jax.learners.guide import GuideSplits, SupportSplits
from secret_jax.learners.m5 import M5Linear, M5Pruning, M5Splits
from secret_jax.learners.retis import RetisSplits
from secret_jax.models.glm import ClassFrequencies
from secret_jax.models.linear import Constant, LeastSquares, MixtureLeaf
from secret_jax.runtime.values import refuse
from secret_jax.splits.secret import SecretSplits

# Equations in full, and trees that are neither smoothed nor kept small.
_AS_GROWN: dict[str, Any] = {
    "oblique": False,
    "distill": False,
    "equation_tolerance": 0.0,
    "pruning_tolerance": 0.0,
}
_CART = _AS_GROWN | {
    "splits": CartSplits(criterion="variance", max_samples=None),
    "leaf": Constant(clip_margin=None),
    "prune": Unpruned(),
    "min_samples_split": 2,
    "min_samples_leaf": 1,
}
# Models of all numeric columns as they are.
_AS_IS: Any = {"clip_margin": None, "tail_share": 0.0, "drops_regressors": False}
_LINEAR = _AS_GROWN | {
    "leaf": LeastSquares(indicators=False, **_AS_IS),
    "prune": StandardErrors(factor=0.0),
}
_LITERATURE: dict[str, dict[str, Any]] = {
    "cart": _CART,
    "guide": _LINEAR
    | {
        "splits": GuideSplits(thresholds="all", n_bootstraps=50, max_samples=None),
        "prune": StandardErrors(factor=0.5),
    },
    "m5": _LINEAR
    | {
        "splits": M5Splits(max_samples=None),
        "leaf": M5Linear(attributes="tested", indicators=False, **_AS_IS),
        "prune": M5Pruning(),
        "min_samples_split": 4,
        "min_samples_leaf": 2,
    },
    "retis": _LINEAR | {"splits": RetisSplits(max_samples=None)},
    "support": _LINEAR | {"splits": SupportSplits(max_samples=None)},
}
CLASS_LITERATURE: dict[str, dict[str, Any]] = {
    "cart": _CART
    | {
        "splits": CartSplits(criterion="gini", max_samples=None),
        "leaf": ClassFrequencies(impurity="gini", prior=0.0, clip_margin=None),
    }
}


class Presets:
    """Constructors of an estimator of one tree with parameters other than default."""

    # Parameters of the estimator's class: what it can do besides, and by learner.
    _accurate: ClassVar[dict[str, Any]] = {"loss": "auto"}
    _literature: ClassVar[dict[str, dict[str, Any]]] = _LITERATURE

    if TYPE_CHECKING:  # that of the estimator

        def __init__(self, **parameters: Any) -> None: ...

    @classmethod
    def accurate(cls, *, gates: bool = True, **parameters: Any) -> Self:
        """Build the most accurate single tree, at any size.

        The default fits on a page: a longer tree has to earn its length. This one is
        pruned to the least error, grown down to small regions where pruning keeps most
        of it (`secret_jax.fit.alternatives`), and its splits become gates, trained with
        the leaves, where rows held out say that it helps; leaves of a classifier are
        equations or shares, whatever errs less (``leaf="auto"``). It still prints.

        Parameters
        ----------
        gates : bool, default=True
            False: hard splits, short equations; numbers are predicted by equations of
            their logarithms where these err less (``loss="auto"``). So it is with a
            loss that trains no gates, as that of counts.
        **parameters
            Other parameters of the estimator.

        Examples
        --------
        >>> from secret_jax import SecretRegressor
        >>> SecretRegressor.accurate().refine
        'soft'
        >>> SecretRegressor.accurate(gates=False).pruning_tolerance
        0.0
        """
        loss = value_of("loss", parameters.get("loss"))
        refine = "soft" if gates and (loss is None or loss.trains_gates) else None
        own = {"pruning_tolerance": 0.0, "refine": refine} | cls._accurate
        return cls(**own | parameters)

    @classmethod
    def literature(
        cls,
        name: Literal["cart", "guide", "m5", "retis", "support"],
        /,
        **parameters: Any,
    ) -> Self:
        """Build a learner of the literature; sources are those of its split finder.

        Parameters
        ----------
        name : str
            "cart": every threshold, by the variance of the outputs or the Gini
            impurity, means or shares in the leaves, not pruned: node for node the tree
            of scikit-learn's, where no two splits are equally good. ``prune=`` takes
            ``CostComplexity(alpha=...)``, for ``ccp_alpha``, or "cross-validation". A
            classifier has no other.

            "guide" (Loh 2002): chi-squared tests of residual signs for curvature and
            interactions choose the attribute, least squares of the children its
            threshold.

            "m5" (Quinlan 1992): the drop of the standard deviation chooses the
            threshold; models of what is asked for below a node, whose terms are
            eliminated one by one, and which are smoothed along the path to the root.

            "retis" (Karalic 1992): least squares on both sides of every threshold, the
            exhaustive search that Dobra & Gehrke 2002 (section 3.2) set SECRET against.

            "support" (Chaudhuri, Huang, Loh & Yao 1994): t tests of the means and
            variances of the rows above and below a node's model choose the attribute,
            which is split at the average of their two means.
        **parameters
            Parameters of the estimator that override the preset's. Afterwards
            ``set_params(splits__thresholds=0.01)`` of "guide" and "retis" tries a
            sampled share of the thresholds.

        Notes
        -----
        What differs from the sources: missing values are learned, where CART has
        surrogate splits; thresholds are the plainest numbers between two rows; of
        several targets each counts in units of its own deviation. Categories are
        divided into two sets by means, as Wang & Witten do for M5, and are in no model.
        Linear models are least squares of all numeric columns in "guide" and "support",
        where the latter has polynomials and smooths between the leaves
        (``refine="blend"`` comes near it). Pruning is cost-complexity with ten parts of
        the rows, and half a standard error in "guide", also where RETIS shrinks errors
        toward that of all rows and SUPPORT looks some levels ahead. GUIDE's bootstrap
        moves the scores of discrete attributes instead of multiplying them. A subtree
        of "m5" pays for all its parameters and splits together, as in M5'. A side of
        "retis" has at least twice as many rows as its model has coefficients.

        Examples
        --------
        >>> from secret_jax import SecretClassifier, SecretRegressor
        >>> SecretRegressor.literature("guide").prune
        StandardErrors(factor=0.5, n_folds=10)
        >>> SecretRegressor.literature("m5", max_depth=3).splits.least_deviation
        0.05
        >>> SecretClassifier.literature("cart").splits.criterion
        'gini'
        """
        if name not in cls._literature:
            names = " or ".join(map(repr, cls._literature))
            refuse("name", f"{cls.__name__}.literature", names, name)
        return cls(**cls._literature[name] | parameters)


class PaperPreset(Presets):
    """Constructor of the paper's learner."""

    @classmethod
    def paper(
        cls, *, start: Literal["rows", "component"] = "rows", **parameters: Any
    ) -> Self:
        """Use the setting of section 5 of Dobra & Gehrke 2002.

        All rows of a node are used for EM, which starts once, at random; a node is
        split while it holds 1 % of the data; predictions are not clipped.

        Parameters
        ----------
        start : {"rows", "component"}, default="rows"
            How EM starts: at two random rows of the node, for the paper's "clusters
            initialized randomly", or by the sign of the first principal component,
            which gives better trees and is not the paper's. Splits of your own
            (``splits=``) have their own start.
        **parameters
            Parameters of the estimator: ``oblique=False`` is SECRET, the default is
            SECRET(O); ``leaf`` is "linear", "constant" or "implied", all as in the
            paper, or any other of the estimator's.

        Notes
        -----
        What differs from the paper, or what it does not say: a node without a usable
        split gets new random starts, up to three in all (``n_attempts``). Covariances
        have a weak prior that keeps them regular (``floor``). The discriminants take
        the moments of the classes from labels, each row wholly in its likelier
        component. The 1 % are of the rows that grow the tree, without those that prune
        it. Printed slips are mended: the Gini gain, the p-values, LDA's scatter
        matrices, QDA without a root between the means.

        Examples
        --------
        >>> from secret_jax import SecretRegressor
        >>> SecretRegressor.paper().splits.start
        'rows'
        """
        own: dict[str, Any] = {
            "oblique": True,
            "splits": SecretSplits(start=start, n_starts=1, max_samples=None),
            # 30 % to prune for 50 to train.
            "prune": HoldOut(fraction=0.375, refit=False),
            "equation_tolerance": 0.0,
            "pruning_tolerance": 0.0,
            "min_samples_split": 0.01,
            "min_samples_leaf": 1,
        }
        leaf = parameters.get("leaf", "linear")
        models = {"linear": LeastSquares, "constant": Constant, "implied": MixtureLeaf}
        if isinstance(leaf, str) and leaf in models:
            parameters["leaf"] = models[leaf](**_AS_IS)
        return cls(**own | parameters)
