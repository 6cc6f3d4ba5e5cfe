"""Labels of the classes that the outputs of a tree stand for."""

from typing import Any, NamedTuple, Self

import numpy as np

from secret_jax.tree.structure import Tree


class Classes(NamedTuple):
    """Labels of all classes, in order, as plain values, and what mistakes cost.

    ``costs`` are those of taking a class (row) for another (column); None: all the
    same. ``target`` is the name of what has these classes, if it has one.
    """

    labels: tuple[Any, ...]
    costs: np.ndarray | None = None
    target: str = ""

    @classmethod
    def of_estimator(cls, estimator: Any) -> Self | None:
        """Read the classes of a fitted estimator; None: it predicts numbers."""
        labels = getattr(estimator, "classes_", None)
        if labels is None:
            return None
        costs = getattr(estimator, "costs", None)
        costs = None if costs is None else np.asarray(costs, np.float64)
        target = getattr(estimator, "target_name_", "")
        return cls(tuple(labels.tolist()), costs, target)

    @classmethod
    def of_tree(cls, tree: Tree) -> Self | None:
        """Read the classes from the names of a tree's outputs; None: numbers."""
        labels = tree.loss.labels(tree.schema.target_names)
        return None if labels is None else cls(labels)

    def position(self, which: int | str) -> int:
        """Find the position of a class by its position or name."""
        names = [str(label) for label in self.labels]
        if isinstance(which, str) and which in names:
            return names.index(which)
        if not isinstance(which, bool) and which in range(len(names)):
            return int(which)
        raise ValueError(
            f"output={which!r} is none of the classes: give one of "
            f"{', '.join(map(repr, names))}, or a position below {len(names)}."
        )

    def chosen(self, probability: np.ndarray) -> np.ndarray:
        """Choose the position of the predicted class by probabilities of all."""
        if self.costs is None:
            return np.argmax(probability, axis=1)
        return np.argmin(probability @ self.costs, axis=1)


def with_all_classes(probability: np.ndarray) -> np.ndarray:
    """Complete probabilities of two classes, of which only the second has a column."""
    if probability.shape[1] > 1:
        return probability
    return np.hstack([1.0 - probability, probability])
