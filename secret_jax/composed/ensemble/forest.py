"""Forests of linear trees, with out-of-bag errors."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils._param_validation import RealNotInt
from sklearn.utils.validation import check_is_fitted

from secret_jax.composed.ensemble.estimator import EnsembleEstimator
from secret_jax.composed.ensemble.growth import (
    SPLITS,
    Ensemble,
    grown_with_models,
    key_of,
)
from secret_jax.data.encoding import encode
from secret_jax.data.foreign import of_kind_of_x
from secret_jax.data.rows import Merged, Rows, Table, merged
from secret_jax.data.schema import TableSchema
from secret_jax.data.validation import ArrayLike, TableLike, scaled_rows
from secret_jax.estimators.parameters import CountOrShare
from secret_jax.fit.grow.frontier import Root
from secret_jax.fit.grow.grower import n_inputs
from secret_jax.fit.grow.on_device import resident
from secret_jax.fit.prepare import read_rows
from secret_jax.runtime.devices import on_accelerator
from secret_jax.runtime.parallel import N_WORKERS, in_blocks
from secret_jax.runtime.progress import Stage
from secret_jax.runtime.values import Range, at_least, is_integer
from secret_jax.tree.routing import values
from secret_jax.tree.structure import Tree
from secret_jax.tree.walk import left_of, values_at

# Maximum number of rows, over all trees that grow at a time.
_MOST_PLACES = 1 << 19
# Least rows of a leaf, of few rows and of many: one for so many rows in between. Larger
# leaves erred less on tables of thousands of rows, and take half the time.
_LEAST_LEAF, _ROWS_OF_LEAST = (5, 10), 250


@dataclass(kw_only=True, eq=False, repr=False)
class SecretForestRegressor(RegressorMixin, EnsembleEstimator):
    """Mean of many trees with linear models in their leaves.

    Every tree is grown on a bag of rows drawn with replacement, and every node is split
    on the best of a few attributes drawn for it alone (Breiman 2001). Out-of-bag
    predictions measure the error without further rows.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees.
    max_features : int, float, "sqrt", "log2" or None, default=1/3
        Number of attributes that a node draws, or their share. None: all of them. A
        node in which none of them gives a split is searched on all others.
    min_samples_leaf : "auto", int or float, default="auto"
        Minimum number of rows of a leaf, or their share of the bag. "auto": 5, and up
        to 10 where there are many.
    max_leaf_nodes : int or None, default=None
    oblique : bool, default=False
        Whether splits may be linear inequalities in several of the drawn attributes.
    bootstrap : bool, default=True
        False: every tree has all rows, and nothing is out of a bag.
    random_state : int, RandomState instance or None, default=None
        Draws bags and attributes. None: the same in every fit.
    missing_values, categorical_features, split_features, monotonic_cst, device, \
            verbose
        As in `secret_jax.SecretRegressor`.

    Attributes
    ----------
    ensemble_ : secret_jax.composed.ensemble.growth.Ensemble
        The trees are "boosters" of one tree each.
    oob_prediction_ : ndarray of shape (n_rows,), or (n_rows, n_outputs)
        Mean prediction for every training row of the trees that lack it; NaN for rows
        in all bags or without weight. Only with ``bootstrap``.
    oob_score_ : float
        R² of these predictions, by the rows' weights.
    feature_importances_ : ndarray of shape (n_features_in_,)
    n_outputs_, n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if the training data had names.

    References
    ----------
    L. Breiman. Random Forests. Machine Learning 45, 2001.

    Examples
    --------
    >>> from secret_jax import SecretForestRegressor
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(400, random_state=0)
    >>> model = SecretForestRegressor(n_estimators=20, random_state=0).fit(X, y)
    >>> 0.8 < model.oob_score_ < model.score(X, y)
    True
    """

    n_estimators: Annotated[int, at_least(1)] = 100
    max_features: (
        Annotated[int, at_least(1)]
        | Annotated[float, Range(RealNotInt, 0.0, 1.0, closed="right")]
        | Literal["sqrt", "log2"]
        | None
    ) = 1 / 3
    min_samples_leaf: CountOrShare = "auto"
    max_leaf_nodes: Annotated[int, at_least(1)] | None = None
    oblique: bool = False
    bootstrap: bool = True

    def fit(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Grow the trees of the forest.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        sample_weight : array-like of shape (n_rows,), optional
            Weights by which rows are drawn.
        groups : array-like of shape (n_rows,), optional
            Names of what rows belong to, as persons or places, which are drawn instead,
            each with all of its rows.

        Returns
        -------
        self
            A fit that is interrupted leaves it as it was.

        Raises
        ------
        ValueError
            If the data or a parameter cannot be used, with what can be done about it.
        """
        reading = self._reading()
        seen = copy(self)  # which notes names of features
        with self._fitting(X) as progress:
            given = seen._given(X, y, sample_weight, groups)
            schema, source, _ = read_rows(reading, *scaled_rows(given))
            distinct = merged(source.take(None))
            numbers = range(self.n_estimators)
            bags = [self._bag(distinct.rows, reading.seed, i) for i in numbers]
            stage = Stage("growing a forest", progress)
            trees = self._grown(distinct.rows, schema, bags, reading.seed, stage)
            ensemble = Ensemble([[tree] for tree in trees], 1.0)
            fitted: dict[str, Any] = {"ensemble_": ensemble, "_rows": distinct.rows}
            if self.bootstrap:
                outside, used = out_of_bag(trees, bags, distinct), given.weight > 0
                rows = Rows(
                    encode(schema, given.X).on_host(),
                    schema.scale_targets(given.targets),
                    given.weight,
                    given.group,
                ).take(used)
                value = np.full(given.targets.shape, np.nan)
                value[used] = outside[merged(rows).place]
                fitted["oob_prediction_"] = schema.restore_targets(value)
                known = np.flatnonzero(np.isfinite(outside).all(axis=1))
                some, said = distinct.rows.take(known), outside[known]
                score = np.nan
                if some.n_rows > 1:
                    score = r2_score(some.targets, said, sample_weight=some.weight)
                fitted["oob_score_"] = float(score)
            self._become(**seen._noted(), **fitted)
        return self

    def _grown(
        self,
        rows: Rows,
        schema: TableSchema,
        bags: Sequence[np.ndarray],
        seed: int,
        stage: Stage,
    ) -> list[Tree]:
        """Grow a tree on each bag, several at a time."""
        least = self.min_samples_leaf
        if isinstance(least, str):
            least = np.clip(rows.weight.sum() // _ROWS_OF_LEAST, *_LEAST_LEAF)
        n_features = features_of_node(self.max_features, n_inputs(schema))

        there = resident(rows.table)

        def grow(some: slice) -> list[Tree]:
            roots = []
            for number in range(len(bags))[some]:
                inside = np.flatnonzero(bags[number])
                weight = bags[number][inside].astype(float)
                weight = weight if self.bootstrap else rows.weight
                own = float(least if least >= 1 else max(1.0, least * weight.sum()))
                root = Root(
                    rows=inside,
                    min_split_weight=2 * own,
                    min_leaf_weight=own,
                    oblique=bool(self.oblique),
                    key=key_of(seed, number),
                    weight=weight,
                )
                roots.append(root)
            return grown_with_models(
                rows,
                there,
                schema,
                roots,
                SPLITS,
                max_leaf_nodes=self.max_leaf_nodes,
                max_features=n_features,
            )

        together = _MOST_PLACES // (N_WORKERS * rows.n_rows)
        together = max(1, min(together, -(-len(bags) // N_WORKERS)))
        trees = list[Tree]()
        for some in in_blocks(grow, len(bags), together):
            trees += some
            stage.at(len(trees), len(bags))
        return trees

    def _bag(self, rows: Rows, seed: int, number: int) -> np.ndarray:
        """Draw how often each row is in a bag of as many as the weights sum to."""
        if not self.bootstrap:
            return np.ones(rows.n_rows, np.int8)
        random = np.random.default_rng([seed, number])
        if rows.group is not None:
            _, member = np.unique(rows.group, return_inverse=True)
            n_groups = member.max() + 1
            drawn = random.multinomial(n_groups, np.full(n_groups, 1 / n_groups))
            return drawn[member] * rows.weight
        total = rows.weight.sum()
        count = random.multinomial(max(round(total), 1), rows.weight / total)
        return count.astype(np.min_scalar_type(count.max()))

    @of_kind_of_x
    def predict(self, X: TableLike) -> np.ndarray:
        """Predict the target, shape (n_rows,) or (n_rows, n_outputs), float64."""
        check_is_fitted(self)
        with self._computing(X, fall_back=True):
            return self.ensemble_.predict(self._unencoded(X))


def out_of_bag(
    trees: Sequence[Tree], bags: Sequence[np.ndarray], distinct: Merged
) -> np.ndarray:
    """Mean prediction for every distinct row of the trees whose bags lack it, or NaN.

    A tree counts by the share of the rows like one that its bag is expected to lack;
    groups are in and out of bags as a whole.
    """
    rows = distinct.rows
    stays = 1 - 1 / (distinct.seen if rows.group is None else 1)

    def outside(one: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        (tree,), (count,) = trees[one], bags[one]
        share = stays ** count.astype(float)  # of a single row 1 or 0
        out = np.flatnonzero(share)
        table = rows.table.take(out)
        if on_accelerator():
            return out, share[out, None], values(tree, table)
        # A tree is asked once: to prepare it for all decisions would take longer.
        value = in_blocks(lambda some: _walked(tree, table.take(some)), len(out))
        return out, share[out, None], np.concatenate(list(value))

    total, sum_of_shares = np.zeros_like(rows.targets), np.zeros((rows.n_rows, 1))
    for out, share, value in in_blocks(outside, len(trees), 1):
        total[out] += share * value
        sum_of_shares[out] += share
    with np.errstate(invalid="ignore"):
        return total / sum_of_shares


def _walked(tree: Tree, table: Table) -> np.ndarray:
    """Predict rows, deciding only at the splits on their ways, (n_rows, n_outputs)."""
    node, row = np.zeros(len(table.x), np.int32), np.arange(len(table.x))
    larger_left = tree.larger_left[tree.node_of]
    while len(row := row[~tree.is_leaf[node[row]]]):
        at = node[row]
        left = left_of(tree, larger_left, table, at, row)
        node[row] = np.where(left, tree.left[at], tree.right[at])
    return values_at(tree, table, node)


def features_of_node(max_features: float | str | None, n_features: int) -> int | None:
    """Number of attributes drawn per node, in scikit-learn's convention."""
    if max_features is None or is_integer(max_features):
        return max_features  # pyright: ignore[reportReturnType]
    if isinstance(max_features, str):
        roots = {"sqrt": n_features**0.5, "log2": np.log2(max(n_features, 1))}
        return max(int(roots[max_features]), 1)
    return max(int(max_features * n_features), 1)
