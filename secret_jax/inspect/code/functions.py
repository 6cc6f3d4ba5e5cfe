"""Trees and their sums as functions: the walk that Python, C and JavaScript share."""

import math
from collections.abc import Iterator, Mapping, Sequence

from secret_jax.inspect.code.dialect import FIXED_SPACE, added
from secret_jax.inspect.code.procedural import Procedural, wrapped
from secret_jax.inspect.code.program import Program, decisions
from secret_jax.inspect.equations import AnySplit, LinearSplit
from secret_jax.inspect.printing import counted_leaves
from secret_jax.losses.interface import Link
from secret_jax.tree.totals import way_to

_EMPTY_LINES = ["", ""]
# What follows from a sum by the inverse link, and the function of several.
_BY_LINK: Mapping[Link, tuple[str, str]] = {
    "identity": ("total", ""),
    "exponential": ("expected(total)", ""),
    "softmax": ("gate(total)", "softmax"),
    "clip": ("clip(total, 0.0, 1.0)", "shares"),
}


def functions(language: Procedural) -> str:
    """Write the functions of a model; see `secret_jax.inspect.code.export`."""
    model, name = language.model, language.function
    with_all = model.classes is not None and model.only is None
    follows, _ = model.by_link(_BY_LINK)
    whole = len(model.trees) == 1 and follows == "total" and not any(model.constants)
    trees = [] if whole else [f"tree_{i}" for i in range(len(model.trees))]
    lines: list[str] = []
    for tree, outputs in zip(trees, model.trees, strict=False):
        lines += [
            language.head_of_tree(tree),
            *_body(language, outputs),
            *language.block_end,
        ]
        lines += _EMPTY_LINES
    by = f"{len(model.trees)} trees that add up"
    if len(model.trees) == 1:
        by = f"a tree of {counted_leaves(model.trees[0][0].tree.n_leaves)}"
    title = f"    {language.comment}{' '.join(model.title.split())}: {by}."
    first, *more = language.head(
        f"{name}_proba" if with_all else name, "chances" if with_all else "number"
    )
    lines += [first, title, *more]
    lines += [language.let(*variable) for variable in language.variables]
    lines += _body(language, model.trees[0]) if whole else _answer(language, trees)
    lines += language.block_end
    if with_all:
        lines += [*_EMPTY_LINES, *_class_function(language)]
    return language.written("\n".join(lines) + "\n").replace(FIXED_SPACE, " ")


def _body(language: Procedural, outputs: Sequence[Program]) -> Iterator[str]:
    """Write the lines that return the value of a tree, or one for each output."""
    tree = outputs[0].tree
    if tree.is_soft:
        yield from _mixture(language, outputs)
        return
    before, after = language.branch
    deepest, steps = 0, [*decisions(tree)]
    for node, depth, nested, _ in steps:
        for level in range(deepest, depth, -1):
            yield from (f"{'    ' * level}{end}" for end in language.block_end)
        deepest, indent = depth, "    " * (depth + 1)
        if nested is not None:
            asked = language.condition(outputs[0].splits[node], nested)
            yield from wrapped(indent, before, asked, after)
            continue
        models = [program.models[node] for program in outputs]
        values = [
            language.clipped(language.equation(program, node), model.low, model.high)
            for program, model in zip(outputs, models, strict=True)
        ]
        yield from language.returned(indent, *values)


def _mixture(language: Procedural, outputs: Sequence[Program]) -> Iterator[str]:
    """Write the gates, then the sums over the leaves."""
    for node, split in outputs[0].splits.items():
        before = f"{language.types['number']}left_{node} = "
        yield from wrapped("    ", before, _share_left(language, split), language.end)
    totals = []
    for output, program in enumerate(outputs):
        total = f"total_{output}"
        before = f"{language.types['number']}{total} = "
        for leaf, model in program.models.items():
            value = language.equation(program, leaf)
            value = f"({value})" if math.isinf(model.low) and model.terms else value
            factors = [
                f"left_{node}" if side == "left" else f"(1.0 - left_{node})"
                for node, side in way_to(program.tree, leaf)
            ]
            factors.append(language.clipped(value, model.low, model.high))
            product = " * ".join(factors)
            yield from wrapped("    ", before, product, language.end)
            before = f"{total} += "
        totals.append(language.clipped(total, program.low, program.high))
    yield from language.returned("    ", *totals)


def _share_left(language: Procedural, split: AnySplit) -> str:
    """Write the share of a row that goes left."""
    if not isinstance(split, LinearSplit) or split.width == 0:
        return language.indicator.format(language.condition(split, "left"))
    total = language.sum_of(split.gate_terms)
    ends = language.number(split.threshold), f"({total})"
    end, start = ends if split.at_most else ends[::-1]
    return f"gate(({end} - {start}) / {language.number(split.width)})"


def _answer(language: Procedural, trees: Sequence[str]) -> Iterator[str]:
    """Write the sum, or the list of several, and what follows from it."""
    model, several = language.model, len(language.model.constants) > 1
    of_total, of_scores = model.by_link(_BY_LINK)
    constants = [language.number(one) for one in model.constants]
    if several:
        yield from language.let_list("scores", constants)
    else:
        yield language.let("total", constants[0])
    before, added_up = language.addition if several else ("total += ", "{}")
    for tree in trees:
        value = added_up.format(language.call_of_tree(tree))
        yield from wrapped("    ", before, value, language.end)
    if model.classes is None:
        yield from language.returned("    ", of_total)
        return
    if several:
        yield language.let("chances", language.on_list(of_scores, "scores"), "list")
    else:
        yield language.let("chance", of_total)
        yield from language.let_list(
            "chances", [f"{language.number(1.0)} - chance", "chance"]
        )
    if model.only is not None:
        yield from language.returned("    ", f"chances[{model.only}]")
        return
    yield from language.give_chances()


def _class_function(language: Procedural) -> Iterator[str]:
    """Write the function that predicts a class."""
    assert language.model.classes is not None
    costs, chosen = language.model.classes.costs, "chances"
    yield from language.head(language.function, "label")
    yield from language.label_list()
    chances = language.chances_of.format(language.function, language.n_chances)
    yield f"    {chances}{language.end}"
    if costs is not None:
        yield f"    {language.comment}Minus the average cost of naming each class."
        gains, chosen = [], "gains"
        for column in costs.T.tolist():
            pairs = [(cost, i) for i, cost in enumerate(column) if cost]
            terms = [f"{language.number(-cost)} * chances[{i}]" for cost, i in pairs]
            gains.append(added(terms or [language.number(0.0)]))
        yield from language.let_list("gains", gains)
    yield from language.returned(
        "    ", f"labels[{language.on_list('largest', chosen)}]"
    )
    yield from language.block_end
