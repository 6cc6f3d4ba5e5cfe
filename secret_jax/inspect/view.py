"""The view of a fitted tree: what is in a node, in words, numbers and colours.

Text, tables, pictures and pages ask it for the k equations of a node, which it makes
once, and for what follows from them by the link of the loss, so none of them has to
know what the target is. Of numbers, and of two classes, k is one.
"""

import math
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.encoding import encode
from secret_jax.data.labels import validated_labels
from secret_jax.data.rows import Table
from secret_jax.data.schema import position_among
from secret_jax.data.validation import validated_targets
from secret_jax.inspect.equations import (
    Equation,
    LinearSplit,
    conditions_at,
    in_steps,
    model_in_original_units,
    printed_model,
    rounded_split,
)
from secret_jax.inspect.printing import (
    class_colors,
    counted_rows,
    number,
    paler,
    percent,
    quoted,
    shades,
)
from secret_jax.losses.classes import class_in_words
from secret_jax.runtime.linalg import AnyArray, namespace
from secret_jax.tree import routing
from secret_jax.tree.structure import Tree

Readable: TypeAlias = Any
"""A tree, a view of it, or a fitted estimator of one, also of a transformed target."""

_MIN_SHARE, _MAX_SHARES = 0.005, 4  # of a class that is named, and of how many
_TITLE_WIDTH = 70  # characters
_EXACT = 1e-14  # a mean loss below it is what float32 leaves of an exact fit


def _share(share: float) -> str:
    return f"{number(100 * share, digits=3)} %"


class Classes(NamedTuple):
    """Labels of all classes, in order, as plain values.

    ``costs`` are those of taking a class (row) for another (column); None: all the
    same. ``target`` is the name of what has these classes, if it has one.
    """

    labels: tuple[Any, ...]
    costs: np.ndarray | None = None
    target: str = ""

    @classmethod
    def of_estimator(cls, estimator: Any) -> Self | None:
        """Classes of a fitted estimator; None: it predicts numbers."""
        labels = getattr(estimator, "classes_", None)
        if labels is None:
            return None
        costs = getattr(estimator, "costs", None)
        costs = None if costs is None else np.asarray(costs, np.float64)
        target = getattr(estimator, "target_name_", "")
        return cls(tuple(labels.tolist()), costs, target)

    def position(self, output: int | str) -> int:
        """Position of a class that is named, or given by its position."""
        return position_among(list(map(str, self.labels)), output, "classes")

    def predicted(self, probability: np.ndarray) -> np.ndarray:
        """Positions of the classes of least expected cost, shape (n_rows,)."""
        if self.costs is None:
            return np.argmax(probability, axis=1)
        return np.argmin(probability @ self.costs, axis=1)


def with_all_classes(probability: AnyArray) -> AnyArray:
    """Complete probabilities of two classes, of which only the second has a column."""
    if probability.shape[1] > 1:
        return probability
    return namespace(probability).hstack([1.0 - probability, probability])


