"""Views of a tree: the content of its nodes, for numbers and for classes.

Text, Graphviz, pictures and pages ask a view for the words and equations of a node, so
none of them has to know what the target is.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from secret_jax.data.encoding import encode
from secret_jax.data.rows import Table
from secret_jax.data.validation import validated_targets
from secret_jax.inspect.colors import Scale
from secret_jax.inspect.equations import model_in_original_units
from secret_jax.inspect.notes import clipped_to
from secret_jax.inspect.printing import counted_rows, number
from secret_jax.inspect.rounding import in_steps, reading_cost, rounded_model
from secret_jax.tree import routing
from secret_jax.tree.structure import Tree
from secret_jax.tree.walk import values_at

# A mean loss below it is what float32 leaves of an exact fit.
_EXACT = 1e-14


@dataclass(frozen=True, eq=False, kw_only=True)
class TreeView:
    """A tree that predicts one number, or (`ClassView`) probabilities of classes.

    Of classes it has all of its outputs. ``name`` is that of the target; equations may
    say something else, its logarithm for example. ``output`` says which one it is of
    how many that were fitted.
    """

    tree: Tree
    name: str = ""
    output: int = 0
    n_outputs: int = 1

    @property
    def title(self) -> str:
        """Name of what the tree predicts, in one line."""
        return " ".join(self.tree.schema.target_name.split())

    @property
    def target(self) -> str:
        """Name of a number that is predicted."""
        return self.name

    @property
    def equations(self) -> list[Tree]:
        """Trees restricted to one output, for every equation of a leaf."""
        return [self.tree]

    @property
    def keys(self) -> list[str]:
        """Lines that explain the marks of the text."""
        name = self.tree.loss.error_name
        error = f"{name.split()[-1]}: {name}"
        return [f"[n]: node n; mean: of the target; {error}; both on the training rows"]

    def fact_parts(self, node: int) -> list[str]:
        """Rows of a node, what they are like, and last the error of its model."""
        tree, mean = self.tree, float(self.means[node])
        scale, mean_loss = tree.schema.target_scale, float(tree.train_error[node, 0])
        spread = 1.0 if tree.says_targets else float(tree.deviation[0, 0])
        spread = scale * (spread or 1.0)  # one target alone does not vary
        error = 0.0 if mean_loss < _EXACT else tree.loss.reported(mean_loss, scale)
        kind = tree.loss.error_name.split()[-1]
        facts = f"mean {in_steps(mean, spread)}", f"{kind} {number(error, digits=3)}"
        return [self.row_facts(node), *facts]

    def range_facts(self, node: int, precision: int | None = None) -> str:
        """Range of the predictions of a node; empty where nothing bounds them."""
        model = rounded_model(model_in_original_units(self.tree, node), precision)
        return clipped_to(model.low, model.high) if model.terms else ""

    def bounds(self, node: int) -> str:
        """`range_facts` for whoever does not know of clipping."""
        model = rounded_model(model_in_original_units(self.tree, node))
        if not model.terms or math.isinf(model.low):
            return ""
        return f"predicts at least {number(model.low)} and at most {number(model.high)}"

    def targets(self, X: Any, y: Any) -> np.ndarray:
        """Targets of rows, shape (n_rows,); ``y`` may hold all outputs."""
        values = validated_targets(y, X)
        if values.shape[1] not in (1, self.n_outputs):
            raise ValueError(
                f"y has {values.shape[1]} columns, but the tree has {self.n_outputs} "
                "outputs; give the one that is read, or one for each."
            )
        return values[:, self.output if values.shape[1] > 1 else 0]

    def said(self, table: Table, node: int | None = None) -> np.ndarray:
        """Predictions for rows, by the tree or by one of its nodes."""
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
        """Colours of the nodes, by what their rows are like."""
        means = self.means.tolist()
        scale = Scale(means)
        return [scale.color(mean) for mean in means]

    def equations_of(self, node: int) -> list[Tree]:
        """Choose the `equations` that are shown in a node."""
        return self.equations

    def bar(self, node: int) -> list[tuple[float, str]]:
        """Shares of a node with their colours, for a stacked bar; empty of numbers."""
        return []

    def facts(self, node: int) -> str:
        """`fact_parts` in one line."""
        return ", ".join(self.fact_parts(node))

    def of(self, tree: Tree) -> Self:
        """Another tree for the same targets, read in the same way."""
        return replace(self, tree=tree)

    def n_numbers(self, precision: int | None = None) -> int:
        """Numbers to read in the splits and equations."""
        (first, *others) = self.equations
        return reading_cost(self.tree if others else first, precision)

    def row_facts(self, node: int) -> str:
        """Number of training rows in a node, with their share."""
        tree = self.tree
        return f"{counted_rows(tree.weight[node])} ({share_of_rows(tree, node)})"


def share_of_rows(tree: Tree, node: int) -> str:
    """Share of the training rows that are in a node, in percent."""
    share = float(tree.weight[node] / tree.weight[0]) if tree.weight[0] > 0 else 0.0
    return f"{number(100 * share, digits=3)} %"


class Rows(NamedTuple):
    """Rows that a tree predicts, with their targets, predictions and leaves.

    Predictions may be probabilities; ``columns`` are as they were given; targets that
    are classes are positions, -1 of one that training has not seen.
    """

    table: Table
    columns: list[np.ndarray]
    actual: np.ndarray
    predicted: np.ndarray
    leaf: np.ndarray

    @classmethod
    def of(cls, view: TreeView, X: Any, y: Any) -> Self:
        """Send rows through a tree."""
        schema = view.tree.schema
        table, columns = encode(schema, X).on_host(), schema.columns_of(X)
        actual = view.targets(X, y)
        leaf = routing.apply(view.tree, table)
        return cls(table, columns, actual, view.said(table), leaf)

    def take(self, rows: np.ndarray) -> Self:
        columns = [np.asarray(column)[rows] for column in self.columns]
        rest = (self.actual[rows], self.predicted[rows], self.leaf[rows])
        return type(self)(self.table.take(rows), columns, *rest)
