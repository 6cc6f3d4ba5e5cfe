"""What the sums of a program mean: numbers, or probabilities of classes."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from secret_jax.inspect.classes import Classes
from secret_jax.inspect.code.program import Program, plain_category, program_of
from secret_jax.losses.interface import Loss
from secret_jax.tree.structure import Tree

Link = Literal["identity", "exponential", "softmax", "clip"]


class Answer(NamedTuple):
    """What is made of the sums.

    Attributes
    ----------
    link : {"identity", "exponential", "softmax", "clip"}
        As in `secret_jax.losses.interface.Loss`.
    classes : Classes or None
        None: the answer is a number.
    which : int or None
        The class whose probability alone is asked for.
    """

    link: Link = "identity"
    classes: Classes | None = None
    which: int | None = None

    @property
    def labels(self) -> list[Any]:
        """The classes as values that can be written in any language."""
        assert self.classes is not None
        return [plain_category(label, "y") for label in self.classes.labels]


class Summands(NamedTuple):
    """Trees that add up.

    Attributes
    ----------
    trees : tuple of tuple of Tree
        Of every tree its outputs, each as a tree of that output alone.
    constants : tuple of float
        What is added, of every output.
    names : tuple of str
        What the sums are called, of every output.
    """

    trees: tuple[tuple[Tree, ...], ...]
    constants: tuple[float, ...]
    names: tuple[str, ...]

    def programs(self, precision: int | None) -> list[list[Program]]:
        """What is written down of each tree, for each output."""
        return [[program_of(each, precision) for each in its] for its in self.trees]


def link_of(loss: Loss | None) -> Link:
    """How predictions follow from the values of a tree.

    Raises
    ------
    ValueError
        If the loss does not say it.
    """
    if loss is None:
        return "identity"
    if loss.link is None:
        raise ValueError(
            f"{type(loss).__name__} does not say how predictions follow from what its "
            "models say. Set its class attribute link to one of 'identity', "
            "'exponential', 'softmax' and 'clip', if it is one of them."
        )
    return loss.link
