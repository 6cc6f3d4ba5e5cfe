"""A tree as it is read: what its nodes are about, for numbers and for classes.

Text, Graphviz, pictures and pages ask a view for the words and equations of a node, so
none of them has to know what the target is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.data.validation import validated_targets
from secret_jax.inspect.colors import Scale
from secret_jax.inspect.cost import reading_cost
from secret_jax.inspect.other_names import renamed
from secret_jax.inspect.words import clip_facts, node_facts
from secret_jax.tree import routing
from secret_jax.tree.structure import Tree
from secret_jax.tree.walk import values_at


@dataclass(frozen=True, eq=False, kw_only=True)
class TreeView(ABC):
    """What text, pictures and pages ask of a tree.

    Attributes
    ----------
    tree : Tree
        With all of its outputs.
    """

    tree: Tree

    def named(self, feature_names: Sequence[str] | None) -> Self:
        """The view with other names for the columns, if any are given."""
        return replace(self, tree=renamed(self.tree, feature_names))

    @property
    @abstractmethod
    def title(self) -> str:
        """What the tree predicts."""

    @property
    @abstractmethod
    def target(self) -> str:
        """What a number that is predicted is called."""

    @property
    @abstractmethod
    def equations(self) -> list[Tree]:
        """The tree as it predicts one output, for every equation of a leaf."""

    @property
    @abstractmethod
    def keys(self) -> list[str]:
        """What the marks of the text mean, in lines."""

    @abstractmethod
    def fact_parts(self, node: int) -> list[str]:
        """Rows of a node, what they are like, and last the error of its model."""

    def facts(self, node: int) -> str:
        """`fact_parts` in one line."""
        return ", ".join(self.fact_parts(node))

    @abstractmethod
    def range_facts(self, node: int, precision: int | None = None) -> str:
        """Between which values a node predicts; empty where nothing bounds them."""

    @property
    @abstractmethod
    def fills(self) -> list[str]:
        """Colours of the nodes, by what their rows are like."""

    @abstractmethod
    def targets(self, table: Table, X: Any, y: Any) -> np.ndarray:
        """The targets of rows as the equations mean them, shape (n_rows,).

        Of classes their positions.
        """

    @abstractmethod
    def said(self, table: Table, node: int | None = None) -> np.ndarray:
        """What is predicted for rows, by the tree or by one of its nodes."""

    def bar(self, node: int) -> list[tuple[float, str]]:
        """Shares of a node with their colours, for a stacked bar; empty of numbers."""
        del node
        return []

    def tells(self, node: int, equation: int) -> bool:
        """Whether an equation says anything in a node."""
        del node, equation
        return True

    def of(self, tree: Tree) -> Self:
        """Another tree for the same targets, read in the same way."""
        return replace(self, tree=tree)

    def n_numbers(self, precision: int | None = None) -> int:
        """Numbers to read in the splits and equations."""
        costs = [reading_cost(tree, precision) for tree in self.equations]
        # The splits are the same for all of them.
        return costs[0].splits + sum(cost.leaves for cost in costs)


@dataclass(frozen=True, eq=False, kw_only=True)
class NumberView(TreeView):
    """A tree that predicts one number.

    Attributes
    ----------
    output, n_outputs : int
        Which one it is of how many that were fitted.
    name : str
        Of the target; equations may say something else, its logarithm for example.
    """

    name: str

    output: int = 0
    n_outputs: int = 1

    @property
    def title(self) -> str:
        return self.tree.schema.target_name

    @property
    def target(self) -> str:
        """See `TreeView`."""
        return self.name

    @property
    def equations(self) -> list[Tree]:
        return [self.tree]

    @property
    def keys(self) -> list[str]:
        tree = self.tree
        error = f"{tree.loss.error_name.split()[-1]}: {tree.loss.error_name}"
        return [f"[n]: node n; mean: of the target; {error}; both on the training rows"]

    def fact_parts(self, node: int) -> list[str]:
        return node_facts(self.tree, node).split(", ")

    def range_facts(self, node: int, precision: int | None = None) -> str:
        return clip_facts(self.tree, node, precision)

    def actual(self, X: Any, y: Any) -> np.ndarray:
        """The target of rows, shape (n_rows,); ``y`` may hold all that were fitted."""
        values = validated_targets(y, X)
        if values.shape[1] not in (1, self.n_outputs):
            raise ValueError(
                f"y has {values.shape[1]} columns, but the tree has {self.n_outputs} "
                "outputs; give the one that is read, or one for each."
            )
        return values[:, self.output if values.shape[1] > 1 else 0]

    def targets(self, table: Table, X: Any, y: Any) -> np.ndarray:
        """See `TreeView`."""
        return self.actual(X, y)

    def said(self, table: Table, node: int | None = None) -> np.ndarray:
        """See `TreeView`."""
        tree = self.tree
        if node is None:
            return np.asarray(routing.predict(tree, table), np.float64)
        value = values_at(tree, table, np.full(len(table.x), node))
        return tree.schema.restore_targets(tree.loss.prediction(value))

    @property
    def means(self) -> np.ndarray:
        """Mean of the target in every node, shape (n_nodes,), float64."""
        return self.tree.schema.restore_target(self.tree.mean[:, 0])

    @property
    def fills(self) -> list[str]:
        means = self.means.tolist()
        scale = Scale(means)
        return [scale.color(mean) for mean in means]
