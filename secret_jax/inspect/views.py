"""Choice of how a tree is read, by what it predicts."""

from copy import copy
from dataclasses import replace
from typing import Any, TypeAlias

from sklearn.utils.validation import check_is_fitted

from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.classes import Classes
from secret_jax.inspect.tree_view import TreeView
from secret_jax.tree.structure import Tree

Readable: TypeAlias = Any
"""A tree, a view of it, or a fitted estimator of one, also of a transformed target."""


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


def as_view(tree: Readable, output: int | str | None = None) -> TreeView:
    """Choose how a tree is read: which of several outputs, or which class.

    Classes are those of the estimator, or those that the outputs are named for; of two
    the first one has no name there, and is called "not ...". A ValueError says if
    several numbers are predicted and none is chosen, or there is none of that name.
    """
    if isinstance(tree, TreeView):
        return tree
    classes = None
    if not isinstance(tree, Tree):
        model = estimator_of(tree)
        tree, classes = model.tree_, Classes.of_estimator(model)
    names = tree.schema.target_names
    known = Classes.of_tree(tree)
    if known is not None:
        classes = classes or known
        only = None if output is None else classes.position(output)
        only = only if len(names) > 1 else None
        return ClassView(tree=tree, classes=classes, only=only)
    if output is None and len(names) > 1:
        raise ValueError(
            f"The tree has {len(names)} outputs: {', '.join(map(repr, names))}. "
            "Say which one to read with output=."
        )
    which = tree.schema.output_position(0 if output is None else output)
    return TreeView(
        tree=tree.output(which), name=names[which], output=which, n_outputs=len(names)
    )


def outputs_of(tree: Readable, output: int | str | None = None) -> Tree:
    """Choose a tree with all outputs, or one that is named."""
    whole = tree if isinstance(tree, Tree) else estimator_of(tree).tree_
    if output is None and whole.n_outputs > 1:
        return whole
    view = as_view(tree, output)
    if isinstance(view, ClassView) and output is not None and whole.n_outputs == 1:
        second = view.classes.labels[1]
        if view.classes.position(output) == 0:
            raise ValueError(
                f"Of two classes the tree has the equation of the second, {second!r}; "
                f"leave output={output!r} out."
            )
    return view.equations[0]
