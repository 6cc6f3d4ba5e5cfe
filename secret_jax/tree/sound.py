"""Consistency checks for the arrays of a tree read from a file."""

import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.tree.structure import (
    ARRAY_FIELDS,
    COMPARISON_FIELDS,
    OUTPUT_FIELDS,
    SplitKind,
    Tree,
)


def flaw_of(tree: Tree) -> str:
    """Describe the first inconsistency of a tree; empty if there is none.

    A sound tree can be traversed: every index is valid, and every path from the root
    ends in a leaf.
    """
    try:
        flaw = _flaw_of_schema(tree.schema) or _flaw_of_shapes(tree)
        return flaw or _flaw_of_nodes(tree)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return "its schema or an array is of another kind"


def _flaw_of_schema(schema: TableSchema) -> str:
    n_names, n_columns = len(schema.names), schema.n_columns
    gaps = schema.missing_modelled + schema.missing_split
    named = (*schema.continuous, *schema.discrete, *gaps, *schema.whole)
    if not _within(named, n_names) or len(schema.roles) != n_names:
        return "the schema names a column that is not there"
    if not set(gaps) <= set(schema.continuous):
        return "the schema has gaps in a column that holds no numbers"
    if len(schema.categories) != len(schema.discrete):
        return "the schema has no categories for a discrete column"
    for attribute, code in schema.indicators:
        inside = _within([attribute], len(schema.discrete))
        if not inside or not _within([code], len(schema.categories[attribute])):
            return "the schema indicates a category that is not there"
    if not schema.n_indicators <= schema.n_regressors <= n_columns:
        return "the schema has another number of regressors than columns for them"
    if schema.center.shape != (n_columns,) or schema.scale.shape != (n_columns,):
        return "the schema has no center or scale for a column"
    if not all(c in schema.continuous and low < high for c, low, high in schema.tails):
        return "the schema has no range for a bounded column"
    n_outputs = len(schema.target_names)
    scales = len(schema.target_centers), len(schema.target_scales)
    return "" if scales == (n_outputs, n_outputs) else "an output has no scale"


def _flaw_of_shapes(tree: Tree) -> str:
    schema, n_nodes = tree.schema, len(tree.left)
    n_outputs, width = len(schema.target_names), 1 + schema.n_regressors
    most = max(map(len, schema.categories), default=0)
    shapes = {
        **dict.fromkeys(("center", "spread"), (n_nodes, schema.n_regressors)),
        **dict.fromkeys(OUTPUT_FIELDS, (n_nodes, n_outputs)),
        **dict.fromkeys(("coefficient", "standard_error"), (n_nodes, n_outputs, width)),
    }
    n_further = len(tree.further)
    shapes["direction"] = (n_nodes + n_further, schema.n_columns)
    for name in ARRAY_FIELDS:
        found = getattr(tree, name).shape
        n = n_further if name == "further" else n_nodes
        n += n_further * (name in COMPARISON_FIELDS)
        wanted = shapes.get(name, (n, *found[1:]))
        if found != wanted or not n_nodes:
            return f"{name} has the shape {found} in place of {wanted}"
    if tree.full_error is not None and len(tree.full_error) != n_outputs:
        return "an output has no error of full equations"
    if tree.goes_left.ndim != 2 or tree.goes_left.shape[1] < most:
        return f"goes_left has no column for each of {most} categories"
    return ""


def _flaw_of_nodes(tree: Tree) -> str:
    """Check children, depths and attributes."""
    n_nodes = tree.n_nodes
    whole = ("left", "right", "parent", "depth", "kind", "attribute", "stop_reason")
    for name in (*whole, "further"):
        if getattr(tree, name).ndim != 1 or getattr(tree, name).dtype != "i4":
            return f"{name} is no column of whole numbers"
    inner = np.flatnonzero(tree.left >= 0)
    child = np.concatenate([tree.left[inner], tree.right[inner]])
    above = np.concatenate([inner, inner])
    # Each node but the root is the child of one node that comes before it.
    if not np.array_equal(np.sort(child), np.arange(1, n_nodes)) or (
        (child <= above).any() or (tree.right[tree.left < 0] >= 0).any()
    ):
        return "its nodes make no tree"
    if tree.parent[0] >= 0 or (tree.parent[child] != above).any():
        return "a node names a parent that is none"
    if tree.depth[0] != 0 or (tree.depth[child] != tree.depth[above] + 1).any():
        return "a node does not lie below its parent"
    if not _within(tree.further, n_nodes):
        return "a comparison is of no node"
    compares, inner = tree.kind != SplitKind.LEAF, tree.left >= 0
    if (compares != inner[tree.node_of]).any() or not _within(
        tree.kind, len(SplitKind)
    ):
        return "a node has a kind of split that it cannot have"
    for kind, most in (
        (SplitKind.AXIS, tree.schema.n_columns),
        (SplitKind.DISCRETE, len(tree.schema.discrete)),
    ):
        if not _within(tree.attribute[tree.kind == kind], most):
            return "a split asks for an attribute that is not there"
    return ""


def _within(positions: object, most: int) -> bool:
    """Whether all positions are integers of at least 0 and below ``most``."""
    array = np.asarray(positions)
    whole = array.size == 0 or array.dtype.kind in "iu"
    return bool(whole and ((array >= 0) & (array < most)).all())
