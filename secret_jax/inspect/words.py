"""Splits, models and sizes of the nodes in words.

The picture and the explanations say the same as the text because all of them ask here.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from secret_jax.inspect.arguments import MOST_CATEGORIES
from secret_jax.inspect.equations import (
    CategorySplit,
    LinearModel,
    LinearSplit,
    Side,
    mixture_range,
    model_in_original_units,
    split_in_original_units,
)
from secret_jax.inspect.printing import counted, counted_rows, number, quoted
from secret_jax.inspect.rounding import (
    PrintedTerm,
    printed_model,
    rounded_model,
    rounded_output,
    rounded_split,
)
from secret_jax.tree.structure import SplitKind, Tree

# The mean of a node is told in steps of this share of the target's deviation.
_DIGITS_OF_MEAN = 1e-2
_MOVING = 5  # columns that are named where equations have no room
_COLUMNS_SHOWN = 8  # of those with missing values, in the head of the text
# A standardised error below it is what float32 leaves of an exact fit.
_EXACT = 1e-14


def split_sentence(
    tree: Tree,
    node: int,
    *,
    precision: int | None = None,
    max_terms: int | None = None,
    max_categories: int | None = MOST_CATEGORIES,
    side: Side = "left",
) -> str:
    """The condition under which a row goes to one side of a split.

    Parameters
    ----------
    node : int
        An inner node.
    precision : int, optional
        Significant digits relative to the effect; 3 by default.
    max_terms : int, optional
        Terms that are shown; an ellipsis stands for the others.
    max_categories : int or None
        Longer lists of categories are replaced by the other side's, if that is short,
        or abbreviated; None: never.
    side : {"left", "right"}

    Returns
    -------
    str
        For example ``"length - 2.26 weight <= 3.1"`` or ``"sex in {F, M}"``, of a gate
        ``"length <= 3.1 (soft, width 0.2)"``, and where values were missing ``"length
        <= 3.1 or missing"`` or ``"length is missing"``.

    Raises
    ------
    ValueError
        If the node does not exist or is a leaf.
    """
    return " ".join(
        split_parts(
            tree,
            node,
            precision=precision,
            max_terms=max_terms,
            max_categories=max_categories,
            side=side,
        )
    )


def model_equation(
    tree: Tree,
    node: int,
    *,
    precision: int | None = None,
    max_terms: int | None = None,
) -> str:
    """The equation of a node's model, its terms sorted by the size of their effect.

    Parameters
    ----------
    node : int
        A leaf or an inner node.
    precision : int, optional
        Significant digits relative to the effect; 3 by default.
    max_terms : int, optional
        Terms that are shown; of the others their mean in the node is told.

    Returns
    -------
    str
        For example ``"rings = 2.31 + 12.1 shell_weight - 3.2 height"``.

    Raises
    ------
    ValueError
        If the node does not exist.
    """
    return " ".join(model_parts(tree, node, precision=precision, max_terms=max_terms))


def split_parts(
    tree: Tree,
    node: int,
    *,
    precision: int | None = None,
    max_terms: int | None = None,
    max_categories: int | None = MOST_CATEGORIES,
    side: Side = "left",
) -> list[str]:
    """The words of `split_sentence` in parts between which a line may break."""
    if side not in ("left", "right"):
        raise ValueError(f"side is {side!r}; choose 'left' or 'right'.")
    split = split_in_original_units(tree, node)
    if isinstance(split, CategorySplit):
        sides = (split.left, split.right)
        own, other = sides if side == "left" else sides[::-1]
        return list(_membership(quoted(split.name), own, other, max_categories))
    if _asks_whether_missing(tree, node, split):
        # The indicator is 1 where the value is missing.
        missing = (side == "left") == (not split.at_most)
        return [f"{quoted(split.terms[0].name)} is {'' if missing else 'not '}missing"]
    place = _place(tree, split)
    if place is not None:
        name, level = place
        bound = f"{split.sign(side)} {quoted(level)}{_remark(split, side)}"
        return [f"{quoted(name)} {bound}"]
    split = rounded_split(split, precision)
    summands = [(term.factor, quoted(term.label)) for term in split.terms]
    terms = _sum(summands[:max_terms], bare=True)
    if max_terms is not None and len(summands) > max_terms:
        terms.append("+ ...")
    bound = f"{split.sign(side)} {number(split.threshold)}"
    return [*terms, bound + _remark(split, side)]


def _place(tree: Tree, split: LinearSplit) -> tuple[str, str] | None:
    """The ordered column of a hard split, and the place that is compared with.

    None where the split is on anything else than places: they say more by name.
    """
    if split.width > 0 or len(split.terms) != 1 or split.terms[0].asks != "number":
        return None
    threshold = split.threshold
    place = math.floor(threshold) if split.at_most else math.ceil(threshold)
    return tree.schema.place_written(split.terms[0].column, place)


def _remark(split: LinearSplit, side: Side) -> str:
    """What there is to say of missing values and of a gate's width."""
    if split.width > 0:
        known = split.missing_value
        missing = "" if known is None else f", missing as {number(known)}"
        return f" (soft, width {number(split.width)}{missing})"
    if split.missing_left is None:
        return ""
    return " or missing" if split.missing_left == (side == "left") else ""


