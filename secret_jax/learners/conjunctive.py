"""Conjunctive splits: two or more conditions on single attributes that all hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Annotated, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from secret_jax.data.learning import ColumnOptions
from secret_jax.learners.thresholds import quantiles, ranked
from secret_jax.models.ridge import Ridge
from secret_jax.runtime.linalg import safe_divide
from secret_jax.runtime.values import Range, at_least, real
from secret_jax.splits.axis import (
    Pick,
    Projections,
    attributes,
    chosen_rows,
    leading_component,
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
from secret_jax.splits.rss_nodes import (
    Nodes,
    best_cuts,
    exact_sides,
    gains_of_cuts,
    prepared,
)
from secret_jax.tree.structure import SplitKind

# How many times the share of rows between two coarse thresholds is looked at about one.
_NEAR = 2.0
# Sides that get exact scores: with five, trees err as much.
_N_FINALISTS = 3


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
        ones does not matter, nor does ``least_share``.

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
        nodes = prepared(level, options.ridge, options.most_regressors)
        screen = _Screen.of(level, nodes, options)
        found, n_held = _greedy(self, screen)
        found = _sharpened(found, n_held, screen)
        found = found._replace(gain=found.gain * nodes.unit**2)
        # Each further condition spends a degree of freedom.
        chance_gain = nodes.chance_gain + (n_held - 1) * nodes.noise
        return _split_on(found, n_held, level, nodes.pure, chance_gain)


class _Condition(NamedTuple):
    """A condition of each node: one side of a split on one attribute."""

    pick: Pick  # the split
    above: np.ndarray  # (n_nodes,), bool: whether its right side is meant

    def holds(self, level: Level) -> Bool[np.ndarray, " rows"]:
        """Mask of the rows that meet it."""
        below = self.pick.projection <= level.rows.spread(self.pick.threshold)
        return below ^ level.rows.spread(self.above)


class _Found(NamedTuple):
    """Conditions of each node that hold together, and what they gain."""

    conditions: list[_Condition]
    gain: Float[np.ndarray, " n_nodes"]

    def where(self, chosen: np.ndarray, other: _Found, level: Level) -> _Found:
        """These conditions in some nodes, and others, no more of them, in the rest.

        Beyond those all nodes have these.
        """
        n, conditions = len(other.conditions), []
        for own, one in zip(self.conditions[:n], other.conditions, strict=True):
            pick = own.pick.where(chosen, one.pick, level)
            conditions.append(_Condition(pick, np.where(chosen, own.above, one.above)))
        gain = np.where(chosen, self.gain, other.gain)
        return _Found(conditions + self.conditions[n:], gain)


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
    nodes: Nodes
    options: RssSplits
    axis: Projections
    code: Int[np.ndarray, "n_numbers rows"]
    cuts: Float[np.ndarray, "n_nodes n_numbers n_cuts"]
    # (n_nodes, n_numbers, 2, 1 + n_cuts): means of a number of unit variance, and of
    # its square, between the cuts.
    between: np.ndarray
    # (n_values, rows): moments of `Nodes`, whitened coordinates and leading residuals,
    # all weighted.
    values: np.ndarray

    @classmethod
    def of(cls, level: Level, nodes: Nodes, options: RssSplits) -> _Screen:
        """Prepare the rows of a level."""
        rows, n_cuts, first = level.rows, options.n_thresholds, nodes.n_outputs
        leading = leading_component(nodes.design[:first], level)
        axis = attributes(level, leading)  # numbers first
        number = axis.projection[: len(axis.kind) - len(level.codes)]
        share = (np.arange(n_cuts) + 0.5) / n_cuts
        share[0] = 0.0  # the smallest value: its group may be rare
        cuts = quantiles(level, ranked(level, number, level.min_weight), share)
        code = np.zeros(number.shape, np.int32)
        for cut in np.moveaxis(cuts, -1, 0):
            code += number > rows.spread(cut)
        between = np.zeros((level.n_nodes, len(number), 2, n_cuts + 1), np.float32)
        for which, own in enumerate(nodes.z[axis.attribute[: len(number)]]):
            powers = level.weight * np.stack([np.ones_like(own), own, own**2])
            table = rows.sums_by_code(code[which, None], n_cuts + 1, powers)[:, 0]
            between[:, which] = safe_divide(table[:, 1:], table[:, :1])
        basis = nodes.design[first + 1 : first + 1 + nodes.n_model]
        others = rows.transformed(nodes.whitener, basis), leading[None]
        values = np.concatenate([nodes.moments, *(level.weight * o for o in others)])
        return cls(level, nodes, options, axis, code, cuts, between, values)

    def best(self, inside: Bool[np.ndarray, " rows"]) -> _Cuts:
        """The best cuts of the rows inside; what is outside is on neither side."""
        values = np.where(inside, self.values, np.float32(0))
        n, n_codes = self.nodes.whole.shape[1], self.cuts.shape[2] + 1
        table = self.level.rows.sums_by_code(self.code, n_codes, values[:n])
        slope = self.nodes.cross[:, self.axis.attribute[: len(self.code)]]
        gain, place = self._gains(table, table[:, :, :1] * self.between, slope)
        cuts = np.take_along_axis(self.cuts[:, None], place[..., None], axis=3)[..., 0]
        found = gain, place, cuts, self.axis.projection[: len(self.code)], self.code
        if len(self.level.codes):
            pairs = zip(
                found, self._of_categories(values), (2, 2, 2, 0, 0), strict=True
            )
            found = [np.concatenate(pair, axis=axis) for *pair, axis in pairs]
        return _Cuts(*found)

    def _of_categories(self, values: np.ndarray) -> _Cuts:
        level, n = self.level, self.nodes.whole.shape[1]
        table = level.rows.sums_by_code(level.codes, level.n_categories, values)
        mass, moment = table[:, :, 0], table[:, :, -1]
        order = order_of_means(mass, moment)
        table = np.take_along_axis(table, order[:, :, None], axis=3)
        table = np.pad(table, [(0, 0), (0, 0), (0, 0), (0, 1)])
        # Ranks as a number of mean zero and unit variance; zero outside.
        mass = table[:, :, 0]
        rank = np.arange(mass.shape[2], dtype=np.float32)
        z = rank - safe_divide(mass @ rank, mass.sum(axis=2))[..., None]
        total = self.nodes.whole[:, :1, None]
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
        nodes, moments, own = self.nodes, sides[:, :, :-2], sides[:, :, -2:]
        gain = gains_of_cuts(nodes.whole, nodes.min_weight, moments, own, both)
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
    level, axis = screen.level, screen.axis
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
    exact, _ = exact_sides(screen.nodes, np.stack(sides), screen.options.ridge)
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


def _sharpened(found: _Found, n_held: np.ndarray, screen: _Screen) -> _Found:
    """Move each threshold to the best near it: the quantiles tried first are coarse."""
    level, n_cuts = screen.level, screen.options.n_thresholds
    rows, conditions, gain = level.rows, list(found.conditions), found.gain
    share = (np.arange(n_cuts) + 0.5) / n_cuts
    for place, (pick, above) in enumerate(conditions):
        others = [
            one.holds(level) | rows.spread(n_held <= which)
            for which, one in enumerate(conditions)
            if which != place
        ]
        inside = np.all(others, axis=0) & (level.weight > 0)
        apart = np.abs(pick.projection - rows.spread(pick.threshold))
        near = _quantiles(inside, apart, [_NEAR / n_cuts], level)
        near = inside & (apart <= rows.spread(near[:, 0]))
        cuts = _quantiles(near, pick.projection, share.tolist(), level)
        below = np.stack([pick.projection <= rows.spread(cut) for cut in cuts.T])
        sides = (below ^ rows.spread(above)) & inside
        gains, _ = exact_sides(screen.nodes, sides, screen.options.ridge)
        best, most = gains.argmax(axis=1), gains.max(axis=1)
        better = (n_held > place) & np.isfinite(gain) & (most > gain)
        gain = np.where(better, most, gain)
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
