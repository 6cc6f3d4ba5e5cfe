"""A tree as indented text and as DOT for Graphviz, in units and names of the data."""

import textwrap
from dataclasses import replace
from typing import Any

from secret_jax.inspect import words
from secret_jax.inspect.equations import check_counts
from secret_jax.inspect.printing import (
    counted,
    counted_leaves,
    in_lines,
    ink_on,
)
from secret_jax.inspect.view import Readable, View, as_view
from secret_jax.tree.structure import SplitKind, StopReason
from secret_jax.tree.totals import Side, in_order, leaves_below, way_to

_WIDTH = 100  # characters in a line
_WHOLE_WORDS: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
_REPEATED = 3  # parts of a sum that are repeated after "else"
# Of a drawing: terms and characters of a line of a box; points of edges, to no rows and
# to all.
_OF_BOXES, _BOX_WIDTH = words.Wording(max_terms=8), 44
_THINNEST, _THICKEST = 0.5, 5.5
_BRANCHES: tuple[tuple[str, Side], ...] = (("if", "left"), ("else", "right"))


def export_text(
    tree: Readable,
    *,
    max_depth: int | None = None,
    precision: int | None = None,
    max_terms: int | None = None,
    max_categories: int | None = words.MAX_CATEGORIES,
    output: int | str | None = None,
) -> str:
    """Write the tree as indented text, in the units and column names of the data.

    Parameters
    ----------
    max_depth : int, optional
        Deepest level that is shown; inner nodes on it are shown with their own model.
    precision : int, optional
        Significant digits of the equations, 3 by default: a coefficient is rounded in
        steps of ``10**-precision`` of the target's standard deviation, over one of its
        column. 16 prints all digits there are. Splits always have the digits they need
        for every training row to keep its way.
    max_terms : int, optional
        Most terms of an equation: those that move it most in their node. The others are
        counted, and what they add on average is told.
    max_categories : int or None
        Longer lists of categories are replaced by the other side's, if that is short,
        or abbreviated; None: never.
    output : int or str, optional
        Which of several outputs, or which class against all others.

    Notes
    -----
    The numbers in brackets are those of the nodes, as `apply` gives them. ``mean`` is
    that of the target among the node's training rows, ``error`` the root mean squared
    error on them, in units of the target. Rows are counted as they were given; where
    their weights make another share, it is told as well. Of a soft tree these are the
    rows that the tree with hard splits would send there.
    """
    check_counts(max_depth=max_depth)
    wording = words.Wording(
        precision=precision, max_terms=max_terms, max_categories=max_categories
    )
    view = as_view(tree, output)
    tree, lines, n_leaves = view.tree, [], leaves_below(view.tree)
    oblique = tree.kind == SplitKind.OBLIQUE

    def write(node: int, indent: str) -> None:
        leaf = bool(tree.is_leaf[node])
        cut = not leaf and tree.depth[node] == max_depth
        label = f"[{node}] "
        if leaf or cut:
            for equation in view.equations_of(node):
                parts = words.model_parts(equation, wording)
                lines.extend(_wrapped(parts, indent, label))
                label = " " * len(label)
            facts = [*view.facts(node), view.range_facts(node, precision)]
            first, *rest = [fact for fact in facts if fact]
            facts, hanging = [indent + label + first, *rest], indent + " " * len(label)
            lines.extend(in_lines(facts, _WIDTH, hanging, ", "))
        if cut:
            lines.append(f"{hanging}... {counted_leaves(n_leaves[node])} below")
        elif not leaf:
            for word, side in _BRANCHES:
                # Of a split all terms are written.
                parts = words.split_parts(
                    tree, node, replace(wording, max_terms=None), side
                )
                if side == "right" and oblique[node] and len(parts) > _REPEATED:
                    parts = [f"({parts[-1]})"]  # once is enough for a long sum
                lines.extend(_wrapped(parts, indent, f"[{node}] {word} "))
                write(int(getattr(tree, side)[node]), indent + "|   ")

    write(0, "")
    is_clipped = any("clipped to [" in line for line in lines)
    return "\n".join([*_head(view, precision, is_clipped), "", *lines]) + "\n"


