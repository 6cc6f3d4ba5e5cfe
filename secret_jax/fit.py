"""From a plan and rows to a fitted tree: the way of the data on one page.

rows -> a sample in hash order -> training and held-out rows -> trees side by side ->
models -> pruning -> a second growth -> refinement. The rows that are not in the sample
come back once, for the models of the final tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.columns import read_columns
from secret_jax.data.device import is_resident
from secret_jax.data.encoding import encode, matched
from secret_jax.data.roles import ColumnOptions, learn_schema, numeric_schema
from secret_jax.data.rows import Rows, join, merged
from secret_jax.data.sampling import ROW_ORDER, hold_out
from secret_jax.data.schema import TableSchema
from secret_jax.data.sharded import (
    ShardedRows,
    as_they_lie,
    is_sharded,
    moments_of_shards,
)
from secret_jax.data.source import EncodedRows, HostRows, RowSource
from secret_jax.data.validation import warn_of_target_among_features
from secret_jax.grow.attributes import n_inputs
from secret_jax.grow.cost import what_takes_long
from secret_jax.grow.grower import ROUNDING, GrowOptions
from secret_jax.grow.trees import Recipe
from secret_jax.losses.interface import Loss
from secret_jax.models.attach import (
    attach_one,
    counted,
    node_statistics,
    source_statistics,
    with_statistics,
)
from secret_jax.models.by_loss import recentred
from secret_jax.models.interface import LeafModel
from secret_jax.models.shorten import shortened
from secret_jax.models.statistics import NodeStatistics
from secret_jax.prune.cross_validation import CrossValidation, parts_of
from secret_jax.prune.hold_out import HoldOut
from secret_jax.prune.interface import Evidence, Pruned, PruningRule
from secret_jax.prune.path import of_size
from secret_jax.prune.watch import LEVELS_BELOW, Watch
from secret_jax.refine.distillation import Distillation
from secret_jax.refine.interface import (
    Candidate,
    Fitted,
    FoldFit,
    Refined,
    Refinement,
)
from secret_jax.runtime.progress import UNTOLD, Note, Progress, Stage, silent
from secret_jax.runtime.values import is_integer
from secret_jax.splits.interface import SplitFinder
from secret_jax.tree.plain import ROWS_LOOKED_AT, with_plain_splits
from secret_jax.tree.structure import Tree

# With more rows ``prune="auto"`` holds some out: five more trees would take too long.
_MOST_CROSS_VALIDATED = 8192
# A tree is grown and pruned on so many samples of nodes, or on this share of the rows:
# the 32 largest nodes then have full samples, and deeper ones what is left.
_NODE_SAMPLES = 32
_SAMPLED_SHARE = 1 / 32
# But no more than so many rows: a tree of a thousand leaves finds 500 for each.
MOST_SAMPLED = 1 << 19


@dataclass(frozen=True, kw_only=True)
class Automatic:
    """What "auto" means where the number of rows decides.

    Those of the gain were measured from 250 to 300,000 rows.

    Attributes
    ----------
    split, leaf : float
        Least rows of a split and a leaf, as shares of the rows that grow the tree.
    leaf_rows : float
        Least rows of a leaf all the same.
    split_of_few, split_rows : float
        Of few rows a split needs this share of them, but no more than so many rows:
        smaller nodes of small tables are not worth the search, pruning cuts them off.
    sampled_split, sampled_leaf : float
        Of a sample, shares of the rows that a search sees of a node: where there are
        more rows than are sampled, a search need not make do with few.
    student_leaf : float
        A distilled tree may have leaves of this share: points between the rows support
        the models of smaller ones.
    min_gain : float
        A split must save so many noise variances for each coefficient that it adds,
    large_min_gain : float
        and up to so many of many rows: small tables need small gains, which pruning
        judges; large ones only lose time with them.
    few_rows, many_rows : float
        Between these the gain rises with the logarithm of the rows.
    """

    split: float = 0.005
    leaf: float = 0.0025
    leaf_rows: float = 5.0
    split_of_few: float = 0.02
    split_rows: float = 80.0
    sampled_split: float = 0.5
    sampled_leaf: float = 0.125
    student_leaf: float = 0.5
    min_gain: float = 1.5
    large_min_gain: float = 2.5
    few_rows: float = 1000.0
    many_rows: float = 4000.0

    def least_rows_of_split(self, total: float, seen: float) -> float:
        """Least weight of a split node; ``seen`` is a search's sample of a sample."""
        few = min(self.split_of_few * total, self.split_rows)
        return max(self.split * total, few, self.sampled_split * seen)

    def least_rows_of_leaf(self, total: float, seen: float) -> float:
        """Least weight of a leaf."""
        return max(self.leaf_rows, self.leaf * total, self.sampled_leaf * seen)

    def least_gain(self, total: float) -> float:
        """How many times the gain of chance a split must have."""
        span = np.log2(self.many_rows / self.few_rows)
        rise = np.log2(max(total, 1.0) / self.few_rows) / span
        share = float(np.clip(rise, 0.0, 1.0))
        return self.min_gain + share * (self.large_min_gain - self.min_gain)


