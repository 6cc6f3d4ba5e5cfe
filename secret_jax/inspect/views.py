"""A tree as it is read: what its nodes are about, for numbers and for classes.

Text, Graphviz, pictures and pages ask a view for the words and equations of a node, so
none of them has to know what the target is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from secret_jax.data.labels import validated_labels
from secret_jax.data.rows import Table
from secret_jax.data.validation import validated_targets
from secret_jax.inspect.colors import Scale, class_colors, paler
from secret_jax.inspect.cost import reading_cost
from secret_jax.inspect.equations import (
    LinearModel,
    model_in_original_units,
    range_of_node,
)
from secret_jax.inspect.other_names import renamed
from secret_jax.inspect.printing import counted_rows, number, quoted
from secret_jax.inspect.rest import rest_of
from secret_jax.inspect.words import clip_facts, node_facts, share_of_rows
from secret_jax.losses.classes import CrossEntropy, class_in_words
from secret_jax.tree import routing
from secret_jax.tree.structure import Tree

_LEAST_SHARE = 0.005  # of a class that is told
_MOST_SHARES = 4  # that are told of a node
_LONGEST_TITLE = 70  # characters
_OTHERS = "others"  # all classes but the one that is read


@dataclass(frozen=True, eq=False, kw_only=True)
class TreeView(ABC):
    """What text, pictures and pages ask of a tree.

    Attributes
    ----------
    tree : Tree
        With all of its outputs.
    """

    tree: Tree

    def named(self, feature_names: Sequence[str] | None) -> TreeView:
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

        Numbers less what curves say; of classes their positions.
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

    def without_curves(self) -> TreeView:
        """The view of what curves in front of the tree leave, if there are any."""
        return self.of(rest_of(self.tree))

    def of(self, tree: Tree) -> TreeView:
        """Another tree for the same targets, read in the same way."""
        return replace(self, tree=tree)

    def n_numbers(self, precision: int | None = None) -> int:
        """Numbers to read in the splits, equations and curves."""
        costs = [reading_cost(tree, precision) for tree in self.equations]
        # The splits are the same for all of them.
        return costs[0].splits + sum(cost.leaves + cost.curves for cost in costs)


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
        return self.name if self.tree.loss is not None else self.title

    @property
    def equations(self) -> list[Tree]:
        return [self.tree]

    @property
    def keys(self) -> list[str]:
        tree = self.tree
        error = (
            "error: root mean squared error" if tree.loss is None else "loss: mean loss"
        )
        where = "both on the training rows"
        if tree.kept is not None:
            where = "of training rows left out in turn"
        return [f"[n]: node n; mean: of the target; {error}; {where}"]

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
        actual = self.actual(X, y)
        if self.tree.additive is None:
            return actual
        curves = self.tree.additive.predict(table)[:, None]
        return actual - self.tree.schema.restore_targets(curves)

    def said(self, table: Table, node: int | None = None) -> np.ndarray:
        """See `TreeView`."""
        tree = self.tree
        if node is None:
            return np.asarray(routing.predict(tree, table), np.float64)
        value = routing.values_at(tree, table, np.full(len(table.x), node))
        if tree.loss is not None:
            value = tree.loss.prediction(value)
        return tree.schema.restore_targets(value)

    @property
    def means(self) -> np.ndarray:
        """Mean of the target in every node, shape (n_nodes,), float64."""
        return self.tree.schema.restore_target(self.tree.mean[:, 0])

    @property
    def fills(self) -> list[str]:
        means = self.means.tolist()
        scale = Scale(means)
        return [scale.color(mean) for mean in means]


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassView(TreeView):
    """A tree that predicts the probabilities of classes.

    Attributes
    ----------
    labels : tuple
        The classes as targets hold them, in order; of two the second has the output.
    only : int or None
        The position of a class that is read against all others; None: all are read.
    """

    labels: tuple[Any, ...]
    only: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The classes in words, in the order of probabilities and shares."""
        names = tuple(class_in_words(str(label)) for label in self.labels)
        return names if self.only is None else (_OTHERS, names[self.only])

    @property
    def title(self) -> str:
        names = list(map(quoted, self.names))
        shown = 2
        while len(" / ".join(names[: shown + 1])) <= _LONGEST_TITLE:
            shown += 1
            if shown >= len(names):
                return " / ".join(names)
        hidden = len(names) - shown
        more = [f"{hidden} more"] if hidden > 0 else []
        return " / ".join([*names[:shown], *more])

    @property
    def target(self) -> str:
        """See `TreeView`."""
        if self.of_two:
            return f"probability of {quoted(self.names[1])}"
        return "probabilities of the classes"

    @property
    def of_two(self) -> bool:
        """Whether there is one equation in a leaf, of the second of two classes."""
        return len(self.names) == 2

    @property
    def equations(self) -> list[Tree]:
        if self.only is not None and self.tree.n_outputs > 1:
            return [self.tree.output(self.only)]
        return [self.tree.output(which) for which in range(self.tree.n_outputs)]

    @property
    def says_log_odds(self) -> bool:
        """Whether equations say log-odds, or logarithms; otherwise shares."""
        return isinstance(self.tree.loss, CrossEntropy)

    @property
    def loss_name(self) -> str:
        """What the errors of the nodes are called."""
        return "log-loss" if self.says_log_odds else "Brier score"

    @property
    def keys(self) -> list[str]:
        lines = [
            "[n]: node n; %: share of the class; "
            f"{self.loss_name}: mean, both on the training rows"
        ]
        if self.says_log_odds and self.tree.n_outputs == 1:
            name = quoted(self.names[-1])
            lines.append(f"probability of {name}: 1 / (1 + exp(-log-odds))")
        elif self.says_log_odds:
            lines.append("a class's probability is in proportion to exp(score)")
        if self._leaves_out_classes:
            lines.append("a leaf says nothing of classes that have no row in it")
        return lines

    @property
    def _leaves_out_classes(self) -> bool:
        leaves = np.flatnonzero(self.tree.is_leaf).tolist()
        n_equations = range(len(self.equations))
        return not all(self.tells(node, i) for node in leaves for i in n_equations)

    def tells(self, node: int, equation: int) -> bool:
        """See `TreeView`: not of a class that is not there, unless gates mix it in."""
        if len(self.equations) == 1 or self.tree.is_soft:
            return True
        return bool(self.tree.mean[node, equation] > 0)

    @property
    def shares(self) -> np.ndarray:
        """Shares of the classes among the nodes' rows, shape (n_nodes, n_names)."""
        return self._of_names(np.clip(self.tree.mean, 0.0, 1.0))

    @property
    def colors(self) -> list[str]:
        """A colour for each of the names."""
        return class_colors(len(self.names))

    @property
    def fills(self) -> list[str]:
        """See `TreeView`: of the most frequent class, stronger where there is more."""
        shares, colors = self.shares, self.colors
        most = shares.argmax(axis=1).tolist()
        return [
            paler(colors[i], 0.7 * share[i])
            for i, share in zip(most, shares, strict=True)
        ]

    def bar(self, node: int) -> list[tuple[float, str]]:
        """See `TreeView`."""
        return list(zip(self.shares[node].tolist(), self.colors, strict=True))

    def _of_names(self, of_outputs: np.ndarray) -> np.ndarray:
        """Shares or probabilities of the outputs as those of the names."""
        if self.only is not None and self.tree.n_outputs > 1:
            of_outputs = of_outputs[:, [self.only]]
        if of_outputs.shape[1] == 1:
            return np.concatenate([1.0 - of_outputs, of_outputs], axis=1)
        return of_outputs

    def said(self, table: Table, node: int | None = None) -> np.ndarray:
        """Probabilities of the classes, shape (n_rows, n_names), float64."""
        if node is None:
            return self._of_values(routing.values(self.tree, table))
        at = np.full(len(table.x), node)
        return self._of_values(routing.values_at(self.tree, table, at))

    def _of_values(self, value: np.ndarray) -> np.ndarray:
        assert self.tree.loss is not None
        return self._of_names(self.tree.loss.prediction(value.astype(np.float64)))

    def targets(self, table: Table, X: Any, y: Any) -> np.ndarray:
        """Position of every row's class among the names, -1 of one never seen."""
        del table
        found = validated_labels(y, X, "SecretClassifier")
        known = np.array(self.labels)
        if found.dtype.kind in "OUSb" or known.dtype.kind in "OUSb":
            found, known = found.astype(str), known.astype(str)
        member = found[:, None] == known
        place = np.where(member.any(axis=1), member.argmax(axis=1), -1)
        return place if self.only is None else (place == self.only).astype(int)

    def share_words(self, node: int, most: int = _MOST_SHARES) -> list[str]:
        """Shares of the classes in a node in words, the largest first; of two one."""
        shares = self.shares[node]
        if self.of_two:
            return [f"{percent(shares[1])} {quoted(self.names[1])}"]
        order = np.argsort(-shares, kind="stable")
        order = [i for i in order.tolist() if shares[i] >= _LEAST_SHARE]
        words = [f"{percent(shares[i])} {quoted(self.names[i])}" for i in order[:most]]
        hidden = len(order) - most
        return [*words, f"{hidden} more"] if hidden > 0 else words

    def fact_parts(self, node: int) -> list[str]:
        rows = counted_rows(self.tree.weight[node])
        rows = f"{rows} ({share_of_rows(self.tree, node)})"
        return [rows, *self.share_words(node), self.loss_facts(node)]

    def loss_facts(self, node: int) -> str:
        """The mean loss of a node on its training rows, in words."""
        return f"{self.loss_name} {number(self.loss_of(node), digits=3)}"

    def loss_of(self, node: int) -> float:
        """The mean loss of a node on its training rows, of all classes together."""
        return float(self.tree.train_error[node].sum())

    def range_facts(self, node: int, precision: int | None = None) -> str:
        del precision
        if not self.of_two or self.tree.n_outputs > 1:
            return ""
        (tree,) = self.equations
        model = model_in_original_units(tree, node)
        if not model.terms:
            level = self.said_of(model.intercept)
            return f"predicted: {percent(level)} {quoted(self.names[1])}"
        low, high = range_of_node(tree, node)
        if not np.isfinite(low):
            return ""
        bounds = f"{percent(self.said_of(low))} to {percent(self.said_of(high))}"
        return f"predicted: {bounds} {quoted(self.names[1])}"

    def said_of(self, value: float) -> float:
        """The probability of the second of two classes for an equation's value."""
        assert self.tree.loss is not None
        return float(self.tree.loss.prediction(np.array([[value]]))[0, 0])

    def model(self, node: int, equation: int) -> LinearModel:
        """One of the equations of a node."""
        return model_in_original_units(self.equations[equation], node)


