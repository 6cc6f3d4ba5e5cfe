"""View of a tree of classes: shares, probabilities, colours."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from secret_jax.data.labels import validated_labels
from secret_jax.data.rows import Table
from secret_jax.inspect.classes import Classes, with_all_classes
from secret_jax.inspect.colors import class_colors, paler
from secret_jax.inspect.equations import model_in_original_units, range_of_node
from secret_jax.inspect.printing import number, quoted
from secret_jax.inspect.tree_view import TreeView
from secret_jax.losses.classes import class_in_words
from secret_jax.tree import routing
from secret_jax.tree.structure import Tree
from secret_jax.tree.walk import values_at

_LEAST_SHARE = 0.005  # of a class that is told
_MOST_SHARES = 4  # that are told of a node
_LONGEST_TITLE = 70  # characters
_OTHERS = "others"  # all classes but the one that is read


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassView(TreeView):
    """A tree that predicts probabilities of classes; of two the second has the output.

    ``only`` is the position of a class that is read against all others; None: all are
    read.
    """

    classes: Classes
    only: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the classes in words, in the order of probabilities and shares."""
        names = tuple(class_in_words(str(label)) for label in self.classes.labels)
        return names if self.only is None else (_OTHERS, names[self.only])

    @property
    def title(self) -> str:
        """See `TreeView`: the classes, with the name of the target if there is one."""
        target, names = self.classes.target, self._names_in_short
        return f"{quoted(target)} ({names})" if target else names

    @property
    def _names_in_short(self) -> str:
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
        if self.of_two:
            return f"probability of {quoted(self.names[1])}"
        return "probabilities of the classes"

    @property
    def of_two(self) -> bool:
        """Whether there is one equation in a leaf, of the second of two classes."""
        return len(self.names) == 2

    @cached_property
    def equations(self) -> list[Tree]:
        if self.only is not None and self.tree.n_outputs > 1:
            return [self.tree.output(self.only)]
        return [self.tree.output(which) for which in range(self.tree.n_outputs)]

    def shown_in(self, node: int) -> list[int]:
        """Places of the equations that are shown in a node: of classes with rows."""
        if len(self.equations) == 1 or self.tree.is_soft:  # gates mix all in
            return list(range(len(self.equations)))
        return np.flatnonzero(self.tree.mean[node] > 0).tolist()

    def equations_of(self, node: int) -> list[Tree]:
        return [self.equations[i] for i in self.shown_in(node)]

    @property
    def meaning(self) -> str:
        """How probabilities follow from what equations say; empty of shares."""
        name, several = quoted(self.names[-1]), self.tree.n_outputs > 1
        return self.tree.loss.meaning(name, several)

    @property
    def loss_name(self) -> str:
        return self.tree.loss.error_word

    @property
    def keys(self) -> list[str]:
        lines = [
            "[n]: node n; %: share of the class; "
            f"{self.loss_name}: mean, both on the training rows"
        ]
        if self.meaning:
            lines.append(self.meaning)
        leaves = np.flatnonzero(self.tree.is_leaf).tolist()
        if any(len(self.shown_in(leaf)) < len(self.equations) for leaf in leaves):
            lines.append(
                "scores of classes without rows in a leaf are left out there; "
                "predict_proba counts them"
            )
        return lines

    @property
    def shares(self) -> np.ndarray:
        """Shares of the classes among the nodes' rows, shape (n_nodes, n_names)."""
        return self._of_names(np.clip(self.tree.mean, 0.0, 1.0))

    @property
    def colors(self) -> list[str]:
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
        return list(zip(self.shares[node].tolist(), self.colors, strict=True))

    def _of_names(self, of_outputs: np.ndarray) -> np.ndarray:
        """Shares or probabilities of the outputs as those of the names."""
        if self.only is not None and self.tree.n_outputs > 1:
            of_outputs = of_outputs[:, [self.only]]
        return with_all_classes(of_outputs)

    def said(self, table: Table, node: int | None = None) -> np.ndarray:
        """Probabilities of the classes, shape (n_rows, n_names), float64."""
        if node is None:
            return self._of_values(routing.values(self.tree, table))
        at = np.full(len(table.x), node)
        return self._of_values(values_at(self.tree, table, at))

    def _of_values(self, value: np.ndarray) -> np.ndarray:
        return self._of_names(self.tree.loss.prediction(value.astype(np.float64)))

    def chosen(self, probability: np.ndarray) -> np.ndarray:
        """Position of the class that is predicted by probabilities, shape (n_rows,)."""
        classes = self.classes if self.only is None else Classes(self.names)
        return classes.chosen(probability)

    def targets(self, X: Any, y: Any) -> np.ndarray:
        """Position of every row's class among the names, -1 of one never seen."""
        found = validated_labels(y, X, "SecretClassifier")
        known = np.array(self.classes.labels)
        if found.dtype.kind in "OUSb" or known.dtype.kind in "OUSb":
            found, known = found.astype(str), known.astype(str)
        member = found[:, None] == known
        place = np.where(member.any(axis=1), member.argmax(axis=1), -1)
        return place if self.only is None else (place == self.only).astype(int)

    def share_words(self, node: int) -> list[str]:
        """Shares of the classes in a node in words, the largest first; of two one."""
        shares = self.shares[node]
        if self.of_two:
            return [f"{percent(shares[1])} {quoted(self.names[1])}"]
        order = np.argsort(-shares, kind="stable")
        order = [i for i in order.tolist() if shares[i] >= _LEAST_SHARE]
        words = [
            f"{percent(shares[i])} {quoted(self.names[i])}"
            for i in order[:_MOST_SHARES]
        ]
        hidden = len(order) - _MOST_SHARES
        return [*words, f"{hidden} more"] if hidden > 0 else words

    def fact_parts(self, node: int) -> list[str]:
        loss = f"{self.loss_name} {number(self.loss_of(node), digits=3)}"
        return [self.row_facts(node), *self.share_words(node), loss]

    def loss_of(self, node: int) -> float:
        """Mean loss of a node on its training rows, of all classes together."""
        return float(self.tree.train_error[node].sum())

    def range_facts(self, node: int, precision: int | None = None) -> str:
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

    def bounds(self, node: int) -> str:
        return self.range_facts(node)

    def said_of(self, value: float) -> float:
        """Convert an equation's value to the probability of the second class."""
        return float(self.tree.loss.prediction(np.array([[value]]))[0, 0])


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
