"""The scikit-learn face: validate, call, store; no numerics."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager
from typing import Any, Literal, overload

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.table import Table
from secret_jax.data.validation import (
    fitted_names,
    restore_names,
    validated,
    validated_target,
    validated_weight,
)
from secret_jax.inspect.intervals import (
    conformal_factor,
    conformity_scores,
    node_deviations,
)
from secret_jax.inspect.mixin import ReadingMixin
from secret_jax.options import BornAgainOptions, RssOptions
from secret_jax.parameters import check_parameters, is_real
from secret_jax.prune.path import training_path
from secret_jax.runtime.devices import computing_on
from secret_jax.training import grown_tree, parts_of, refined_tree, rows_to_train_on
from secret_jax.tree import routing
from secret_jax.tree.structure import Tree, hardened


class SecretRegressor(ReadingMixin, RegressorMixin, BaseEstimator):
    """A readable regression tree with linear models in its leaves.

    Splits are proposed by the attributes, by two-component Gaussian mixtures with
    linear discriminants (Dobra & Gehrke 2002), by principal Hessian directions and by
    hinges, and compared by how much better linear models fit their sides.
    ``criterion="gini"`` is the paper's own search: mixture, discriminants, Gini gain.

    Parameters
    ----------
    oblique : bool or "auto", default="auto"
        Whether splits may be linear inequalities in several attributes. "auto" grows
        a tree without and a tree with them side by side and keeps the one with the
        lower error on rows that did not grow it (without any, the tree without them).
    leaf : {"shrunken", "linear", "constant", "em"}, default="shrunken"
        Leaf models: ridge regression shrunk toward the parent's model with a strength
        chosen by generalised cross-validation, plain least squares, the mean, or the
        regressor that the mixture's Gaussian implies (only with ``criterion="gini"``).
        "constant" makes all continuous attributes split-only.
    criterion : {"rss", "gini"}, default="rss"
        How candidate splits are compared: by how much better two linear models fit
        than one, or by the paper's Gini gain of the mixture's labels.
    gini_gain : {"normal", "counted"}, default="normal"
        Gini gain from the normal distributions' p-values or from counted labels. Only
        with ``criterion="gini"``.
    prune : {"auto", "holdout", "cross-validation", "aic", "bic", "icomp", None}, \
            default="auto"
        Which subtree of the grown tree is kept. "holdout": the one with the least error
        on ``prune_set``, or on rows held out of the training data. "cross-validation":
        all rows grow the tree, and five further trees, each without a part of them, say
        what a degree of freedom has to save. "auto": cross-validation for up to 8192
        rows, those of ``prune_set`` included, and rows held out beyond. "aic", "bic",
        "icomp": an information criterion on the training rows (see
        `secret_jax.prune.path.by_criterion`). None: no pruning but by ``ccp_alpha``.
    validation_fraction : float, default=0.25
        Share of the rows held out where rows are (``prune="holdout"``, "auto" with many
        rows, ``refine="soft"``) and no ``prune_set`` is given.
    refit : bool, default=True
        When held-out rows have said how many leaves to keep: grow the tree again on
        training and pruning rows together and cut it to that size. False also keeps
        ``prune="auto"`` from cross-validating.
    born_again : bool, default=True
        Grow a cross-validated tree again, to at most the same size, on what the trees
        of the parts say together, at the rows and at points between them: a mean of
        several trees errs less than each, and one tree can learn most of it (Breiman &
        Shang 1996). It is taken if it fits the rows well enough. No effect with any
        other way of pruning, on samples (see ``em_sample``), or on a single leaf.
    ccp_alpha : float or None, default=None
        With ``prune="auto"`` or None: keep the subtree with the least mean squared
        training error plus ``ccp_alpha`` times the number of leaves, as scikit-learn's
        trees do. In units of the target squared; 0 cuts only splits that save nothing.
    refine : {"hard", "blend", "soft"} or None, default=None
        Refinement of the whole tree after pruning. "hard" chooses every split again for
        the subtrees that it has (see `secret_jax.refine.tao`), which pays where
        there is little noise. "blend" turns every split into a gate that lets rows near
        the threshold go both ways, of one relative width chosen on rows that did not
        grow the tree; nothing is trained. "soft" trains all gates and leaves together
        by gradient, which takes longer and is the most accurate. Either way the result
        is one tree of the same kind, and the tree is kept as it was where refinement
        does not pay.
        Gradients stop by rows held out, ``prune_set`` or a share of the rows, and all
        rows train the tree again. With "soft" splits on one attribute come to hold
        others, unless ``oblique=False`` or ``max_split_features`` is given.
    min_samples_split : int, float or "auto", default="auto"
        A node with fewer rows is not split; a float is a fraction of the rows that
        grow the tree. "auto" is half a per cent of them; of few rows, two
        per cent, up to 80; of a sample (see ``em_sample``), at least
        ``em_sample / 2``.
    min_samples_leaf : int, float or "auto", default="auto"
        Fewest rows of a leaf; a float is a fraction of the rows. "auto" is a quarter
        per cent of them, but at least five, and of a sample at least
        ``em_sample / 8``; half as many in a tree that is ``born_again``.
    max_depth : int or None, default=None
    max_leaf_nodes : int or None, default=None
    clip_margin : float or None, default=0.1
        Predictions are clipped to the range of the outputs in their leaf, widened on
        both sides by this share of it. None: no clipping.
    clip_min_samples : int, default=50
        A smaller leaf takes that range from the nearest ancestor with so many rows.
    n_starts : int, default=4
        EM starts per node, side by side; the likeliest is kept. This and the next
        three apply to ``criterion="gini"`` only.
    em_start : {"component", "rows"}, default="component"
        First start of EM: by the first principal component, or from two random rows.
    max_iter : int, default=50
        Most EM steps.
    tol : float, default=1e-6
        EM stops when the mean log-likelihood rises by less.
    em_sample : int or None, default=2048
        Most rows of a node that the search for its split sees. Of more than 32 times
        as many rows a sample grows and prunes the tree, that many or every 32nd row;
        all rows then give the models of its nodes (with ``refit=True``). None: all.
    max_split_features : int or None, default=None
        Most attributes of an oblique split: fewer read better. None: all. Only with
        ``criterion="rss"``.
    discrete_regressors : bool or "auto", default="auto"
        Whether linear models and oblique splits see indicators of the categories.
        "auto": of the attributes with 30 or more rows a category. Only with
        ``criterion="rss"``.
    missing_values : {"learn", "mean", "error"}, default="learn"
        What a missing number (NaN, None, pandas.NA, a null) is. "learn": splits on one
        attribute learn the side of its gaps, or split the gaps from the values; in sums
        a gap counts as the mean of its column in training. "mean": it counts as that
        mean everywhere, which is all that ``criterion="gini"`` knows. A missing
        category is a category of its own. What was never missing in training counts as
        the mean, or as an unseen category without a warning. "error" refuses.
    missing_regressors : bool or "auto", default="auto"
        With ``missing_values="learn"``: whether linear models and oblique splits see
        indicators of gaps. "auto": of columns with 30 or more gaps and values.
    discrete_features, split_features : sequence of str or int, or bool mask, optional
        Columns that are discrete, or continuous but only split on. By default text,
        boolean and categorical columns of a DataFrame are discrete, and all others are
        regressors.
    random_state : int, RandomState instance or None, default=None
        Seeds the shuffle, the hold-out and the random starts.
    device : str or None, default=None
        Where to compute: "cpu", "gpu", "tpu", or one of several as in "gpu:1". None:
        where JAX prefers, which is an accelerator if it sees one. A fitted model
        predicts there too, or where JAX prefers if the device is gone.
    max_memory : int or None, default=None
        Most memory of the device, in MiB, for one step over the rows, which go through
        in tiles. None: 1024 on an accelerator, tiles that suit its caches on a
        processor.
    verbose : int, default=0
        1 prints a line per level to standard error.

    Attributes
    ----------
    tree_ : secret_jax.tree.structure.Tree
    n_leaves_, depth_ : int
    n_leaves_grown_ : int
        Leaves before pruning.
    conformity_scores_, conformity_weight_ : ndarray of shape (n_calibration_rows,)
        Only after `conformalize`: rising scores and their rows' weights.
    n_refine_steps_ : int
        Gradient steps after which the pruning rows stopped ``refine="soft"``, passes
        over the splits of ``refine="hard"``, or 0.
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

    # What the search does beyond the parameters; benchmarks take parts of it away.
    _rss = RssOptions()
    _born_again = BornAgainOptions()

    def __init__(
        self,
        oblique: bool | Literal["auto"] = "auto",
        leaf: Literal["shrunken", "linear", "constant", "em"] = "shrunken",
        criterion: Literal["rss", "gini"] = "rss",
        *,
        gini_gain: Literal["normal", "counted"] = "normal",
        prune: Literal["auto", "holdout", "cross-validation", "aic", "bic", "icomp"]
        | None = "auto",
        validation_fraction: float = 0.25,
        refit: bool = True,
        born_again: bool = True,
        ccp_alpha: float | None = None,
        refine: Literal["hard", "blend", "soft"] | None = None,
        min_samples_split: float | str = "auto",
        min_samples_leaf: float | Literal["auto"] = "auto",
        max_depth: int | None = None,
        max_leaf_nodes: int | None = None,
        clip_margin: float | None = 0.1,
        clip_min_samples: int = 50,
        n_starts: int = 4,
        em_start: Literal["component", "rows"] = "component",
        max_iter: int = 50,
        tol: float = 1e-6,
        em_sample: int | None = 2048,
        max_split_features: int | None = None,
        discrete_regressors: bool | Literal["auto"] = "auto",
        missing_values: Literal["learn", "mean", "error"] = "learn",
        missing_regressors: bool | Literal["auto"] = "auto",
        discrete_features: Any = None,
        split_features: Any = None,
        random_state: Any = None,
        device: str | None = None,
        max_memory: int | None = None,
        verbose: int = 0,
    ):
        self.oblique = oblique
        self.leaf = leaf
        self.criterion = criterion
        self.gini_gain = gini_gain
        self.prune = prune
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.born_again = born_again
        self.ccp_alpha = ccp_alpha
        self.refine = refine
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.max_depth = max_depth
        self.max_leaf_nodes = max_leaf_nodes
        self.clip_margin = clip_margin
        self.clip_min_samples = clip_min_samples
        self.n_starts = n_starts
        self.em_start = em_start
        self.max_iter = max_iter
        self.tol = tol
        self.em_sample = em_sample
        self.max_split_features = max_split_features
        self.discrete_regressors = discrete_regressors
        self.missing_values = missing_values
        self.missing_regressors = missing_regressors
        self.discrete_features = discrete_features
        self.split_features = split_features
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    @classmethod
    def paper(
        cls,
        *,
        oblique: bool = True,
        leaf: Literal["linear", "constant", "em"] = "linear",
        min_samples_split: float = 0.01,
        random_state: Any = None,
    ) -> SecretRegressor:
        """The setting of section 5 of Dobra & Gehrke 2002.

        All rows of a node are used for EM, one start at a time, a node is split while
        it holds 1 % of the data, predictions are not clipped.
        """
        return cls(
            oblique=oblique,
            leaf=leaf,
            criterion="gini",
            gini_gain="normal",
            prune="holdout",
            validation_fraction=0.375,  # 30 % to prune for 50 % to train
            refit=False,
            min_samples_split=min_samples_split,
            min_samples_leaf=1,
            clip_margin=None,
            n_starts=1,
            em_start="component",
            em_sample=None,
            random_state=random_state,
        )

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, prune_set: Any = None
    ) -> SecretRegressor:
        """Grow and prune a tree.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
        prune_set : tuple (X, y), optional
            Rows to prune on. With ``refit=True`` the final tree is grown on them as
            well; up to 8192 rows, ``prune="auto"`` cross-validates both together.

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
        check_parameters(self)
        names_before = fitted_names(self)
        try:
            with computing_on(self.device, self.max_memory):
                prepared = rows_to_train_on(self, X, y, sample_weight, prune_set)
                parts = parts_of(self, prepared)
                fitted = grown_tree(self, prepared, parts)
        except BaseException:
            restore_names(self, names_before)
            raise
        self.tree_ = fitted.tree
        self.n_leaves_grown_ = fitted.n_leaves_grown
        self.n_refine_steps_ = 0
        self._forget_calibration()
        if self.refine is not None:
            with computing_on(self.device, self.max_memory):
                self.tree_, self.n_refine_steps_ = refined_tree(
                    self, prepared, parts, fitted
                )
        return self

    def cost_complexity_pruning_path(
        self, X: Any, y: Any, sample_weight: Any = None
    ) -> Bunch:
        """The prices of a leaf at which weakest-link pruning cuts the next split.

        A tree is grown on all rows with the parameters of this estimator, but without
        any pruning; the estimator stays as it is.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        Bunch
            ``ccp_alphas``, ndarray of shape (n_subtrees,), rising from 0, and
            ``impurities``, of the same shape: the mean squared training error, in units
            of the target squared, of the subtree that ``prune=None, ccp_alpha=alpha``
            gives.

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
        parameters |= {"prune": None, "ccp_alpha": None, "refine": None}
        model = type(self)(**parameters)
        check_parameters(model)
        with computing_on(self.device, self.max_memory):
            prepared = rows_to_train_on(model, X, y, sample_weight)
            tree = grown_tree(model, prepared, parts_of(model, prepared)).tree
        path, errors = training_path(tree, *prepared.rows)
        return Bunch(ccp_alphas=path.alphas, impurities=errors)

    @property
    def n_leaves_(self) -> int:
        """Number of leaves."""
        check_is_fitted(self)
        return self.tree_.n_leaves

    @property
    def depth_(self) -> int:
        """Length of the longest path from the root to a leaf."""
        check_is_fitted(self)
        return self.tree_.max_depth

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
            `secret_jax.inspect.intervals.node_deviations` estimates it for the row's leaf.

        Returns
        -------
        prediction : ndarray of shape (n_rows,), float64
        deviation : ndarray of shape (n_rows,), float64
            Only with ``return_std``.
        """
        with self._predicting():
            prediction = routing.predict(*self._tree_and_rows(X))
        if not return_std:
            return prediction
        return prediction, node_deviations(self.tree_)[self.apply(X)]

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
        y = validated_target(y, X)
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
        with self._predicting():
            return routing.apply(*self._tree_and_rows(X))

    def decision_path(self, X: Any) -> np.ndarray:
        """Nodes on the way of every row.

        Returns
        -------
        ndarray of shape (n_rows, depth + 1), int32
            Node ids from the root down; below its leaf a row has -1.
        """
        with self._predicting():
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

    def _predicting(self) -> AbstractContextManager[None]:
        # A model that was fitted on a GPU predicts on a machine that has none.
        return computing_on(self.device, self.max_memory, fall_back=True)

    def _tree_and_rows(self, X: Any) -> tuple[Tree, Table]:
        check_is_fitted(self)
        X = validated(self, X, reset=False)
        return self.tree_, self.tree_.schema.encode(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing_values != "error"
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "tree_")