def _asks_whether_missing(tree: Tree, node: int, split: LinearSplit) -> bool:
    """Whether a split tells the missing values of one column from the others."""
    hard_axis = tree.kind[node] == SplitKind.AXIS and split.width == 0
    return bool(hard_axis and split.terms[0].asks == "missing")


def missing_facts(tree: Tree) -> str:
    """What missing numbers count as in sums, and which columns hold none; or empty."""
    schema = tree.schema
    means, nothing = [], []
    for column, share in schema.missing_shares:
        if share >= 1:
            nothing.append(quoted(schema.names[column]))
            continue
        mean = number(schema.center[schema.position_of(column)], digits=4)
        percent = number(100 * share, digits=2)
        means.append(f"{quoted(schema.names[column])} {mean} ({percent} % missing)")
    facts = []
    for fact, columns in (
        ("missing numbers count as means in sums", means),
        ("left out, without any value", nothing),
    ):
        hidden = len(columns) - _COLUMNS_SHOWN
        more = f" and {hidden} more" if hidden > 0 else ""
        if columns:
            facts.append(f"{fact}: {', '.join(columns[:_COLUMNS_SHOWN])}{more}")
    return "; ".join(facts)


def _membership(
    name: str, own: tuple, other: tuple, max_categories: int | None
) -> Iterator[str]:
    most = len(own) if max_categories is None else max_categories
    inverted = len(own) > most >= len(other)
    listed = other if inverted else own
    if len(listed) == most + 1:  # its name takes no more room than a count
        most += 1
    items = [quoted(category) for category in listed[:most]]
    if len(listed) > most:
        items.append(f"... {len(listed) - most} more")
    yield f"{name} {'not in' if inverted else 'in'}"
    for i, item in enumerate(items or [""]):
        first, last = i == 0, i >= len(items) - 1
        yield ("{" if first else "") + item + ("}" if last else ",")


def cuts_a_list(words: str) -> bool:
    """Whether a list of categories in words was abbreviated.

    Examples
    --------
    >>> cuts_a_list("zone in {north, south, ... 3 more}")
    True
    """
    return re.search(r"\.\.\. [\d,]+ more\}", words) is not None


def model_parts(
    tree: Tree,
    node: int,
    *,
    precision: int | None = None,
    max_terms: int | None = None,
    max_categories: int | None = MOST_CATEGORIES,
) -> list[str]:
    """The words of `model_equation` in parts between which a line may break."""
    model = model_in_original_units(tree, node)
    constant, terms, hidden = printed_model(model, precision, max_terms)
    summands = [(term.factor, term_words(term, max_categories)) for term in terms]
    if constant != 0 or not summands:
        summands.insert(0, (constant, ""))
    parts = [f"{quoted(model.target)} =", *_sum(summands)]
    if hidden:
        parts += _of_hidden(model, hidden, precision)
    return parts


def _of_hidden(
    model: LinearModel, hidden: Sequence[PrintedTerm], precision: int | None
) -> list[str]:
    """What terms that are not shown add on average in the node."""
    mean = sum(term.factor * (term.here - term.at) for term in hidden)
    mean = rounded_output(mean, model.target_spread, precision)
    sign = "-" if mean < 0 else "+"
    terms = counted(len(hidden), "smaller term", "smaller terms")
    return [f"{sign} {number(abs(mean))} (mean of {terms})"]