def _head(view: View, precision: int | None, is_clipped: bool) -> list[str]:
    """Write what is said of the whole tree, and what its marks mean."""
    tree, clipped = view.tree, words.mixture_facts(view.tree)
    head = (
        f"{view.title}: a tree of {counted_leaves(tree.n_leaves)}, depth "
        f"{tree.max_depth}, {counted(view.n_numbers(precision), 'number', 'numbers')} "
        f"to read, grown on {view.grown_on}"
    )
    legend = "to read: numbers in splits and equations"
    if is_clipped or "clipped to [" in clipped:
        legend += "; clipped to [a, b]: a or b stands for what lies beyond"
    lines = [*textwrap.wrap(head, _WIDTH, **_WHOLE_WORDS), *view.keys, legend]
    if tree.n_leaves == 1:
        lines.append(words.one_leaf_sentence(tree))
    if tree.is_soft:
        mixture = "the prediction is the mixture of the leaves by these shares"
        if not tree.says_targets:
            mixture = "what the leaves say is mixed by these shares"
        lines += [
            "soft splits send a row both ways: half and half at the threshold, 73 % to "
            "27 %",
            f"one width away; {mixture}{', ' if clipped else ''}{clipped}",
        ]
    facts = (
        textwrap.wrap(f, _WIDTH, break_on_hyphens=False) for f in words.facts_of(tree)
    )
    return [*lines, *(line for one in facts for line in one)]


def _wrapped(parts: list[str], indent: str, label: str) -> list[str]:
    """Break a sum or condition into lines between its parts."""
    number = label.index(" ") + 1 if label.strip() else len(label)
    hanging = indent + " " * (number + 2)
    width = max(_WIDTH - len(hanging), _WIDTH // 2)
    pieces = [indent + label + parts[0]]
    for part in parts[1:]:
        # A long list of categories is broken between them.
        first, *rest = textwrap.wrap(part, width - 2, **_WHOLE_WORDS)
        broken = [first, *("  " + line for line in rest)]
        pieces += broken if len(part) > width else [part]
    return in_lines(pieces, _WIDTH, hanging)


def dot_code(view: View, max_depth: int | None) -> str:
    check_counts(max_depth=max_depth)
    tree, n_leaves, fills = view.tree, leaves_below(view.tree), view.fills
    size = f"{counted_leaves(tree.n_leaves)}, {view.grown_on}"
    title = _quoted([f"{view.title}: {size}"])
    lines = [
        "digraph tree {",
        f"    graph [label={title}, labelloc=t, rankdir=TB];",
        '    node [shape=box, style="rounded,filled", fontname="Helvetica"];',
        '    edge [fontname="Helvetica"];',
    ]
    for node in in_order(tree, max_depth):
        facts, more = ", ".join(view.facts(node)), ""
        equations = [
            words.model_parts(one, _OF_BOXES) for one in view.equations_of(node)
        ]
        if tree.is_leaf[node]:
            reason = StopReason(int(tree.stop_reason[node])).sentence
            more = f", tooltip={_quoted([reason])}"
        elif tree.depth[node] == max_depth:
            facts += f", {counted_leaves(n_leaves[node])} below"
            more = ', style="rounded,filled,dashed"'
        else:
            equations = [words.split_parts(tree, node, _OF_BOXES)]
        said = [" ".join(parts) for parts in equations]
        said[0] = f"[{node}] {said[0]}"
        label = [*(line for one in said for line in _lines(one)), *_lines(facts)]
        color = fills[node] if tree.n_nodes > 1 else "white"  # it is compared with none
        ink = ink_on(color) if tree.n_nodes > 1 else "black"
        more += f', fillcolor="{color}", fontcolor={ink}'
        lines.append(f"    {node} [label={_quoted(label)}{more}];")
        for parent, side in way_to(tree, node)[-1:]:
            answer = "yes" if side == "left" else "no"
            share = float(tree.n_rows[node] / tree.n_rows[0])
            width = _THINNEST + (_THICKEST - _THINNEST) * share
            style = f'label="{answer}", penwidth={width:.2f}'
            lines.append(f"    {parent} -> {node} [{style}];")
    return "\n".join([*lines, "}"]) + "\n"


def _lines(text: str) -> list[str]:
    return textwrap.wrap(text, _BOX_WIDTH, **_WHOLE_WORDS) or [text]


def _quoted(lines: list[str]) -> str:
    escaped = [line.replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    # A line break in a name would end the line of the file as well.
    return '"' + "\\n".join(" ".join(line.splitlines()) for line in escaped) + '"'