_AUTO = Automatic()


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a fit is to do, read once from an estimator's parameters.

    Attributes are parameters of `secret_jax.SecretRegressor`, with values in place of
    their names; ``prune`` is still None where the number of rows decides.
    """

    splits: SplitFinder
    leaf: LeafModel
    prune: PruningRule | None
    refine: Refinement | None
    distill: Distillation | None
    oblique: bool | str
    min_samples_split: float | str
    min_samples_leaf: float | str
    min_gain: float | str
    max_depth: int | None
    max_leaf_nodes: int | None
    max_features: float | str | None
    max_split_samples: int | None
    columns: ColumnOptions
    tau: float
    tolerance: float
    seed: int
    progress: Progress = silent

    def recipe(self, schema: TableSchema, total: float, sampled_share: float) -> Recipe:
        """How trees grow on rows of a total weight.

        Parameters
        ----------
        schema : TableSchema
        total : float
        sampled_share : float
            Share of the weight of all rows that the sample holds.
        """

        split, leaf, gain = self.min_samples_split, self.min_samples_leaf, self.min_gain
        seen = (self.max_split_samples or 0) if sampled_share < 1 else 0

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
            finder=self.splits,
            sample=self.max_split_samples,
            min_gain=_AUTO.least_gain(total) if isinstance(gain, str) else gain,
            max_depth=self.max_depth,
            max_leaf_nodes=self.max_leaf_nodes,
            max_features=features_of_node(self.max_features, n_inputs(schema)),
            oblique=any(self.kinds),
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

    @property
    def kinds(self) -> tuple[bool, ...]:
        """Trees that are grown beside each other: without and with oblique splits."""
        if not self.splits.may_be_oblique:
            return (False,)
        return (False, True) if self.oblique == "auto" else (bool(self.oblique),)


def features_of_node(max_features: float | str | None, n_features: int) -> int | None:
    """How many of the attributes a node draws, as scikit-learn reads it."""
    if max_features is None or is_integer(max_features):
        return max_features  # pyright: ignore[reportReturnType]
    if isinstance(max_features, str):
        roots = {"sqrt": n_features**0.5, "log2": np.log2(max(n_features, 1))}
        return max(int(roots[max_features]), 1)
    return max(int(max_features * n_features), 1)


class CheckedRows(NamedTuple):
    """Checked input of a fit.

    Attributes
    ----------
    X : array or DataFrame of shape (n_rows, n_columns)
    targets : ndarray of shape (n_rows, n_outputs), float64
    weight : ndarray of shape (n_rows,), float64
    target_names : tuple of str
    """

    X: Any
    targets: np.ndarray
    weight: np.ndarray
    target_names: tuple[str, ...] = ("y",)


class Prepared(NamedTuple):
    """Rows that grow and prune, and where all of them are.

    Attributes
    ----------
    schema : TableSchema
    rows : Rows
        In the order of their hashes, identical ones as one: all, or a sample.
    sampled_share : float
        Share of the weight of all training rows that ``rows`` hold: 1 but for a sample.
    source : RowSource or None
        All training rows, where ``rows`` or ``prune_rows`` are a sample.
    prune_rows : Rows or None
        Those of ``prune_set``, or a sample of them.
    prune_source : RowSource or None
        All of ``prune_set``.
    """

    schema: TableSchema
    rows: Rows
    sampled_share: float
    source: RowSource | None
    prune_rows: Rows | None
    prune_source: RowSource | None


class Finished(NamedTuple):
    """What a fit came to.

    Attributes
    ----------
    tree : Tree
        As it is handed over, with short equations.
    fitted : Fitted
        What a refinement starts from, with the full models.
    statistics : NodeStatistics
        Of all rows that trained the models.
    prepared : Prepared
    """

    tree: Tree
    fitted: Fitted
    statistics: NodeStatistics
    prepared: Prepared


def fit_tree(plan: Plan, given: CheckedRows, prune_set: CheckedRows | None) -> Finished:
    """Grow, prune and distil a tree; what a refinement needs comes with it.

    Parameters
    ----------
    plan : Plan
    given : CheckedRows
    prune_set : CheckedRows or None

    Returns
    -------
    Finished
    """
    return fit_prepared(plan, prepare(plan, given, prune_set))


def fit_prepared(plan: Plan, prepared: Prepared) -> Finished:
    """`fit_tree`, of rows that were read and measured."""
    columns = plan.columns
    long = what_takes_long(
        prepared.schema,
        prepared.rows.n_rows,
        oblique=any(plan.kinds),
        indicators=bool(columns.category_indicators or columns.missing_indicators),
    )
    if long:
        plan.progress(Note(long))
    fitted = grown(plan, prepared, chosen_rule(plan, prepared))
    tree, statistics = _measured(plan, prepared, fitted, fitted.tree)
    fitted = fitted._replace(tree=tree)
    short = _with_short_equations(plan, fitted, tree, statistics)
    return Finished(short, fitted, statistics, prepared)


def _with_short_equations(
    plan: Plan, fitted: Fitted, tree: Tree, statistics: NodeStatistics
) -> Tree:
    short = shortened(tree, statistics, plan.tau)
    if plan.leaf.loss is None or plan.tau == 0:
        return short
    return recentred(short, tree, fitted.all_rows(), plan.leaf)


def _measured(
    plan: Plan, prepared: Prepared, fitted: Fitted, tree: Tree
) -> tuple[Tree, NodeStatistics]:
    """A hard tree with plain splits, and the statistics of the rows that train it.

    What a sample grew gets models from all rows.
    """
    rows = fitted.all_rows()
    tree = with_plain_splits(tree, rows.table)
    sources = _sources(prepared, fitted.refit)
    if not sources:
        statistics = node_statistics(tree, rows)
        if rows.n_rows > ROWS_LOOKED_AT:  # others may have changed sides
            tree = (
                attach_one(tree, rows, plan.leaf)
                if plan.leaf.needs_rows
                else with_statistics(tree, statistics, plan.leaf)
            )
        return tree, statistics
    Stage("fitting models on all rows", plan.progress).at()
    statistics = source_statistics(tree, sources)
    if plan.leaf.needs_rows:  # those of the sample; all rows are counted
        tree = attach_one(tree, rows, plan.leaf)
        return counted(tree, statistics), statistics
    return with_statistics(tree, statistics, plan.leaf), statistics


def _sources(prepared: Prepared, refit: bool) -> list[RowSource]:
    """All rows that train the final models, where a sample grew the tree."""
    others = prepared.prune_source
    if prepared.source is None or not (refit or others is not None):
        return []
    return [source for source in (prepared.source, others if refit else None) if source]


def refine_tree(plan: Plan, finished: Finished) -> Refined:
    """Refine a fitted tree as the plan says."""
    refinement, (_, fitted, statistics, prepared) = plan.refine, finished
    assert refinement is not None
    if refinement.needs_unseen_rows and not fitted.folds:
        reason = "there are too few rows to hold some out; give more, or a prune_set"
        return Refined(finished.tree, 0, reason)
    tree, student_rows, refit = fitted.tree, fitted.student_rows, fitted.refit
    if refinement.held_out_share and fitted.held_out is None:
        # What starts from it was not cross-validated; the tree to beat stays.
        rule = HoldOut(fraction=refinement.held_out_share, refit=False)
        fitted = grown(plan, prepared, rule)
        fitted = fitted._replace(tree=tree, student_rows=student_rows, refit=refit)
        if fitted.held_out is None:
            reason = "there are too few rows to hold some out"
            return Refined(finished.tree, 0, reason)
    total = fitted.all_rows().weight.sum()
    recipe = plan.recipe(prepared.schema, total, prepared.sampled_share)
    refined = refinement(fitted, recipe)
    if refined.tree is tree:
        return refined._replace(tree=finished.tree)
    if refinement.trains_models:
        return refined
    tree = refined.tree
    if not tree.is_soft:
        tree, statistics = _measured(plan, prepared, fitted, tree)
    short = _with_short_equations(plan, fitted, tree, statistics)
    return refined._replace(tree=short)


def prepare(plan: Plan, given: CheckedRows, prune_set: CheckedRows | None) -> Prepared:
    """Read and measure the rows, and take a sample of very many."""
    Stage("reading the columns", plan.progress).at()
    schema, source, prune_source = read_rows(plan, given, prune_set)
    rows = source.sample(enough_rows(plan, source.n_rows), ROW_ORDER)
    share = share_of(rows, source)
    sampled = share < 1.0
    prune_rows = None
    if prune_source is not None:
        few = enough_rows(plan, prune_source.n_rows)
        prune_rows = prune_source.sample(few, ROW_ORDER)
        sampled = sampled or share_of(prune_rows, prune_source) < 1.0
    every_row = source if sampled else None
    return Prepared(schema, rows, share, every_row, prune_rows, prune_source)


def share_of(rows: Rows, source: RowSource) -> float:
    """Share of a source's weight in some of its rows; 1 up to the rounding of sums."""
    share = float(rows.weight.sum() / source.total_weight)
    return share if share < 1.0 - ROUNDING else 1.0


