"""Residual targets for trees fitted after additive curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from secret_jax.additive.fit import residuals
from secret_jax.additive.options import Additive
from secret_jax.additive.source import ResidualSource, left_by
from secret_jax.additive.stage import AdditiveStage
from secret_jax.data.rows import Rows, join
from secret_jax.data.schema import TableSchema
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import Prepared
from secret_jax.prune.cross_validation import parts_of
from secret_jax.prune.interface import Evidence
from secret_jax.refine.interface import FoldFit
from secret_jax.tree.structure import Tree

# Number of points of curves that are as much to read as a leaf and its split.
_POINTS_OF_A_LEAF = 4


class View(NamedTuple):
    """Rows with the targets for some kinds of trees: original, or residual.

    Attributes
    ----------
    evidence : Evidence
        Training, held-out and unseen rows with these targets.
    folds : sequence of ndarray of shape (n_rows_outside, 1)
        For each part the targets of the rows outside of it; empty: those of training.
    stage : AdditiveStage or None
        Curves that were subtracted from the targets of the training rows.
    """

    evidence: Evidence
    folds: Sequence[np.ndarray] = ()
    stage: AdditiveStage | None = None

    def targets(self, which: int) -> np.ndarray | None:
        """Targets of the root of all rows (0) or without a fold; None: unchanged."""
        if self.stage is None:
            return None
        return self.folds[which - 1] if which else self.evidence.training.targets

    def fold_fits(self, trees: Sequence[Tree]) -> tuple[FoldFit, ...]:
        """Trees of the folds, each with its training and held-out rows."""
        evidence = self.evidence
        training, found = evidence.training, []
        for fold, (part, tree) in enumerate(zip(evidence.unseen, trees, strict=True)):
            outside = training.take(~part)
            if self.folds:
                outside = outside._replace(targets=self.folds[fold])
            found.append(FoldFit(tree, outside, evidence.held_out_of(fold)))
        return tuple(found)


def views(plan: Plan, schema: TableSchema, evidence: Evidence) -> list[View]:
    """Views that trees grow on: the original targets, residuals of curves, or both.

    Both are returned if the trees are to be compared; the rows of the comparison are
    not used to fit the curves.
    """
    plain, options = View(evidence), plan.additive
    if options is None:
        return [plain]
    judged = bool(len(evidence.unseen)) or evidence.held_out is not None
    if options.only_if_better and not judged:
        return [plain]
    staged = _less_curves(plan, options, schema, evidence)
    return [plain, staged] if options.only_if_better else [staged]


def _less_curves(
    plan: Plan, options: Additive, schema: TableSchema, evidence: Evidence
) -> View:
    training, unseen = evidence.training, evidence.unseen
    found = residuals(
        training,
        schema,
        options,
        _divisions(unseen) or _own_divisions(training, options),
        tolerance=plan.equation_tolerance,
        for_folds=bool(len(unseen)),
    )
    rows = training._replace(targets=found.whole)
    held_out = evidence.held_out
    if held_out is not None:
        held_out = left_by(found.stage, held_out)
    less = evidence._replace(
        training=rows,
        held_out=held_out,
        unseen_targets=found.unseen if len(unseen) else (),
        further_leaves=len(found.stage.at) / _POINTS_OF_A_LEAF,
    )
    return View(less, found.folds, found.stage)


def _own_divisions(rows: Rows, options: Additive) -> list[list[np.ndarray]]:
    return _divisions(parts_of(rows.weight, options.n_folds))


def _divisions(parts: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """Group folds into divisions that hold every row once."""
    groups: list[list[np.ndarray]] = []
    seen = None
    for part in parts:
        if seen is None:
            groups.append([])
            seen = np.zeros(len(part), bool)
        groups[-1].append(part)
        seen |= part
        if seen.all():
            seen = None
    return groups


def less_stage(
    plan: Plan, prepared: Prepared, view: View, given: Evidence, refits: bool
) -> tuple[Prepared, Rows, Rows | None]:
    """Replace the targets by residuals of the chosen view for all later steps.

    If held-out rows also train in the end, the curves are refitted with them.

    Parameters
    ----------
    view : View
        View of the tree that was chosen.
    given : Evidence
        With the targets themselves.

    Returns
    -------
    prepared : Prepared
        With the stage, and the sources of all rows with its residuals as targets.
    training, held_out : Rows
        Rows of the evidence.
    """
    training, held_out = view.evidence.training, view.evidence.held_out
    stage = view.stage
    if stage is None:
        return prepared, training, held_out
    if refits and given.held_out is not None and plan.additive is not None:
        rows = join([given.training, given.held_out])
        divisions = _own_divisions(rows, plan.additive)
        found = residuals(
            rows,
            prepared.schema,
            plan.additive,
            divisions,
            tolerance=plan.equation_tolerance,
            for_folds=False,
        )
        stage, cut = found.stage, training.n_rows
        training = training._replace(targets=found.whole[:cut])
        held_out = given.held_out._replace(targets=found.whole[cut:])
    source, prune_source = (
        None if each is None else ResidualSource(each, stage)
        for each in (prepared.source, prepared.prune_source)
    )
    prepared = prepared._replace(
        rows=training,
        prune_rows=None,
        source=source,
        prune_source=prune_source,
        stage=stage,
    )
    return prepared, training, held_out