def most_moving(equations: Sequence[Tree], node: int) -> list[str]:
    """How many equations a node has, and the columns that move them most, in parts."""
    effects: defaultdict[str, float] = defaultdict(float)
    for tree in equations:
        for term in model_in_original_units(tree, node).terms:
            effects[term.name] += term.effect
    order = sorted(effects, key=lambda name: -effects[name])
    most = [quoted(name) for name in order[:_MOVING]]
    words = f"equations of {len(equations)} classes"
    return [f"{words}, moved most by {most[0]}", *most[1:]] if most else [words]


def term_words(term: PrintedTerm, max_categories: int | None = MOST_CATEGORIES) -> str:
    """What the factor of a term is multiplied by, in words."""
    if term.asks == "missing":
        return f"[{term.name} is missing]"
    if term.asks == "number":
        name = quoted(term.name)
        if term.at == 0:
            return name
        sign = "-" if term.at > 0 else "+"
        return f"({name} {sign} {number(abs(term.at))})"
    if len(term.categories) == 1:
        (category,) = term.categories
        if category is None:
            return f"[{term.name} is missing]"
        return f"[{term.name} = {category}]"
    own = term.categories  # there is no other side to list instead
    return f"[{' '.join(_membership(term.name, own, own, max_categories))}]"


def _sum(summands: Sequence[tuple[float, str]], *, bare: bool = False) -> list[str]:
    """A sum in parts; a factor of one is only left out of a ``bare`` sum."""
    parts = []
    for value, name in summands:
        sign = ("-" if value < 0 else "") if not parts else "- " if value < 0 else "+ "
        size = number(abs(value))
        if name:
            size = name if bare and size == "1" else f"{size} {name}"
        parts.append(sign + size)
    return parts or ["0"]


def node_facts(tree: Tree, node: int) -> str:
    """Rows, their share, mean of the target, and error of a node."""
    rows = f"{counted_rows(tree.weight[node])} ({share_of_rows(tree, node)})"
    mean = float(tree.schema.restore_target(tree.mean[node, 0]))
    scale, kind = tree.schema.target_scale, tree.loss.error_name.split()[-1]
    mean_loss = float(tree.train_error[node].sum())
    mean_loss = 0.0 if mean_loss < _EXACT else mean_loss
    error = number(tree.loss.reported(mean_loss, scale), digits=3)
    mean = number(round(mean, round(-math.log10(_DIGITS_OF_MEAN * scale))))
    return f"{rows}, mean {mean}, {kind} {error}"


def share_of_rows(tree: Tree, node: int) -> str:
    """Share of the training rows that are in a node, in percent."""
    share = float(tree.weight[node] / tree.weight[0]) if tree.weight[0] > 0 else 0.0
    return f"{number(100 * share, digits=3)} %"


def clip_facts(tree: Tree, node: int, precision: int | None = None) -> str:
    """The range to which a node's predictions are clipped; empty if it has none."""
    model = rounded_model(model_in_original_units(tree, node), precision)
    return _clipped_to(model.low, model.high) if model.terms else ""


def bounds_in_words(tree: Tree, node: int) -> str:
    """Between which values a node predicts, for whoever does not know of clipping."""
    model = rounded_model(model_in_original_units(tree, node))
    if not model.terms or math.isinf(model.low):
        return ""
    return f"predicts at least {number(model.low)} and at most {number(model.high)}"


def mixture_facts(tree: Tree) -> str:
    """The range to which mixtures of leaves are clipped; empty if each leaf is."""
    if tree.n_outputs == 1:
        return _clipped_to(*mixture_range(tree), digits=5)
    each = [tree.output(which) for which in range(tree.n_outputs)]
    clipped = [(one.schema.target_name, mixture_facts(one)) for one in each]
    return ", ".join(f"{name} {facts}" for name, facts in clipped if facts)


def _clipped_to(low: float, high: float, digits: int | None = None) -> str:
    if math.isinf(low):
        return ""
    return f"clipped to [{number(low, digits)}, {number(high, digits)}]"
