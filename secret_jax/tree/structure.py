"""Fitted tree as flat, immutable arrays.

A tree holds nothing that only training needs. Nodes are numbered so that parents come
before their children and the root is node 0. Every number in the tree lives in
*standardised* units; `secret_jax.inspect` maps them back.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, get_type_hints

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int32, Int64

from secret_jax.data.schema import TableSchema
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import SQUARED_ERROR

_Made = TypeVar("_Made")


class SplitKind(IntEnum):
    """Type of a comparison; a leaf compares nothing."""

    LEAF = 0
    AXIS = 1  # one continuous attribute against a threshold
    OBLIQUE = 2  # a linear combination of continuous attributes against a threshold
    DISCRETE = 3  # membership of one discrete attribute in a set of categories


class StopReason(IntEnum):
    """Reason why a node was not split further, and its ``sentence``."""

    sentence: str

    def __new__(cls, value: int, sentence: str = "") -> StopReason:
        reason = int.__new__(cls, value)
        reason._value_, reason.sentence = value, sentence
        return reason

    SPLIT = 0, "the node was split"
    MIN_SAMPLES_SPLIT = 1, "fewer rows than min_samples_split"
    MIN_SAMPLES_LEAF = 2, "too few rows for two leaves of min_samples_leaf"
    MAX_DEPTH = 3, "max_depth reached"
    MAX_LEAF_NODES = 4, "max_leaf_nodes reached"
    PURE = 5, "the output is constant, or exactly linear, in the node"
    NO_USABLE_SPLIT = 6, "no candidate split was usable"
    PRUNED = 7, "splitting it further did not pay"
    MIN_GAIN = 8, "no split gains more than its coefficients cost"


class LongerTree(NamedTuple):
    """Subtree of least error, where the price of its size has kept it back.

    Errors are mean losses on rows that did not grow them, summed over the outputs.
    """

    numbers: int
    error: float
    error_of_chosen: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Tree:
    """Regression tree with a model in every node, as flat arrays.

    A split is an "and" of comparisons: a row goes left where all of them hold. Of the
    arrays of comparisons the first ``n_nodes`` entries are those of the nodes; further
    ones, of conjunctions only, come after them, in any order. Coefficients are an
    intercept and a slope for each regressor.

    Attributes
    ----------
    left, right, parent
        Children and parent; -1 where there is none.
    kind, attribute
        A `SplitKind`, and the continuous attribute of an axis split, or the discrete
        one of a discrete split (as positions in the encoded table); -1 otherwise.
    direction, threshold
        It holds when ``direction @ x <= threshold``. One-hot for axis splits, minus
        one-hot where values above a threshold are meant in a conjunction, but for the
        indicator of missing values of the attribute, if it has one: what stands there
        is the value that a missing one counts as. Zero for discrete splits and leaves.
    gate_width
        0: the split is hard, as those on discrete attributes are. Positive: it is a
        gate that sends the share ``sigmoid((threshold - direction @ x) / gate_width)``
        of a row to the left.
    goes_left, larger_left
        Categories that go left at a discrete split, and whether unseen ones do, which
        go where the larger child is.
    further
        Nodes of the further comparisons.
    coefficient, degrees, train_error
        Model of each output, its effective degrees of freedom, and mean loss.
    lower, upper
        Range of the outputs that trained the node's model, with other losses than
        squared errors of its raw predictions; that of the nearest ancestor with enough
        rows where the node has few.
    weight
        Sum of the weights of the training rows, which are scaled to a mean of one, and
        of which copies of one observation are one.
    n_rows
        Number of training rows as they were given, copies and all.
    mean, deviation, center, spread
        Mean and standard deviation of the outputs, and of the regressors, of these.
    standard_error
        Standard errors of the value at the center and of the slopes; NaN if unknown.
    gain
        Gain of the split, summed over the node's rows: drop of the residual sum of
        squares, or Gini gain times weight; 0 in leaves, infinite of fixed splits.
    stop_reason
        A `StopReason`.
    schema
        Names, roles, categories and scaling of the attributes.
    clip_margin
        Predictions are clipped to ``[lower - m, upper + m]`` of their leaf, with
        ``m = clip_margin * (upper - lower)``; None: no clipping.
    bounds
        Lowest and highest predictions of the outputs that make sense, beyond which no
        margin goes, if there are such.
    full_error
        Mean training error of each output with the full equations, if short ones stand
        for them.
    longer
        What a longer tree would err. None: no longer one errs less, or it is not known.
    n_different
        Number of training rows without copies. None: there are none.
    clip_leaves
        False in a soft tree whose leaves were trained together: they may overshoot
        where they have a small share, so only their mixture is clipped, to the range
        of the root.
    corrects_parent
        Whether ``degrees`` are those of corrections of the parents' models.
    loss
        Meaning of the raw predictions, and cost of errors.
    """

    left: Int32[np.ndarray, " nodes"]
    right: Int32[np.ndarray, " nodes"]
    parent: Int32[np.ndarray, " nodes"]
    depth: Int32[np.ndarray, " nodes"]
    kind: Int32[np.ndarray, " comparisons"]
    attribute: Int32[np.ndarray, " comparisons"]
    direction: Float32[np.ndarray, "comparisons columns"]
    threshold: Float32[np.ndarray, " comparisons"]
    gate_width: Float32[np.ndarray, " nodes"]
    goes_left: Bool[np.ndarray, "comparisons categories"]
    larger_left: Bool[np.ndarray, " nodes"]
    coefficient: Float64[np.ndarray, "nodes outputs coefficients"]
    lower: Float64[np.ndarray, "nodes outputs"]
    upper: Float64[np.ndarray, "nodes outputs"]
    weight: Float64[np.ndarray, " nodes"]
    train_error: Float64[np.ndarray, "nodes outputs"]
    degrees: Float64[np.ndarray, " nodes"]
    mean: Float64[np.ndarray, "nodes outputs"]
    deviation: Float64[np.ndarray, "nodes outputs"]
    center: Float64[np.ndarray, "nodes regressors"]
    spread: Float64[np.ndarray, "nodes regressors"]
    standard_error: Float64[np.ndarray, "nodes outputs coefficients"]
    gain: Float32[np.ndarray, " nodes"]
    stop_reason: Int32[np.ndarray, " nodes"]
    schema: TableSchema = field(repr=False)
    n_rows: Int64[np.ndarray, " nodes"] = field(
        default_factory=lambda: np.zeros(0, np.int64)
    )
    further: Int32[np.ndarray, " further"] = field(
        default_factory=lambda: np.zeros(0, np.int32)
    )
    clip_margin: float | None = None
    bounds: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    full_error: tuple[float, ...] | None = None
    longer: LongerTree | None = None
    n_different: int | None = None
    clip_leaves: bool = True
    corrects_parent: bool = True
    loss: Loss = SQUARED_ERROR

    def __post_init__(self) -> None:
        if not len(self.n_rows):  # files of older versions do not tell
            whole = np.rint(self.weight).astype(np.int64)
            object.__setattr__(self, "n_rows", whole)
        for name in ARRAY_FIELDS:
            array = getattr(self, name).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def n_nodes(self) -> int:
        """Number of nodes, leaves included."""
        return len(self.left)

    @property
    def n_outputs(self) -> int:
        """Number of targets."""
        return self.coefficient.shape[1]

    @property
    def is_leaf(self) -> np.ndarray:
        """Mask of the leaves, shape (n_nodes,), bool."""
        return self.left < 0

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int(self.is_leaf.sum())

    @property
    def max_depth(self) -> int:
        """Depth of the deepest leaf; the root alone has depth 0."""
        return int(self.depth.max())

    @property
    def leaf_error(self) -> np.ndarray:
        """Mean training error over the leaves, shape (n_outputs,)."""
        leaf = self.is_leaf
        return self.weight[leaf] @ self.train_error[leaf] / self.weight[leaf].sum()

    @property
    def is_soft(self) -> bool:
        """Whether any split is a gate, so that predictions mix leaves."""
        return bool((self.gate_width > 0).any())

    @property
    def says_targets(self) -> bool:
        """Whether models say the targets themselves, not logarithms or log-odds."""
        return self.loss.link == "identity"

    @cached_property
    def node_of(self) -> np.ndarray:
        """Node of every comparison, shape (n_comparisons,), int."""
        return np.append(np.arange(self.n_nodes), self.further)

    def comparisons_at(self, node: int) -> list[int]:
        """List the comparisons of a node; a leaf has none."""
        if self.left[node] < 0:
            return []
        further = self.n_nodes + np.flatnonzero(self.further == node)
        return [node, *further.tolist()]

    @property
    def in_use(self) -> np.ndarray:
        """Mask of the encoded columns that a split or a leaf equation uses, bool."""
        in_use = (self.direction != 0).any(axis=0)
        slopes = self.coefficient[self.is_leaf][:, :, 1:]
        in_use[: slopes.shape[2]] |= (slopes != 0).any(axis=(0, 1))
        return in_use

    @cached_property
    def asked_attributes(self) -> frozenset[int]:
        """Discrete attributes that a split or a leaf equation uses."""
        schema, in_use = self.schema, self.in_use
        indicators = enumerate(
            schema.indicators, schema.n_regressors - schema.n_indicators
        )
        indicated = [one for place, (one, _) in indicators if in_use[place]]
        discrete = self.attribute[self.kind == SplitKind.DISCRETE]
        return frozenset([*discrete.tolist(), *indicated])

    def clip_range(self) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest prediction of each node, shape (n_nodes, n_outputs)."""
        if self.clip_margin is None:
            unbounded = np.full(self.lower.shape, np.inf)
            return -unbounded, unbounded
        margin = self.clip_margin * (self.upper - self.lower)
        low, high = self.lower - margin, self.upper + margin
        if self.bounds is None:
            return low, high
        return np.clip(low, *self.bounds), np.clip(high, *self.bounds)

    def output(self, which: int | str) -> Tree:
        """Restrict the tree to one of its outputs, by position or name.

        The target is named for what the models predict: log-odds of a class, for
        example. Logarithms are those of targets in their own units.
        """
        found = self.restricted(which)
        schema = found.schema
        name = self.loss.name_of_value(schema.target_names[0], self.n_outputs > 1)
        if self.loss.link == "exponential":
            # Logarithms of shares of the target's mean become those of itself.
            scale = np.array(schema.target_scales)
            errors, shift = self.loss.error_units(scale), np.log(scale)
            coefficient, full = found.coefficient.copy(), found.full_error
            coefficient[..., 0] += shift
            schema = replace(schema, target_scales=(1.0,))
            found = replace(
                found,
                schema=schema,
                coefficient=coefficient,
                lower=found.lower + shift,
                upper=found.upper + shift,
                mean=found.mean * scale,
                deviation=found.deviation * scale,
                train_error=found.train_error * errors,
                full_error=None if full is None else (full[0] * float(errors[0]),),
            )
        if (name,) == schema.target_names:  # the only one
            return found
        return replace(found, schema=replace(schema, target_names=(name,)), longer=None)

    def restricted(self, which: int | str) -> Tree:
        """Restrict the tree to one of its outputs, encoded as it is."""
        which = self.schema.output_position(which)
        if self.n_outputs == 1:
            return self
        part, schema = slice(which, which + 1), self.schema
        named = ("target_names", "target_centers", "target_scales")
        schema = replace(
            schema, **{name: getattr(schema, name)[part] for name in named}
        )
        arrays: dict[str, Any] = {
            name: getattr(self, name)[:, part]
            for name, axes in AXES.items()
            if "outputs" in axes
        }
        if self.bounds is not None:
            arrays["bounds"] = self.bounds[0][part], self.bounds[1][part]
        if self.full_error is not None:
            arrays["full_error"] = self.full_error[part]
        return replace(self, schema=schema, longer=None, **arrays)


