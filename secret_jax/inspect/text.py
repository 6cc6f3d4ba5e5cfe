"""The tree as text, in the units and column names of the data."""

from __future__ import annotations

import textwrap
from typing import Literal

from secret_jax.inspect.arguments import (
    MOST_CATEGORIES,
    check_choice,
    check_count,
    checked_precision,
)
from secret_jax.inspect.cost import reading_cost
from secret_jax.inspect.curves import curves_text
from secret_jax.inspect.equations import Side
from secret_jax.inspect.printing import counted, counted_leaves, counted_rows
from secret_jax.inspect.rest import rest_of
from secret_jax.inspect.words import (
    clip_facts,
    missing_facts,
    mixture_facts,
    model_parts,
    node_facts,
    split_parts,
)
from secret_jax.losses.classes import CrossEntropy, class_in_words
from secret_jax.tree.structure import SplitKind, Tree
from secret_jax.tree.totals import leaves_below

_WIDTH = 100  # characters in a line
_REPEATED = 3  # parts of a sum that are repeated after "else"
_BRANCHES: tuple[tuple[str, Side], ...] = (("if", "left"), ("else", "right"))


def export_text(
    tree: Tree,
    *,
    max_depth: int | None = None,
    precision: int | None = None,
    show_models: Literal["leaves", "all", "none"] = "leaves",
    max_terms: int | None = None,
    max_categories: int | None = MOST_CATEGORIES,
) -> str:
    """The tree as indented text, in the units and column names of the data.

    Parameters
    ----------
    tree : Tree
    max_depth : int, optional
        Deepest level that is shown; inner nodes on it are shown with their own model.
    precision : int, optional
        Significant digits of the equations, 3 by default: a coefficient is rounded in
        steps of ``10**-precision`` of the target's standard deviation, over one
        standard deviation of its column. 16 prints all digits there are. Splits always
        have the digits they need for every training row to keep its way.
    show_models : {"leaves", "all", "none"}
        The nodes whose equation is printed.
    max_terms : int, optional
        Most terms of an equation: those that move it most in their node. The others
        are counted, and stand in the constant with their means. None: all.
    max_categories : int or None
        Longer lists of categories are replaced by the other side's, if that is short,
        or abbreviated; None: never.

    Returns
    -------
    str
        The numbers in brackets are those of the nodes, as `apply` gives them. ``mean``
        is that of the target among the node's training rows, ``error`` the root mean
        squared error on them, in units of the target. Rows are counted with their
        weights. Of a soft tree the rows and errors of a node are those that the tree
        with hard splits would send there.

    Raises
    ------
    TypeError, ValueError
        If an option is not what it should be.
    """
    check_count("max_depth", max_depth)
    check_count("max_terms", max_terms)
    check_count("max_categories", max_categories)
    checked_precision(precision)
    check_choice("show_models", show_models, ("leaves", "all", "none"))
    curves, tree = curves_text(tree), rest_of(tree)
    # Several outputs only of classes: see `ReadingMixin.export_text`.
    several = tree.n_outputs > 1
    of_output = [tree.output(i) for i in range(tree.n_outputs)] if several else [tree]
    costs = [reading_cost(one, precision) for one in of_output]
    cost = costs[0].splits + sum(each.leaves for each in costs)
    names = tree.schema.target_names
    lines = [
        f"{' / '.join(map(class_in_words, names) if several else names)}: a tree of "
        f"{counted_leaves(tree.n_leaves)}, depth {tree.max_depth}, "
        f"{counted(cost, 'number', 'numbers')} to read, "
        f"grown on {counted_rows(tree.weight[0])}",
        *_keys(tree),
    ]
    if tree.is_soft:
        clipped = mixture_facts(tree)
        mixed = "the prediction is the mixture of the leaves by these shares"
        if tree.loss is not None:
            mixed = "what the leaves say is mixed by these shares"
        lines += [
            "soft splits send a row both ways: half and half at the threshold, 73 % to "
            "27 %",
            f"one width away; {mixed}{', ' if clipped else ''}{clipped}",
        ]
    lines += textwrap.wrap(missing_facts(tree), _WIDTH, break_on_hyphens=False)
    lines.append("")

    oblique = tree.kind == SplitKind.OBLIQUE
    n_leaves = leaves_below(tree)

    def write(node: int, indent: str) -> None:
        leaf = bool(tree.is_leaf[node])
        cut = not leaf and tree.depth[node] == max_depth
        label = f"[{node}] "
        if show_models == "all" or ((leaf or cut) and show_models == "leaves"):
            for which, one in enumerate(of_output):
                absent = len(of_output) > 1 and tree.mean[node, which] <= 0
                if absent and not tree.is_soft:
                    continue  # a class that is not there; gates mix it in
                parts = model_parts(
                    one,
                    node,
                    precision=precision,
                    max_terms=max_terms,
                    max_categories=max_categories,
                )
                lines.extend(_wrapped(parts, indent, label))
                label = " " * len(label)
        if leaf or cut or show_models == "all":
            facts = [node_facts(tree, node)]
            if len(of_output) == 1:
                facts.append(clip_facts(tree, node, precision))
            lines.append(indent + label + ", ".join(filter(None, facts)))
            label = " " * len(label)
        if cut:
            lines.append(f"{indent}{label}... {counted_leaves(n_leaves[node])} below")
        elif not leaf:
            for word, side in _BRANCHES:
                parts = split_parts(
                    tree,
                    node,
                    precision=precision,
                    max_categories=max_categories,
                    side=side,
                )
                if side == "right" and oblique[node] and len(parts) > _REPEATED:
                    parts = [f"({parts[-1]})"]  # once is enough for a long sum
                lines.extend(_wrapped(parts, indent, f"[{node}] {word} "))
                write(int(getattr(tree, side)[node]), indent + "|   ")

    write(0, "")
    return curves + "\n".join(lines) + "\n"


def _keys(tree: Tree) -> list[str]:
    """What the marks of the text mean."""
    several = tree.n_outputs > 1
    mean = "mean: of the target"
    if tree.loss is not None and tree.loss.of_classes:
        mean = f"{'%' if several else 'mean'}: share of the class"
    error = "error: root mean squared error" if tree.loss is None else "loss: mean loss"
    where = "both on the training rows"
    if tree.kept is not None:
        where = "of training rows left out in turn"
    lines = [f"[n]: node n; {mean}; {error}; {where}"]
    if several and isinstance(tree.loss, CrossEntropy):
        lines.append("a class's probability is in proportion to exp(score)")
    if several and not tree.is_soft:
        lines.append("a leaf says nothing of classes that have no row in it")
    return lines


def _wrapped(parts: list[str], indent: str, label: str) -> list[str]:
    """Lines of at most the text width, broken between parts."""
    number = label.index(" ") + 1 if label.strip() else len(label)
    hanging = indent + " " * (number + 2)
    lines = [indent + label + parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + 1 + len(part) <= _WIDTH:
            lines[-1] += " " + part
        else:
            lines.append(hanging + part)
    return lines