def read_rows(
    plan: Plan, given: CheckedRows, prune_set: CheckedRows | None = None
) -> tuple[TableSchema, RowSource, RowSource | None]:
    """The schema, the rows, on a device if that is worth it, and those that prune.

    Where the rows that prune train as well the schema is of both: what only they hold
    is a category, or a gap, like any other.
    """
    X, targets, weight, names = given
    allow_missing = plan.columns.missing != "error"
    if is_resident(X) or is_sharded(X):
        shards = as_they_lie(X) if _stays(plan, X, weight) else None
        measured = None if shards is None else moments_of_shards(shards)
        if shards is not None and measured is not None:
            schema = numeric_schema(
                *measured,
                targets,
                weight,
                allow_missing=allow_missing,
                target_names=names,
            )
            schema = _with_units_of(plan.leaf.loss, schema)
            source = ShardedRows(schema, shards, targets, weight)
            return schema, source, _prune_source(schema, prune_set)
        X = np.asarray(X)
    table, others = read_columns(X), None
    every_target, every_weight = targets, weight
    if prune_set is not None and (plan.prune is None or plan.prune.refits):
        try:
            others = read_columns(prune_set.X)
        except ValueError as error:
            raise ValueError(f"In prune_set: {error}") from None
        every_target = np.concatenate([targets, prune_set.targets])
        every_weight = np.concatenate([weight, prune_set.weight])
    schema = learn_schema(
        table, every_target, every_weight, plan.columns, names, others
    )
    schema = _with_units_of(plan.leaf.loss, schema)
    warn_of_target_among_features(table, targets, schema)
    used = weight > 0
    columns = matched(schema, table, used)
    source = HostRows(schema, columns, targets[used], weight[used])
    return schema, source, _prune_source(schema, prune_set)


