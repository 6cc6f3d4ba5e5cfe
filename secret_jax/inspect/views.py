"""How a tree is read, by what it predicts."""

from __future__ import annotations

from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.classes import Classes
from secret_jax.inspect.tree_view import NumberView, TreeView
from secret_jax.tree.structure import Tree


def view_of(
    tree: Tree, classes: Classes | None = None, output: int | str | None = None
) -> TreeView:
    """A tree as it is read.

    Parameters
    ----------
    classes : Classes, optional
        By default those that the outputs are named for; of two classes the first one
        has no name there, and is called "not ...".
    output : int or str, optional
        Which of several outputs, or which class against all others.

    Raises
    ------
    ValueError
        If several numbers are predicted and ``output`` is not given, or there is none
        of that name.
    """
    names = tree.schema.target_names
    known = Classes.of_tree(tree)
    if known is None:
        if output is None and len(names) > 1:
            raise ValueError(
                f"The tree has {len(names)} outputs: {', '.join(map(repr, names))}. "
                "Say which one to read with output=."
            )
        one = tree.output(0 if output is None else output)
        which = names.index(output) if isinstance(output, str) else int(output or 0)
        return NumberView(
            tree=one, name=names[which], output=which, n_outputs=len(names)
        )
    classes = classes or known
    only = None if output is None else classes.position(output)
    return ClassView(tree=tree, classes=classes, only=only if len(names) > 1 else None)


def as_view(tree: Tree | TreeView) -> TreeView:
    """A tree as it is read, if it is not that already."""
    return view_of(tree) if isinstance(tree, Tree) else tree
