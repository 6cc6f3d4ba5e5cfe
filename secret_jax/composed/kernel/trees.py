"""Estimators of trees with kernels over their leaves, of numbers and of classes."""

from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

import numpy as np
from sklearn.base import RegressorMixin, clone
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from secret_jax.composed.base import ComposedClassifier, ComposedEstimator, Given
from secret_jax.composed.kernel.interface import Head, HeadFit, Regions
from secret_jax.composed.kernel.kernels import without_rounding
from secret_jax.composed.kernel.networks import GaussianProcess, RadialBasis
from secret_jax.composed.kernel.scoring import CumulativeScores, OptimalScores
from secret_jax.composed.kernel.search import (
    SEARCHES,
    Found,
    GreedySearch,
    Search,
    of_classes,
    of_numbers,
)
from secret_jax.composed.kernel.smoothing import Smoothing
from secret_jax.data.foreign import of_kind_of_x
from secret_jax.data.hashes import repeats_of
from secret_jax.data.labels import at_least, from_at_least
from secret_jax.data.validation import (
    TableLike,
    checked_weight,
    scaled_weight,
    validated,
    validated_targets,
)
from secret_jax.estimators.classifier import SecretClassifier
from secret_jax.estimators.conformal import ConformalMixin
from secret_jax.estimators.regressor import SecretRegressor
from secret_jax.inspect.view import with_all_classes
from secret_jax.runtime.parallel import one_thread_for_products
from secret_jax.runtime.progress import Stage, shown
from secret_jax.runtime.values import at_least as no_less
from secret_jax.runtime.values import refuse
from secret_jax.tree import routing

HEADS: dict[str, Head] = {
    "kernel": Smoothing(),
    "local": Smoothing(linear=True),
    "rbf": RadialBasis(),
    "gp": GaussianProcess(),
}
HeadOption: TypeAlias = Annotated[str, StrOptions({*HEADS, "auto"})] | Head
_TREE_OF_CLASSES = SecretClassifier(
    leaf="constant",
    splits="cart",
    oblique=False,
    prune=None,
    distill=False,
    min_samples_leaf=5,
    max_leaf_nodes=32,
)


