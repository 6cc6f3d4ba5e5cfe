"""What options of scikit-learn's trees are called here, said where they are given."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

from secret_jax.tree.structure import Tree

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

# What scikit-learn's functions of the same name take, and what to do instead.
_INSTEAD = {
    "decision_tree": "it is a method of the fitted model",
    "class_names": "classes are named as the target names them",
    "decimals": "digits follow from precision=",
    "spacing": "the indent is fixed",
    "show_weights": "the rows of every node are always there",
    "filled": "every box has the colour of its mean",
    "rounded": "boxes are rounded",
    "impurity": "leaves have their error, inner nodes their rows",
    "proportion": "nodes have their rows",
    "node_ids": "the numbers in brackets are those of the nodes",
    "label": "every box is labelled",
    "fontsize": "the text has the size that fits; give a larger ax=",
}


def no_other_names(
    function: Callable[_Parameters, _Result],
) -> Callable[_Parameters, _Result]:
    """Refuse options that only scikit-learn's function has, with what to do instead."""

    @functools.wraps(function)
    def checked(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        for name in kwargs:
            if name in _INSTEAD:
                raise TypeError(
                    f"{function.__name__}() has no option {name!r}: {_INSTEAD[name]}."
                )
        return function(*args, **kwargs)

    return checked


def renamed(tree: Tree, feature_names: Sequence[Any] | None) -> Tree:
    """The tree with other names for its columns, if any are given.

    Parameters
    ----------
    feature_names : sequence of str, optional
        One for each column that the tree was fitted on.

    Raises
    ------
    ValueError
        If there are more or fewer names than columns, or two are equal.
    """
    if feature_names is None:
        return tree
    names, columns = tuple(map(str, feature_names)), len(tree.schema.names)
    if isinstance(feature_names, str) or len(names) != columns:
        given = repr(feature_names) if isinstance(feature_names, str) else len(names)
        raise ValueError(
            f"feature_names should hold a name for each of the {columns} columns that "
            f"the tree was fitted on, got {given}."
        )
    if len(set(names)) < columns:
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"feature_names holds {twice!r} twice; give distinct names.")
    return replace(tree, schema=replace(tree.schema, names=names))
