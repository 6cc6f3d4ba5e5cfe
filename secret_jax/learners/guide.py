"""GUIDE and SUPPORT: tests of residual signs choose the attribute.

Not the gain of the best of its thresholds chooses it: attributes with many thresholds
have no advantage. All statistics become scores that are standard normal under
independence, so that they can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from secret_jax.data.ragged import RaggedRows
from secret_jax.learners.residuals import Residuals, ResidualSplits
from secret_jax.learners.thresholds import (
    Ranked,
    Thresholds,
    quantiles,
    ranked,
    running,
    tried_cuts,
)
from secret_jax.runtime.linalg import safe_divide
from secret_jax.runtime.values import at_least
from secret_jax.splits.axis import (
    AxisGains,
    AxisSplits,
    Projections,
    attributes,
    chosen_rows,
    leading_component,
)
from secret_jax.splits.interface import Level
from secret_jax.tree.structure import SplitKind

# A curvature test looks at quartiles, an interaction test at both sides of the median
# (Loh 2002, algorithms 1 and 2).
_QUARTILES = (0.25, 0.5, 0.75)
_MEDIAN = 1
# Bits of a random number in (0, 1) that become a seed.
_SEED_BITS = 24
# Numbers that are counted, or counts that are made, at once.
_AT_ONCE = 1 << 21


@dataclass(frozen=True, kw_only=True)
class GuideSplits(ResidualSplits, AxisSplits):
    """Splits on the attribute most associated with the signs of the residuals.

    Chi-squared tests of the signs against the quartiles of a continuous attribute or
    the categories of a discrete one (*curvature*), and against the halves and the
    categories of two attributes together (*interaction*), made comparable by the
    cube-root transform of Wilson & Hilferty (1931). Of the pair of the clearest
    interaction that attribute is taken whose split at the median is better, if both are
    continuous; else the one with the clearer curvature.

    Attributes
    ----------
    model : {"linear", "constant"}, default="linear"
        Whose residuals are tested, and what the children are fitted by.
    thresholds : "all", int or float, default=32
        Thresholds of the chosen attribute that are tried, by the residual sum of
        squares of the children's models: every one (GUIDE), a number of quantiles (1:
        the median), or as 0.01 the values of a share of the rows, from a random start
        on (GUIDE(S) in Dobra & Gehrke's section 5.3).
    interactions : bool, default=True
        Whether pairs are tested.
    n_bootstraps : int, default=0
        Bootstrap samples of a node, which estimate how much clearer tests of discrete
        attributes are by chance; 0: the scores are compared as they are.
    ridge : float, default=1e-4
        Penalty of the children's models, in units of the regressors' variances.

    Notes
    -----
    A side has at least twice as many rows as its model has coefficients. The bootstrap
    moves the scores where the paper multiplies them: those of chance may be negative.

    References
    ----------
    W.-Y. Loh. Regression Trees with Unbiased Variable Selection and Interaction
    Detection. Statistica Sinica 12, 2002.

    E. B. Wilson and M. M. Hilferty. The Distribution of Chi-Square. PNAS 17, 1931.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.learners import GuideSplits
    >>> SecretRegressor(splits=GuideSplits(thresholds=1), leaf="linear").leaf
    'linear'
    """

    model: Literal["linear", "constant"] = "linear"
    thresholds: Thresholds = 32
    interactions: bool = True
    n_bootstraps: Annotated[int, at_least(0)] = 0

    def n_random(self, n_columns: int) -> int:
        """A seed, and the start of sampled values."""
        return 2

    def gains(self, level: Level) -> AxisGains:
        left = self.residuals(level)
        axis = attributes(level, left.leading)
        order = ranked(level, axis.projection, left.least)
        tried = tried_cuts(level, order, self.thresholds, left.least)
        usable = np.logical_or.reduceat(tried, level.rows.first, axis=1).T
        usable &= axis.allowed
        groups = groups_of(level, axis, order, self.interactions)
        two, curvature = _clearest(self, left, axis, groups, usable)
        # Of two continuous attributes the better split at its median, else the clearer
        # curvature. One split each: the best of many would favour many values.
        node, rows = np.arange(level.n_nodes)[:, None], level.rows
        median = quantiles(level, order, [0.5])[node, two, 0]
        sides = rows.chosen(two, axis.projection) <= rows.spread(median)
        preferred = left.models.saved(sides, left.least)
        by_curvature = groups.is_discrete[two] | ~np.isfinite(preferred)
        own = np.take_along_axis(curvature, two, axis=1)
        preferred = np.where(by_curvature.any(axis=1, keepdims=True), own, preferred)
        can_be = np.take_along_axis(usable, two, axis=1)
        best = np.argmax(np.where(can_be, preferred, -np.inf), axis=1)
        chosen = two[node[:, 0], best]
        one = Ranked(*(chosen_rows(array, chosen, level)[None] for array in order))
        tried = chosen_rows(tried, chosen, level)[None]
        gain, threshold = left.models.best(one, tried)
        if self.thresholds not in ("all", 1):
            gain, threshold = left.models.best_near(one, tried, gain, threshold)
        is_chosen = np.arange(len(axis.kind)) == chosen[:, None]
        gain = np.where(is_chosen & usable, gain, -np.inf)
        return axis, gain, np.broadcast_to(threshold, usable.shape), left.pure


def _clearest(
    finder: GuideSplits,
    left: Residuals,
    axis: Projections,
    groups: Groups,
    usable: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Attributes of the most significant test (two, or one twice), and curvatures."""
    found = sign_scores((left.leading > 0)[None], groups)
    curvature, interaction = (each[:, 0] for each in found)
    is_discrete, pairs = groups.is_discrete, groups.pairs
    possible = axis.allowed[:, pairs].all(axis=2) & usable[:, pairs].any(axis=2)
    if finder.n_bootstraps and is_discrete.any() and not is_discrete.all():
        chance = chance_scores(left, groups, finder.n_bootstraps)
        advantage = advantage_of_discrete(*chance, groups, usable, possible)[:, None]
        curvature = curvature - np.where(is_discrete, advantage, 0.0)
        of_discrete = is_discrete[pairs].any(axis=1)
        interaction = interaction - np.where(of_discrete, advantage, 0.0)
    curvature = np.where(usable, curvature, -np.inf)
    best = np.argmax(curvature, axis=1)
    two = np.stack([best, best], axis=1)
    if len(pairs):
        interaction = np.where(possible, interaction, -np.inf)
        clearer = interaction.max(axis=1) > curvature.max(axis=1)
        two = np.where(clearer[:, None], pairs[np.argmax(interaction, axis=1)], two)
    return two, curvature


class Groups(NamedTuple):
    """Groups of the rows of a level by its attributes."""

    level: Level
    fine: Int[np.ndarray, "n rows"]  # quarters of a number, categories
    coarse: Int[np.ndarray, "n rows"]  # halves of a number, categories
    is_discrete: Bool[np.ndarray, " n"]
    # Attributes that may interact: of both kinds the number first.
    pairs: Int[np.ndarray, "n_pairs 2"]


def groups_of(
    level: Level, axis: Projections, order: Ranked, interactions: bool
) -> Groups:
    """Divide the rows of nodes by quartiles, medians and categories."""
    is_discrete = axis.kind == SplitKind.DISCRETE
    cuts = np.moveaxis(quantiles(level, order, _QUARTILES), 2, 0)
    above = [axis.projection > level.rows.spread(cut) for cut in cuts]
    quarter = np.stack(above).sum(axis=0, dtype=np.int32)
    half = above[_MEDIAN].astype(np.int32)
    quarter[is_discrete] = half[is_discrete] = level.codes
    pairs = np.stack(np.triu_indices(len(half) if interactions else 0, 1), axis=1)
    swapped = is_discrete[pairs[:, :1]] > is_discrete[pairs[:, 1:]]
    pairs = np.where(swapped, pairs[:, ::-1], pairs)
    return Groups(level, quarter, half, is_discrete, pairs)


def sign_scores(
    positive: Bool[np.ndarray, "n_sets rows"], groups: Groups
) -> tuple[np.ndarray, np.ndarray]:
    """Scores (n_nodes, n_sets, n) of attributes and of pairs, by signs of residuals.

    Minus infinity where all rows are in one group.
    """
    level, pairs = groups.level, groups.pairs
    values = np.concatenate([level.weight[None], level.weight * positive])
    shape = level.n_nodes, len(positive)
    curvature = np.empty((*shape, len(groups.fine)))
    for which, n in (
        (~groups.is_discrete, 4),
        (groups.is_discrete, level.n_categories),
    ):
        curvature[..., which] = table_scores(level.rows, groups.fine[which], n, values)
    interaction = np.empty((*shape, len(pairs)))
    n_groups = np.where(groups.is_discrete, level.n_categories, 2)[pairs]
    step = max(_AT_ONCE // len(level.weight), 1)
    for n in np.unique(n_groups.prod(axis=1)):
        alike = np.flatnonzero(n_groups.prod(axis=1) == n)
        for start in range(0, len(alike), step):
            some = alike[start : start + step]
            one, other = groups.coarse[pairs[some].T]
            code = one * n_groups[some, 1:].astype(np.int32) + other
            interaction[..., some] = table_scores(level.rows, code, int(n), values)
    return curvature, interaction


def table_scores(
    rows: RaggedRows,
    code: Int[np.ndarray, "a rows"],
    n_codes: int,
    values: Float[np.ndarray, "1+n_sets rows"],
) -> Float[np.ndarray, "n_nodes n_sets a"]:
    """Scores of the chi-squared statistics of some attributes and sets of signs.

    ``values``: weights, and those of the rows of each set with positive residuals.
    """
    n_nodes = rows.n_nodes
    if n_nodes > 1 and n_nodes * len(code) * n_codes * len(values) > _AT_ONCE:
        found = []
        for some in np.array_split(np.arange(n_nodes), 2):
            own, place = rows.take(some)
            found.append(table_scores(own, code[:, place], n_codes, values[:, place]))
        return np.concatenate(found)
    table = np.moveaxis(rows.sums_by_code(code, n_codes, values), -1, 0)
    weight, positive = table[..., :1], table[..., 1:]
    share = positive.sum(axis=0) / weight.sum(axis=0)
    squares = np.zeros_like(share)
    for own, all_of_it in zip(positive, weight, strict=True):
        apart = own - all_of_it * share
        apart *= apart
        squares += safe_divide(apart, all_of_it)
    statistic = safe_divide(squares, share * (1 - share)).astype(np.float64)
    degrees = np.count_nonzero(weight > 0, axis=0) - 1.0
    return np.swapaxes(normal_score(statistic, degrees), 1, 2)


def chance_scores(
    left: Residuals, groups: Groups, n_samples: int
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of bootstrap samples: attributes as they are, outputs drawn for every row.

    The tests find only chance. A node's first random number seeds its samples.
    """
    level = groups.level
    rows, n_model = level.rows, left.models.penalty.shape[1]
    weight = level.weight.astype(np.float64)
    total = rows.sums(weight)
    output = leading_component(level.targets, level)
    below, random, equal = running(rows, weight), [], np.ptp(weight) == 0
    for seed, first, length, most in zip(
        level.random[:, 0], rows.first, rows.length, total, strict=True
    ):
        generator = np.random.default_rng(int(seed * 2**_SEED_BITS))
        number = generator.random((n_samples, length), np.float32) * most
        if equal:
            place = (number * (length / most)).astype(int)
        else:
            own = below[first : first + length]
            place = np.searchsorted(own, number, side="right")
        random.append(first + np.minimum(place, length - 1))
    drawn = output[np.concatenate(random, axis=1)].astype(np.float64)
    basis = left.models.design[:n_model]
    coefficient = rows.products(weight * drawn, basis) / total[:, None, None]
    residual = drawn - rows.transformed(coefficient, basis)
    return sign_scores(residual > 0, groups)


def advantage_of_discrete(
    curvature: Float[np.ndarray, "n_nodes n_samples n"],
    interaction: Float[np.ndarray, "n_nodes n_samples n_pairs"],
    groups: Groups,
    allowed: Bool[np.ndarray, "n_nodes n"],
    pair_allowed: Bool[np.ndarray, "n_nodes n_pairs"],
) -> Float[np.ndarray, " n_nodes"]:
    """Estimate the advantage of discrete attributes from scores of chance.

    Less this number, continuous attributes are chosen as often as there are of them
    (Loh 2002, algorithm 3, where scores are multiplied): by the clearest test, or as
    the one with the clearer test of its own from the clearest pair of both kinds. Zero
    where all attributes that are allowed are of one kind.
    """
    is_discrete, pairs = groups.is_discrete, groups.pairs
    curvature = np.where(allowed[:, None], curvature, -np.inf)
    pair = np.where(pair_allowed[:, None], interaction, -np.inf)
    kind = is_discrete[pairs].sum(axis=1)

    def clearest(of_one: np.ndarray, of_pairs: np.ndarray) -> np.ndarray:
        both = [curvature[..., of_one], pair[..., of_pairs]]
        return np.concatenate(both, axis=2).max(axis=2, initial=-np.inf)

    discrete = clearest(is_discrete, kind > 0)
    lacking = discrete - clearest(~is_discrete, kind == 0)
    if (kind == 1).any():
        # Of a pair of both kinds the number is chosen where its own test is clearer.
        mixed = np.where(kind == 1, pair, -np.inf)
        two = pairs[np.argmax(mixed, axis=2)]
        number, other = np.moveaxis(np.take_along_axis(curvature, two, axis=2), -1, 0)
        own = other - number
        is_mixed = mixed.max(axis=2) >= discrete
        lacking = np.where(is_mixed, np.minimum(lacking, own), lacking)
    n_discrete, n_continuous = (
        np.count_nonzero(allowed & own, axis=1) for own in (is_discrete, ~is_discrete)
    )
    both = (n_discrete > 0) & (n_continuous > 0)
    share = safe_divide(n_continuous, n_continuous + n_discrete)
    lacking = np.where(np.isfinite(lacking), lacking, 0.0)
    enough = [np.quantile(*pair) for pair in zip(lacking, share, strict=True)]
    return np.where(both, enough, 0.0)


def normal_score(
    statistic: Float[np.ndarray, ...], degrees: Float[np.ndarray, ...]
) -> Float[np.ndarray, ...]:
    """Normal score of a chi-squared statistic (Wilson & Hilferty 1931)."""
    safe = np.maximum(degrees, 1.0)
    share = 2.0 / (9.0 * safe)
    score = (np.cbrt(statistic / safe) - (1.0 - share)) / np.sqrt(share)
    return np.where(degrees > 0, score, -np.inf)


@dataclass(frozen=True, kw_only=True)
class SupportSplits(ResidualSplits, AxisSplits):
    """Splits midway between the means of rows above and below the node's model.

    The signs of the residuals make two classes. In each attribute a t test looks for a
    difference of their means, and another for one of their variances (Levene's test).
    The attribute of the clearest test is split at the average of the two means: no
    threshold is searched.

    Attributes
    ----------
    model : {"linear", "constant"}, default="linear"
        Whose residuals are tested.
    ridge : float, default=1e-4
        Penalty of the children's models, in units of the regressors' variances; what
        they save is the gain of a split.

    Notes
    -----
    The paper fits polynomials of any degree, and knows no discrete attributes. Here
    these are tested as in `GuideSplits`, and the ranks of their mean residuals are
    split. An attribute whose split leaves a side too few rows gives way to the next.

    References
    ----------
    P. Chaudhuri, M.-C. Huang, W.-Y. Loh and R. Yao. Piecewise-Polynomial Regression
    Trees. Statistica Sinica 4, 1994.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.learners import SupportSplits
    >>> SecretRegressor(splits=SupportSplits(), leaf="linear").splits.model
    'linear'
    """

    model: Literal["linear", "constant"] = "linear"

    def n_random(self, n_columns: int) -> int:
        return 0

    def gains(self, level: Level) -> AxisGains:
        rows = level.rows
        left = self.residuals(level)
        axis = attributes(level, left.leading)
        above = left.leading > 0
        mean, rest, of_means = compared(level, axis.projection, above)
        *_, of_variances = compared(level, np.abs(rest), above)
        statistic = np.maximum(of_means**2, of_variances**2)
        score = normal_score(statistic, np.ones_like(statistic))
        is_discrete = axis.kind == SplitKind.DISCRETE
        values = np.stack([level.weight, level.weight * above])
        table = table_scores(level.rows, level.codes, level.n_categories, values)
        score[:, is_discrete] = table[:, 0]
        threshold = mean.mean(axis=1)
        goes_left = axis.projection <= rows.spread(threshold)
        side = rows.sums(np.where(goes_left, level.weight, 0.0))
        side = np.minimum(side, rows.sums(level.weight)[:, None] - side)
        usable = axis.allowed & (side >= left.least[:, None]) & (side > 0)
        clearest = np.argmax(np.where(usable, score, -np.inf), axis=1)
        goes_left = chosen_rows(goes_left, clearest, level)[None]
        saved = left.models.saved(goes_left, left.least)
        is_clearest = np.arange(len(axis.kind)) == clearest[:, None]
        gain = np.where(is_clearest & usable, saved, -np.inf)
        return axis, gain, threshold, left.pure


def compared(
    level: Level,
    values: Float[np.ndarray, "n rows"],
    above: Bool[np.ndarray, " rows"],
) -> tuple[
    Float[np.ndarray, "n_nodes 2 n"],
    Float[np.ndarray, "n rows"],
    Float[np.ndarray, "n_nodes n"],
]:
    """Means of two classes, values less these, and Student's t, of equal variances.

    Zero where a class is empty or the values do not vary.
    """
    rows, values = level.rows, values.astype(np.float64)
    weight = level.weight * np.stack([above, ~above]).astype(np.float64)
    mass = rows.sums(weight)
    mean = safe_divide(rows.products(weight, values), mass[..., None])
    first, second = (rows.spread(mean[:, which]) for which in range(2))
    rest = values - np.where(above, first, second)
    degrees = np.maximum(mass.sum(axis=1) - 2.0, 1.0)
    share = np.sum(safe_divide(1.0, mass), axis=1) / degrees
    variance = rows.sums(level.weight * rest**2) * share[:, None]
    sound = (mass.min(axis=1) > 0)[:, None] & (variance > 0)
    root = np.sqrt(np.where(sound, variance, 1.0))
    return mean, rest, np.where(sound, (mean[:, 0] - mean[:, 1]) / root, 0.0)
