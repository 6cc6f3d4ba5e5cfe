"""How a tree is read, by what it predicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.tree_view import NumberView, TreeView
from secret_jax.tree.structure import Tree


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
        (*_, last) = names
        labels = names if len(names) > 1 else (f"not {last}", last)
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