@dataclass(frozen=True, eq=False, kw_only=True)
class View:
    """A tree as it is read: one equation in a node for each of its outputs, and a link.

    ``tree`` is restricted to the number that is read; of classes it has all of its
    outputs. ``name`` is that of a target that is a number; equations may say something
    else, its logarithm for example. ``only`` is the position of the output that is
    read, or of the class that is read against all others (None: all), among the
    ``n_outputs`` that were fitted. Without ``classes`` numbers are predicted.
    """

    tree: Tree
    name: str = ""
    classes: Classes | None = None
    only: int | None = None
    n_outputs: int = 1
    _equations: dict[int, list[Equation]] = field(default_factory=dict, init=False)

    @cached_property
    def trees(self) -> list[Tree]:
        """The tree restricted to one output, for every equation of a node."""
        tree = self.tree
        if self.classes is None and tree.n_outputs == 1:
            return [tree]
        if self.only is not None and tree.n_outputs > 1:
            return [tree.output(self.only)]
        return [tree.output(output) for output in range(tree.n_outputs)]

    def equations(self, node: int) -> list[Equation]:
        """Equations of a node, one for each of the ``trees``, with all digits."""
        if node not in self._equations:
            found = [model_in_original_units(tree, node) for tree in self.trees]
            self._equations[node] = found
        return self._equations[node]

    def shown_in(self, node: int) -> list[int]:
        """Positions of the equations shown in a node: of classes with rows."""
        if len(self.trees) == 1 or self.tree.is_soft:  # gates mix all in
            return list(range(len(self.trees)))
        return np.flatnonzero(self.tree.mean[node] > 0).tolist()

    def equations_of(self, node: int) -> list[Equation]:
        return [self.equations(node)[i] for i in self.shown_in(node)]

    def n_numbers(self, precision: int | None = None) -> int:
        """Count the numbers in the splits and the equations of leaves, as printed.

        A gate has two more, its width and the shares of a row.
        """
        tree, count = self.tree, 0
        leaves = np.flatnonzero(tree.is_leaf).tolist()
        for equation in chain(*map(self.equations, leaves)):
            terms = printed_model(equation, precision).terms
            count += 1 + sum(1 + (term.at != 0) for term in terms)
        for node in np.flatnonzero(~tree.is_leaf).tolist():
            for split in conditions_at(tree, node):
                count += 1
                if isinstance(split, LinearSplit):
                    n_terms = len(rounded_split(split, precision).terms)
                    count += (n_terms if n_terms > 1 else 0) + 2 * (split.width > 0)
        return count

    @property
    def names(self) -> tuple[str, ...]:
        """Names of what is predicted, in words: the number, or all classes in order."""
        if self.classes is None:
            return (self.name,)
        names = tuple(class_in_words(str(label)) for label in self.classes.labels)
        return names if self.only is None else ("others", names[self.only])

    @property
    def is_scalar(self) -> bool:
        """Whether one number says all: the target, or the share of a second class."""
        return len(self.names) <= 2

    @property
    def title(self) -> str:
        """Name of what the tree predicts, in one line; of classes all that fit in."""
        if self.classes is None:
            return " ".join(self.tree.schema.target_name.split())
        target, names = self.classes.target, list(map(quoted, self.names))
        lengths = np.cumsum([len(name) + 3 for name in names]) - 3  # with " / "
        n_shown = max(int(np.searchsorted(lengths, _TITLE_WIDTH, side="right")), 2)
        if n_shown < len(names):
            names[n_shown:] = [f"{len(names) - n_shown} more"]
        title = " / ".join(names)
        return f"{quoted(target)} ({title})" if target else title

    @property
    def target(self) -> str:
        """Name of the number that is predicted, or of the probabilities."""
        if self.classes is None:
            return self.name
        if self.is_scalar:
            return f"probability of {quoted(self.names[1])}"
        return "probabilities of the classes"

    @property
    def meaning(self) -> str:
        """How probabilities follow from what equations say; empty of shares."""
        return self.tree.loss.meaning(quoted(self.names[-1]), self.tree.n_outputs > 1)

    @property
    def keys(self) -> list[str]:
        """Lines that explain the marks of the text."""
        loss = self.tree.loss
        if self.classes is None:
            told = (
                f"mean: of the target; {loss.error_name.split()[-1]}: {loss.error_name}"
            )
            return [f"[n]: node n; {told}; both on the training rows"]
        share = f"%: share of the class; {loss.error_word}: mean"
        lines = [f"[n]: node n; {share}, both on the training rows"]
        lines += [self.meaning] * bool(self.meaning)
        leaves = np.flatnonzero(self.tree.is_leaf).tolist()
        if any(len(self.shown_in(leaf)) < len(self.trees) for leaf in leaves):
            lines.append(
                "scores of classes without rows in a leaf are left out there; "
                "predict_proba counts them"
            )
        return lines

    def facts(self, node: int) -> list[str]:
        """Rows of a node, what they are like, and last the error of its model."""
        tree, loss, error = self.tree, self.tree.loss, self.tree.train_error
        of_rows, of_weight = self._shares_of(node)
        weighs = f"; {_share(of_weight)} of the weight"
        alike = abs(of_rows - of_weight) * tree.n_rows[0] < 1.0
        weighs = "" if alike else weighs
        rows = f"{counted_rows(tree.n_rows[node])} ({_share(of_rows)}{weighs})"
        if self.classes is not None:
            shares, names = self.shares[node], list(map(quoted, self.names))
            order = [1]  # of two one is told
            if not self.is_scalar:
                order = np.argsort(-shares, kind="stable").tolist()
                order = [i for i in order if shares[i] >= _MIN_SHARE]
            words = [f"{percent(shares[i])} {names[i]}" for i in order[:_MAX_SHARES]]
            words += [f"{len(order) - _MAX_SHARES} more"] * (len(order) > _MAX_SHARES)
            mean_loss = number(float(error[node].sum()), digits=3)
            return [rows, *words, f"{loss.error_word} {mean_loss}"]
        scale, mean_loss = tree.schema.target_scale, float(error[node, 0])
        spread = 1.0 if tree.says_targets else float(tree.deviation[0, 0])
        spread = scale * (spread or 1.0)  # one target alone does not vary
        reported = 0.0 if mean_loss < _EXACT else loss.reported(mean_loss, scale)
        mean = f"mean {in_steps(float(self.means[node]), spread)}"
        return [rows, mean, f"{loss.error_name.split()[-1]} {number(reported, 3)}"]

    def _shares_of(self, node: int) -> list[float]:
        """Shares of the training rows and of their weight that reach a node."""
        every = self.tree.n_rows, self.tree.weight
        return [float(each[node] / each[0]) if each[0] > 0 else 0.0 for each in every]

    @property
    def grown_on(self) -> str:
        """Number of the training rows, and how many of them are no copies."""
        differ = self.tree.n_different
        rows = counted_rows(self.tree.n_rows[0])
        return rows if differ is None else f"{rows} ({differ:,} differ)"

    def range_facts(
        self, node: int, precision: int | None = None, *, in_full: bool = False
    ) -> str:
        """Range of a node's predictions, ``in_full`` in words; empty if unbounded."""
        if not self.is_scalar or self.tree.n_outputs > 1:
            return ""
        (model,) = self.equations(node)
        if self.classes is not None:
            ends = [model.low, model.high] if model.terms else [model.intercept]
            if math.isinf(ends[0]):
                return ""
            shares = self.tree.loss.prediction(np.array(ends)[:, None])[:, 0]
            words = " to ".join(map(percent, shares.tolist()))
            return f"predicted: {words} {quoted(self.names[1])}"
        printed = printed_model(model, precision)
        if not printed.terms or math.isinf(printed.low):
            return ""
        low, high = number(printed.low), number(printed.high)
        if in_full:
            return f"predicts at least {low} and at most {high}"
        return f"clipped to [{low}, {high}]"

    @property
    def means(self) -> np.ndarray:
        """Mean of the target in every node, shape (n_nodes,), float64."""
        return self.tree.schema.restore_target(self.tree.mean[:, 0])

    @property
    def shares(self) -> np.ndarray:
        """Shares of the classes among the nodes' rows, shape (n_nodes, n_names)."""
        return self._of_names(np.clip(self.tree.mean, 0.0, 1.0))

    def _of_names(self, of_outputs: np.ndarray) -> np.ndarray:
        if self.only is not None and self.tree.n_outputs > 1:
            of_outputs = of_outputs[:, [self.only]]
        return with_all_classes(of_outputs)

    @property
    def colors(self) -> list[str]:
        return class_colors(len(self.names))

    @property
    def fills(self) -> list[str]:
        """Colours of the nodes: by their mean, or that of their most frequent class."""
        if self.classes is None:
            return shades(self.means)
        colors = self.colors
        return [paler(colors[one.argmax()], 0.7 * one.max()) for one in self.shares]

    def bar(self, node: int) -> list[tuple[float, str]]:
        """Shares of a node with their colours, for a stacked bar; empty of numbers."""
        if self.classes is None:
            return []
        return list(zip(self.shares[node].tolist(), self.colors, strict=True))

    def predict(self, table: Table) -> np.ndarray:
        """Predict rows: numbers, or probabilities of the classes, (n_rows, n_names)."""
        if self.classes is None:
            return np.asarray(routing.predict(self.tree, table), np.float64)[:, None]
        value = routing.values(self.tree, table).astype(np.float64)
        return self._of_names(self.tree.loss.prediction(value))

    def predicted_class(self, probability: np.ndarray) -> np.ndarray:
        """Positions, among the names, of the classes predicted, shape (n_rows,)."""
        assert self.classes is not None
        classes = self.classes if self.only is None else Classes(self.names)
        return classes.predicted(probability)

    def targets(self, X: Any, y: Any) -> np.ndarray:
        """Targets of rows, (n_rows,); of classes their positions, -1 if never seen."""
        if self.classes is None:
            values = validated_targets(y, X)
            if values.shape[1] not in (1, self.n_outputs):
                raise ValueError(
                    f"y has {values.shape[1]} columns, but the tree has "
                    f"{self.n_outputs} outputs; give the one that is read, or all."
                )
            return values[:, (self.only or 0) if values.shape[1] > 1 else 0]
        labels = validated_labels(y, X, "SecretClassifier")
        known = np.array(self.classes.labels)
        if labels.dtype.kind in "OUSb" or known.dtype.kind in "OUSb":
            labels, known = labels.astype(str), known.astype(str)
        member = labels[:, None] == known
        position = np.where(member.any(axis=1), member.argmax(axis=1), -1)
        return position if self.only is None else (position == self.only).astype(int)