@dataclass(eq=False, repr=False)
class KernelTree(ComposedEstimator):
    """Base of the estimators that put a head over a fitted tree."""

    tree: Any = None
    _: KW_ONLY
    head: HeadOption = "kernel"
    search: Annotated[str, StrOptions(set(SEARCHES))] | Search | None = None
    random_state: Annotated[int, no_less(0)] = 0
    verbose: bool | Annotated[int, no_less(0)] = False
    if TYPE_CHECKING:  # no parameters
        head_: Head = field(init=False)
        fitted_head_: Any = field(init=False)
        search_: Found = field(init=False)

    _predicts_with: ClassVar[str] = "fitted_head_"

    def _criterion(self, name: str, head: Head, fit: HeadFit, rows: Regions) -> float:
        """Information criterion of a fitted head."""
        return of_numbers(name, fit, rows)

    def _base(self, outputs: np.ndarray) -> np.ndarray:
        """What a tree says of rows, in the units of the head's targets."""
        return outputs

    def _fitted_tree(self, usual: Any, given: Given) -> Any:
        """Fit the tree, which keeps all regressors and no order."""
        tree: Any = clone(usual if self.tree is None else self.tree)
        if tree.monotonic_cst is not None:
            allowed = "one without monotonic_cst: what is added to it keeps no order"
            refuse("tree", type(self).__name__, allowed, tree)
        # Heads name columns by their places, and measure distances in all of them.
        if "leaf__drops_regressors" in tree.get_params():
            tree.set_params(leaf__drops_regressors=False)
        X, y, sample_weight, groups = given
        return tree.fit(X, y, sample_weight, groups=groups)

    def _with_head(
        self, tree: Any, given: Given, target: np.ndarray
    ) -> tuple[dict[str, Any], Regions, HeadFit]:
        """Fit the head over a fitted tree: fitted attributes, its rows and its fit."""
        named = {"auto": [*HEADS.values()]} | {n: [one] for n, one in HEADS.items()}
        heads = named[self.head] if isinstance(self.head, str) else [self.head]
        search = SEARCHES[self.search] if isinstance(self.search, str) else self.search
        for value in [*heads, *([search] if search else [])]:
            value.check()
        x, leaf, said, constants = self._routed(tree, given.X)
        weight = scaled_weight(checked_weight(given.sample_weight, given.X))
        n_columns = x.shape[1]
        every = _regions(x, leaf, said, target, weight)

        def rows_of(head: Head) -> Regions:
            alone = constants and not head.corrects_constants
            return every._replace(base=0.0 * every.base) if alone else every

        with one_thread_for_products():  # of small matrices, many times
            head = heads[0]
            if len(heads) > 1:
                by = search or GreedySearch()
                scores = [self._score(by, rows_of(one), one) for one in heads]
                head = heads[int(np.argmin(scores))]
            rows = rows_of(head)
            for column in head.columns or ():
                if column not in range(n_columns):
                    raise ValueError(
                        f"columns={head.columns!r} names the column {column!r}; the "
                        f"tree has {n_columns} standardised ones, from 0 on."
                    )
            fitted: dict[str, Any] = {"tree_": tree}
            if search is not None:
                score = partial(self._score, search, rows)
                result = Found(head, np.inf, 0, 0)
                searching = head, n_columns, score, self.random_state
                with shown(self.verbose) as progress:
                    stage = Stage("searching kernels", progress)
                    for result in search.results(*searching):
                        words = f"criterion {result.criterion:.5g}"
                        stage.at(result.n_turns, None, words)
                fitted["search_"], head = result, result.head
            fit = head.fit(rows._replace(x=head.of(rows.x)))
        return fitted | {"head_": head, "fitted_head_": fit.model}, rows, fit

    def _score(self, search: Search, rows: Regions, head: Head) -> float:
        """Criterion of a head, over some of the rows; infinite of one without a fit."""
        n = len(rows.x)  # of all leaves alike
        chosen = np.linspace(0, n - 1, min(n, search.max_rows)).astype(int)
        sample = Regions(head.of(rows.x)[chosen], *(part[chosen] for part in rows[1:]))
        try:
            return self._criterion(search.criterion, head, head.fit(sample), sample)
        except np.linalg.LinAlgError:
            return np.inf

    def _predicted(self, X: TableLike) -> tuple[np.ndarray, np.ndarray]:
        """What tree and head predict, and its deviations, (n_rows, n_outputs) each."""
        check_is_fitted(self)
        X = validated(self, X, reset=False)
        head = self.head_
        x, leaf, base, constants = self._routed(self.tree_, X)
        base = 0.0 * base if constants and not head.corrects_constants else base
        return self.fitted_head_.predict(head.of(x), leaf, base)

    def _routed(
        self, tree: Any, X: TableLike
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
        """Standardised columns of rows, leaves, predictions; if leaves are constants.

        Of a tree without regressors all numeric columns.
        """
        with tree._computing(X, fall_back=True):
            flat, table = tree._tree_and_rows(X)
            outputs, leaf = routing.predict(flat, table), routing.apply(flat, table)
        n_regressors = flat.schema.n_regressors
        columns = list(range(n_regressors) or flat.schema.continuous_positions)
        x = table.on_host().x[:, columns].astype(np.float64)
        return x, leaf, self._base(outputs.reshape(len(x), -1)), n_regressors == 0


def _regions(
    x: np.ndarray,
    leaf: np.ndarray,
    base: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
) -> Regions:
    """Distinct rows with weight, in an order that theirs does not change."""
    # A row is left out with all its copies, which would tell what it is. Some heads
    # take every other row, and smoothers tell equal ones apart.
    used = weight > 0
    parts = [leaf[:, None], x, target, base]
    table = np.column_stack(parts)[used]
    repeats = repeats_of([*x[used].T], table[:, :1], target[used])
    observed = 1.0 if repeats is None else repeats.number.sum() / len(table)
    rows, copy_of = np.unique(table, axis=0, return_inverse=True)
    order = np.lexsort(without_rounding(rows).T[::-1])
    ends = np.cumsum([part.shape[1] for part in parts])[:-1]
    leaf, x, target, base = np.split(rows[order], ends, axis=1)
    total = observed * np.bincount(copy_of.ravel(), weight[used])[order]
    return Regions(x, leaf[:, 0].astype(int), target, base, total)


@dataclass(eq=False, repr=False)
class KernelTreeRegressor(ConformalMixin, RegressorMixin, KernelTree):
    """Tree with a kernel model over its regions.

    A tree is fitted first; it can be read, drawn and saved, and keeps no rows. A *head*
    then models the target over its regions, by distances of the standardised regressors
    (of all numeric columns, if the leaves are constants).

    Parameters
    ----------
    tree : SecretRegressor, optional
        The tree; it is cloned. None: ``SecretRegressor()``, whose leaves are linear.
    head : {"kernel", "local", "rbf", "gp", "auto"} or Head, default="kernel"
        "kernel" and "local" add to the tree's prediction what it leaves of near
        training rows of the same leaf: their weighted mean, or a weighted linear model,
        which has no bias at the borders of a leaf (`Smoothing`). "rbf" is a network of
        one basis function for each leaf (`RadialBasis`), "gp" a Gaussian process of
        what that network leaves (`GaussianProcess`): of linear models they learn what
        these leave; in place of constants they predict themselves, without jumps.
        The values in `secret_jax.composed.kernel` have options: kernels, smoothed
        covariances. "auto" takes the one of the least criterion: that of ``search``,
        else ICOMP.
    search : {"genetic", "greedy"} or Search, optional
        Searches the head's columns, kernel and smoothed covariance of the least
        information criterion (`GeneticSearch`, `GreedySearch`); the tree stays.
    random_state : int, default=0
        Seed of the genetic search.
    verbose : bool or int, default=False
        Show the progress of the search.

    Attributes
    ----------
    tree_ : SecretRegressor
    head_ : Head
        The head, as a value.
    fitted_head_ : object
        What the head has learned: centers, kept rows, weights.
    search_ : Found
        The head that was found, its criterion, and how many were fitted; only with
        ``search``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if the training data had names.

    Notes
    -----
    "rbf" keeps one center for each leaf, "gp" at most ``max_centers`` rows; "kernel"
    and "local" keep all rows, and the time to predict a row grows with those of its
    leaf. Rows go through in blocks: the memory is bounded.

    References
    ----------
    L. Torgo. Functional Models for Regression Tree Leaves. ICML 1997.

    M. J. L. Orr. Introducing Radial Basis Function Networks from Regression Trees.
    University of Edinburgh, 1999.

    J. M. Lanning. A Kernelized Genetic Algorithm Decision Tree with Information
    Criteria. Dissertation, University of Tennessee, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from secret_jax import KernelTreeRegressor
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> model = KernelTreeRegressor(head="gp").fit(X, np.sin(X[:, 0]))
    >>> model.score(X, np.sin(X[:, 0])) > 0.999
    True
    """

    tree: SecretRegressor | None = None

    def _fitted(self, given: Given) -> dict[str, Any]:
        target = validated_targets(given.y, given.X, type(self).__name__)
        tree = self._fitted_tree(SecretRegressor(), given)
        return self._with_head(tree, given, target)[0]

    @of_kind_of_x
    def predict(
        self, X: TableLike, *, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict rows.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        return_std : bool, default=False
            Also return standard deviations: of ``head="gp"`` those of equation 4.55
            with the noise, else the leave-one-out error of every row's leaf.

        Returns
        -------
        prediction : ndarray of shape (n_rows,) or (n_rows, n_outputs), float64
        deviation : ndarray of the same shape
            Only with ``return_std``.
        """
        value, deviation = self._predicted(X)
        if value.shape[1] == 1:
            value, deviation = value[:, 0], deviation[:, 0]
        return (value, deviation) if return_std else value

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


@dataclass(eq=False, repr=False)
class KernelTreeClassifier(ComposedClassifier, KernelTree):
    """Classification tree with a kernel model over its regions.

    The head is a regression of class indicators; optimal scores make probabilities of
    what it says of rows that it was fitted without (flexible discriminant analysis).

    Parameters
    ----------
    tree : SecretClassifier, optional
        The tree; it is cloned. None: one by CART's splits with class
        frequencies in its leaves, up to 32 and unpruned: it says where regions are.
    head : {"kernel", "local", "rbf", "gp", "auto"} or Head, default="gp"
        As of `KernelTreeRegressor`.
    ordinal : bool, default=False
        Whether the classes are in order: that of ordered categories, else that of
        numbers or letters. The head then learns of each class but the first whether it
        is reached, and probabilities of later ones are no greater.
    search, random_state, verbose
        As of `KernelTreeRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Of ordered categories, with rows, in their order.
    tree_, head_, fitted_head_, search_, n_features_in_, feature_names_in_
        As of `KernelTreeRegressor`.
    scores_ : OptimalScores or CumulativeScores

    References
    ----------
    T. Hastie, R. Tibshirani and A. Buja. Flexible Discriminant Analysis by Optimal
    Scoring. Journal of the American Statistical Association 89, 1994.

    J. M. Lanning. A Kernelized Genetic Algorithm Decision Tree with Information
    Criteria. Dissertation, University of Tennessee, 2008, chapters 5 and 6.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from secret_jax import KernelTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> KernelTreeClassifier(head="rbf").fit(X, y).score(X, y) > 0.95
    True
    """

    tree: SecretClassifier | None = None
    _: KW_ONLY
    head: HeadOption = "gp"
    ordinal: bool = False
    if TYPE_CHECKING:  # no parameter
        scores_: OptimalScores | CumulativeScores = field(init=False)

    def _fitted(self, given: Given) -> dict[str, Any]:
        classes, member = self._members(given)
        tree = self._fitted_tree(_TREE_OF_CLASSES, given)
        target = at_least(member) if self.ordinal else member
        fitted, rows, fit = self._with_head(tree, given, target)
        return {"classes_": classes, "scores_": self._scores(fit, rows), **fitted}

    def _scores(self, fit: HeadFit, rows: Regions) -> OptimalScores | CumulativeScores:
        kind = CumulativeScores if self.ordinal else OptimalScores
        return kind.of(fit.left_out, rows.target[fit.row], rows.weight[fit.row])

    def _criterion(self, name: str, head: Head, fit: HeadFit, rows: Regions) -> float:
        member = rows.target[fit.row]
        member = from_at_least(member) if self.ordinal else member
        prediction = fit.left_out if name == "icomp" else fit.fitted
        probability = self._scores(fit, rows).probability(prediction)
        return of_classes(name, fit, rows, probability, member, head)

    def _probabilities(self, X: TableLike) -> np.ndarray:
        value, _ = self._predicted(X)
        return self.scores_.probability(value)

    def _base(self, outputs: np.ndarray) -> np.ndarray:
        probability = with_all_classes(outputs)
        return at_least(probability) if self.ordinal else probability
