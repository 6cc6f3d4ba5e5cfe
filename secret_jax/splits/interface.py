"""What a split finder is: a value that maps a level of nodes to their best splits.

A finder's fields are its options; it is hashable. It sees the rows of all nodes of a
level and the verbs that sum over them (`secret_jax.data.ragged`), and knows nothing of
the frontier or of devices: `secret_jax.fit.grow` drives all finders.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import jax
import numpy as np

from secret_jax.data.learning import ColumnOptions
from secret_jax.data.schema import TableSchema
from secret_jax.models.interface import LeafModel
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import bucket
from secret_jax.runtime.values import Value, at_least, real
from secret_jax.tree.structure import SplitKind

# Finders of one node: nodes are padded to these numbers of rows, and of nodes, times
# powers of four.
_FEWEST_ROWS, _FEWEST_NODES = 512, 4
# Fields of `Level`.
_OF_ROWS = ["x", "codes", "targets", "weight"]
_OF_NODES = ["min_weight", "random", "model", "degrees", "oblique", "allowed"]
_STATIC = ["n_regressors", "n_categories", "any_oblique"]


class Roles(NamedTuple):
    """Which column is what: the same for all nodes.

    Attributes
    ----------
    thresholded : ndarray of shape (n_thresholded,), int32
        Columns without gaps that axis splits may cut.
    missing : ndarray of shape (n_missing, 2), int32
        Columns with missing values, each with the column of its indicator.
    combined : ndarray of shape (n_columns,), bool
        Columns that oblique splits may combine: all but indicators.
    """

    thresholded: np.ndarray
    missing: np.ndarray
    combined: np.ndarray

    @classmethod
    def of(cls, schema: TableSchema) -> Roles:
        """Columns of a table."""
        n, n_indicators = schema.n_regressors, schema.n_indicators
        indicators = range(n - n_indicators, n)
        with_gaps = [column for column, _ in schema.missing_columns]
        # Being missing is an attribute of its own; a category alone is none.
        thresholded = [
            column
            for column in (
                *(gap for _, gap in schema.missing_columns if gap in indicators),
                *(i for i in range(schema.n_columns) if i not in indicators),
            )
            if column not in with_gaps
        ]
        combined = np.ones(schema.n_columns, bool)
        combined[n - n_indicators : n] = False
        # Both sides of a sum in contrary directions could only predict the same.
        for attribute, _ in schema.monotonic:
            combined[schema.position_of(attribute)] = False
        missing = np.array(schema.missing_columns, np.int32).reshape(-1, 2)
        return cls(np.array(thresholded, np.int32), missing, combined)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["rows", *_OF_ROWS, *_OF_NODES],
    meta_fields=["roles", *_STATIC],
)
@dataclass(frozen=True, kw_only=True)
class Level:
    """Nodes that are searched together, with their rows or a sample of them.

    The axis of rows is the last one of arrays of rows, the axis of nodes the first one
    of arrays of nodes; what sums over rows, or gives a row what its node has, are the
    verbs of ``rows``.

    Attributes
    ----------
    rows : RaggedRows or TiledRows
        Which rows are of which node, and the verbs.
    x : row array of shape (n_columns, rows), float32
        Encoded columns, regressors first.
    codes : row array of shape (n_discrete, rows), int32
    targets : row array of shape (n_outputs, rows), float32
        In standardised units.
    weight : row array of shape (rows,), float32
    min_weight : Array of shape (n_nodes,), float32
        Least weight on each side of a split, less the rounding of sums in float32.
    random : Array of shape (n_nodes, n_random), float32
        The nodes' own numbers in (0, 1), as many as the finder asked for.
    model : Array of shape (n_nodes, n_outputs, 1 + n_regressors), float32
        The nodes' models, by `SplitFinder.node_model`; zero without one.
    degrees : Array of shape (n_nodes,), float32
        Their effective degrees of freedom.
    oblique : Array of shape (n_nodes,), bool
        Which nodes may be split obliquely.
    allowed : Array of shape (n_nodes, n_columns + n_discrete), bool
        Attributes that they may be split on.
    roles : Roles
    n_regressors : int
        The first columns, which the models use.
    n_categories : int
        Most categories of a discrete attribute, at least one.
    any_oblique : bool
        Whether any of the nodes may be split obliquely.
    """

    rows: Any
    x: AnyArray
    codes: AnyArray
    targets: AnyArray
    weight: AnyArray
    min_weight: AnyArray
    random: AnyArray
    model: AnyArray
    degrees: AnyArray
    oblique: AnyArray
    allowed: AnyArray
    roles: Roles
    n_regressors: int
    n_categories: int = 1
    any_oblique: bool = True

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.rows.n_nodes

    def take(self, nodes: np.ndarray) -> Level:
        """Select nodes by position or by a mask, on the host."""
        rows, place = self.rows.take(nodes)
        own = {name: getattr(self, name)[..., place] for name in _OF_ROWS}
        own |= {name: getattr(self, name)[nodes] for name in _OF_NODES}
        any_oblique = bool(own["oblique"].any())
        return replace(self, rows=rows, any_oblique=any_oblique, **own)


class Comparison(NamedTuple):
    """What a row is asked at a node; see `Split` for the arrays."""

    kind: AnyArray  # LEAF: nothing, so that it holds for every row
    attribute: AnyArray
    direction: AnyArray
    threshold: AnyArray
    goes_left: AnyArray


# Fields of what compares nothing.
NO_COMPARISON = Comparison(int(SplitKind.LEAF), -1, 0.0, 0.0, False)


class Split(NamedTuple):
    """The best split of a node; in a batch with a leading axis of nodes.

    Attributes
    ----------
    kind : Array of shape (), int32
        A `SplitKind`; LEAF where there is no usable split.
    attribute : Array of shape (), int32
        Continuous attribute of an axis split, discrete attribute of a discrete one,
        -1 for an oblique one.
    direction : Array of shape (n_columns,), float32
        What columns count in the sum that is compared. Of an axis split 1 at its
        attribute and 0 at others, but for the indicator of its missing values, where
        the number stands that these count as; of a discrete one zero.
    threshold : Array of shape (), float32
        Rows go left whose sum is at most this.
    goes_left : Array of shape (n_categories,), bool
        Categories that go left, of a discrete split.
    gain : Array of shape (), float32
        Summed over the rows: of several splits of a tree the largest is the best.
    chance_gain : Array of shape (), float32
        What a split of this kind would gain by chance alone; a split must gain a
        multiple of it, ``min_gain`` of the finder. Zero: any gain will do.
    pure : Array of shape (), bool
        Whether there is nothing left to explain in the rows.
    child_models : Array of shape (2, n_outputs, 1 + n_regressors), or None
        Models that the finder implies for the left and the right child, if it does.
    further : tuple of Comparison
        Further comparisons: a row goes left where all of them say so, too.
    """

    kind: AnyArray
    attribute: AnyArray
    direction: AnyArray
    threshold: AnyArray
    goes_left: AnyArray
    gain: AnyArray
    chance_gain: AnyArray
    pure: AnyArray
    child_models: AnyArray | None = None
    further: tuple[Comparison, ...] = ()

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """All comparisons of each node."""
        return Comparison(*self[: len(NO_COMPARISON)]), *self.further

    def take(self, chosen: np.ndarray) -> Split:
        """Select nodes of a batch on the host, by position or by a mask."""
        return jax.tree.map(lambda array: array[chosen], self)


def write_nodes(every: Any, where: np.ndarray, some: Any) -> None:
    """Write arrays of some nodes among those of all, in place."""
    pairs = zip(jax.tree.leaves(every), jax.tree.leaves(some), strict=True)
    for array, own in pairs:
        array[where] = own


@dataclass(frozen=True, kw_only=True)
class SplitFinder(Value, ABC):
    """Base of the split finders; a new one is a subclass with a method ``find``.

    `OneNodeFinder` is the base of those that take one node.

    Attributes
    ----------
    max_samples : int or None, default=2048
        Maximum number of rows of a node in the search for its split. Of more than 32
        times as many rows a sample grows and prunes the tree, that many or every 32nd
        row; all rows then give the models of its nodes (unless
        ``HoldOut(refit=False)`` prunes it). None: all.
    min_gain : float or "auto", default="auto"
        Minimum gain of a split, as a multiple of its ``chance_gain``; of `RssSplits` in
        noise variances for each coefficient that it adds. "auto" is 1.5, rising to 2.5
        from 1000 to 4000 rows. The other finders of this package know no gain by
        chance, and take any.
    fixed_splits : tuple, default=None
        Splits that the tree has from its root down: ``(column, threshold)``, rows up to
        it go left, or ``(column, [categories])``, which go left; after them up to two
        such tuples, for the left and the right child. Below them splits are searched.
        None of them is pruned, but one with too few rows on a side, or beyond
        ``max_leaf_nodes``, is not made. Pruning rules of the literature's learners, and
        ``refine``, may change them.
    """

    max_samples: Annotated[int, at_least(16)] | None = 2048
    min_gain: Annotated[float, real(0.0)] | Literal["auto"] = "auto"
    fixed_splits: tuple | list | None = None

    implies_models: ClassVar[bool] = False
    """Whether its splits come with models of the children."""
    compiled: ClassVar[bool] = False
    """Whether accelerators compile it: it is then written over ``level.rows.xp`` and
    the verbs that both kinds of rows have. On several devices arrays of rows, and
    what else ``level.rows`` has, are those of one: only the verbs sum over all, and
    conditions of loops are to be made of their sums. Others are searched on the host.
    """
    of_host: ClassVar[tuple[str, ...]] = "max_samples", "min_gain", "fixed_splits"
    """Fields that the search does not read: no program depends on them."""
    computed_with: ClassVar[tuple[str, ...]] = ()
    """Fields that the search computes with, and on which no Python branch depends:
    programs take these numbers as arguments."""

    @abstractmethod
    def find(self, level: Level) -> Split:
        """The best split of every node of a level: arrays with a leading axis."""

    def columns_for(self, options: ColumnOptions) -> ColumnOptions:
        """How columns are read that it can do with: without indicators of categories.

        Nor does it learn the side of missing values: they are the mean of their column.
        """
        missing = "mean" if options.missing == "learn" else options.missing
        return replace(options, missing=missing, category_indicators=False)

    def without_numbers(self) -> Any:
        """With the default of every field on which no program depends."""
        names = {*self.of_host, *self.computed_with}
        own = {f.name: f.default for f in fields(self) if f.name in names}
        return replace(self, **own)

    def numbers(self) -> np.ndarray:
        """Fields that are arguments of programs, float32."""
        return np.array([getattr(self, name) for name in self.computed_with], "f4")

    def with_numbers(self, numbers: AnyArray) -> Any:
        """With such fields, within a program."""
        found = copy(self)  # by no constructor: what is traced has another type
        vars(found).update(zip(self.computed_with, numbers, strict=True))
        return found

    @property
    def node_model(self) -> LeafModel | None:
        """The model that every searched node has, shrunk toward its parent's."""
        return None

    @property
    def max_attributes(self) -> int | None:
        """Most attributes of one of its splits: 1 if none is oblique, None for any."""
        return None

    @property
    def max_comparisons(self) -> int:
        """How many comparisons its splits come with, which hold together."""
        return 1

    def n_random(self, n_columns: int) -> int:
        """How many random numbers a node needs; if none, ``random_state`` has no
        effect on a fit."""
        return 0


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=[*_OF_ROWS, *_OF_NODES, "roles"],
    meta_fields=_STATIC,
)
@dataclass(frozen=True, kw_only=True)
class Node:
    """A node with its rows, or a sample of them, padded by rows without weight.

    Attributes are those of `Level`, without the axis of nodes, and with the rows first:
    ``x`` has the shape (n_rows, n_columns), ``weight`` (n_rows,): zero for padding.
    """

    x: AnyArray
    codes: AnyArray
    targets: AnyArray
    weight: AnyArray
    min_weight: AnyArray
    random: AnyArray
    model: AnyArray
    degrees: AnyArray
    oblique: AnyArray
    allowed: AnyArray
    n_regressors: int
    n_categories: int
    any_oblique: bool
    roles: Roles | None = None


