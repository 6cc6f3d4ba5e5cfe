"""Splits, equations, paths and whole trees in words, for text, pictures and pages."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from secret_jax.data.dates import MINUTES, WEEKDAY
from secret_jax.data.schema import Role
from secret_jax.inspect.equations import (
    CategorySplit,
    Equation,
    LinearSplit,
    Term,
    check_counts,
    clip_range_of,
    conditions_at,
    printed_model,
    rounded_split,
)
from secret_jax.inspect.printing import counted, listed, number, quoted
from secret_jax.tree.structure import SplitKind, StopReason, Tree
from secret_jax.tree.totals import Side, way_to

_MAX_PRECISION = 100  # a float has 17 digits
MAX_CATEGORIES = 8  # of a list, so that a node takes a few lines
_N_MOVING = 5  # columns that are named where equations have no room
_N_COLUMNS = 8  # that a fact names
_NOTICEABLE = 0.005  # a smaller share of the error is not worth a line
_DIGITS_OF_RANGE = 5
_OR_MISSING = " or missing"
_TRIED = (StopReason.PRUNED, StopReason.MIN_GAIN, StopReason.NO_USABLE_SPLIT)


@dataclass(frozen=True, kw_only=True)
class Wording:
    """How splits and equations are written.

    ``precision`` are significant digits relative to the effect (None: 3), ``max_terms``
    the most terms of a sum (None: all). Longer lists of categories are replaced by the
    other side's, if that is short, or abbreviated (None: never).
    """

    precision: int | None = None
    max_terms: int | None = None
    max_categories: int | None = MAX_CATEGORIES

    def __post_init__(self) -> None:
        check_counts(**vars(self))
        if self.precision is not None and not 1 <= self.precision <= _MAX_PRECISION:
            raise ValueError(
                f"precision is {self.precision}; 1 to {_MAX_PRECISION} digits are "
                "possible."
            )


PLAIN = Wording()
_OF_PATHS = Wording(max_terms=4)  # of each condition on the way to a node


def split_sentence(tree: Tree, node: int, side: Side = "left", **options: Any) -> str:
    """Write the condition of a split in one line; options are those of `Wording`."""
    return " ".join(split_parts(tree, node, Wording(**options), side))


def split_parts(
    tree: Tree, node: int, wording: Wording = PLAIN, side: Side = "left"
) -> list[str]:
    """Write the condition under which a row goes to one side, in parts of lines.

    Conditions of a conjunction are joined by "and"; of the rows for which it does not
    hold they are turned round, joined by "or".
    """
    word, parts = ("and " if side == "left" else "or "), []
    conditions = conditions_at(tree, node)
    for one in conditions:
        more = _condition_parts(tree, one, wording, side)
        gap = side == "left" and isinstance(one, LinearSplit) and one.missing_left
        if gap and len(conditions) > 1:
            more[0] = f"({more[0]}"
            more[-1] += ")"
        more[0] = word * bool(parts) + more[0]
        parts += more
    return parts


def _condition_parts(
    tree: Tree, split: LinearSplit | CategorySplit, wording: Wording, side: Side
) -> list[str]:
    if isinstance(split, CategorySplit):
        sides = (split.left, split.right)
        listed, other = sides if side == "left" else sides[::-1]
        return _membership(quoted(split.name), listed, other, wording.max_categories)
    if split.width == 0 and [term.asks for term in split.terms] == ["missing"]:
        # The indicator is 1 where the value is missing.
        missing = (side == "left") == (not split.at_most)
        return [f"{quoted(split.terms[0].name)} is {'' if missing else 'not '}missing"]
    parts = [level] if (level := _level(tree, split, side)) else []
    if not parts:
        split = rounded_split(split, wording.precision)
        summands = [(term.factor, quoted(term.label)) for term in split.terms]
        shown = summands[: wording.max_terms]
        parts = _sum(shown, bare=True) + ["+ ..."] * (len(shown) < len(summands))
        parts.append(f"{split.sign(side)} {number(split.threshold)}")
    if split.width > 0:
        missing = ""
        if split.missing_value is not None:
            missing = f", missing as {number(split.missing_value)}"
        parts[-1] += f" (soft, width {number(split.width)}{missing})"
    elif split.missing_left == (side == "left"):  # neither where None
        parts[-1] += _OR_MISSING
    return parts


def _level(tree: Tree, split: LinearSplit, side: Side) -> str | None:
    """Write a hard split on an ordered category, a date or a weekday, if it is one."""
    if split.width > 0 or len(split.terms) != 1 or split.terms[0].asks != "number":
        return None
    schema, column, threshold = tree.schema, split.terms[0].column, split.threshold
    steps = 60 if schema.origin(column).part == MINUTES else 1  # seconds are whole
    to_step = math.floor if split.at_most else math.ceil
    level = to_step(steps * threshold) / steps
    written, sign = schema.place_written(column, level), split.sign(side)
    if written is None:
        return None
    name, word = map(quoted, written)
    if schema.origin(column).part != WEEKDAY:
        return f"{name} {sign} {word}"
    if sign in ("<", "<="):
        ends = 1, level - (sign == "<")
    else:
        ends = level + (sign == ">"), 7
    days = (schema.place_written(column, end) for end in ends)
    first, last = (day[1] for day in days if day is not None)
    return f"{name} in {first}{f'..{last}' * (first != last)}"


def _membership(
    name: str, listed: tuple, other: tuple, max_categories: int | None
) -> list[str]:
    n_max = len(listed) if max_categories is None else max_categories
    inverted = len(listed) > n_max >= len(other)
    shown = other if inverted else listed
    if len(shown) == n_max + 1:  # its name takes no more room than a count
        n_max += 1
    items = [quoted(category) for category in shown[:n_max]] or [""]
    if len(shown) > n_max:
        items.append(f"... {len(shown) - n_max} more")
    items = [*(f"{item}," for item in items[:-1]), items[-1] + "}"]
    word = "not in" if inverted else "in"
    return [f"{name} {word}", "{" + items[0], *items[1:]]


def model_parts(equation: Equation, wording: Wording = PLAIN) -> list[str]:
    """Write the equation of a node in parts of lines, the largest effects first."""
    printed = printed_model(equation, wording.precision, wording.max_terms)
    hidden = _summands(printed.hidden, wording)
    mean, count = (
        printed.hidden_mean,
        counted(len(hidden), "smaller term", "smaller terms"),
    )
    sign = "-" if mean < 0 else "+"
    stands_in = f"{sign} {number(abs(mean))} ({count}, on average)"
    # A stand-in must not take more room than what it stands for.
    short = len(" ".join(_sum([(0.0, ""), *hidden])[1:])) <= len(stands_in)
    if hidden and short:
        printed, hidden = printed_model(equation, wording.precision), []
    summands = _summands(printed.terms, wording)
    if printed.intercept != 0 or not summands:
        summands.insert(0, (printed.intercept, ""))
    parts = [f"{quoted(printed.target)} =", *_sum(summands)]
    return [*parts, stands_in] if hidden else parts


def _summands(terms: Sequence[Term], wording: Wording) -> list[tuple[float, str]]:
    return [(term.factor, term_words(term, wording.max_categories)) for term in terms]


def term_words(term: Term, max_categories: int | None = MAX_CATEGORIES) -> str:
    """Write what the factor of a term is multiplied by."""
    name, categories = _in_brackets(term.name), term.categories
    if term.asks == "missing" or categories == (None,):
        return f"[{name} is missing]"
    if not categories:
        name, sign = quoted(term.name), "-" if term.at > 0 else "+"
        return f"({name} {sign} {number(abs(term.at))})" if term.at else name
    if len(categories) == 1:
        return f"[{name} = {_in_brackets(categories[0])}]"
    # There is no other side to list instead.
    return f"[{' '.join(_membership(name, categories, categories, max_categories))}]"


def _in_brackets(name: Any) -> str:
    """Brackets stand in for quotes, but not around blanks or breaks of a line."""
    plain = isinstance(name, str) and name and name == name.strip()
    return name if plain and name.isprintable() else quoted(name)


def most_moving(equations: Sequence[Equation]) -> list[str]:
    """Count the equations of a node, and name the columns that move them most."""
    effects: defaultdict[str, float] = defaultdict(float)
    for term in chain(*(equation.terms for equation in equations)):
        effects[term.name] += term.effect
    order = sorted(effects, key=lambda name: -effects[name])
    names = [quoted(name) for name in order[:_N_MOVING]]
    words = f"equations of {len(equations)} classes"
    return [f"{words}, moved most by {names[0]}", *names[1:]] if names else [words]


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
    """Write the conditions on the way to a node, of several bounds the tightest."""
    conditions: dict[Any, tuple[float, str]] = {}
    for parent, side in way_to(tree, node):
        if side == "right" and len(tree.comparisons_at(parent)) > 1:
            words = " ".join(split_parts(tree, parent, _OF_PATHS, side))
            conditions[parent] = 0.0, f"({words})"
            continue
        for one in conditions_at(tree, parent):
            sentence = " ".join(_condition_parts(tree, one, _OF_PATHS, side))
            key, bound = one, 0.0
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
    parts = [words for _, words in conditions.values()]
    if len(parts) > 1:  # "and" binds more closely than the "or" of gaps
        parts = [f"({one})" if one.endswith(_OR_MISSING) else one for one in parts]
    return " and ".join(parts) or "all rows"


def facts_of(tree: Tree) -> list[str]:
    """Sentences about size, columns, missing values and tails, where there are any."""
    facts, schema = [*_saved(tree)], tree.schema
    unused = {*schema.of_role(Role.UNUSED)}
    if unused:
        used = {*range(len(schema.names))} - unused
        n_used = len({schema.origin(position).column for position in used})
        facts.append(
            f"{n_used:,} of {len(schema.input_names):,} columns were looked at: beside "
            "so few rows the others say no more than noise "
            "(leaf__drops_regressors=False)"
        )
    leaf, gate = tree.is_leaf, tree.gate_width[tree.node_of] > 0
    sums = (tree.kind == SplitKind.OBLIQUE) | gate
    in_sums = np.any(tree.direction[sums], axis=0)
    slopes = np.any(tree.coefficient[leaf, :, 1:], axis=(0, 1))
    in_sums[: len(slopes)] |= slopes
    facts.append("; ".join(_missing_values(tree, in_sums)))
    bounded = []
    for column, low, high in schema.tails:
        if in_sums[schema.position_of(column)]:
            ends = ((low, "at least"), (high, "at most"))
            words = [f"{w} {number(end, 6)}" for end, w in ends if math.isfinite(end)]
            bounded.append(f"{quoted(schema.names[column])} {' and '.join(words)}")
    if bounded:
        words = "in sums, values beyond these bounds count as the bound"
        facts.append(f"{words}: {listed(bounded, n_max=_N_COLUMNS)}")
    return [*filter(None, facts)]


def one_leaf_sentence(tree: Tree) -> str:
    """Say why a tree has one leaf, and what it is then; empty if it has more."""
    if tree.n_leaves > 1:
        return ""
    what = "a constant"
    if tree.coefficient[0, :, 1:].any():
        several = tree.loss.link == "softmax" and tree.n_outputs > 1
        what = f"a {'multinomial ' * several}{tree.loss.regression} regression"
    reason = StopReason(int(tree.stop_reason[0]))
    why = "no split pays" if reason in _TRIED else reason.sentence
    return f"{why}: this is {what}"


def quality(tree: Tree, *errors: float) -> tuple[str, list[str]]:
    """Write mean losses of a tree; squared errors as R², if the target varies."""
    variance = float((tree.deviation[0] ** 2).sum())
    if not tree.loss.least_squares or variance <= 0:
        return tree.loss.error_name, [number(error, digits=3) for error in errors]
    return "R²", [number(1.0 - error / variance, digits=3) for error in errors]


def _saved(tree: Tree) -> Iterator[str]:
    """Compare short equations with full ones, and the tree with a longer one."""
    if tree.is_soft:
        return
    short, full = float(tree.leaf_error.sum()), 0.0
    if tree.full_error is not None:
        full = float(sum(tree.full_error))
    if full > 0 and short / full - 1.0 >= _NOTICEABLE:
        what, (short, full) = quality(tree, short, full)
        yield (
            f"{what} on the training rows: {short} with these short equations, {full} "
            "with full ones (equation_tolerance=0)"
        )
    longer = tree.longer  # by rows that did not grow them
    if longer and 0 < longer.error < (1.0 - _NOTICEABLE) * longer.error_of_chosen:
        what, (chosen, least) = quality(tree, longer.error_of_chosen, longer.error)
        yield (
            f"{what} on rows that did not grow it: about {chosen}; {least} by a longer "
            f"tree, of {counted(longer.numbers, 'number', 'numbers')} in splits and "
            "equations (pruning_tolerance=0)"
        )


def _missing_values(tree: Tree, in_sums: np.ndarray) -> Iterator[str]:
    """Say what unknown categories and missing numbers count as, in sums and splits."""
    schema = tree.schema
    # Otherwise splits on one column know a side of its gaps.
    axis = (tree.kind == SplitKind.AXIS) & (not schema.missing_columns)
    compared = np.any(tree.direction[axis], axis=0)
    means, in_splits, nothing = [], [], []
    for column, share in schema.missing_shares:
        name, position = quoted(schema.names[column]), schema.position_of(column)
        mean = number(schema.center[position], digits=4)
        words = f"{name} {mean} ({number(100 * share, digits=2)} % missing)"
        if share >= 1:
            nothing.append(name)
        elif in_sums[position]:
            means.append(words)
        elif compared[position]:
            in_splits.append(words)
    first = schema.n_regressors - schema.n_indicators
    # Those without shares are no mean.
    known = schema.indicators[: len(schema.indicator_shares)]
    asked = {schema.discrete[a] for i, (a, _) in enumerate(known, first) if in_sums[i]}
    levels = [quoted(schema.names[column]) for column in sorted(asked)]
    for fact, columns in (
        ("missing numbers count as means in sums", means),
        ("missing numbers count as means in splits", in_splits),
        ("left out, without any value", nothing),
        ("unknown categories count as the mean of the others in sums", levels),
    ):
        if columns:
            yield f"{fact}: {listed(columns, n_max=_N_COLUMNS)}"


def mixture_facts(tree: Tree) -> str:
    """Say to which range mixtures of leaves are clipped; empty if each leaf is."""
    if tree.n_outputs == 1:
        low, high = clip_range_of(tree)
        if math.isinf(low):
            return ""
        # A bound as good as zero is zero to the digits of the other one.
        nothing = 10.0**-_DIGITS_OF_RANGE * (high - low)
        ends = (0.0 if abs(end) < nothing else end for end in (low, high))
        low, high = (number(end, _DIGITS_OF_RANGE) for end in ends)
        return f"clipped to [{low}, {high}]"
    outputs = [tree.output(output) for output in range(tree.n_outputs)]
    facts = [(one.schema.target_name, mixture_facts(one)) for one in outputs]
    return ", ".join(f"{name} {fact}" for name, fact in facts if fact)
