"""The tree behind an additive stage, as a tree by itself."""

from __future__ import annotations

from dataclasses import replace

from secret_jax.tree.structure import Tree


def rest_of(tree: Tree) -> Tree:
    """The tree that says what curves leave of the target; without curves, itself.

    Returns
    -------
    Tree
        Its target is named "rest of ...", and is zero where the curves say it all: its
        equations are what is added to them.
    """
    if tree.additive is None:
        return tree
    names = tuple(f"rest of {name}" for name in tree.schema.target_names)
    centers = (0.0,) * len(names)
    schema = replace(tree.schema, target_names=names, target_centers=centers)
    return replace(tree, schema=schema, additive=None)
