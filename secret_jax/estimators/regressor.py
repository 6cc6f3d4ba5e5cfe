"""Estimator of regression trees."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, overload

import jax
import numpy as np
from sklearn.base import RegressorMixin

from secret_jax.data.given import ArrayLike, TableLike
from secret_jax.data.shards import as_they_lie
from secret_jax.data.validation import (
    names_of,
    validated_on_device,
    validated_targets,
)
from secret_jax.estimators.base import Targets, TreeEstimator
from secret_jax.estimators.conformal import ConformalMixin
from secret_jax.estimators.parameters import CONSTRAINTS, value_of
from secret_jax.estimators.presets import Presets
from secret_jax.inspect.intervals import node_deviations
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import SquaredError
from secret_jax.models.interface import LeafModel
from secret_jax.models.sharded import predict_where_they_lie
from secret_jax.prune.interface import PruningRule
from secret_jax.refine.distillation import Distillation
from secret_jax.refine.interface import Refinement
from secret_jax.splits.interface import SplitFinder
from secret_jax.stream.mixin import StreamMixin
from secret_jax.tree import routing


class SecretRegressor(
    ConformalMixin, RegressorMixin, TreeEstimator, StreamMixin, Presets
):
    """Readable regression tree with linear models in its leaves.

    The first parameters control how much there is to read: ``max_leaf_nodes``,
    ``pruning_tolerance`` (fewer leaves) and ``equation_tolerance`` (shorter equations).
    The next ones choose the methods: ``leaf``, ``splits``, ``prune`` and ``refine`` are
    each a name, or a value whose fields are its options, as
    ``splits=RssSplits(max_split_features=2)``; the fields are parameters as well:
    ``set_params(splits__max_split_features=2)``. A value of one's own is a subclass
    with one method, see CONTRIBUTING.md.

    Parameters
    ----------
    max_leaf_nodes : int or None, default=None
        Maximum number of leaves in growth, by the best splits; pruning leaves fewer.
    max_depth : int or None, default=None
        Maximum number of splits on the path from the root to a leaf.
    pruning_tolerance : float, default=0.03
        Relative increase of the error allowed for half as many leaves, where trees are
        compared on rows that did not grow them (``prune`` by cross-validation or
        held-out rows): of trees of nearly equal error the smaller one reads better. It
        is multiplied by the root of the share of the variance that stays unexplained: a
        tree that explains nearly everything may be large. Up to four leaves cost
        nothing. 0: the tree of least error.
    equation_tolerance : float, default=0.03
        Tolerance for short equations: the shortest one is taken that differs from the
        node's full model by at most this share of the noise variance in the node, times
        the share of the variance that the tree explains: of weak signals nearly all is
        kept. 0.05 is terse, 0.01 cautious, 0 keeps all terms. Leaves
        trained by ``refine="soft"`` keep all terms.
    oblique : bool or "auto", default="auto"
        Whether splits may be linear inequalities in several attributes. "auto" grows
        a tree without and a tree with them and keeps the one with the lower
        size-penalised error (see ``pruning_tolerance``) on rows that did not grow it,
        or with the lower information criterion (without either, the one without).
    leaf : {"ridge", "linear", "constant", "implied", "simple", "m5"} \
            or LeafModel, default="ridge"
        Leaf models: ridge regression shrunk toward the parent's model with a strength
        chosen by generalised cross-validation (`Ridge`), plain least squares
        (`LeastSquares`), the mean (`Constant`, which makes all continuous attributes
        split-only), the regressor that the mixture's Gaussian implies (`MixtureLeaf`,
        only with ``splits="secret"``), least squares on the one best regressor
        (`SimpleLinear`), or M5's short models, smoothed toward the root's
        (`M5Linear`). Their fields also control how predictions are clipped.
    splits : {"rss", "secret", "cart", "guide", "m5", "retis", "support", "phd"} or \
            SplitFinder, default="rss"
        Method of finding splits: by how much better two linear models fit than one
        (`RssSplits`: along attributes, mixtures of two Gaussians, principal Hessian
        directions and hinges), by the paper's mixture alone (`SecretSplits`), by the
        variance of the output (`CartSplits`) or its standard deviation (`M5Splits`), by
        chi-squared tests of residual signs (`GuideSplits`), by least squares on both
        sides of every threshold (`RetisSplits`), by t tests of residual signs
        (`SupportSplits`), along principal Hessian directions (`PhdSplits`).
    prune : {"auto", "holdout", "cross-validation", "aic", "bic", "icomp", "cart", \
            "guide", "m5", None} or PruningRule, default="auto"
        Rule that chooses a subtree of the grown tree. "holdout": the one with the least
        error on ``eval_set``, or on rows held out of the training data (`HoldOut`).
        "cross-validation": all rows grow the tree, and five further trees, each without
        a fold, choose the penalty per degree of freedom (`CrossValidation`). "auto":
        cross-validation for up to 8192 rows, those of ``eval_set`` included, and rows
        held out beyond. "aic", "bic", "icomp": an information criterion on the training
        rows (`InformationCriterion`). "cart", "guide": the smallest subtree within one,
        or half a, standard error of the least cross-validated error (`StandardErrors`).
        "m5": bottom-up by errors corrected for the parameters spent (`M5Pruning`).
        `CostComplexity`: a given penalty for a leaf. None: no pruning.
    refine : {"tao", "blend", "soft", None} or Refinement, default=None
        Refinement of the whole tree after pruning. "tao" optimises every split for
        its present subtrees (`Tao`), which pays where there is little noise.
        "blend" turns every split into a gate that lets rows near the threshold go both
        ways, of one relative width chosen on rows that did not grow the tree (`Blend`);
        nothing is trained. "soft" trains all gates and leaves together by gradient
        (`SoftGates`), which takes longer and is the most accurate. Either way the
        result is one tree of the same kind, and the tree is kept as it was where
        refinement does not pay. Training stops early by ``eval_set`` or a
        held-out share of the rows, and is then repeated on all rows. With "soft" splits
        on one attribute may become oblique, unless ``oblique=False`` or the splits have
        a ``max_split_features``.
    distill : bool or Distillation, default=True
        Grow a cross-validated tree again, to at most the same size, on the mean
        prediction of the fold trees, at the rows and at points between them: a mean of
        several trees errs less than each, and one tree can learn most of it (born-again
        trees, Breiman & Shang 1996). It is taken if it fits the rows well enough. No
        effect with any other way of pruning, on samples (see ``max_split_samples``), or
        on a single leaf.
    loss : {"squared", "absolute", "huber", "poisson"} or Loss, default="squared"
        Loss of the leaf models and of pruning, while splits compare squared
        errors: "absolute" leads to medians (`Quantile`, which has a ``level``), "huber"
        to means that outliers hardly move (`Huber`), "poisson" to expected counts
        (`Poisson`, whose equations give their logarithms); a `Loss` of your own is a
        subclass. Leaf models are fitted by iterated weighted least squares. Medians and
        Huber's are not distilled.
    min_samples_leaf : int, float or "auto", default="auto"
        Minimum number of rows of a leaf; a float is a fraction of the rows. "auto" is a
        quarter per cent of them, but at least five, and of a sample at least an eighth
        of what a search sees; half as many in a tree that is distilled.
    min_samples_split : int, float or "auto", default="auto"
        A node with fewer rows is not split; a float is a fraction of the rows that
        grow the tree. "auto" is half a per cent of them; of few rows, two
        per cent, up to 80; of a sample (see ``max_split_samples``), at least half of
        what a search sees.
    min_gain : float or "auto", default="auto"
        Minimum gain of a split, in noise variances for each coefficient that it adds.
        "auto" is 1.5, rising to 2.5 from 1000 to 4000 rows. Splits other
        than "rss" have no noise estimate, and need only reduce the error.
    missing_values : {"learn", "mean", "error"}, default="learn"
        Treatment of missing numbers (NaN, None, pandas.NA, a null). "learn": splits on
        one attribute learn the side of its missing values, or split them from the
        others; in sums a missing value counts as the mean of its column in training.
        "mean": it counts as that mean everywhere, which is all that other splits than
        "rss" know. A missing category is a category of its own. What was never missing
        in training counts as the mean, or as an unseen category without a warning.
        "error" refuses.
    categorical_features, split_features : sequence of str or int, or mask, optional
        Columns that are discrete, or continuous but only split on. By default text,
        boolean and categorical columns of a DataFrame are discrete, and all others are
        regressors. Ordered categories are split by their order. Dates are split on
        their year, month, weekday, and hour if they have one, and the days since 1970
        are a regressor.
    indicators : bool or "auto", default="auto"
        Whether linear models see indicators of categories and of missing values.
        "auto": of the categories with 30 or more rows and as many others (of fewer than
        600 rows, with 5 % of them, but at least 5), and of the columns with 30 or more
        missing values and others. Only with ``splits="rss"``.
    max_features : int, float, "sqrt", "log2" or None, default=None
        Attributes that every node draws at random to be split on, as in the trees of
        random forests; a float is a share of them. A node in which none of them gives a
        split draws further ones. None: all.
    max_split_samples : int or None, default=2048
        Maximum number of rows in the search for a node's split. Of more than 32 times
        as many rows a sample grows and prunes the tree, that many or every 32nd row;
        all rows then give the models of its nodes (unless ``HoldOut(refit=False)``
        prunes it). None: all.
    random_state : int, RandomState instance or None, default=None
        Seeds split finders that are random ("secret", or one of your own), and the
        draws of ``max_features``. Everything else depends on the content of the rows
        alone: folds, samples and the tree are the same in every fit, whatever the order
        of the rows. Columns in another order make other folds of them.
    device : str or None, default=None
        Where to compute: "cpu", "gpu", "tpu", or one of several as in "gpu:1". None:
        where JAX prefers, which is an accelerator if it sees one; but up to 131,072
        rows in the memory of the host on the processor, which launches cost less. A
        fitted model predicts there too, or where JAX prefers if the device is gone.
    max_memory : int or None, default=None
        Maximum memory of the device, in MiB, for a step over the rows, which go through
        in tiles. None: 1024 on an accelerator, tiles that suit its caches on a
        processor.
    verbose : int, default=0
        1 draws a line with the progress of a fit (stage, share, time) on a terminal
        and in a notebook, and prints a few lines to standard error elsewhere.

    Attributes
    ----------
    tree_ : secret_jax.tree.structure.Tree
    n_leaves_, depth_ : int
    n_outputs_ : int
        Number of targets.
    n_leaves_grown_ : int
        Leaves before pruning.
    conformity_scores_, conformity_weight_ : ndarray of shape (n_calibration_rows,)
        Only after `conformalize`: rising scores and their rows' weights.
    reading_ : dict
        Only of models from the command line: how the columns of their files are read.
    distillation_ : dict
        Only of trees that `SecretBoostingRegressor.distill` made: error and fidelity.
    n_refine_steps_ : int
        Gradient steps after which the held-out rows stopped ``refine="soft"``, passes
        over the splits of ``refine="tao"``, or 0.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Share of every column in the variance that the tree explains.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if the training data had names.

    Notes
    -----
    Integer weights are multiplicities: a row of weight two counts as two rows
    everywhere. Folds and held-out parts get their share of the copies of a row, whether
    repeated or weighted: with a table of few distinct rows, such as truth values and
    categories, models fitted to some copies are judged by others. Those of a bootstrap
    sample, of one observation each, judge each other as well, and trees grow too large;
    `stability` knows which they are. Other weights (and integers whose sum float64
    cannot hold exactly) are first scaled to a mean of one, and a row of such a weight
    is one row.

    With several targets, ``y`` of shape (n_rows, n_outputs), one tree is grown for all:
    splits save error over all of them, each in units of its own deviation, and every
    leaf has an equation for each.

    References
    ----------
    A. Dobra and J. Gehrke. SECRET: A Scalable Linear Regression Tree Algorithm. KDD
    2002.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(1000, random_state=0)
    >>> model = SecretRegressor(random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = CONSTRAINTS

    def __init__(
        self,
        *,
        max_leaf_nodes: int | None = None,
        max_depth: int | None = None,
        pruning_tolerance: float = 0.03,
        equation_tolerance: float = 0.03,
        oblique: bool | Literal["auto"] = "auto",
        leaf: Literal[
            "ridge", "linear", "constant", "implied", "simple", "m5", "kernel", "local"
        ]
        | LeafModel = "ridge",
        splits: Literal[
            "rss", "secret", "cart", "guide", "m5", "retis", "support", "phd"
        ]
        | SplitFinder = "rss",
        prune: Literal["auto", "holdout", "cross-validation", "aic", "bic", "icomp"]
        | Literal["cart", "guide", "m5"]
        | PruningRule
        | None = "auto",
        refine: Literal["tao", "blend", "soft"] | Refinement | None = None,
        distill: bool | Distillation = True,
        loss: Literal["squared", "absolute", "huber", "poisson"] | Loss = "squared",
        min_samples_leaf: float | Literal["auto"] = "auto",
        min_samples_split: float | Literal["auto"] = "auto",
        min_gain: float | Literal["auto"] = "auto",
        missing_values: Literal["learn", "mean", "error"] = "learn",
        categorical_features: Any = None,
        split_features: Any = None,
        indicators: bool | Literal["auto"] = "auto",
        max_features: float | Literal["sqrt", "log2"] | None = None,
        max_split_samples: int | None = 2048,
        random_state: Any = None,
        device: str | None = None,
        max_memory: int | None = None,
        verbose: int = 0,
    ):
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.pruning_tolerance = pruning_tolerance
        self.equation_tolerance = equation_tolerance
        self.oblique = oblique
        self.leaf = leaf
        self.splits = splits
        self.prune = prune
        self.refine = refine
        self.distill = distill
        self.loss = loss
        self.min_samples_leaf = min_samples_leaf
        self.min_samples_split = min_samples_split
        self.min_gain = min_gain
        self.missing_values = missing_values
        self.categorical_features = categorical_features
        self.split_features = split_features
        self.indicators = indicators
        self.max_features = max_features
        self.max_split_samples = max_split_samples
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    @overload
    def predict(
        self,
        X: TableLike,
        return_std: Literal[False] = False,
        *,
        output: Literal["host"] = "host",
    ) -> np.ndarray: ...

    @overload
    def predict(
        self,
        X: TableLike,
        return_std: Literal[False] = False,
        *,
        output: Literal["device"],
    ) -> jax.Array: ...

    @overload
    def predict(
        self, X: TableLike, return_std: Literal[True]
    ) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(
        self, X: TableLike, return_std: bool = False, *, output: str = "host"
    ) -> np.ndarray | jax.Array | tuple[np.ndarray, np.ndarray]:
        """Predict the target.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        return_std : bool, default=False
            Also return the standard deviation of a new output about its prediction, as
            `secret_jax.inspect.intervals.node_deviations` estimates it for the row's
            leaf.
        output : {"host", "device"}, default="host"
            "device": of rows that are an array of JAX, or shards, the prediction is
            one as well, float32, where the rows lie: nothing comes to the host. For
            hard trees of numbers without gaps, whose leaves keep no rows.

        Returns
        -------
        prediction : ndarray of shape (n_rows,), or (n_rows, n_outputs), float64
            An array of JAX, float32, with ``output="device"``.
        deviation : ndarray of the same shape, float64
            Only with ``return_std``.
        """
        if output != "host":
            return self._on_device(X, output, return_std)
        row = None if return_std else self._plain_row(X)
        if row is not None:
            return routing.predict(self.tree_, row)
        prediction = self._outputs(X)
        if not return_std:
            return prediction
        if not isinstance(self.tree_.loss, SquaredError):
            raise ValueError(
                f"Standard deviations and intervals need loss='squared', and the tree "
                f"was fitted with {self.tree_.loss!r}. For an interval fit two "
                "quantiles: loss=Quantile(level=0.05) and Quantile(level=0.95)."
            )
        outputs = [self.tree_.output(i) for i in range(self.tree_.n_outputs)]
        deviation = np.stack([node_deviations(tree) for tree in outputs], axis=1)
        return prediction, deviation[self.apply(X)].reshape(prediction.shape)

    def _on_device(self, X: TableLike, output: str, return_std: bool) -> jax.Array:
        if output != "device":
            raise ValueError(f"output is {output!r}; say 'host' or 'device'.")
        if return_std:
            raise ValueError("Deviations are made on the host: say output='host'.")
        if not self._is_plain_hard_tree():
            raise ValueError(
                "output='device' needs a hard tree of numbers without missing values "
                "or categories; say output='host'."
            )
        X = validated_on_device(self, X)
        with self._computing(X, fall_back=True):
            return predict_where_they_lie(self.tree_, as_they_lie(X))

    def _targets(
        self,
        y: ArrayLike,
        X: TableLike,
        weight: np.ndarray,
        known: Targets | None = None,
    ) -> Targets:
        """See `TreeEstimator`."""
        values = validated_targets(y, X)
        value_of("loss", self.loss).check_targets(values)
        n_outputs = values.shape[1]
        if known is not None and n_outputs != known.values.shape[1]:
            raise ValueError(
                f"there are {n_outputs} output(s), but y has {known.values.shape[1]}. "
                "Give both the same columns."
            )
        return Targets(values, names_of(y, n_outputs), weight, {})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.positive_only = _refuses_negative(self.loss)
        return tags


def _refuses_negative(loss: Any) -> bool:
    """Whether a loss refuses negative targets."""
    value = value_of("loss", loss)
    try:
        if value is not None:
            value.check_targets(np.array([[-1.0], [2.0]]))
    except ValueError:
        return True
    return False