# Axes of the arrays, and their types.
_HINTS = {
    name: hint
    for name, hint in get_type_hints(Tree).items()
    if hasattr(hint, "dim_str")
}
AXES = {name: tuple(hint.dim_str.split()) for name, hint in _HINTS.items()}
TYPES = {name: hint.dtypes[0] for name, hint in _HINTS.items()}
ARRAY_FIELDS = tuple(AXES)
COMPARISON_FIELDS = tuple(name for name in AXES if AXES[name][0] == "comparisons")
# Values in a leaf of the fields that describe a split.
LEAF_FIELDS = {
    "left": -1,
    "right": -1,
    "kind": SplitKind.LEAF,
    "attribute": -1,
    "direction": 0,
    "threshold": 0,
    "gate_width": 0,
    "goes_left": False,
    "gain": 0,
}


def lengths_of(schema: TableSchema) -> dict[str, int]:
    """Lengths of the axes of a tree's arrays that are those of its table."""
    return {
        "outputs": schema.n_outputs,
        "regressors": schema.n_regressors,
        "coefficients": 1 + schema.n_regressors,
        "columns": schema.n_columns,
        "categories": max(map(len, schema.categories), default=0),
    }


# What was made of a tree, or of a sum of trees, when it was first used; none changes.
_MADE: weakref.WeakKeyDictionary[Any, dict[Callable, Any]] = weakref.WeakKeyDictionary()


