"""Regressors that rows held out speak against: the tree is grown again without them.

A column that says nothing of the target still takes a coefficient in every leaf, and
splits have to earn it. What its terms do to rows that the trees of the folds have not
seen is known without another fit.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from secret_jax.data.attributes import Role
from secret_jax.data.device import is_resident
from secret_jax.data.rows import Rows
from secret_jax.data.shards import is_sharded
from secret_jax.fit.pipeline import Contender, better, contender
from secret_jax.fit.prepare import CheckedRows, prepare
from secret_jax.models.errors import weighted_errors
from secret_jax.tree.routing import apply
from secret_jax.tree.structure import Tree

# Share of the error that is known to be saved before a tree is grown again, and the
# share that the new tree must save.
_LEAST_HARM, _WORTH_IT = 0.02, 0.01
# Squared errors of a smaller share of the target's variance are rounding.
_ROUNDING = 1e-10


def of_relevant(
    first: Contender, given: CheckedRows, eval_set: CheckedRows | None
) -> Contender:
    """Grow a tree again without the regressors that harm, and take what errs less.

    They are still split on. Rows that lie on devices stay there, as they are.
    """
    plan, schema = first.plan, first.prepared.schema
    on_host = not (is_resident(given.X) or is_sharded(given.X))
    harmful = _harmful(first) if plan.leaf.drops_regressors and on_host else []
    if not harmful:
        return first
    split = [schema.names[i] for i in schema.of_role(Role.SPLIT)]
    columns = replace(plan.columns, split_features=split + harmful)
    # Of the kind that has won: the race of kinds is most of a fit.
    of_kind = {"columns": columns, "oblique": first.fitted.oblique}
    plan = plan.again(f"equations without {_some(harmful)}", **of_kind)
    return better(first, contender(plan, prepare(plan, given, eval_set)), _WORTH_IT)


def _some(names: Sequence[str]) -> str:
    """Names in a few words."""
    return names[0] if len(names) == 1 else f"{len(names)} columns"


def _harmful(result: Contender) -> list[str]:
    """Names of the regressors without whose terms the folds err less, all together."""
    schema, folds = result.prepared.schema, result.fitted.folds
    n_columns = schema.n_regressors - schema.n_indicators
    if not folds or n_columns < 2:
        return []
    gaps = [pair for pair in schema.missing_columns if pair[1] < schema.n_regressors]
    unseen = [_Equations(fold.tree, fold.held_out) for fold in folds]
    weight = sum(float(fold.held_out.weight.sum()) for fold in folds)

    def error(columns: Sequence[int]) -> float:
        # Indicators of missing values go with their columns.
        indicators = [i for column, i in gaps if column in columns]
        return sum(each.error_without([*columns, *indicators]) for each in unseen)

    whole = error([])
    if whole <= _ROUNDING * weight:
        return []
    errors = np.array([error([column]) for column in range(n_columns)])
    found = np.flatnonzero(errors <= whole).tolist()
    if len(found) == n_columns:  # one is left
        found.remove(int(errors.argmax()))
    if error(found) > (1.0 - _LEAST_HARM) * whole:
        return []
    return [schema.names[schema.input_columns[column]] for column in found]


class _Equations:
    """Equations of a tree at the rows of its leaves, and their terms."""

    def __init__(self, tree: Tree, rows: Rows):
        self._tree, self._rows = tree, rows
        self._leaf = apply(tree, rows.table)
        x = rows.table.on_host().x[:, : tree.schema.n_regressors]
        self._off = x.astype(np.float64) - tree.center[self._leaf]
        slope = tree.coefficient[..., 1:]
        level = tree.coefficient[..., 0] + np.einsum("noi,ni->no", slope, tree.center)
        self._value = level[self._leaf] + sum(map(self._term, range(x.shape[1])))
        self._ends = [end[self._leaf] for end in tree.clip_range()]

    def _term(self, column: int) -> np.ndarray:
        """What a column adds to the prediction at the mean of the leaf."""
        slope = self._tree.coefficient[self._leaf, :, 1 + column]
        return slope * self._off[:, column, None]

    def error_without(self, left_out: Sequence[int]) -> float:
        """Total loss with columns at their means in the leaves."""
        value = self._value - sum(map(self._term, left_out))
        value = np.clip(value, *self._ends)
        return float(weighted_errors(value, self._rows, self._tree.loss).sum())
