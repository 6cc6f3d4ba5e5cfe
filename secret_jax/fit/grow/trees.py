"""Growing trees and fitting their models, for the rooms above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.fit.grow.execution import GrowOptions
from secret_jax.fit.grow.frontier import Root
from secret_jax.fit.grow.grower import Enough, Grown
from secret_jax.fit.grow.together import Growth, grow
from secret_jax.models.fitting import fit_models, fit_to_statistics, with_models
from secret_jax.models.interface import LeafModel
from secret_jax.models.statistics import NodeStatistics
from secret_jax.runtime.devices import on_accelerator
from secret_jax.runtime.progress import UNTOLD, Progress, Stage, silent
from secret_jax.tree.structure import Tree

# Growth ends this number of levels below the pruned tree: a split without gain of its
# own may pay for the splits below it. Three levels err as two do, and take a fifth more
# time; one level errs more, by 1.4 %.
PATIENCE_LEVELS = 2


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings for growing and fitting trees on any rows."""

    schema: TableSchema
    options: GrowOptions
    leaf: LeafModel
    # min_split_weight, min_leaf_weight: least weights of a node that is split, and of a
    # leaf.
    min_split_weight: float
    min_leaf_weight: float
    oblique: bool  # whether any tree may split obliquely
    seed: int
    progress: Progress = silent  # receives the progress of the stages of the fit

    def root(self, rows: np.ndarray, *, oblique: bool, measured: bool = False) -> Root:
        """Make a root over some rows of a table; see `Root`."""
        searched = self.options.finder.node_model
        return Root(
            rows=rows,
            min_split_weight=self.min_split_weight,
            min_leaf_weight=self.min_leaf_weight,
            oblique=oblique,
            key=self.seed,
            measured=measured or sums_make_models(searched, self.leaf, self.schema),
        )

    def grow(
        self,
        rows: Rows,
        roots: Sequence[Root],
        stage: str = "growing",
        enough: Enough | None = None,
    ) -> list[Grown]:
        """Grow trees from several roots over a table, without models.

        For ``enough`` see `secret_jax.fit.grow.grower.grown`.
        """
        told = self.stage(f"{stage} {len(roots)} trees" if len(roots) > 1 else stage)
        return grow(Growth(rows, self.schema, self.options, roots, told, enough))

    def attach(
        self,
        grown: Sequence[Grown],
        rows: Rows,
        roots: Sequence[Root],
        stage: Stage | None = None,
    ) -> list[Tree]:
        """Fit models for the nodes of grown trees, or take those of their search."""
        stage = self.stage("fitting models") if stage is None else stage
        searched = self.options.finder.node_model
        return with_leaf_models(grown, rows, roots, self.leaf, searched, stage)

    def not_far_below(self, pruned: Tree) -> Recipe:
        """Limit the depth of trees to a few levels below a pruned one."""
        deepest, most = pruned.max_depth + PATIENCE_LEVELS, self.options.max_depth
        deepest = deepest if most is None else min(deepest, most)
        return replace(self, options=replace(self.options, max_depth=deepest))

    def stage(self, name: str) -> Stage:
        """Make a stage that reports progress."""
        return Stage(name, self.progress)


def _search_fits_leaves(
    searched: LeafModel | None, leaf: LeafModel, schema: TableSchema
) -> bool:
    """Whether the models of the leaves are those that a search fits."""
    alike = searched is not None and leaf.fits_like(searched)
    return alike and not schema.monotonic


def sums_make_models(
    searched: LeafModel | None, leaf: LeafModel, schema: TableSchema
) -> bool:
    """Whether `with_leaf_models` fits models to what growth has summed of rows."""
    # Processors count with all digits of the targets, growth in float32.
    return on_accelerator() and not _search_fits_leaves(searched, leaf, schema)


def with_leaf_models(
    grown: Sequence[Grown],
    rows: Rows,
    roots: Sequence[Root],
    leaf: LeafModel,
    searched: LeafModel | None,
    stage: Stage = UNTOLD,
) -> list[Tree]:
    """Fit models for the nodes of grown trees, or take those of their search.

    ``searched``: what the search has fitted.
    """
    schema = grown[0].tree.schema
    known = _search_fits_leaves(searched, leaf, schema)
    found = [
        with_models(each.tree, *each.fitted, leaf)
        if known and each.fitted is not None
        else each.tree
        for each in grown
    ]
    anew = [i for i, each in enumerate(grown) if not known or each.fitted is None]
    if anew:
        trees = [found[i] for i in anew]

        def part(root: Root) -> Rows:
            return Rows(rows.table.take(root.where), *root.lesson(rows))

        def parts() -> list[Rows]:
            return [part(roots[i]) for i in anew]

        statistics = [own for i in anew if (own := grown[i].statistics) is not None]
        if sums_make_models(searched, leaf, schema) and len(statistics) == len(anew):
            joint = NodeStatistics(*map(np.concatenate, zip(*statistics, strict=True)))
            fitted = fit_to_statistics(trees, joint, parts, leaf, stage)
        else:
            leaves = [own for i in anew if (own := grown[i].leaf) is not None]
            fitted = fit_models(
                trees, parts(), leaf, leaves=leaves or None, stage=stage
            )
        for i, tree in zip(anew, fitted, strict=True):
            found[i] = tree
    return found