def _with_units_of(loss: Loss | None, schema: TableSchema) -> TableSchema:
    """A schema with the targets in the units of a loss."""
    if loss is None:
        return schema
    measured = zip(schema.target_centers, schema.target_scales, strict=True)
    centers, scales = zip(*(loss.scaling(*each) for each in measured), strict=True)
    return replace(schema, target_centers=centers, target_scales=scales)


def _prune_source(
    schema: TableSchema, prune_set: CheckedRows | None
) -> RowSource | None:
    """The rows of ``prune_set``, encoded on the host."""
    if prune_set is None:
        return None
    try:
        table = encode(schema, prune_set.X).on_host()
    except ValueError as error:
        raise ValueError(f"In prune_set: {error}") from None
    targets = schema.scale_targets(prune_set.targets)
    rows = Rows(table, targets, prune_set.weight)
    used = prune_set.weight > 0
    return EncodedRows(rows if used.all() else rows.take(used))


def _stays(plan: Plan, X: Any, weight: np.ndarray) -> bool:
    """Whether rows on a device are worth keeping there: many plain numbers."""
    columns = plan.columns
    plain = columns.discrete_features is None and columns.split_features is None
    many = enough_rows(plan, len(X)) < len(X)
    return plain and many and columns.use_regressors and bool(weight.all())