@dataclass(frozen=True, kw_only=True)
class OneNodeFinder(SplitFinder):
    """Base of the finders that map one node to its split, in functions of JAX."""

    @abstractmethod
    def __call__(self, node: Node) -> Split:
        """The best split of one node: a pure function that JAX can trace and map."""

    def find(self, level: Level) -> Split:
        """Search nodes of like size side by side, padded to few shapes."""
        size = [bucket(n, smallest=_FEWEST_ROWS) for n in level.rows.length.tolist()]
        found, nodes = [], []
        for width in sorted(set(size)):
            some = np.flatnonzero(np.equal(size, width))
            # Some come twice, so that there is a program for few numbers of nodes.
            nodes.append(np.resize(some, bucket(len(some), smallest=_FEWEST_NODES)))
            part = level.take(nodes[-1])
            own = {name: getattr(part, name) for name in _OF_ROWS + _OF_NODES + _STATIC}
            for name in _OF_ROWS:
                own[name] = np.moveaxis(part.rows.head(own[name], width), -1, 1)
            arguments = Node(**own), level.roles, self.numbers()
            found.append(_splits(*arguments, finder=self.without_numbers()))
        first = np.unique(np.concatenate(nodes), return_index=True)[1]
        return jax.tree.map(lambda *a: np.concatenate(a)[first], *found)


@program(static_argnames=("finder",))
def _splits(
    nodes: Node, roles: Roles, numbers: AnyArray, *, finder: OneNodeFinder
) -> Split:
    finder = finder.with_numbers(numbers)
    return jax.vmap(lambda node: finder(replace(node, roles=roles)))(nodes)
