"""Estimator of regression trees."""

from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
from sklearn.base import RegressorMixin

from secret_jax.data.foreign import of_kind_of_x
from secret_jax.data.validation import ArrayLike, CheckedRows, TableLike
from secret_jax.estimators.base import TreeEstimator
from secret_jax.estimators.common import TableEstimator
from secret_jax.estimators.conformal import ConformalMixin, node_deviations
from secret_jax.estimators.parameters import RegressorParameters, value_of
from secret_jax.estimators.presets import PaperPreset
from secret_jax.estimators.stream.mixin import StreamMixin
from secret_jax.losses.interface import Loss
from secret_jax.tree import routing


class LossMixin(TableEstimator):
    """Base of the estimators of numbers with a parameter ``loss``."""

    loss: str | Loss

    def _targets(
        self, y: ArrayLike, X: Any, weight: np.ndarray, known: CheckedRows | None
    ) -> CheckedRows:
        rows = super()._targets(y, X, weight, known)
        every = rows.targets
        if known is not None:
            every = np.concatenate([known.targets, every])
        value_of("loss", self.loss).check_targets(every)
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        loss = value_of("loss", self.loss)
        try:
            if loss is not None:
                loss.check_targets(np.array([[-1.0], [2.0]]))
        except ValueError:  # of the negative one
            tags.target_tags.positive_only = True
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class SecretRegressor(
    ConformalMixin,
    RegressorMixin,
    LossMixin,
    TreeEstimator,
    StreamMixin,
    PaperPreset,
    RegressorParameters,
):
    """Readable regression tree with linear models in its leaves.

    The first parameters control how much there is to read. ``leaf``, ``splits``,
    ``prune``, ``refine``, ``distill`` and ``loss`` choose the methods, each by a name,
    or by a value whose fields are its options, as
    ``splits=RssSplits(max_split_features=2)``; the fields are parameters as well:
    ``set_params(splits__max_split_features=2)``. A value of one's own is a subclass
    with one method, see CONTRIBUTING.md.

    Parameters
    ----------
    max_leaf_nodes : int or None, default=None
        Maximum number of leaves in growth, by the best splits; pruning leaves fewer.
    max_depth : int or None, default=None
        Maximum number of splits on the path from the root to a leaf.
    pruning_tolerance : float, default=0.05
        Relative increase of the error allowed for half as many numbers to read, in
        splits and short equations, where ``prune`` compares trees on rows that did not
        grow them. The first forty numbers cost nothing. 0: the tree of least error.
    equation_tolerance : float, default=0.03
        How much a short equation may differ from its node's full model, as a share of
        the noise variance in the node, times the share of the variance that the tree
        explains. 0.05 is terse, 0.01 cautious, 0 keeps all terms, as trained gates do.
    oblique : bool or "auto", default="auto"
        Whether splits may be linear inequalities in several attributes. "auto" grows
        a tree without and one with them, and keeps that of the lower size-penalised
        error on rows that did not grow it, or of the lower information criterion
        (without either, the one without).
    leaf : str or LeafModel, default="ridge"
        Leaf models: "ridge", shrunk toward the parent's model with a strength chosen by
        generalised cross-validation (`Ridge`); "linear", least squares
        (`LeastSquares`); "constant", the mean, which makes all numbers split-only
        (`Constant`); "implied", the regressor that the Gaussian mixture of
        ``splits="secret"`` implies (`MixtureLeaf`); "simple", least squares on the one
        best regressor (`SimpleLinear`); "m5", M5's short models, smoothed toward the
        root's (`M5Linear`). Their fields also say how predictions are clipped, and
        whether models see indicators of categories and of missing values.
    splits : str or SplitFinder, default="rss"
        Method of finding splits: "rss", by how much better two linear models fit than
        one, along attributes, principal Hessian directions and hinges (`RssSplits`);
        "secret", by the paper's mixture of two Gaussians (`SecretSplits`); "cart",
        by the variance of the output (`CartSplits`); "m5", by its standard
        deviation (`M5Splits`); "guide", by chi-squared tests of residual signs
        (`GuideSplits`); "support", by t tests of them (`SupportSplits`); "retis",
        by least squares on both sides of every threshold (`RetisSplits`); "phd", along
        principal Hessian directions (`PhdSplits`); "conjunctive", like "rss" with up to
        three conditions that all hold (`ConjunctiveSplits`). Their fields also say how
        many rows a search sees, and what a split must gain.
    prune : str, PruningRule or None, default="auto"
        Rule that chooses a subtree of the grown tree. "holdout": that of least error on
        ``eval_set``, or on rows held out of the training data (`HoldOut`).
        "cross-validation": five further trees, each without a fold, choose the penalty
        per degree of freedom (`CrossValidation`). "auto": that for up to 8192 rows,
        those of ``eval_set`` included, and rows held out beyond. "aic", "bic", "caic",
        "icomp": an information criterion on the training rows. "cart", "guide": the
        smallest subtree within one, or half a, standard error of the least
        cross-validated error (`StandardErrors`). "m5": bottom-up by errors corrected
        for the parameters spent (`M5Pruning`). `CostComplexity`: a given penalty for a
        leaf. None: no pruning.
    refine : str, Refinement or None, default=None
        Refinement of the pruned tree, which is kept as it was where it does not pay.
        "tao" optimises every split for its present subtrees, which pays where there is
        little noise. "blend" turns every split into a gate that lets rows near the
        threshold go both ways, of one relative width chosen on rows that did not grow
        the tree. "soft" trains all gates and leaves together by gradient (`SoftGates`),
        which takes longer and is the most accurate; splits on one attribute may then
        become oblique, unless ``oblique=False`` or the splits have a
        ``max_split_features``.
    distill : bool or Distillation, default=True
        Grow a cross-validated tree again, to at most the same size, on the mean
        prediction of the fold trees, which errs less than each (born-again trees,
        Breiman & Shang 1996). It is taken if it fits the rows well enough. No effect
        with any other way of pruning, on samples, or on a single leaf.
    min_samples_leaf : int, float or "auto", default="auto"
        Minimum number of rows of a leaf; a float is a fraction of the rows. "auto" is a
        quarter per cent of them, but at least five, and of a sample at least an eighth
        of what a search sees; half as many in a tree that is distilled.
    min_samples_split : int, float or "auto", default="auto"
        A node with fewer rows is not split; a float is a fraction of the rows that
        grow the tree. "auto" is half a per cent of them; of few rows, two per cent, up
        to 80; of a sample, at least half of what a search sees.
    loss : str or Loss, default="squared"
        Loss of the leaf models and of pruning, while splits compare squared errors:
        "absolute" leads to medians (`Quantile`, which has a ``level``), "poisson" to
        expected counts, or rates, with the exposure as ``sample_weight`` (`Poisson`,
        whose equations give their logarithms), "gamma" to means of amounts above zero
        (likewise). Medians are not distilled. "auto":
        "squared"; or equations of the logarithm of a positive target, of 200 rows or
        more, where trees of two levels of it err a twentieth less on unseen rows than
        trees of the target: of prices, say, which change by shares. What knows no
        logarithms (``refine="soft"``, constant leaves, leaf models of your own,
        information criteria) stays "squared".
    missing_values : {"learn", "mean", "error"}, default="learn"
        Treatment of missing numbers (NaN, None, pandas.NA, a null). "learn": splits on
        one attribute learn the side of its missing values, or split them off; in sums a
        missing value counts as the mean of its column in training. "mean": it does so
        everywhere, which is all that other splits than "rss" know. A missing category
        is a category of its own. What was never missing in training counts as the mean,
        or as an unseen category with its warning. "error" refuses.
    categorical_features, split_features : sequence of str or int, or mask, optional
        Columns that are discrete, or continuous but only split on. By default text,
        boolean and categorical columns of a DataFrame are discrete, and all others are
        regressors. Ordered categories are split by their order. Dates are split on
        their year, month, weekday, and hour if they have one, and the days since 1970
        are a regressor.
    monotonic_cst : dict of str to int, or array-like of int, default=None
        Columns of numbers with which predictions may only rise (1) or fall (-1), by
        name, or a direction for every column in their order (0: any). Slopes, splits
        and ranges then respect it: no two rows that differ in such a column violate it.
        Of classes there may be two, whose second one's probability is meant; gates
        (``refine="blend"``, ``"soft"``) keep no order and are refused.
    random_state : int, RandomState instance or None, default=None
        Seeds split finders that are random ("secret", or one of your own). All else
        depends on the content of the rows, and not on their order. Columns in another
        order make other folds of them.
    device : str or None, default=None
        Where to compute: "cpu", "gpu", "tpu", or one of several as in "gpu:1". None:
        where JAX prefers; but up to 131,072 rows in the memory of the host on the
        processor. A fitted model predicts there too, or where JAX prefers if the device
        is gone. A step over the rows takes at most scikit-learn's ``working_memory``.
    verbose : int, default=0
        1 draws a line with the progress of a fit on a terminal and in a notebook, and
        prints a few lines to standard error elsewhere.

    Attributes
    ----------
    tree_ : secret_jax.tree.structure.Tree
    n_leaves_, depth_, n_outputs_, n_leaves_grown_ : int
        The last one counts the leaves before pruning.
    n_refine_steps_ : int
        Gradient steps after which the held-out rows stopped ``refine="soft"``, passes
        over the splits of ``refine="tao"``, or 0.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Share of every column in the variance that the tree explains.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        The names only if the training data had some.
    conformity_scores_, conformity_weight_ : ndarray of shape (n_calibration_rows,)
        Only after `conformalize`: rising scores and their rows' weights.
    reading_, distillation_ : dict
        How the columns of files are read, of models from the command line; error and
        fidelity of trees that `SecretBoostingRegressor.distill` made.

    Notes
    -----
    Weights are scaled to a mean of one: a number of rows is one of rows of mean weight.
    A row is one observation, however heavy, and lies in one fold. What rows are that
    repeat others, in all columns and in y, is decided by the table. If all columns hold
    few different values, or most rows that agree in all of them differ in y, they are
    observations of their own, and every fold gets its share of them. Otherwise, as in a
    bootstrap sample or after a join, they are copies of one, of their common weight. A
    table in which every row stands as often is the table itself.

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

    @overload
    def predict(self, X: TableLike, return_std: Literal[False] = False) -> Any: ...

    @overload
    def predict(self, X: TableLike, return_std: Literal[True]) -> tuple[Any, Any]: ...

    @of_kind_of_x
    def predict(self, X: TableLike, return_std: bool = False) -> Any:
        """Predict the target.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        return_std : bool, default=False
            Also return the standard deviation of a new output about its prediction, as
            `secret_jax.estimators.conformal.node_deviations` estimates it for the row's
            leaf; with equations of logarithms it is a share of the prediction.

        Returns
        -------
        prediction, deviation : ndarray of shape (n_rows,), or (n_rows, n_outputs)
            float64; deviations only with ``return_std``. Of an array of JAX, or of
            shards, arrays of JAX where it lies, float32.
        """
        row = None if return_std else self._plain_row(X)
        if row is not None:
            return routing.predict(self.tree_, row)
        if not return_std:
            return self._outputs(X)
        with self._computing(X, fall_back=True):
            tree, table = self._tree_and_rows(X)
            prediction, leaf = routing.predict(tree, table), routing.apply(tree, table)
        outputs = [tree.restricted(i) for i in range(tree.n_outputs)]
        deviation = np.stack([node_deviations(one) for one in outputs], axis=1)
        deviation = deviation[leaf].reshape(prediction.shape)
        return prediction, tree.loss.deviations(prediction, deviation)

    @property
    def _lowest(self) -> float:  # counts and amounts are never negative
        return 0.0 if self.tree_.loss.link == "exponential" else -np.inf
