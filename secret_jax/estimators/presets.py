"""Presets of estimators: the most accurate tree, and learners of the literature."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from secret_jax.estimators.parameters import value_of
from secret_jax.fit.prune.cost_complexity import Unpruned
from secret_jax.fit.prune.cross_validation import StandardErrors
from secret_jax.fit.prune.hold_out import HoldOut
from secret_jax.learners.cart import CartSplits
from secret_jax.learners.guide import GuideSplits
from secret_jax.learners.m5 import M5Pruning, M5Splits
from secret_jax.learners.m5_leaves import M5Linear
from secret_jax.learners.retis import RetisSplits
from secret_jax.learners.support import SupportSplits
from secret_jax.models.interface import LeafModel
from secret_jax.models.linear import Constant, LeastSquares, MixtureLeaf
from secret_jax.splits.interface import SplitFinder
from secret_jax.splits.secret import SecretSplits

# Equations in full, and trees that are neither smoothed nor kept small.
_AS_GROWN = {
    "oblique": False,
    "distill": False,
    "equation_tolerance": 0.0,
    "pruning_tolerance": 0.0,
}
# Models of all numeric columns as they are.
_AS_IS: dict[str, Any] = {
    "clip_margin": None,
    "tail_share": 0.0,
    "drops_regressors": False,
}


def cart_parameters(criterion: Any, leaf: LeafModel) -> dict[str, Any]:
    """Parameters of trees grown in full, as by CART."""
    return _AS_GROWN | {
        "splits": CartSplits(criterion=criterion, max_samples=None),
        "leaf": leaf,
        "prune": Unpruned(),
        "min_samples_split": 2,
        "min_samples_leaf": 1,
    }


def _linear_parameters(splits: SplitFinder) -> dict[str, Any]:
    """Parameters of trees with least squares in their leaves."""
    return _AS_GROWN | {
        "splits": replace(splits, max_samples=None),
        "leaf": LeastSquares(indicators=False, **_AS_IS),
        "prune": StandardErrors(factor=0.0),
    }


class AccuratePreset:
    """Constructor of an estimator of one tree, as accurate as it can be."""

    # What the estimator's class can do besides.
    _accurate: ClassVar[dict[str, Any]] = {}

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


class Presets(AccuratePreset):
    """Constructors of `SecretRegressor` for learners of the literature.

    Keyword arguments are parameters of the estimator that override the preset's. The
    sources are those of the split finders.
    """

    _accurate: ClassVar[dict[str, Any]] = {"loss": "auto"}

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

    @classmethod
    def cart(cls, **parameters: Any) -> Self:
        """Build the trees of Breiman, Friedman, Olshen & Stone 1984, chapter 8.

        The variance of the outputs, every threshold, means in the leaves, no pruning:
        node for node the tree of `sklearn.tree.DecisionTreeRegressor`, where no two
        splits are equally good. ``prune=CostComplexity(alpha=...)`` prunes as it does
        with ``ccp_alpha``; ``prune="cross-validation"`` chooses the penalty.

        Notes
        -----
        What differs from the book: missing values are learned, where it has surrogate
        splits; thresholds are the plainest numbers between two rows; of several targets
        each counts in units of its own deviation.

        Examples
        --------
        >>> from secret_jax import SecretRegressor
        >>> SecretRegressor.cart(max_leaf_nodes=8).max_leaf_nodes
        8
        """
        return cls(
            **cart_parameters("variance", Constant(clip_margin=None)) | parameters
        )

    @classmethod
    def guide(cls, **parameters: Any) -> Self:
        """Build piecewise linear trees after Loh 2002: tests choose the attribute.

        Chi-squared tests of residual signs for curvature and interactions choose the
        attribute, least squares of the children its threshold; least squares in the
        leaves; cost-complexity pruning with ten parts of the rows and half a standard
        error.

        Notes
        -----
        What differs from the paper: the bootstrap that sets tests of discrete
        attributes against those of continuous ones moves their scores instead of
        multiplying them; all numeric columns are regressors.
        ``set_params(splits__thresholds=0.01)`` tries a sampled share of the thresholds,
        ``splits__thresholds=1`` the median alone.

        Examples
        --------
        >>> from secret_jax import SecretRegressor
        >>> SecretRegressor.guide().prune
        StandardErrors(factor=0.5, n_folds=10)
        """
        splits = GuideSplits(thresholds="all", n_bootstraps=50)
        own: dict[str, Any] = {"prune": StandardErrors(factor=0.5)}
        return cls(**_linear_parameters(splits) | own | parameters)

    @classmethod
    def m5(cls, **parameters: Any) -> Self:
        """Build model trees after Quinlan 1992: standard deviations choose the splits.

        Every threshold is tried, by the drop of the standard deviation of the output;
        nodes whose output varies by less than 5 % of that of all rows, or that hold
        fewer than four rows, are not split; linear models of what is asked for below a
        node, whose terms are eliminated one by one, and which are smoothed along the
        path to the root; pruning by errors that are corrected for the number of terms.

        Notes
        -----
        What differs from the paper: categories are divided into two sets by their
        means, as Wang & Witten do, and are in no model; a subtree pays for all its
        parameters and splits together, as in their program M5'.

        Examples
        --------
        >>> from secret_jax import SecretRegressor
        >>> SecretRegressor.m5(max_depth=3).splits.least_deviation
        0.05
        """
        own: dict[str, Any] = {
            "leaf": M5Linear(attributes="tested", indicators=False, **_AS_IS),
            "prune": M5Pruning(),
            "min_samples_split": 4,
            "min_samples_leaf": 2,
        }
        return cls(**_linear_parameters(M5Splits()) | own | parameters)

    @classmethod
    def retis(cls, **parameters: Any) -> Self:
        """Build linear regression trees after Karalic 1992 by exhaustive search.

        The exhaustive search that Dobra & Gehrke 2002 (section 3.2) set SECRET against:
        least squares on both sides of every threshold of every attribute;
        ``set_params(splits__thresholds=0.01)`` tries a sampled share.

        Notes
        -----
        What differs from the paper: pruning is cost-complexity with ten parts of the
        rows instead of estimates of the error that are shrunk toward that of all rows;
        a side has at least twice as many rows as its model has coefficients; categories
        are divided into two sets by their mean residuals.

        Examples
        --------
        >>> from secret_jax import SecretRegressor
        >>> SecretRegressor.retis().splits.thresholds
        'all'
        """
        return cls(**_linear_parameters(RetisSplits()) | parameters)

    @classmethod
    def support(cls, **parameters: Any) -> Self:
        """Build piecewise linear trees after Chaudhuri, Huang, Loh & Yao 1994.

        t tests of the means and variances of the rows above and below a node's model
        choose the attribute, which is split at the average of their two means.

        Notes
        -----
        What differs from the paper: models are linear, where it has polynomials of any
        degree; trees are grown and pruned by cost-complexity with ten parts of the
        rows, where it asks cross-validation some levels ahead whether to stop; no
        smoothing between the leaves (``refine="blend"`` comes near it); categories are
        tested by chi-squared.

        Examples
        --------
        >>> from secret_jax import SecretRegressor
        >>> SecretRegressor.support().splits.model
        'linear'
        """
        return cls(**_linear_parameters(SupportSplits()) | parameters)