def once(owner: Any, make: Callable[..., _Made], *arguments: Any) -> _Made:
    """Make something of a tree when it is first asked; it must not hold its owner."""
    made = _MADE.setdefault(owner, {})
    if make not in made:
        made[make] = make(*(arguments or (owner,)))
    return made[make]


def flaw_of(tree: Tree) -> str:
    """Say why a tree cannot be traversed; empty if it is sound.

    In a sound tree every index is valid, and every path from the root ends in a leaf.
    """
    try:
        if not _is_sound(tree.schema):
            return "its schema is of columns, categories or outputs that are not there"
        return _flaw_of_arrays(tree) or _flaw_of_nodes(tree)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return "its schema or an array is of another kind"


def _flaw_of_arrays(tree: Tree) -> str:
    """Which array is of another shape or type."""
    n, further = len(tree.left), len(tree.further)
    sizes = lengths_of(tree.schema)
    sizes |= {"nodes": n, "further": further, "comparisons": n + further}
    sizes["categories"] = max(tree.goes_left.shape[1], sizes["categories"])
    for name, axes in AXES.items():
        array, shape = getattr(tree, name), tuple(sizes[axis] for axis in axes)
        whole, found = TYPES[name].startswith("int"), array.dtype
        wanted = TYPES[name] if whole else "float or bool"
        right = found == wanted if whole else found.kind in "fb"
        if array.shape != shape or not right:
            own = f"{name} is {found} of shape {array.shape}"
            return f"{own}, not {wanted} of shape {shape}"
    if tree.full_error is not None and len(tree.full_error) != tree.n_outputs:
        return "an output has no error of full equations"
    return ""


