"""Plan of a fit: parameters of an estimator, read once, and the rules of "auto"."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from secret_jax.data.learning import ColumnOptions
from secret_jax.data.schema import TableSchema
from secret_jax.fit.grow.execution import GrowOptions
from secret_jax.fit.grow.fixed import fixed_splits_of
from secret_jax.fit.grow.trees import Recipe
from secret_jax.fit.interface import PruningRule, Refinement
from secret_jax.fit.refine.distillation import Distillation
from secret_jax.models.interface import LeafModel
from secret_jax.runtime.progress import Progress, silent, told_apart
from secret_jax.runtime.values import is_integer
from secret_jax.splits.interface import SplitFinder

# Rules for parameters set to "auto", which depend on the number of rows: least rows of
# a split and a leaf, as shares of the rows that grow the tree; of a leaf so many in any
# case. Small nodes of small tables are not worth the search, pruning cuts them off: of
# few rows a split needs this share, up to so many.
_SPLIT, _LEAF, _LEAF_ROWS = 0.005, 0.0025, 5.0
_SPLIT_OF_FEW, _SPLIT_ROWS = 0.02, 80.0
# Of a sample, shares of the rows that a search sees of a node: where there are more
# rows than are sampled, a search need not make do with few.
_SAMPLED_SPLIT, _SAMPLED_LEAF = 0.5, 0.125
# A distilled tree may have leaves of this share: points between the rows support the
# models of smaller ones.
_STUDENT_LEAF = 0.5
# Minimum gain of a split, in noise variances for each coefficient that it adds, of few
# and of many rows, and in between by their logarithm: small tables need small gains,
# which pruning judges; large ones only lose time with them. Measured from 250 to
# 300,000 rows.
_MIN_GAINS, _FEW_ROWS, _MANY_ROWS = (1.5, 2.5), 1000.0, 4000.0


class AlternativeLeaf(NamedTuple):
    """Another leaf model, how it reads the columns, and whether of logarithms."""

    leaf: LeafModel
    columns: ColumnOptions
    of_logarithms: bool


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Plan of a fit, read once from an estimator's parameters.

    Attributes are parameters of `secret_jax.SecretRegressor`, with values in place of
    their names; ``prune`` is still None where the number of rows decides.
    ``alternative_leaf`` is the leaf model that `secret_jax.fit.alternatives` sets
    against ``leaf`` where a parameter is "auto"; ``devices`` are those of the rows.
    """

    splits: SplitFinder
    leaf: LeafModel
    alternative_leaf: AlternativeLeaf | None
    prune: PruningRule | None
    refine: Refinement | None
    distill: Distillation | None
    oblique: bool | str
    min_samples_split: float | str
    min_samples_leaf: float | str
    max_depth: int | None
    max_leaf_nodes: int | None
    columns: ColumnOptions
    equation_tolerance: float
    pruning_tolerance: float
    seed: int
    progress: Progress = silent
    devices: tuple[Any, ...] = ()

    def with_alternative_leaf(self) -> Self:
        """The plan of the rival whose leaves are of another kind."""
        assert self.alternative_leaf is not None
        leaf, columns, of_logarithms = self.alternative_leaf
        what = "logarithms" if of_logarithms else "constant leaves"
        return self.variant(what, leaf=leaf, columns=columns, alternative_leaf=None)

    def variant(self, what: str, **changes: Any) -> Self:
        """Same plan but for some fields, whose work is told apart by a name."""
        return replace(self, progress=told_apart(self.progress, what), **changes)

    def recipe(
        self, schema: TableSchema, total: float, sampled_share: float = 1.0
    ) -> Recipe:
        """Growth settings for rows of a total weight, a share of that of all rows."""
        finder, gain = self.splits, self.splits.min_gain
        seen = (finder.max_samples or 0) if sampled_share < 1 else 0

        def weight(given: float | str, automatic: float, least: float) -> float:
            if isinstance(given, str):
                return automatic
            # Numbers of rows are of all rows, not of a sample.
            return max(least, given * (sampled_share if is_integer(given) else total))

        split = min(_SPLIT_OF_FEW * total, _SPLIT_ROWS)
        split = max(_SPLIT * total, split, _SAMPLED_SPLIT * seen)
        leaf = max(_LEAF_ROWS, _LEAF * total, _SAMPLED_LEAF * seen)
        few, many = np.log2(_FEW_ROWS), np.log2(_MANY_ROWS)
        least_gain = np.interp(np.log2(max(total, 1.0)), (few, many), _MIN_GAINS)
        options = GrowOptions(
            finder=replace(finder, fixed_splits=None),
            sample=finder.max_samples,
            min_gain=float(least_gain) if isinstance(gain, str) else gain,
            max_depth=self.max_depth,
            max_leaf_nodes=self.max_leaf_nodes,
            fixed=fixed_splits_of(finder.fixed_splits, schema),
            devices=self.devices,
        )
        return Recipe(
            schema=schema,
            options=options,
            leaf=self.leaf,
            min_split_weight=weight(self.min_samples_split, split, 2.0),
            min_leaf_weight=weight(self.min_samples_leaf, leaf, 1.0),
            oblique=bool(self.oblique),
            seed=self.seed,
            progress=self.progress,
        )

    def of_student(self, recipe: Recipe) -> Recipe:
        """Growth settings with the smaller leaves allowed in a distilled tree."""
        share = _STUDENT_LEAF if isinstance(self.min_samples_leaf, str) else 1.0
        return replace(recipe, min_leaf_weight=share * recipe.min_leaf_weight)

    @property
    def families(self) -> tuple[bool, ...]:
        """Families of trees to grow, by whether they may split obliquely."""
        if self.splits.max_attributes == 1:
            return (False,)
        return (False, True) if self.oblique == "auto" else (bool(self.oblique),)
