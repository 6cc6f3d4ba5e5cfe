"""Splits, equations and paths in words, for text, pictures and explanations."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from secret_jax.data.attributes import WEEKDAY
from secret_jax.inspect.arguments import MOST_CATEGORIES, Wording
from secret_jax.inspect.equations import (
    CategorySplit,
    LinearSplit,
    conditions_at,
    model_in_original_units,
)
from secret_jax.inspect.printing import counted, number, quoted
from secret_jax.inspect.rounding import (
    PrintedTerm,
    printed_model,
    rounded_split,
)
from secret_jax.tree.structure import SplitKind, Tree
from secret_jax.tree.totals import Side, way_to

PLAIN = Wording()
_MOVING = 5  # columns that are named where equations have no room
_TERMS_OF_PATH = 4  # of each condition on the way to a node
_OR_MISSING = " or missing"


def split_sentence(tree: Tree, node: int, side: Side = "left", **options: Any) -> str:
    """Write the condition of a split in one line; options are those of `Wording`."""
    return " ".join(split_parts(tree, node, Wording(**options), side))


def model_equation(tree: Tree, node: int, **options: Any) -> str:
    """Write the equation of a node in one line; options are those of `Wording`."""
    return " ".join(model_parts(tree, node, Wording(**options)))


def split_parts(
    tree: Tree, node: int, wording: Wording = PLAIN, side: Side = "left"
) -> list[str]:
    """Write the condition under which a row goes to one side of an inner node.

    In parts between which a line may break, for example of ``"length - 2.26 weight <=
    3.1"`` or ``"sex in {F, M}"``, of a gate ``"length <= 3.1 (soft, width 0.2)"``, and
    where values were missing ``"length <= 3.1 or missing"`` or ``"length is missing"``.
    Conditions of a conjunction are joined by "and"; of the rows for which it does not
    hold they are turned round, and joined by "or". An ellipsis stands for terms that
    are not shown.
    """
    word, parts = ("and " if side == "left" else "or "), []
    all_hold = side == "left" and len(tree.comparisons_at(node)) > 1
    for place, one in conditions_at(tree, node):
        first, *more = _comparison_parts(tree, place, one, wording, side)
        if all_hold and isinstance(one, LinearSplit) and one.missing_left:
            first, *more = [f"({first}", *more[:-1], *(f"{m})" for m in more[-1:])]
        parts += [word * bool(parts) + first, *more]
    return parts


def _comparison_parts(
    tree: Tree,
    place: int,
    split: LinearSplit | CategorySplit,
    wording: Wording,
    side: Side,
) -> list[str]:
    if isinstance(split, CategorySplit):
        sides = (split.left, split.right)
        listed, other = sides if side == "left" else sides[::-1]
        most = wording.max_categories
        return list(_membership(quoted(split.name), listed, other, most))
    hard_axis = tree.kind[place] == SplitKind.AXIS and split.width == 0
    if hard_axis and split.terms[0].asks == "missing":
        # The indicator is 1 where the value is missing.
        missing = (side == "left") == (not split.at_most)
        return [f"{quoted(split.terms[0].name)} is {'' if missing else 'not '}missing"]
    named = _place(tree, split, side)
    parts = [named or ""]
    if named is None:
        split = rounded_split(split, wording.precision)
        summands = [(term.factor, quoted(term.label)) for term in split.terms]
        shown = summands[: wording.max_terms]
        parts = _sum(shown, bare=True) + ["+ ..."] * (len(shown) < len(summands))
        parts.append(f"{split.sign(side)} {number(split.threshold)}")
    if split.width > 0:
        filled = split.missing_value
        missing = "" if filled is None else f", missing as {number(filled)}"
        parts[-1] += f" (soft, width {number(split.width)}{missing})"
    elif split.missing_left == (side == "left"):  # neither where None
        parts[-1] += _OR_MISSING
    return parts


def _place(tree: Tree, split: LinearSplit, side: Side) -> str | None:
    """Write a hard split on an ordered category, a date or a weekday, if it is one."""
    if split.width > 0 or len(split.terms) != 1 or split.terms[0].asks != "number":
        return None
    schema, column, threshold = tree.schema, split.terms[0].column, split.threshold
    place = math.floor(threshold) if split.at_most else math.ceil(threshold)
    written, sign = schema.place_written(column, place), split.sign(side)
    if written is None:
        return None
    name, word = map(quoted, written)
    if schema.origin(column).part != WEEKDAY:
        return f"{name} {sign} {word}"
    before, after = (1, place - (sign == "<")), (place + (sign == ">"), 7)
    days = [
        schema.place_written(column, end)
        for end in (before if sign in ("<", "<=") else after)
    ]
    first, last = (day[1] for day in days if day is not None)
    return f"{name} in {first}{f'..{last}' * (first != last)}"


def _membership(
    name: str, listed: tuple, other: tuple, max_categories: int | None
) -> Iterator[str]:
    most = len(listed) if max_categories is None else max_categories
    inverted = len(listed) > most >= len(other)
    shown = other if inverted else listed
    if len(shown) == most + 1:  # its name takes no more room than a count
        most += 1
    items = [quoted(category) for category in shown[:most]]
    if len(shown) > most:
        items.append(f"... {len(shown) - most} more")
    yield f"{name} {'not in' if inverted else 'in'}"
    for i, item in enumerate(items or [""]):
        first, last = i == 0, i >= len(items) - 1
        yield ("{" if first else "") + item + ("}" if last else ",")


def model_parts(tree: Tree, node: int, wording: Wording = PLAIN) -> list[str]:
    """Write the equation of a node, its terms sorted by the size of their effect.

    In parts between which a line may break, for example of ``"rings = 2.31 + 12.1
    shell_weight - 3.2 height"``. Of terms that are not shown their mean in the node is
    told.
    """
    model = model_in_original_units(tree, node)
    printed = printed_model(model, wording.precision, wording.max_terms)
    most = wording.max_categories
    summands = [(term.factor, term_words(term, most)) for term in printed.terms]
    if printed.constant != 0 or not summands:
        summands.insert(0, (printed.constant, ""))
    parts = [f"{quoted(model.target)} =", *_sum(summands)]
    if printed.hidden:
        mean, n = printed.hidden_mean, len(printed.hidden)
        count = counted(n, "smaller term adds", "smaller terms add")
        sign = "-" if mean < 0 else "+"
        parts.append(f"{sign} {number(abs(mean))} (what {count} on average)")
    return parts


def term_words(term: PrintedTerm, max_categories: int | None = MOST_CATEGORIES) -> str:
    """Write what the factor of a term is multiplied by."""
    column, categories = term.main.name, term.categories
    name = _in_brackets(column)
    if term.main.asks == "missing" or categories == (None,):
        return f"[{name} is missing]"
    if not categories:
        name, sign = quoted(column), "-" if term.at > 0 else "+"
        return f"({name} {sign} {number(abs(term.at))})" if term.at else name
    if len(categories) == 1:
        return f"[{name} = {_in_brackets(categories[0])}]"
    # There is no other side to list instead.
    return f"[{' '.join(_membership(name, categories, categories, max_categories))}]"


def _in_brackets(name: Any) -> str:
    """Brackets stand in for quotes, but not around blanks or breaks of a line."""
    plain = isinstance(name, str) and name and name == name.strip()
    return name if plain and name.isprintable() else quoted(name)


def most_moving(equations: Sequence[Tree], node: int) -> list[str]:
    """Count the equations of a node, and name the columns that move them most."""
    effects: defaultdict[str, float] = defaultdict(float)
    for tree in equations:
        for term in model_in_original_units(tree, node).terms:
            effects[term.name] += term.effect
    order = sorted(effects, key=lambda name: -effects[name])
    most = [quoted(name) for name in order[:_MOVING]]
    words = f"equations of {len(equations)} classes"
    return [f"{words}, moved most by {most[0]}", *most[1:]] if most else [words]


def _sum(summands: Sequence[tuple[float, str]], *, bare: bool = False) -> list[str]:
    """Write a sum in parts; a factor of one is only left out of a ``bare`` sum."""
    parts = []
    for value, name in summands:
        sign = ("-" if value < 0 else "") if not parts else "- " if value < 0 else "+ "
        size = number(abs(value))
        if name:
            size = name if bare and size == "1" else f"{size} {name}"
        parts.append(sign + size)
    return parts or ["0"]


def path_sentence(tree: Tree, node: int) -> str:
    """Write the conditions on the way to a node, or "all rows".

    Of several bounds on one column in one direction only the tightest is told.
    """
    wording = Wording(max_terms=_TERMS_OF_PATH)
    conditions: dict[Any, tuple[float, str]] = {}
    for parent, side in way_to(tree, node):
        if side == "right" and len(tree.comparisons_at(parent)) > 1:
            words = " ".join(split_parts(tree, parent, wording, side))
            conditions[parent] = 0.0, f"({words})"
            continue
        for place, one in conditions_at(tree, parent):
            sentence = " ".join(_comparison_parts(tree, place, one, wording, side))
            key, bound = (place,), 0.0
            # Where missing values have a side of their own, a looser bound is not
            # implied by a tighter one.
            if isinstance(one, LinearSplit) and one.missing_left is None:
                below = one.at_most == (side == "left")
                if len(one.terms) == 1:
                    key = one.terms[0].label, below, one.width > 0
                    bound = one.threshold if below else -one.threshold
            if key in conditions and bound > conditions[key][0]:
                continue
            conditions.pop(key, None)
            conditions[key] = (bound, sentence)
    told = [words for _, words in conditions.values()]
    if len(told) > 1:  # "and" binds more closely than the "or" of gaps
        told = [f"({one})" if one.endswith(_OR_MISSING) else one for one in told]
    return " and ".join(told) or "all rows"