def _flaw_of_nodes(tree: Tree) -> str:
    """What links and comparisons of nodes, in arrays of the right shapes, lack."""
    inner, n, schema = np.flatnonzero(tree.left >= 0), len(tree.left), tree.schema
    child, above = np.append(tree.left[inner], tree.right[inner]), np.tile(inner, 2)
    # Each node but the root is the child of one node that comes before it.
    if not (
        np.array_equal(np.sort(child), np.arange(1, n))
        and (child > above).all()
        and (tree.right[tree.left < 0] < 0).all()
        and np.array_equal(tree.parent[child], above)
        and np.array_equal(tree.depth[child], tree.depth[above] + 1)
        and (tree.parent[0], tree.depth[0]) == (-1, 0)
    ):
        return "its nodes make no tree"
    axis, discrete = (
        tree.attribute[tree.kind == kind]
        for kind in (SplitKind.AXIS, SplitKind.DISCRETE)
    )
    if not (
        _within(tree.further, n)
        and _within(tree.kind, len(SplitKind))
        and np.array_equal(tree.kind > 0, tree.left[tree.node_of] >= 0)
        and _within(axis, schema.n_columns)
        and _within(discrete, len(schema.discrete))
    ):
        return "a comparison is of no node, kind or attribute that it can have"
    return ""


def _is_sound(schema: TableSchema) -> bool:
    """Whether a schema names nothing that is not there."""
    discrete, n_columns = schema.discrete, schema.n_columns
    gaps = schema.missing_modelled + schema.missing_split
    named = (*schema.continuous, *discrete, *gaps, *schema.whole)
    return (
        _within(named, len(schema.names))
        and len(schema.roles) == len(schema.names)
        and {*gaps, *(one for one, *_ in schema.tails)} <= {*schema.continuous}
        and all(low < high for _, low, high in schema.tails)
        and len(schema.categories) == len(discrete)
        and _within([attribute for attribute, _ in schema.indicators], len(discrete))
        and all(_within([i], len(schema.categories[a])) for a, i in schema.indicators)
        and schema.n_indicators <= schema.n_regressors <= n_columns
        and schema.center.shape == schema.scale.shape == (n_columns,)
        and len(schema.target_centers) == len(schema.target_scales) == schema.n_outputs
    )


def _within(positions: object, most: int) -> bool:
    """Whether all positions are integers of at least 0 and below ``most``."""
    array = np.asarray(positions)
    whole = array.size == 0 or array.dtype.kind in "iu"
    return bool(whole and ((array >= 0) & (array < most)).all())