def enough_rows(plan: Plan, n_rows: int) -> int:
    """Rows that are enough to grow and prune a tree on."""
    if plan.max_split_samples is None:
        return n_rows
    share = min(int(_SAMPLED_SHARE * n_rows), MOST_SAMPLED)
    return min(max(_NODE_SAMPLES * plan.max_split_samples, share), n_rows)


def chosen_rule(plan: Plan, prepared: Prepared) -> PruningRule:
    """The pruning rule: that of the plan, or the one that suits the number of rows."""
    if plan.prune is not None:
        return plan.prune
    n_rows = prepared.rows.n_rows
    n_rows += 0 if prepared.prune_rows is None else prepared.prune_rows.n_rows
    return CrossValidation() if n_rows <= _MOST_CROSS_VALIDATED else HoldOut()


def divided(prepared: Prepared, rule: PruningRule) -> Evidence:
    """Which rows train and which are held out.

    ================== ===================== ==================== ====================
    rule               ``prune_set``         training             held out
    ================== ===================== ==================== ====================
    holds rows out     none                  the first by hash    the rest
    holds rows out     given                 all rows             those of prune_set
    makes folds        given                 both together        none
    any other          none                  all rows             none
    ================== ===================== ==================== ====================
    """
    rows, others = prepared.rows, prepared.prune_rows
    if rule.held_out_share and others is not None:
        return Evidence(rows, others)
    if rule.held_out_share:
        cut = hold_out(rows.weight, rule.held_out_share)
        if cut < rows.n_rows:
            return Evidence(rows.take(slice(cut)), rows.take(slice(cut, None)))
    elif others is not None:
        rows = merged(join([rows, others]), ROW_ORDER)
    return Evidence(rows)


