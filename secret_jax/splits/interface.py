"""What a split finder is: a value that maps one node to its best split.

A finder's fields are its options; it is hashable and itself the static argument of the
compiled program. It sees one node, padded, and knows nothing of the frontier or of
devices: `secret_jax.grow.search` drives all finders. One that needs no program also
takes many nodes at once, as arrays of NumPy.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import jax
import numpy as np

from secret_jax.data.roles import ColumnOptions
from secret_jax.models.interface import LeafModel
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.pieces import Pieces
from secret_jax.runtime.values import Value, at_least, real
from secret_jax.tree.structure import SplitKind


@dataclass(frozen=True)
class Columns:
    """Columns of a table for a compiled program, padded so that many tables share it.

    Attributes
    ----------
    n_regressors : int
        The first columns, which the models use.
    n_categories : int
        Most categories of a discrete attribute.
    oblique : bool
        Whether any node may be split obliquely.
    """

    n_regressors: int
    n_categories: int = 1
    oblique: bool = True


class Roles(NamedTuple):
    """Which column is what: the same for all nodes, and no part of the program.

    Attributes
    ----------
    thresholded : Array of shape (n_thresholded,), int32
        Columns without gaps that axis splits may cut; -1 is padding.
    missing : Array of shape (n_missing, 2), int32
        Columns with missing values, each with the column of its indicator; -1 is
        padding.
    combined : Array of shape (n_columns,), bool
        Columns that oblique splits may combine: all but indicators.
    """

    thresholded: AnyArray
    missing: AnyArray
    combined: AnyArray

    @classmethod
    def alike(cls, n_columns: int) -> Roles:
        """Columns of numbers without gaps."""
        return cls(
            np.arange(n_columns, dtype=np.int32),
            np.zeros((0, 2), np.int32),
            np.ones(n_columns, bool),
        )


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=[
        *("x", "codes", "targets", "weight", "min_weight", "random", "coefficient"),
        *("degrees", "oblique", "allowed", "extra", "roles"),
        "pieces",
    ],
    meta_fields=["columns"],
)
@dataclass(frozen=True, kw_only=True)
class Node:
    """A node with its rows, or a sample of them, padded.

    Attributes
    ----------
    x : Array of shape (n_rows, n_columns), float32
        Encoded columns, regressors first; of padding any numbers.
    codes : Array of shape (n_rows, n_discrete), int32
        Of padding any codes.
    targets : Array of shape (n_rows, n_outputs), float32
        In standardised units.
    weight : Array of shape (n_rows,), float32
        Zero for padding, which comes last.
    min_weight : Array of shape (), float32
        Least weight on each side of a split.
    random : Array of shape (n_random,), float32
        The node's own numbers in (0, 1), as many as the finder asked for.
    coefficient : Array of shape (n_outputs, 1 + n_regressors), float32
        The node's model, by `SplitFinder.node_model`; zero without one.
    degrees : Array of shape (), float32
        Its effective degrees of freedom.
    oblique : Array of shape (), bool
        Whether the node may be split obliquely.
    allowed : Array of shape (n_columns + n_discrete,), bool
        Attributes that it may be split on.
    extra : pytree of Arrays
        What `SplitFinder.host_inputs` gave.
    roles : Roles, or None
        None: columns of numbers without gaps, and no padding.
    columns : Columns
        Static: the same for all nodes of a batch.
    pieces : Pieces, or None
        Of many nodes, whose arrays of rows then have leading axes (n_pieces, n_rows).

    Columns and discrete attributes may be padding: without spread, and not allowed.
    """

    x: AnyArray
    codes: AnyArray
    targets: AnyArray
    weight: AnyArray
    min_weight: AnyArray
    random: AnyArray
    coefficient: AnyArray
    degrees: AnyArray
    oblique: AnyArray
    allowed: AnyArray
    extra: Any
    columns: Columns
    roles: Roles | None = None
    pieces: Pieces | None = None


class Conditions(NamedTuple):
    """Conditions of conjunctions, each a split on one attribute; see `Split`.

    Attributes
    ----------
    kind, attribute : Array of shape (n_conditions,), int32
        A kind of LEAF is no condition.
    direction : Array of shape (n_conditions, n_columns), float32
    threshold : Array of shape (n_conditions,), float32
    goes_left : Array of shape (n_conditions, n_categories), bool
    """

    kind: AnyArray
    attribute: AnyArray
    direction: AnyArray
    threshold: AnyArray
    goes_left: AnyArray


# Fields of what is no condition: it holds for every row.
NO_CONDITION = Conditions(int(SplitKind.LEAF), -1, 0.0, 0.0, False)


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
    threshold : Array of shape (), float32
    goes_left : Array of shape (n_categories,), bool
    gain : Array of shape (), float32
        Summed over the rows: of several splits of a tree the largest is the best.
    chance_gain : Array of shape (), float32
        What a split of this kind would gain by chance alone; a split must gain a
        multiple of it, ``min_gain`` of the finder. Zero: any gain will do.
    pure : Array of shape (), bool
        Whether there is nothing left to explain in the rows.
    child_models : Array of shape (2, n_outputs, 1 + n_regressors), or None
        Models that the finder implies for the left and the right child, if it does.
    conditions : Conditions, or None
        Of a CONJUNCTION, which goes left where all of them do; what else stands in the
        split then sends every row to the left.
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
    conditions: Conditions | None = None

    def take(self, chosen: np.ndarray) -> Split:
        """Select nodes of a batch on the host, by position or by a mask."""

        def taken(part: Any) -> Any:
            if isinstance(part, Conditions):
                return Conditions(*map(taken, part))
            return None if part is None else part[chosen]

        return Split(*map(taken, self))


@dataclass(frozen=True, kw_only=True)
class SplitFinder(Value, ABC):
    """Base of the split finders; a new one is a subclass with a method ``__call__``.

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
    padding_ratio: ClassVar[int] = 4
    """Ratio of the sizes to which nodes are padded on processors. Where rows of padding
    take little time, a few sizes, and so a few programs, do for nodes of all sizes."""

    @abstractmethod
    def __call__(self, node: Node) -> Split:
        """The best split of one node: a pure function that JAX can trace and map."""

    def columns_for(self, options: ColumnOptions) -> ColumnOptions:
        """How columns are read that it can do with: without indicators of categories.

        Nor does it learn the side of missing values: they are the mean of their column.
        """
        missing = "mean" if options.missing == "learn" else options.missing
        return replace(options, missing=missing, category_indicators=False)

    @property
    def needs_program(self) -> bool:
        """Whether it is always compiled; else arrays of NumPy with a leading axis of
        nodes, of which either all or none may be split obliquely, are searched too."""
        return True

    @property
    def node_model(self) -> LeafModel | None:
        """The model that every searched node has, shrunk toward its parent's."""
        return None

    @property
    def max_attributes(self) -> int | None:
        """Most attributes of one of its splits: 1 if none is oblique, None for any."""
        return None

    @property
    def n_conditions(self) -> int:
        """How many conditions its splits come with; 0 without conjunctions."""
        return 0

    @property
    def numbers_per_cell(self) -> int:
        """How many numbers it holds at once for an attribute and a row, roughly."""
        return 1

    def n_random(self, n_columns: int) -> int:
        """How many random numbers a node needs; if none, ``random_state`` has no
        effect on a fit."""
        return 0

    def needs_host_inputs(self, n_columns: int) -> bool:
        """Whether `host_inputs` makes anything of tables of so many columns."""
        return False

    def host_inputs(
        self, x: np.ndarray, weight: np.ndarray, columns: Columns
    ) -> dict[str, np.ndarray]:
        """Arrays with a leading axis of nodes that are better made on the host.

        Parameters
        ----------
        x : ndarray of shape (n_nodes, n_rows, n_columns)
        weight : ndarray of shape (n_nodes, n_rows)
        columns : Columns

        Returns
        -------
        dict of str to ndarray
            A node finds its part in ``extra``.
        """
        return {}
