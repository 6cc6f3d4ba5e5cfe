"""The scikit-learn face: validate, call, store; no numerics."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, ClassVar, Literal, overload

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Bunch, check_random_state
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.device import is_resident
from secret_jax.data.encoding import encode
from secret_jax.data.rows import Table
from secret_jax.data.sharded import is_sharded, shard_rows
from secret_jax.data.validation import (
    checked_weight,
    fitted_names,
    names_of,
    restore_names,
    scaled_weight,
    validated,
    validated_rows_beside,
    validated_targets,
    validated_weight,
)
from secret_jax.fit import CheckedRows, Finished, Plan, fit_tree, refine_tree
from secret_jax.inspect.intervals import (
    conformal_factor,
    conformity_scores,
    node_deviations,
)
from secret_jax.inspect.mixin import ReadingMixin
from secret_jax.models.interface import LeafModel
from secret_jax.models.least_squares import Constant, Implied, LeastSquares
from secret_jax.models.sharded import predict_shards
from secret_jax.parameters import CONSTRAINTS, NestedParameters, plan_of
from secret_jax.prune.hold_out import HoldOut
from secret_jax.prune.interface import PruningRule
from secret_jax.prune.path import training_path
from secret_jax.refine.distillation import Distillation
from secret_jax.refine.interface import Refinement, RefinementWarning
from secret_jax.runtime.devices import computing_on
from secret_jax.runtime.parallel import one_thread_for_products
from secret_jax.runtime.progress_line import shown
from secret_jax.runtime.values import is_real
from secret_jax.runtime.warning import warn
from secret_jax.splits.interface import SplitFinder
from secret_jax.splits.secret import SecretSplits
from secret_jax.stream.mixin import StreamMixin
from secret_jax.tree import routing
from secret_jax.tree.structure import Tree, hardened

# Of rows that may go the short way.
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class SecretRegressor(StreamMixin, ReadingMixin, RegressorMixin, NestedParameters):
    """A readable regression tree with linear models in its leaves.

    Splits are proposed by the attributes, by two-component Gaussian mixtures with
    linear discriminants (Dobra & Gehrke 2002), by principal Hessian directions and by
    hinges, and compared by how much better linear models fit their sides.
    ``splits="secret"`` is the paper's own search: mixture, discriminants, Gini gain.

    Four parameters say what a tree is made of: ``splits``, ``leaf``, ``prune`` and
    ``refine``. Each is a name, or a value whose fields are its options, such as
    ``splits=RssSplits(max_split_features=2)``; the fields are parameters as well, as in
    ``set_params(splits__max_split_features=2)``. A value of one's own is a subclass
    with one method, see CONTRIBUTING.md.

    Parameters
    ----------
    oblique : bool or "auto", default="auto"
        Whether splits may be linear inequalities in several attributes. "auto" grows
        a tree without and a tree with them side by side and keeps the one with the
        lower error, with the price of its size (see ``tolerance``), on rows that did
        not grow it, or of the lower information criterion (without either, the tree
        without them).
    splits : {"rss", "secret", "cart", "guide"} or SplitFinder, default="rss"
        How splits are found: by how much better two linear models fit than one
        (`RssSplits`), by the paper's mixture (`SecretSplits`), by the variance of the
        output (`CartSplits`), by chi-squared tests of residual signs (`GuideSplits`).
    leaf : {"ridge", "linear", "constant", "implied"} or LeafModel, default="ridge"
        Leaf models: ridge regression shrunk toward the parent's model with a strength
        chosen by generalised cross-validation (`Ridge`), plain least squares
        (`LeastSquares`), the mean (`Constant`, which makes all continuous attributes
        split-only), or the regressor that the mixture's Gaussian implies (`Implied`,
        only with ``splits="secret"``). Their fields also say how predictions are
        clipped.
    prune : {"auto", "holdout", "cross-validation", "aic", "bic", "icomp", None} or \
            PruningRule, default="auto"
        Which subtree of the grown tree is kept. "holdout": the one with the least error
        on ``prune_set``, or on rows held out of the training data (`HoldOut`).
        "cross-validation": all rows grow the tree, and five further trees, each without
        a part of them, say what a degree of freedom has to save (`CrossValidation`).
        "auto": cross-validation for up to 8192 rows, those of ``prune_set`` included,
        and rows held out beyond. "aic", "bic", "icomp": an information criterion on the
        training rows (`InformationCriterion`). `CostComplexity`: a given penalty for a
        leaf. None: no pruning.
    refine : {"tao", "blend", "soft", None} or Refinement, default=None
        Refinement of the whole tree after pruning. "tao" chooses every split again for
        the subtrees that it has (`Tao`), which pays where there is little noise.
        "blend" turns every split into a gate that lets rows near the threshold go both
        ways, of one relative width chosen on rows that did not grow the tree (`Blend`);
        nothing is trained. "soft" trains all gates and leaves together by gradient
        (`SoftGates`), which takes longer and is the most accurate. Either way the
        result is one tree of the same kind, and the tree is kept as it was where
        refinement does not pay. Gradients stop by rows held out, ``prune_set`` or a
        share of the rows, and all rows train the tree again. With "soft" splits on one
        attribute come to hold others, unless ``oblique=False`` or the splits have a
        ``max_split_features``.
    distill : bool or Distillation, default=True
        Grow a cross-validated tree again, to at most the same size, on what the trees
        of the folds say together, at the rows and at points between them: a mean of
        several trees errs less than each, and one tree can learn most of it (born-again
        trees, Breiman & Shang 1996). It is taken if it fits the rows well enough. No
        effect with any other way of pruning, on samples (see ``max_split_samples``), or
        on a single leaf.
    tau : float, default=0.03
        How short the equations are: the shortest one is taken that differs from the
        node's full model by at most this share of the noise variance in the node. 0.05
        is terse, 0.01 cautious, 0 keeps all terms. Leaves that ``refine="soft"`` has
        trained together keep theirs.
    tolerance : float, default=0.03
        How much more error, as a share, a tree of half as many leaves may have where
        rows that did not grow the trees compare them (``prune`` by cross-validation or
        held-out rows): of trees that can hardly be told apart the smaller one reads
        better. It is multiplied by the root of the share of the variance that stays
        unexplained: a tree that explains nearly everything may be large. Up to four
        leaves cost nothing. 0: the tree of least error.
    min_samples_split : int, float or "auto", default="auto"
        A node with fewer rows is not split; a float is a fraction of the rows that
        grow the tree. "auto" is half a per cent of them; of few rows, two
        per cent, up to 80; of a sample (see ``max_split_samples``), at least half of
        what a search sees.
    min_samples_leaf : int, float or "auto", default="auto"
        Fewest rows of a leaf; a float is a fraction of the rows. "auto" is a quarter
        per cent of them, but at least five, and of a sample at least an eighth of what
        a search sees; half as many in a tree that is distilled.
    min_gain : float or "auto", default="auto"
        A split must save so many noise variances for each coefficient that it adds.
        "auto" is 1.5, rising to 2.5 from 1000 to 4000 rows. Splits that know no noise
        ("secret", "cart", "guide") need only save something.
    max_depth : int or None, default=None
    max_leaf_nodes : int or None, default=None
        The best splits are kept.
    max_split_samples : int or None, default=2048
        Most rows of a node that the search for its split sees. Of more than 32 times
        as many rows a sample grows and prunes the tree, that many or every 32nd row;
        all rows then give the models of its nodes (unless ``HoldOut(refit=False)``
        prunes it). None: all.
    discrete_features, split_features : sequence of str or int, or bool mask, optional
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
    missing_values : {"learn", "mean", "error"}, default="learn"
        What a missing number is (NaN, None, pandas.NA, a null). "learn": splits on one
        attribute learn the side of its missing values, or split them from the others;
        in sums a missing value counts as the mean of its column in training. "mean": it
        counts as that mean everywhere, which is all that other splits than "rss" know.
        A missing category is a category of its own. What was never missing in training
        counts as the mean, or as an unseen category without a warning. "error" refuses.
    random_state : int, RandomState instance or None, default=None
        Seeds split finders that are random ("secret", or one of your own). Everything
        else depends on the content of the rows alone: folds, samples and the tree are
        the same in every fit.
    device : str or None, default=None
        Where to compute: "cpu", "gpu", "tpu", or one of several as in "gpu:1". None:
        where JAX prefers, which is an accelerator if it sees one; but up to 131,072
        rows in the memory of the host on the processor, which launches cost less. A
        fitted model predicts there too, or where JAX prefers if the device is gone.
    max_memory : int or None, default=None
        Most memory of the device, in MiB, for one step over the rows, which go through
        in tiles. None: 1024 on an accelerator, tiles that suit its caches on a
        processor.
    verbose : int, default=0
        1 draws a line that tells how far a fit is (stage, share, time) on a terminal
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
    everywhere. Other weights (and integers whose sum float64 cannot hold exactly) are
    first scaled to a mean of one.

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

    reading_: dict[str, Any]
    distillation_: dict[str, Any]

    def __init__(
        self,
        oblique: bool | Literal["auto"] = "auto",
        splits: Literal["rss", "secret", "cart", "guide"] | SplitFinder = "rss",
        leaf: Literal["ridge", "linear", "constant", "implied"] | LeafModel = "ridge",
        *,
        prune: Literal["auto", "holdout", "cross-validation", "aic", "bic", "icomp"]
        | PruningRule
        | None = "auto",
        refine: Literal["tao", "blend", "soft"] | Refinement | None = None,
        distill: bool | Distillation = True,
        tau: float = 0.03,
        tolerance: float = 0.03,
        min_samples_split: float | Literal["auto"] = "auto",
        min_samples_leaf: float | Literal["auto"] = "auto",
        min_gain: float | Literal["auto"] = "auto",
        max_depth: int | None = None,
        max_leaf_nodes: int | None = None,
        max_split_samples: int | None = 2048,
        discrete_features: Any = None,
        split_features: Any = None,
        indicators: bool | Literal["auto"] = "auto",
        missing_values: Literal["learn", "mean", "error"] = "learn",
        random_state: Any = None,
        device: str | None = None,
        max_memory: int | None = None,
        verbose: int = 0,
    ):
        self.oblique = oblique
        self.splits = splits
        self.leaf = leaf
        self.prune = prune
        self.refine = refine
        self.distill = distill
        self.tau = tau
        self.tolerance = tolerance
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_gain = min_gain
        self.max_depth = max_depth
        self.max_leaf_nodes = max_leaf_nodes
        self.max_split_samples = max_split_samples
        self.discrete_features = discrete_features
        self.split_features = split_features
        self.indicators = indicators
        self.missing_values = missing_values
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    @classmethod
    def paper(
        cls,
        *,
        oblique: bool = True,
        leaf: Literal["linear", "constant", "implied"] = "linear",
        start: Literal["rows", "component"] = "rows",
        min_samples_split: float = 0.01,
        random_state: Any = None,
    ) -> SecretRegressor:
        """The setting of section 5 of Dobra & Gehrke 2002.

        All rows of a node are used for EM, which starts once, at random; a node is
        split while it holds 1 % of the data; predictions are not clipped.

        Parameters
        ----------
        oblique : bool, default=True
            SECRET(O), or SECRET.
        leaf : {"linear", "constant", "implied"}, default="linear"
        start : {"rows", "component"}, default="rows"
            How EM starts: at two random rows of the node, for the paper's "clusters
            initialized randomly", or by the sign of the first principal component,
            which gives better trees and is not the paper's.
        min_samples_split : float, default=0.01
        random_state : int, RandomState instance or None, default=None

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
        models = {"linear": LeastSquares, "constant": Constant, "implied": Implied}
        return cls(
            oblique=oblique,
            splits=SecretSplits(start=start, n_starts=1),
            leaf=models[leaf](clip_margin=None),
            prune=HoldOut(fraction=0.375, refit=False),  # 30 % to prune for 50 to train
            tau=0.0,
            tolerance=0.0,
            min_samples_split=min_samples_split,
            min_samples_leaf=1,
            max_split_samples=None,
            random_state=random_state,
        )

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, prune_set: Any = None
    ) -> SecretRegressor:
        """Grow and prune a tree.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        sample_weight : array-like of shape (n_rows,), optional
        prune_set : tuple (X, y) or (X, y, sample_weight), optional
            Rows to prune on. Unless ``HoldOut(refit=False)`` prunes, the final tree is
            grown on them as well, and their categories are those of the tree; up to
            8192 rows, ``prune="auto"`` cross-validates both together. Without weights
            they weigh one each, beside weights of X that are whole numbers or were
            scaled to a mean of one.

        Returns
        -------
        SecretRegressor
            Itself.

        Raises
        ------
        ValueError
            If the data or a parameter cannot be used, with what can be done about it.
        MemoryError
            If the device runs out of memory.

        Warns
        -----
        RefinementWarning
            If ``refine="soft"`` did not pay, or there were no rows for gates to be
            chosen on, and the hard tree was kept.

        Notes
        -----
        A fit that is interrupted (by Ctrl-C, say) leaves the estimator as it was; one
        that is interrupted during the refinement leaves it fitted with the new hard
        tree. The KeyboardInterrupt is passed on in both cases.
        """
        plan = self._plan()
        with shown(self.verbose) as progress, one_thread_for_products():
            return self._fit(
                replace(plan, progress=progress), X, y, sample_weight, prune_set
            )

    def _fit(
        self, plan: Plan, X: Any, y: Any, sample_weight: Any, prune_set: Any
    ) -> SecretRegressor:
        names_before = fitted_names(self)
        try:
            with self._computing(X):
                given = self._given(X, y, sample_weight)
                others = self._pruning_rows(prune_set, given.targets.shape[1])
                together = others is not None and len(prune_set) == 3
                given, others = _scaled(given, others, together)
                finished = fit_tree(plan, given, others)
        except BaseException:
            restore_names(self, names_before)
            raise
        return self._finish(plan, finished, self._computing(X))

    def _finish(
        self,
        plan: Plan,
        finished: Finished,
        computing: AbstractContextManager[None],
    ) -> SecretRegressor:
        """Hand over a fitted tree, refined if that was asked for."""
        self.tree_ = finished.tree
        self.n_leaves_grown_ = finished.fitted.n_leaves_grown
        self.n_refine_steps_ = 0
        self._forget_calibration()
        for name in ("reading_", "distillation_"):
            self.__dict__.pop(name, None)
        if plan.refine is not None:
            with computing:
                refined = refine_tree(plan, finished)
            if refined.refusal:
                warn(f"The hard tree was kept: {refined.refusal}.", RefinementWarning)
            self.tree_, self.n_refine_steps_ = refined.tree, refined.n_steps
        return self

    def _plan(self) -> Plan:
        """The parameters, checked, as what a fit is to do."""
        try:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        except ValueError as error:
            raise ValueError(f"random_state={self.random_state!r}: {error}.") from None
        return plan_of(
            self.get_params(deep=False),
            type(self).__name__,
            seed=seed,
        )

    def _given(self, X: Any, y: Any, sample_weight: Any) -> CheckedRows:
        """Rows to train on, checked; the names of the features are noted."""
        X = validated(self, X, reset=True)
        targets = validated_targets(y, X)
        names = names_of(y, targets.shape[1])
        return CheckedRows(X, targets, checked_weight(sample_weight, X), names)

    def _pruning_rows(self, prune_set: Any, n_outputs: int) -> CheckedRows | None:
        if prune_set is None:
            return None
        holds_out = isinstance(self.prune, PruningRule) and self.prune.held_out_share
        if self.prune not in ("auto", "holdout") and not holds_out:
            raise ValueError(
                f"prune_set was given, but prune={self.prune!r} uses no such rows. "
                "Set prune='auto' or 'holdout', or leave prune_set out."
            )
        rows = validated_rows_beside(
            self, prune_set, n_outputs, "prune_set", "prune on"
        )
        return CheckedRows(*rows)

    def cost_complexity_pruning_path(
        self, X: Any, y: Any, sample_weight: Any = None
    ) -> Bunch:
        """The penalties of a leaf at which weakest-link pruning cuts the next split.

        A tree is grown on all rows with the parameters of this estimator, but without
        any pruning; the estimator stays as it is.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        Bunch
            ``ccp_alphas``, ndarray of shape (n_subtrees,), rising from 0, and
            ``impurities``, of the same shape: the mean squared training error, in units
            of the target squared and summed over the targets, of the subtree that
            ``CostComplexity(alpha=alpha)`` keeps. Of very many rows (see
            ``max_split_samples``) both are measured on the sample that grows the tree,
            before all rows give its models.

        References
        ----------
        L. Breiman, J. H. Friedman, R. A. Olshen and C. J. Stone. Classification and
        Regression Trees. Wadsworth, 1984, chapter 3.

        Examples
        --------
        >>> from secret_jax import SecretRegressor
        >>> from secret_jax.datasets import make_fried
        >>> X, y = make_fried(500, random_state=0)
        >>> path = SecretRegressor().cost_complexity_pruning_path(X, y)
        >>> bool((path.ccp_alphas[:-1] < path.ccp_alphas[1:]).all())
        True
        """
        parameters: dict[str, Any] = self.get_params(deep=False)
        parameters.update(prune=None, refine=None)
        model = type(self)(**parameters)
        plan = model._plan()
        with (
            shown(self.verbose) as progress,
            self._computing(X),
            one_thread_for_products(),
        ):
            given, _ = _scaled(model._given(X, y, sample_weight))
            fitted = fit_tree(replace(plan, progress=progress), given, None).fitted
        path, errors = training_path(fitted.candidates[0].grown, fitted.training)
        return Bunch(ccp_alphas=path.alphas, impurities=errors)

    @property
    def n_leaves_(self) -> int:
        """Number of leaves."""
        check_is_fitted(self)
        return self.tree_.n_leaves

    @property
    def n_outputs_(self) -> int:
        """Number of targets."""
        check_is_fitted(self)
        return self.tree_.n_outputs

    @property
    def depth_(self) -> int:
        """Length of the longest path from the root to a leaf."""
        check_is_fitted(self)
        return self.tree_.max_depth

    def get_n_leaves(self) -> int:
        """Number of leaves, as scikit-learn's trees tell it: ``n_leaves_``."""
        return self.n_leaves_

    def get_depth(self) -> int:
        """Longest path from the root to a leaf, as scikit-learn's trees tell it."""
        return self.depth_

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> np.ndarray: ...

    @overload
    def predict(
        self, X: Any, return_std: Literal[True]
    ) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(
        self, X: Any, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the target.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        return_std : bool, default=False
            Also return the standard deviation of a new output about its prediction, as
            `secret_jax.inspect.intervals.node_deviations` estimates it for the row's
            leaf.

        Returns
        -------
        prediction : ndarray of shape (n_rows,), or (n_rows, n_outputs), float64
        deviation : ndarray of the same shape, float64
            Only with ``return_std``.
        """
        if not return_std and self._is_plain_row(X):
            short = routing.predict_one(self.tree_, X)
            if short is not None:
                return short
        with self._computing(X, fall_back=True):
            prediction = None
            if is_sharded(X) and self._is_plain_hard_tree():
                shards = shard_rows(validated(self, X, reset=False))
                prediction = predict_shards(self.tree_, shards)
            if prediction is None:
                prediction = routing.predict(*self._tree_and_rows(X))
        if not return_std:
            return prediction
        outputs = [self.tree_.output(i) for i in range(self.tree_.n_outputs)]
        deviation = np.stack([node_deviations(tree) for tree in outputs], axis=1)
        return prediction, deviation[self.apply(X)].reshape(prediction.shape)

    def conformalize(
        self, X: Any, y: Any, sample_weight: Any = None
    ) -> SecretRegressor:
        """Calibrate `predict_interval` on rows that were not used in `fit`.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
            Integers count as so many rows.

        Returns
        -------
        SecretRegressor
            Itself; another `fit` forgets the calibration.
        """
        prediction, deviation = self.predict(X, return_std=True)
        if self.tree_.n_outputs > 1:
            raise ValueError(
                f"conformalize knows a single output, and the tree has "
                f"{self.tree_.n_outputs}. Fit a model for each of them."
            )
        y = validated_targets(y, X)[:, 0]
        weight = validated_weight(sample_weight, X)
        scores, weight = conformity_scores(y - prediction, deviation, weight)
        self.conformity_scores_, self.conformity_weight_ = scores, weight
        return self

    def predict_interval(
        self, X: Any, coverage: float = 0.9
    ) -> tuple[np.ndarray, np.ndarray]:
        """Intervals that hold the outputs of new rows with a given probability.

        The prediction plus and minus a number of standard deviations (those of
        ``predict(X, return_std=True)``) that `conformalize` found on rows of its own.
        The probability is over new rows and calibration rows together, not one for
        every place in X.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        coverage : float, default=0.9
            In (0, 1).

        Returns
        -------
        lower, upper : ndarray of shape (n_rows,), float64

        Raises
        ------
        ValueError
            If the calibration rows are too few for the coverage.
        sklearn.exceptions.NotFittedError
            If `conformalize` was not called since the last `fit`.

        Examples
        --------
        >>> from secret_jax import SecretRegressor
        >>> from secret_jax.datasets import make_fried
        >>> X, y = make_fried(1500, random_state=0)
        >>> model = SecretRegressor(random_state=0).fit(X[:1000], y[:1000])
        >>> model = model.conformalize(X[1000:1300], y[1000:1300])
        >>> lower, upper = model.predict_interval(X[1300:], coverage=0.8)
        >>> bool(0.7 < ((lower <= y[1300:]) & (y[1300:] <= upper)).mean() < 0.9)
        True
        """
        check_is_fitted(self)
        if not hasattr(self, "conformity_scores_"):
            raise NotFittedError(
                "predict_interval needs calibration rows, and conformalize has seen "
                "none since the last fit. Call conformalize(X, y) with rows that fit "
                "did not see."
            )
        if not is_real(coverage) or not 0 < coverage < 1:
            raise ValueError(f"coverage must be a float in (0, 1). Got {coverage!r}.")
        factor = conformal_factor(
            self.conformity_scores_, self.conformity_weight_, float(coverage)
        )
        prediction, deviation = self.predict(X, return_std=True)
        return prediction - factor * deviation, prediction + factor * deviation

    def apply(self, X: Any) -> np.ndarray:
        """Leaf of every row, shape (n_rows,), int32."""
        with self._computing(X, fall_back=True):
            return routing.apply(*self._tree_and_rows(X))

    def decision_path(self, X: Any) -> np.ndarray:
        """Nodes on the way of every row.

        Returns
        -------
        ndarray of shape (n_rows, depth + 1), int32
            Node ids from the root down; below its leaf a row has -1.
        """
        with self._computing(X, fall_back=True):
            path = routing.walk(*self._tree_and_rows(X))[0].T.copy()
        path[:, 1:][path[:, 1:] == path[:, :-1]] = -1
        return path

    def harden(self) -> SecretRegressor:
        """A copy whose gates are replaced by their thresholds.

        Every row then has one way and one equation. The models stay as they are: those
        of ``refine="soft"`` were trained to be mixed, so the error may rise a lot; fit
        with ``refine=None`` for a good hard tree.

        Returns
        -------
        SecretRegressor
            Fitted; a further change of either leaves the other as it is.
        """
        check_is_fitted(self)
        hard = copy.copy(self)
        hard.tree_ = hardened(self.tree_)
        hard._forget_calibration()
        return hard

    def _forget_calibration(self) -> None:
        """Scores of `conformalize` belong to one tree."""
        for name in ("conformity_scores_", "conformity_weight_"):
            self.__dict__.pop(name, None)

    def save(self, path: Any) -> None:
        """Write the fitted model to one file; see `secret_jax.tree.file`."""
        from secret_jax.tree.file import save_model

        save_model(self, path)

    @classmethod
    def load(cls, path: Any) -> SecretRegressor:
        """Read a model written by `save`."""
        from secret_jax.tree.file import load_model

        return load_model(path, cls)

    def _is_plain_row(self, X: Any) -> bool:
        """Whether there is nothing to check: one row of floats, columns by place."""
        return (
            type(X) is np.ndarray
            and X.shape == (1, self.__dict__.get("n_features_in_"))
            and X.dtype in _FLOATS
            and "tree_" in self.__dict__
            and "feature_names_in_" not in self.__dict__
        )

    def _is_plain_hard_tree(self) -> bool:
        """Whether rows in shards can be predicted where they lie."""
        check_is_fitted(self)
        return self.tree_.schema.is_plain and not self.tree_.is_soft

    def _computing(
        self, X: Any, fall_back: bool = False
    ) -> AbstractContextManager[None]:
        """On the device of the parameters; where it is None, on one that suits X."""
        # A model that was fitted on a GPU predicts on a machine that has none.
        shape = getattr(X, "shape", None) or (
            (len(X),) if isinstance(X, list | tuple) else None
        )
        resident = is_resident(X) or is_sharded(X)
        n_rows = None if resident or not isinstance(shape, tuple) else shape[0]
        return computing_on(
            self.device, self.max_memory, fall_back=fall_back, n_rows=n_rows
        )

    def _tree_and_rows(self, X: Any) -> tuple[Tree, Table]:
        check_is_fitted(self)
        X = validated(self, X, reset=False)
        asked = self.tree_.asked_attributes
        return self.tree_, encode(self.tree_.schema, X, asked)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing_values != "error"
        tags.input_tags.string = tags.input_tags.categorical = True
        tags.target_tags.multi_output = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "tree_")


def _scaled(
    given: CheckedRows, others: CheckedRows | None = None, together: bool = False
) -> tuple[CheckedRows, CheckedRows | None]:
    """Rows with their weights in the unit of `scaled_weight`, one for both if asked."""
    if others is None or not together:
        return given._replace(weight=scaled_weight(given.weight)), others
    weight = scaled_weight(np.concatenate([given.weight, others.weight]))
    own, other = np.split(weight, [len(given.weight)])
    return given._replace(weight=own), others._replace(weight=other)