def view_of(
    tree: Tree, labels: Sequence[Any] | None = None, output: int | str | None = None
) -> TreeView:
    """A tree as it is read.

    Parameters
    ----------
    tree : Tree
    labels : sequence, optional
        The classes as targets hold them. By default the names of the outputs; of two
        classes the first one has none, and is called "not ...".
    output : int or str, optional
        Which of several outputs, or which class against all others.

    Returns
    -------
    TreeView

    Raises
    ------
    ValueError
        If several numbers are predicted and ``output`` is not given, or there is none
        of that name.
    """
    names = tree.schema.target_names
    if tree.loss is None or not tree.loss.of_classes:
        if output is None and len(names) > 1:
            raise ValueError(
                f"The tree has {len(names)} outputs: {', '.join(map(repr, names))}. "
                "Say which one to read with output=."
            )
        one = tree.output(0 if output is None else output)
        which = names.index(output) if isinstance(output, str) else int(output or 0)
        if len(names) == 1 and tree.loss is None:
            one = tree
        return NumberView(
            tree=one, name=names[which], output=which, n_outputs=len(names)
        )
    if labels is None:
        labels = names if len(names) > 1 else (f"not {names[0]}", names[0])
    only = None
    if output is not None:
        tree.output(output)  # refuses what is none of them
        several = len(names) > 1
        which = names.index(output) if isinstance(output, str) else int(output)
        only = which if several else None
    return ClassView(tree=tree, labels=tuple(labels), only=only)


def as_view(tree: Tree | TreeView) -> TreeView:
    """A tree as it is read, if it is not that already."""
    return view_of(tree) if isinstance(tree, Tree) else tree


def percent(share: float) -> str:
    """A share in words: to three digits, near 0 and 1 no nearer than a thousandth.

    Examples
    --------
    >>> [percent(share) for share in (0.1234, 0.99996, 0.00001, 1.0)]
    ['12.3 %', '> 99.9 %', '< 0.1 %', '100 %']
    """
    if 0 < share < 0.001:
        return "< 0.1 %"
    if 0.999 < share < 1:
        return "> 99.9 %"
    return f"{number(100 * float(share), digits=3)} %"