def grown(plan: Plan, prepared: Prepared, rule: PruningRule) -> Fitted:
    """Grow trees of every kind and for every fold, prune them and keep the best."""
    schema, share = prepared.schema, prepared.sampled_share
    evidence = divided(prepared, rule)._replace(
        tolerance=plan.tolerance, leaf=plan.leaf
    )
    evidence = _with_error_of_constant(evidence, plan.leaf.loss)
    training, held_out = evidence.training, evidence.held_out
    recipe = plan.recipe(schema, training.weight.sum(), share)
    every_row = np.arange(training.n_rows)
    parts = [every_row]
    if rule.folds:
        unseen = parts_of(training.weight, rule.folds, rule.repeats)
        parts += [every_row[~part] for part in unseen]
        evidence = evidence._replace(unseen=unseen)
    kinds = plan.kinds
    roots = [recipe.root(part, oblique=kind) for part in parts for kind in kinds]

    def with_models(kind: int, trees: Sequence[Tree], stage: Stage) -> list[Tree]:
        own = roots[kind :: len(kinds)]
        return recipe.attach(trees, training, own, stage)

    def pruned(trees: Sequence[Tree]) -> Pruned:
        whole, *fold_trees = trees
        return rule(whole, evidence._replace(fold_trees=fold_trees))

    def judged(kind: int, trees: Sequence[Tree]) -> tuple[list[Tree], Pruned]:
        trees = with_models(kind, trees, UNTOLD)
        return trees, pruned(trees)

    watch = Watch(judged, len(kinds))
    watched = rule.folds and not rule.needs_whole_trees
    trees = recipe.grow(training, roots, enough=watch if watched else None)
    fitting, pruning = recipe.stage("fitting models"), recipe.stage("pruning")
    waiting = {
        kind: with_models(kind, trees[kind :: len(kinds)], fitting)
        for kind in range(len(kinds))
        if kind not in watch.found
    }
    found: list[tuple[list[Tree], Pruned]] = []
    for kind in range(len(kinds)):
        pruning.at(kind, len(kinds))
        known = watch.found.get(kind)
        found.append(known or (waiting[kind], pruned(waiting[kind])))
    best = min(range(len(kinds)), key=lambda kind: found[kind][1].value)
    candidates = [Candidate(trees[0], kept.tree) for trees, kept in found]
    candidates.insert(0, candidates.pop(best))
    grown_tree, kept = found[best][0][0], found[best][1]
    fitted = Fitted(
        tree=kept.tree,
        oblique=kinds[best],
        n_leaves_grown=grown_tree.n_leaves,
        candidates=tuple(candidates),
        folds=_folds(evidence, kept),
        training=training,
        held_out=held_out,
        refit=rule.refits,
    )
    if not rule.refits or prepared.source is not None:
        return fitted
    if held_out is not None:
        return fitted._replace(tree=_refitted(plan, prepared, fitted))
    return _distilled(plan, fitted, recipe)


def _with_error_of_constant(evidence: Evidence, loss: Loss | None) -> Evidence:
    if loss is None:
        return evidence
    _, targets, weight = evidence.training
    value = np.tile(loss.constant(targets, weight), (len(weight), 1))
    error = weight @ loss.losses(targets, value).sum(axis=1) / weight.sum()
    return evidence._replace(error_of_constant=float(error))


def _folds(evidence: Evidence, pruned: Pruned) -> tuple[FoldFit, ...]:
    """The pruned tree, or those of the folds, with rows that had no part in them."""
    training = evidence.training
    if evidence.held_out is not None:
        return (FoldFit(pruned.tree, training, evidence.held_out),)
    return tuple(
        FoldFit(tree, training.take(~part), training.take(part))
        for part, tree in zip(evidence.unseen, pruned.fold_trees, strict=True)
    )


def _refitted(plan: Plan, prepared: Prepared, fitted: Fitted) -> Tree:
    """The tree grown again on all rows, to the size that held-out rows asked for."""
    rows, n_leaves = fitted.all_rows(shuffle=True), fitted.tree.n_leaves
    if n_leaves == 1:
        return attach_one(fitted.tree, fitted.all_rows(), plan.leaf)
    recipe = plan.recipe(prepared.schema, rows.weight.sum(), prepared.sampled_share)
    stage = "growing the tree again"
    deepest = fitted.tree.max_depth + LEVELS_BELOW
    tree = recipe.grow_one(rows, oblique=fitted.oblique, stage=stage, deepest=deepest)
    return of_size(tree, n_leaves)


def _distilled(plan: Plan, fitted: Fitted, recipe: Recipe) -> Fitted:
    """A cross-validated tree grown again on what the trees of its folds say."""
    if plan.distill is None or len(fitted.folds) < 2 or fitted.tree.n_leaves == 1:
        return fitted
    if isinstance(plan.min_samples_leaf, str):
        fewest = _AUTO.student_leaf * recipe.min_leaf_weight
        recipe = replace(recipe, min_leaf_weight=fewest)
    return plan.distill(fitted, recipe)