class Rows(NamedTuple):
    """Rows as given, with targets, and what a tree predicts for them."""

    table: Table
    columns: list[np.ndarray]
    actual: np.ndarray
    predicted: np.ndarray
    leaf: np.ndarray

    @classmethod
    def of(cls, view: View, X: Any, y: Any) -> Self:
        """Send rows through a tree."""
        schema = view.tree.schema
        table, columns = encode(schema, X).on_host(), schema.columns_of(X)
        actual = view.targets(X, y)
        leaf = routing.apply(view.tree, table)
        return cls(table, columns, actual, view.predict(table), leaf)

    def take(self, index: np.ndarray) -> Self:
        """Select rows."""
        columns = [column[index] for column in self.columns]
        others = (each[index] for each in (self.actual, self.predicted, self.leaf))
        return type(self)(self.table.take(index), columns, *others)


def estimator_of(model: Readable) -> Any:
    """Fitted estimator of a tree, also in scikit-learn's TransformedTargetRegressor.

    There the target is named for what it is, "log of y".
    """
    check_is_fitted(model)
    inside = getattr(model, "regressor_", None)
    if inside is None:
        return model
    if model.func is None and model.transformer is None:
        return inside
    of = type(model.transformer).__name__
    if model.transformer is None:
        of = getattr(model.func, "__name__", "<lambda>")
    of = "transformed" if of == "<lambda>" else f"{of} of"
    named, schema = copy(inside), inside.tree_.schema
    names = tuple(f"{of} {name}" for name in schema.target_names)
    named.tree_ = replace(inside.tree_, schema=replace(schema, target_names=names))
    return named


