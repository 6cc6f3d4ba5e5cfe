"""Plan of a fit: parameters of an estimator, read once, and the rules of "auto"."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from secret_jax.data.roles import ColumnOptions
from secret_jax.data.schema import TableSchema
from secret_jax.fit.prune.interface import PruningRule
from secret_jax.fit.refine.distillation import Distillation
from secret_jax.fit.refine.interface import Refinement
from secret_jax.grow.fixed import fixed_splits_of
from secret_jax.grow.search import GrowOptions
from secret_jax.grow.trees import Recipe
from secret_jax.models.interface import LeafModel
from secret_jax.runtime.progress import Progress, silent, told_apart
from secret_jax.runtime.values import is_integer
from secret_jax.splits.interface import SplitFinder


@dataclass(frozen=True, kw_only=True)
class Automatic:
    """Rules for parameters set to "auto", which depend on the number of rows.

    The rules for the gain were measured from 250 to 300,000 rows.
    """

    # split, leaf: least rows of a split and a leaf, as shares of the rows that grow the
    # tree.
    split: float = 0.005
    leaf: float = 0.0025
    leaf_rows: float = 5.0  # minimum number of rows of a leaf in any case
    # split_of_few, split_rows: share of few rows that a split needs, and the maximum of
    # that number: smaller nodes of small tables are not worth the search, pruning cuts
    # them off.
    split_of_few: float = 0.02
    split_rows: float = 80.0
    # sampled_split, sampled_leaf: of a sample, shares of the rows that a search sees of
    # a node: where there are more rows than are sampled, a search need not make do with
    # few.
    sampled_split: float = 0.5
    sampled_leaf: float = 0.125
    # A distilled tree may have leaves of this share: points between the rows support
    # the models of smaller ones.
    student_leaf: float = 0.5
    # Minimum gain of a split, in noise variances for each coefficient that it adds.
    min_gain: float = 1.5
    # Up to so many of many rows: small tables need small gains, which pruning
    # judges; large ones only lose time with them.
    large_min_gain: float = 2.5
    # few_rows, many_rows: between these the gain rises with the logarithm of the rows.
    few_rows: float = 1000.0
    many_rows: float = 4000.0

    def least_rows_of_split(self, total: float, seen: float) -> float:
        """Least weight of a split node; ``seen`` as in `least_rows_of_leaf`."""
        few = min(self.split_of_few * total, self.split_rows)
        return max(self.split * total, few, self.sampled_split * seen)

    def least_rows_of_leaf(self, total: float, seen: float) -> float:
        """Least weight of a leaf; ``seen`` as in `least_rows_of_split`."""
        return max(self.leaf_rows, self.leaf * total, self.sampled_leaf * seen)

    def least_gain(self, total: float) -> float:
        """Least gain of a split, as a multiple of the gain expected by chance."""
        span = np.log2(self.many_rows / self.few_rows)
        rise = np.log2(max(total, 1.0) / self.few_rows) / span
        share = float(np.clip(rise, 0.0, 1.0))
        return self.min_gain + share * (self.large_min_gain - self.min_gain)


_AUTO = Automatic()


class Rival(NamedTuple):
    """Another leaf model, how it reads the columns, and how readable it is."""

    leaf: LeafModel
    columns: ColumnOptions
    of_logarithms: bool


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Plan of a fit, read once from an estimator's parameters.

    Attributes are parameters of `secret_jax.SecretRegressor`, with values in place of
    their names; ``prune`` is still None where the number of rows decides.
    ``rival`` is the leaf model that `secret_jax.fit.rivals` sets against ``leaf`` where
    a parameter is "auto".
    """

    splits: SplitFinder
    leaf: LeafModel
    rival: Rival | None
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

    def against(self, rival: Rival) -> Self:
        """Same plan with the leaf model of a rival."""
        what = "logarithms" if rival.of_logarithms else "constant leaves"
        changes = {"leaf": rival.leaf, "columns": rival.columns, "rival": None}
        return self.again(what, **changes)

    def again(self, what: str, **changes: Any) -> Self:
        """Same plan but for some fields, whose work is told apart by a name."""
        return replace(self, progress=told_apart(self.progress, what), **changes)

    def recipe(self, schema: TableSchema, total: float, sampled_share: float) -> Recipe:
        """Growth settings for rows of a total weight.

        ``sampled_share``: share of the weight of all rows that the sample holds.
        """

        split, leaf, gain = (
            self.min_samples_split,
            self.min_samples_leaf,
            self.splits.min_gain,
        )
        seen = (self.splits.max_samples or 0) if sampled_share < 1 else 0

        def count(value: Any, least: float) -> float:
            # Numbers of rows are of all rows, not of a sample.
            scale = sampled_share if is_integer(value) else total
            return max(least, value * scale)

        if isinstance(split, str):
            min_split_weight = _AUTO.least_rows_of_split(total, seen)
        else:
            min_split_weight = count(split, 2.0)
        if isinstance(leaf, str):
            min_leaf_weight = _AUTO.least_rows_of_leaf(total, seen)
        else:
            min_leaf_weight = count(leaf, 1.0)
        options = GrowOptions(
            finder=replace(self.splits, fixed_splits=None),
            sample=self.splits.max_samples,
            min_gain=_AUTO.least_gain(total) if isinstance(gain, str) else gain,
            max_depth=self.max_depth,
            max_leaf_nodes=self.max_leaf_nodes,
            oblique=any(self.kinds),
            fixed=fixed_splits_of(self.splits.fixed_splits, schema),
        )
        return Recipe(
            schema=schema,
            options=options,
            leaf=self.leaf,
            min_split_weight=min_split_weight,
            min_leaf_weight=min_leaf_weight,
            oblique=bool(self.oblique),
            seed=self.seed,
            progress=self.progress,
        )

    def of_student(self, recipe: Recipe) -> Recipe:
        """Growth settings with the smaller leaves allowed in a distilled tree."""
        if not isinstance(self.min_samples_leaf, str):
            return recipe
        fewest = _AUTO.student_leaf * recipe.min_leaf_weight
        return replace(recipe, min_leaf_weight=fewest)

    @property
    def kinds(self) -> tuple[bool, ...]:
        """Kinds of trees to grow: without and with oblique splits."""
        if self.splits.max_attributes == 1:
            return (False,)
        return (False, True) if self.oblique == "auto" else (bool(self.oblique),)
