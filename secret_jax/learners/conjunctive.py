"""Conjunctive splits: two or more conditions on single attributes that all hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from numbers import Integral
from typing import Annotated, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from secret_jax.data.learning import ColumnOptions
from secret_jax.data.ragged import RaggedRows
from secret_jax.learners.residuals import Residuals, residuals
from secret_jax.learners.thresholds import ROUNDING, moments, quantiles, ranked
from secret_jax.models.ridge import Ridge
from secret_jax.runtime.linalg import safe_divide
from secret_jax.runtime.values import Range, at_least, real
from secret_jax.splits.axis import (
    Pick,
    Projections,
    attributes,
    chosen_rows,
    order_of_means,
    split_of,
)
from secret_jax.splits.interface import (
    NO_COMPARISON,
    Comparison,
    Level,
    Split,
    SplitFinder,
)
from secret_jax.splits.labelled import left_rows
from secret_jax.splits.rss import RssSplits
from secret_jax.splits.rss_nodes import best_cuts, gains_of_cuts
from secret_jax.tree.structure import SplitKind

# How many times the share of rows between two coarse thresholds is looked at about one.
_NEAR = 2.0
# Sides that get exact scores: with five, trees err as much.
_N_FINALISTS = 3
# By chance alone models do not spend more degrees of freedom than this share of rows.
_MOST_SPENT = 0.25


@dataclass(frozen=True, kw_only=True)
class ConjunctiveSplits(SplitFinder):
    """Conjunctions of conditions, such as ``age <= 30 and education in {HS}``.

    Rows that meet all conditions go one way, all others the other. As with `RssSplits`
    the drop in the residual sum of squares of the children's models decides. Conditions
    are added greedily; each is one side of a threshold, or a set of categories.

    Attributes
    ----------
    max_conditions : int, default=3
        Most conditions of a split, from 2 to 8.
    least_rise : float, default=0.2
        Share by which a further condition must raise the gain to be worth its reading.
    n_starts : int, default=1
        How many of the best splits on one attribute are tried as a first condition.
    scores : RssSplits, default=RssSplits()
        How splits on one attribute are found, and all are scored; what concerns oblique
        ones does not matter.

    Notes
    -----
    The reference evolves conditions by genetic algorithms. On six tables that gained
    less than adding them one by one, in five to fifty times the time.

    References
    ----------
    J. M. Lanning. A Kernelized Genetic Algorithm Decision Tree with Information
    Criteria. Dissertation, University of Tennessee, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.learners import ConjunctiveSplits
    >>> X = np.random.default_rng(0).uniform(size=(600, 3)).round(2)
    >>> y = 4.0 * ((X[:, 0] <= 0.4) & (X[:, 2] > 0.5))
    >>> model = SecretRegressor(splits=ConjunctiveSplits(), leaf="constant")
    >>> print(model.fit(X, y).export_text())
    y: a tree of 2 leaves, ...
    [0] if x0 <= 0.405 and x2 >= 0.505
    |   [1] y = 4
    ...
    [0] else x0 > 0.405 or x2 < 0.505
    |   [2] y = 0
    ...
    """

    max_conditions: Annotated[int, Range(Integral, 2, 8, closed="both")] = 3
    least_rise: Annotated[float, real(0.0)] = 0.2
    n_starts: Annotated[int, at_least(1)] = 1
    scores: RssSplits = field(default_factory=RssSplits)

    def columns_for(self, options: ColumnOptions) -> ColumnOptions:
        """As they are given."""
        return options

    def conflict(self, options: Mapping[str, Any]) -> str:
        if options["monotonic_cst"] is None:
            return ""
        return "others with monotonic_cst: conjunctions keep no order"

    @property
    def node_model(self) -> Ridge:
        return self.scores.node_model

    @property
    def max_attributes(self) -> int:
        """No split is a sum of attributes."""
        return 1

    @property
    def max_comparisons(self) -> int:
        return self.max_conditions

    def find(self, level: Level) -> Split:
        """The best split of every node; see `RssSplits` for its gain."""
        options = self.scores
        left = residuals(
            level, linear=True, ridge=options.ridge, most=options.most_regressors
        )
        screen = _Screen.of(level, left, options.n_thresholds)
        found, n_held = _greedy(self, screen)
        found = _sharpened(found, n_held, left, level, options.n_thresholds)
        weight = level.weight.astype(np.float64)
        total = level.rows.sums(weight)
        square = level.rows.sums(weight * left.residual**2).sum(axis=1)
        square += total * np.sum(left.offset**2, axis=1)
        noise = square / np.maximum(total - level.degrees, 1.0)
        # A model with a ridge spends less than one degree of freedom on a regressor;
        # the split itself, the second mean and each further condition one.
        spent = 2.0 + np.sum(1.0 - left.models.penalty[:, 1:], axis=1)
        chance_gain = noise * np.minimum(spent, _MOST_SPENT * total)
        chance_gain += (n_held - 1) * noise
        return _split_on(found, n_held, level, left.pure, chance_gain)


class _Condition(NamedTuple):
    """A condition of each node: one side of a split on one attribute."""

    pick: Pick  # the split
    above: np.ndarray  # (n_nodes,), bool: whether its right side is meant

    def holds(self, level: Level) -> Bool[np.ndarray, " rows"]:
        """Mask of the rows that meet it."""
        below = self.pick.projection <= level.rows.spread(self.pick.threshold)
        return below ^ level.rows.spread(self.above)

    def where(self, chosen: np.ndarray, other: _Condition, level: Level) -> _Condition:
        """This condition in some nodes, and another one in all others."""
        pick = self.pick.where(chosen, other.pick, level)
        return _Condition(pick, np.where(chosen, self.above, other.above))


class _Found(NamedTuple):
    """Conditions of each node that hold together, and what they gain."""

    conditions: list[_Condition]
    gain: Float[np.ndarray, " n_nodes"]

    def where(self, chosen: np.ndarray, other: _Found, level: Level) -> _Found:
        """These conditions in some nodes, and others in the rest.

        Where they are more, the last ones are theirs in all nodes.
        """
        pairs = zip_longest(self.conditions, other.conditions)
        return _Found(
            [
                own if one is None else own.where(chosen, one, level)
                for own, one in pairs
            ],
            np.where(chosen, self.gain, other.gain),
        )


class _Cuts(NamedTuple):
    """The best cut of both sides of each attribute: of the lower, then of the upper."""

    gain: Float[np.ndarray, "n_nodes 2 n"]  # approximate
    place: Int[np.ndarray, "n_nodes 2 n"]  # last code on the lower side
    threshold: Float[np.ndarray, "n_nodes 2 n"]
    projection: Float[np.ndarray, "n rows"]  # categories by their ranks
    code: Int[np.ndarray, "n rows"]


class _Screen(NamedTuple):
    """A level whose cuts are screened: numbers, also with gaps, at quantiles."""

    level: Level
    left: Residuals
    axis: Projections
    code: Int[np.ndarray, "n_numbers rows"]
    cuts: Float[np.ndarray, "n_nodes n_numbers n_cuts"]
    # (n_nodes, n_numbers, 2, 1 + n_cuts): means of a number of unit variance, and of
    # its square, between the cuts.
    between: np.ndarray
    slope: Float[np.ndarray, "n_nodes n_numbers n_model"]  # of regressors on numbers
    # (n_values, rows), float32: weight times one, every output's residual and its
    # products with the regressors; then times these, and the leading residual.
    values: np.ndarray
    whole: Float[np.ndarray, "n_nodes n_moments"]  # sums of the first of them

    @classmethod
    def of(cls, level: Level, left: Residuals, n_cuts: int) -> _Screen:
        """Prepare the rows of a level."""
        rows, axis = level.rows, attributes(level, left.leading)
        seen = axis.projection if axis.value is None else axis.value
        order = np.argsort(axis.kind == SplitKind.DISCRETE, kind="stable")
        axis = axis._replace(
            projection=axis.projection[order],
            kind=axis.kind[order],
            attribute=axis.attribute[order],
            direction=axis.direction[order],
            allowed=axis.allowed[:, order],
            chance=axis.chance[:, order],
        )
        number = axis.projection[: len(order) - len(level.codes)]
        z, deviation = moments(level, seen[order[: len(number)]])
        z = safe_divide(z, rows.spread(deviation))
        share = (np.arange(n_cuts) + 0.5) / n_cuts
        share[0] = 0.0  # the smallest value: its group may be rare
        cuts = quantiles(level, ranked(level, number, level.min_weight), share)
        code = np.zeros(z.shape, np.int32)
        for cut in np.moveaxis(cuts, -1, 0):
            code += number > rows.spread(cut)
        between = np.zeros((level.n_nodes, len(z), 2, n_cuts + 1), np.float32)
        for which, own in enumerate(z):
            powers = level.weight * np.stack([np.ones_like(own), own, own**2])
            table = rows.sums_by_code(code[which, None], n_cuts + 1, powers)[:, 0]
            between[:, which] = safe_divide(table[:, 1:], table[:, :1])
        n = left.models.penalty.shape[1]
        one, regressors, residual = np.split(left.models.design, [1, n])
        products = [np.stack([own, *(own * regressors)]) for own in residual]
        values = np.concatenate([one, *products, regressors, left.leading[None]])
        values = (level.weight * values).astype(np.float32)
        total = rows.sums(level.weight.astype(np.float64))[:, None, None]
        slope = rows.products(level.weight * z, regressors) / total
        whole = rows.sums(values[: 1 + n * len(residual)])
        slope = slope.astype(np.float32)
        return cls(level, left, axis, code, cuts, between, slope, values, whole)

    def best(self, inside: Bool[np.ndarray, " rows"]) -> _Cuts:
        """The best cuts of the rows inside; what is outside is on neither side."""
        values = np.where(inside, self.values, np.float32(0))
        n, n_codes = self.whole.shape[1], self.cuts.shape[2] + 1
        table = self.level.rows.sums_by_code(self.code, n_codes, values[:n])
        gain, place = self._gains(table, table[:, :, :1] * self.between, self.slope)
        cuts = np.take_along_axis(self.cuts[:, None], place[..., None], axis=3)[..., 0]
        found = gain, place, cuts, self.axis.projection[: len(self.code)], self.code
        if len(self.level.codes):
            pairs = zip(
                found, self._of_categories(values), (2, 2, 2, 0, 0), strict=True
            )
            found = [np.concatenate(pair, axis=axis) for *pair, axis in pairs]
        return _Cuts(*found)

    def _of_categories(self, values: np.ndarray) -> _Cuts:
        level, n = self.level, self.whole.shape[1]
        table = level.rows.sums_by_code(level.codes, level.n_categories, values)
        mass, moment = table[:, :, 0], table[:, :, -1]
        order = order_of_means(mass, moment)
        table = np.take_along_axis(table, order[:, :, None], axis=3)
        table = np.pad(table, [(0, 0), (0, 0), (0, 0), (0, 1)])
        # Ranks as a number of mean zero and unit variance; zero outside.
        mass = table[:, :, 0]
        rank = np.arange(mass.shape[2], dtype=np.float32)
        z = rank - safe_divide(mass @ rank, mass.sum(axis=2))[..., None]
        total = self.whole[:, :1, None]
        z = safe_divide(z, np.sqrt(np.sum(mass * z**2, axis=2, keepdims=True) / total))
        own = np.stack([mass * z, mass * z**2], axis=2)
        slope = np.sum(table[:, :, n:-1] * z[:, :, None], axis=3) / total
        gain, place = self._gains(table[:, :, :n], own, slope)
        rank = level.rows.looked_up(np.argsort(order, axis=2), level.codes)
        rank = rank.astype(np.int32)
        return _Cuts(gain, place, place, rank.astype(np.float32), rank)

    def _gains(
        self,
        table: Float[np.ndarray, "n_nodes n n_moments n_codes"],
        own: Float[np.ndarray, "n_nodes n 2 n_codes"],
        slope: Float[np.ndarray, "n_nodes n n_model"],
    ) -> tuple[Float[np.ndarray, "n_nodes 2 n"], Int[np.ndarray, "n_nodes 2 n"]]:
        """Approximate gain of the best cut after each code but the last, and which."""
        below = np.cumsum(np.concatenate([table, own], axis=2), axis=3)
        below, every = below[..., :-1], below[..., -1:]
        sides = np.concatenate([below, every - below], axis=1)
        both = np.concatenate([slope, slope], axis=1)
        # Sums in float32 may fall short of it; exact ones decide.
        least = self.level.min_weight * np.float32(1 - ROUNDING)
        gain = gains_of_cuts(
            self.whole, least, sides[:, :, :-2], sides[:, :, -2:], both
        )
        places = np.broadcast_to(np.arange(gain.shape[2]), gain.shape)
        shape = self.level.n_nodes, 2, slope.shape[1]
        return tuple(each.reshape(shape) for each in best_cuts(gain, places))


def _greedy(finder: ConjunctiveSplits, screen: _Screen) -> tuple[_Found, np.ndarray]:
    """Conditions of each node that gain most, and how many, the first ones, it has."""
    level, singles = screen.level, _most_gaining([], screen, finder.n_starts)

    def longer(found: _Found) -> _Found:
        (one,) = _most_gaining(found.conditions, screen)
        # Nothing comes of what is not allowed.
        gain = np.where(np.isfinite(found.gain), one.pick.gain, -np.inf)
        return _Found([*found.conditions, one], gain)

    best = _Found(singles[:1], singles[0].pick.gain)
    starts = [
        longer(_Found([one._replace(above=above)], one.pick.gain))
        for one in singles
        for above in (one.above, ~one.above)
    ]
    found = starts[0]
    for other in starts[1:]:
        found = other.where(other.gain > found.gain, found, level)
    # Look for a better first condition where the second one holds.
    second = found.conditions[1]
    (one,) = _most_gaining([second], screen)
    better = np.isfinite(found.gain) & (one.pick.gain > found.gain)
    found = _Found([one, second], one.pick.gain).where(better, found, level)
    n_held, worth = np.ones(level.n_nodes, int), best.gain
    for n in range(2, finder.max_conditions + 1):
        found = longer(found) if n > 2 else found
        own = found.gain / (1.0 + finder.least_rise) ** (n - 1)
        best = found.where(own > worth, best, level)
        n_held, worth = np.where(own > worth, n, n_held), np.maximum(own, worth)
    return best, n_held


def _most_gaining(
    held: Sequence[_Condition], screen: _Screen, n_best: int = 1
) -> list[_Condition]:
    """The conditions that gain most where others hold, the most promising exactly."""
    level, axis, left = screen.level, screen.axis, screen.left
    inside = [np.ones(len(level.weight), bool), *(one.holds(level) for one in held)]
    inside, n = np.all(inside, axis=0), len(axis.kind)
    cuts, upper = screen.best(inside), np.arange(2 * n) >= n
    kind, attribute = np.tile(axis.kind, 2), np.tile(axis.attribute, 2)
    # Alone both sides say the same, and one is enough.
    allowed = np.tile(axis.allowed, 2) & (~upper | bool(held))
    for one in held:  # another bound on the same side says nothing new
        same = kind == one.pick.kind[:, None]
        same &= attribute == one.pick.attribute[:, None]
        alike = (kind == SplitKind.DISCRETE) | (upper == one.above[:, None])
        allowed &= ~(same & alike)
    gain, place, threshold = (each.reshape(allowed.shape) for each in cuts[:3])
    chance = np.tile(axis.chance, 2) * (not held)
    gain = np.where(allowed, gain - chance, -np.inf)
    which = np.argsort(-gain, axis=1, kind="stable")[:, :_N_FINALISTS]
    sides = []
    for own in which.T:
        last = level.rows.spread(np.take_along_axis(place, own[:, None], axis=1)[:, 0])
        below = chosen_rows(cuts.code, own % n, level) <= last
        sides.append((below ^ level.rows.spread(own >= n)) & inside)
    exact = left.models.saved(np.stack(sides), level.min_weight)
    exact -= np.take_along_axis(chance, which, axis=1)
    usable = np.isfinite(np.take_along_axis(gain, which, axis=1))
    gain = np.where(usable, exact, -np.inf)
    order = np.argsort(-gain, axis=1, kind="stable")[:, :n_best]
    found, node = [], np.arange(level.n_nodes)
    for nth in order.T:
        own = which[node, nth]
        pick = Pick(
            gain=gain[node, nth],
            projection=chosen_rows(cuts.projection, own % n, level),
            threshold=threshold[node, own],
            kind=kind[own],
            attribute=attribute[own],
            direction=axis.direction[own % n],
        )
        found.append(_Condition(pick, own >= n))
    return found


def _sharpened(
    found: _Found, n_held: np.ndarray, left: Residuals, level: Level, n_thresholds: int
) -> _Found:
    """Move each threshold to the best near it: the quantiles tried first are coarse."""
    rows, conditions, gain = level.rows, list(found.conditions), found.gain
    design = left.models.design.astype(np.float32)
    node = np.repeat(np.arange(level.n_nodes), n_thresholds)

    def of_codes(rows: RaggedRows, _: Any, arrays: Any) -> tuple[np.ndarray]:
        code, design, weight = arrays
        values = left.models.products(design.T, weight).T
        return (rows.sums_by_code(code, n_thresholds + 1, values),)

    share = (np.arange(n_thresholds) + 0.5) / n_thresholds
    for place, (pick, above) in enumerate(conditions):
        others = [
            one.holds(level) | rows.spread(n_held <= which)
            for which, one in enumerate(conditions)
            if which != place
        ]
        inside = np.all(others, axis=0) & (level.weight > 0)
        apart = np.abs(pick.projection - rows.spread(pick.threshold))
        near = _quantiles(inside, apart, [_NEAR / n_thresholds], level)
        near = inside & (apart <= rows.spread(near[:, 0]))
        cuts = _quantiles(near, pick.projection, share.tolist(), level)
        code = np.zeros((1, len(inside)), np.int32)
        for cut in cuts.T:
            code[0] += pick.projection > rows.spread(cut)
        (sums,) = rows.total(of_codes, (), (code, design, level.weight * inside))
        below = np.cumsum(sums[:, 0], axis=2)
        upper = below[..., -1:] - below[..., :-1]
        sums = np.where(above[:, None, None], upper, below[..., :-1])
        sums = np.moveaxis(sums, 1, 2).reshape(len(node), -1)
        gains = left.models.gains(sums, node, level.min_weight)
        gains = gains.reshape(-1, n_thresholds)
        best = gains.argmax(axis=1)
        better = (n_held > place) & np.isfinite(gain) & (gains.max(axis=1) > gain)
        gain = np.where(better, gains.max(axis=1), gain)
        cut = np.where(better, cuts[np.arange(len(best)), best], pick.threshold)
        conditions[place] = _Condition(pick._replace(threshold=cut), above)
    return _Found(conditions, gain)


def _quantiles(
    inside: np.ndarray, values: np.ndarray, share: Sequence[float], level: Level
) -> Float[np.ndarray, "n_nodes k"]:
    """Quantiles of the rows inside."""
    part = replace(level, weight=np.where(inside, level.weight, 0.0))
    order = ranked(part, values[None], part.min_weight)
    return quantiles(part, order, share)[:, 0]


def _split_on(
    found: _Found,
    n_held: Int[np.ndarray, " n_nodes"],
    level: Level,
    pure: np.ndarray,
    chance_gain: np.ndarray,
) -> Split:
    """Splits on conditions; cuts go between rows that meet the others, one by one."""

    def split(condition: _Condition, of: Level) -> Split:
        pick = condition.pick._replace(gain=found.gain)
        return split_of(pick, of, pure=pure, chance_gain=chance_gain)

    conditions, sides = found.conditions, []
    alone = split(conditions[0], level)
    several = (n_held > 1) & (alone.kind != SplitKind.LEAF)
    held = [several & (n_held > place) for place in range(len(conditions))]
    holds = [
        one.holds(level) | ~level.rows.spread(has)
        for one, has in zip(conditions, held, strict=True)
    ]
    for place, (condition, has) in enumerate(zip(conditions, held, strict=True)):
        others = np.all(holds[:place] + holds[place + 1 :], axis=0)
        of = replace(level, weight=np.where(others, level.weight, 0.0))
        side = _only_if(has, _side(split(condition, of), condition.above))
        holds[place] = left_rows(level, alone._replace(**side._asdict()))
        sides.append(side)
    first, *further = sides
    own = _only_if(several, first, otherwise=alone.comparisons[0])
    return alone._replace(**own._asdict(), further=tuple(further))


def _side(split: Split, above: np.ndarray) -> Comparison:
    """The split as a condition whose left side is the split's left or right one."""
    threshold = split.threshold.astype(np.float32)
    # The next float; about zero the smallest normal one, as some devices know none
    # between them.
    after = np.nextafter(threshold, np.float32(np.inf))
    tiny = np.finfo(np.float32).tiny
    after = np.where(np.minimum(abs(threshold), abs(after)) < tiny, tiny, after)
    direction = split.direction.astype(np.float32)
    return Comparison(
        kind=split.kind,
        attribute=split.attribute,
        direction=np.where(above[:, None], -direction, direction),
        threshold=np.where(above, -after, threshold),
        goes_left=split.goes_left ^ above[:, None],
    )


def _only_if(
    chosen: np.ndarray, condition: Comparison, otherwise: Comparison = NO_COMPARISON
) -> Comparison:
    found = []
    for own, other in zip(condition, otherwise, strict=True):
        mask = chosen.reshape(len(chosen), *(1,) * (own.ndim - 1))
        found.append(np.where(mask, own, np.asarray(other, own.dtype)))
    return Comparison(*found)