def as_view(
    tree: Readable, output: int | str | None = None, *, several: bool = False
) -> View:
    """Choose how a tree is read: which of several outputs, or which class.

    Classes are those of the estimator, or those that the outputs are named for; of two
    the first one has no name there, and is called "not ...". A ValueError says if there
    is no output of that name, or several numbers are predicted, none is chosen, and the
    caller does not read ``several`` side by side, each with an equation of its own.
    """
    if isinstance(tree, View):
        return tree
    classes = None
    if not isinstance(tree, Tree):
        model = estimator_of(tree)
        tree, classes = model.tree_, Classes.of_estimator(model)
    names = tree.schema.target_names
    labels = tree.loss.labels(names)
    if labels is not None:
        classes = classes or Classes(labels)
        only = None if output is None else classes.position(output)
        if several and len(names) == 1 and only == 0:
            raise ValueError(
                "Of two classes the tree has the equation of the second, "
                f"{classes.labels[1]!r}; leave output={output!r} out."
            )
        only = only if len(names) > 1 else None
        return View(tree=tree, classes=classes, only=only, n_outputs=len(names))
    if output is None and len(names) > 1:
        if several:
            return View(tree=tree, n_outputs=len(names))
        raise ValueError(
            f"The tree has {len(names)} outputs: {', '.join(map(repr, names))}. "
            "Say which one to read with output=."
        )
    only = tree.schema.output_position(0 if output is None else output)
    alone = tree.output(only)
    return View(tree=alone, name=names[only], only=only, n_outputs=len(names))
