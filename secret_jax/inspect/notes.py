"""Sentences about a whole tree: one leaf, short equations, missing values, gates."""

import math

import numpy as np

from secret_jax.data.attributes import Role
from secret_jax.inspect.equations import clip_range_of
from secret_jax.inspect.printing import counted, number, quoted, some
from secret_jax.tree.structure import SplitKind, StopReason, Tree

_TRIED = (StopReason.PRUNED, StopReason.MIN_GAIN, StopReason.NO_USABLE_SPLIT)
# A smaller share of the error is not worth a line.
_NOTICEABLE = 0.005
_COLUMNS_SHOWN = 8  # of those with missing values
_DIGITS_OF_RANGE = 5


def facts_of(tree: Tree) -> list[str]:
    """Sentences about size, missing values and tails; empty where there is nothing."""
    facts = _longer_tree, _full_equations, _unused_columns, _missing_values, _tails
    return [sentence(tree) for sentence in facts]


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


def _full_equations(tree: Tree) -> str:
    """Compare short equations with the full ones; empty if these explain little more.

    Both by the training rows, which flatter full equations most.
    """
    if tree.full_error is None or tree.is_soft:
        return ""
    short, full = float(tree.leaf_error.sum()), float(sum(tree.full_error))
    if not full > 0 or short / full - 1.0 < _NOTICEABLE:
        return ""
    what, (short, full) = quality(tree, short, full)
    return (
        f"{what} on the training rows: {short} with these short equations, {full} with "
        "full ones (equation_tolerance=0)"
    )


def _longer_tree(tree: Tree) -> str:
    """Compare the tree with a longer one; empty if that errs hardly less.

    Both by rows that did not grow them.
    """
    longer = tree.longer
    if longer is None or tree.is_soft:
        return ""
    if not 0 < longer.error < (1.0 - _NOTICEABLE) * longer.error_of_chosen:
        return ""
    what, (chosen, least) = quality(tree, longer.error_of_chosen, longer.error)
    return (
        f"{what} on rows that did not grow it: about {chosen}; {least} by a longer "
        f"tree, of {counted(longer.numbers, 'number', 'numbers')} in splits and "
        "equations (pruning_tolerance=0)"
    )


def quality(tree: Tree, *errors: float) -> tuple[str, list[str]]:
    """Write mean losses of a tree; squared errors as R², if the target varies."""
    variance = float((tree.deviation[0] ** 2).sum())
    shares = [tree.loss.explained(error, variance) for error in errors]
    told = [share for share in shares if share is not None]
    what = "R²" if told else tree.loss.error_name
    return what, [number(value, digits=3) for value in told or errors]


def _unused_columns(tree: Tree) -> str:
    """Say how many columns were left out; empty if none were."""
    schema = tree.schema
    unused = schema.of_role(Role.UNUSED)
    if not unused:
        return ""
    used = [i for i in range(len(schema.names)) if i not in unused]
    n_used = len({schema.origin(i).column for i in used})
    return (
        f"{n_used:,} of {len(schema.input_names):,} columns were looked at: beside so "
        "few rows the others say no more than noise (leaf__drops_regressors=False)"
    )


def _missing_values(tree: Tree) -> str:
    """Say what unknown categories and missing numbers count as in the sums."""
    schema, in_sums = tree.schema, _in_sums(tree)
    # Otherwise splits on one column know a side of its gaps.
    axis = (tree.kind == SplitKind.AXIS) & (not schema.missing_columns)
    compared = np.any(tree.direction[axis], axis=0)
    means, in_splits, nothing = [], [], []
    for column, share in schema.missing_shares:
        name, position = quoted(schema.names[column]), schema.position_of(column)
        if share >= 1:
            nothing.append(name)
            continue
        mean = number(schema.center[position], digits=4)
        words = f"{name} {mean} ({number(100 * share, digits=2)} % missing)"
        if in_sums[position]:
            means.append(words)
        elif compared[position]:
            in_splits.append(words)
    facts = []
    first = schema.n_regressors - schema.n_indicators
    # Files of the past have no shares.
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
            facts.append(f"{fact}: {some(columns, most=_COLUMNS_SHOWN)}")
    return "; ".join(facts)


def _tails(tree: Tree) -> str:
    """Say at which bounds columns are flat in the sums of a tree."""
    schema, in_sums = tree.schema, _in_sums(tree)
    bounded = []
    for column, low, high in schema.tails:
        if in_sums[schema.position_of(column)]:
            ends = ((low, "at least"), (high, "at most"))
            words = [f"{w} {number(end, 6)}" for end, w in ends if math.isfinite(end)]
            bounded.append(f"{quoted(schema.names[column])} {' and '.join(words)}")
    if not bounded:
        return ""
    words = "in sums, values beyond these bounds count as the bound"
    return f"{words}: {some(bounded, most=_COLUMNS_SHOWN)}"


def _in_sums(tree: Tree) -> np.ndarray:
    """Mask of the columns that equations, sums in splits and gates compute with."""
    leaf, gate = tree.is_leaf, tree.gate_width[tree.node_of] > 0
    in_sums = np.zeros(tree.direction.shape[1], bool)
    slopes = np.any(tree.coefficient[leaf, :, 1:], axis=(0, 1))
    in_sums[: len(slopes)] |= slopes
    sums = (tree.kind == SplitKind.OBLIQUE) | gate
    return in_sums | np.any(tree.direction[sums], axis=0)


def mixture_facts(tree: Tree) -> str:
    """Say to which range mixtures of leaves are clipped; empty if each leaf is."""
    if tree.n_outputs == 1:
        low, high = clip_range_of(tree)
        if math.isinf(low):
            return ""
        # A bound as good as zero is zero to the digits of the other one.
        least = 10.0**-_DIGITS_OF_RANGE * (high - low)
        ends = (0.0 if abs(end) < least else end for end in (low, high))
        low, high = (number(end, _DIGITS_OF_RANGE) for end in ends)
        return f"clipped to [{low}, {high}]"
    outputs = [tree.output(which) for which in range(tree.n_outputs)]
    facts = [(one.schema.target_name, mixture_facts(one)) for one in outputs]
    return ", ".join(f"{name} {fact}" for name, fact in facts if fact)
