"""Export of a tree to the DOT language of Graphviz."""

import textwrap

from secret_jax.inspect.equations import check_counts
from secret_jax.inspect.printing import counted_leaves, counted_rows, ink_on
from secret_jax.inspect.view import View
from secret_jax.inspect.words import Wording, model_parts, split_parts
from secret_jax.tree.structure import StopReason
from secret_jax.tree.totals import in_order, leaves_below, way_to

_WORDING = Wording(max_terms=8)  # so that a box has a few lines
_WIDTH = 44  # characters in a line of a box
_THINNEST, _THICKEST = 0.5, 5.5  # points; edges to no rows and to all


def dot_code(view: View, max_depth: int | None) -> str:
    """Write a directed graph; see `secret_jax.inspect.code.export`."""
    check_counts(max_depth=max_depth)
    tree, n_leaves, fills = view.tree, leaves_below(view.tree), view.fills
    size = f"{counted_leaves(tree.n_leaves)}, {counted_rows(tree.weight[0])}"
    title = _quoted([f"{view.title}: {size}"])
    lines = [
        "digraph tree {",
        f"    graph [label={title}, labelloc=t, rankdir=TB];",
        '    node [shape=box, style="rounded,filled", fontname="Helvetica"];',
        '    edge [fontname="Helvetica"];',
    ]
    for node in in_order(tree, max_depth):
        facts, more = ", ".join(view.facts(node)), ""
        equations = [model_parts(o, node, _WORDING) for o in view.equations_of(node)]
        if tree.is_leaf[node]:
            reason = StopReason(int(tree.stop_reason[node])).sentence
            more = f", tooltip={_quoted([reason])}"
        elif tree.depth[node] == max_depth:
            facts += f", {counted_leaves(n_leaves[node])} below"
            more = ', style="rounded,filled,dashed"'
        else:
            equations = [split_parts(tree, node, _WORDING)]
        words = [" ".join(parts) for parts in equations]
        words[0] = f"[{node}] {words[0]}"
        label = [*(line for one in words for line in _wrapped(one)), *_wrapped(facts)]
        color = fills[node] if tree.n_nodes > 1 else "white"  # it is compared with none
        ink = ink_on(color) if tree.n_nodes > 1 else "black"
        more += f', fillcolor="{color}", fontcolor={ink}'
        lines.append(f"    {node} [label={_quoted(label)}{more}];")
        for parent, side in way_to(tree, node)[-1:]:
            answer = "yes" if side == "left" else "no"
            share = float(tree.weight[node] / tree.weight[0])
            width = _THINNEST + (_THICKEST - _THINNEST) * share
            style = f'label="{answer}", penwidth={width:.2f}'
            lines.append(f"    {parent} -> {node} [{style}];")
    return "\n".join([*lines, "}"]) + "\n"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, break_long_words=False, break_on_hyphens=False
    ) or [text]


def _quoted(lines: list[str]) -> str:
    escaped = [line.replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    # A line break in a name would end the line of the file as well.
    return '"' + "\\n".join(" ".join(line.splitlines()) for line in escaped) + '"'
