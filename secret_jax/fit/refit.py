"""New equations for the leaves of a fitted tree, from rows that it has not seen."""

from dataclasses import replace

from secret_jax.data.scaling import column_sums, moments_of
from secret_jax.data.schema import TableSchema
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import CheckedRows, rows_for, with_units_of
from secret_jax.losses.interface import Loss
from secret_jax.models.fitting import fit_models, node_statistics
from secret_jax.models.glm import leaf_for_loss
from secret_jax.models.interface import LeafModel
from secret_jax.models.short_models import with_short_equations
from secret_jax.tree.structure import Tree


def refitted(plan: Plan, tree: Tree, given: CheckedRows) -> Tree:
    """Fit the models of all nodes to rows, and keep the splits.

    Columns are encoded as the tree does, and targets are scaled so, unless the plan has
    another loss than the tree. A node that no row reaches predicts as the one above it.

    ``tree``: without gates.
    """
    leaf = _leaf_of(plan, tree)
    leaf.loss.check_targets(given.targets)
    if leaf.loss != tree.loss:
        schema = _in_units_of(leaf.loss, tree.schema, given)
        tree = replace(tree, schema=schema, bounds=None, longer=None)
    rows = rows_for(tree.schema, given).take(None)
    statistics = node_statistics(tree, rows)
    (tree,) = fit_models([tree], [rows], leaf, statistics=statistics)
    return with_short_equations(tree, statistics, rows, leaf, plan.equation_tolerance)


def _leaf_of(plan: Plan, tree: Tree) -> LeafModel:
    """Leaf model of a tree: the plan's, or the one that "auto" chose."""
    other, linear = plan.alternative_leaf, tree.schema.n_regressors > 0
    if other is None:
        return plan.leaf
    if other.of_logarithms:
        return leaf_for_loss(plan.leaf, tree.loss) or plan.leaf
    return other.leaf if other.leaf.uses_regressors == linear else plan.leaf


def _in_units_of(loss: Loss, schema: TableSchema, given: CheckedRows) -> TableSchema:
    """Scale the targets anew, as the loss has them."""
    _, targets, weight, *_ = given
    names = schema.target_names
    sums = column_sums(list(targets.T), names, weight, allow_missing=False)
    centers, scales = (
        tuple(each.tolist()) for each in moments_of(sums, names, of_target=True)
    )
    schema = replace(schema, target_centers=centers, target_scales=scales)
    return with_units_of(loss, schema, targets, weight)
