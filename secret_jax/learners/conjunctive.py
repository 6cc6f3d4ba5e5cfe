"""Conjunctive splits: two or more conditions on single attributes that all hold.

They are searched greedily: a condition is added to the best split on one attribute, and
another one to both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from numbers import Integral
from typing import Annotated, Any, NamedTuple

import numpy as np

from secret_jax.data.roles import ColumnOptions
from secret_jax.learners.conjunctions import Condition, next_above, sharpened, split_on
from secret_jax.models.ridge import Ridge
from secret_jax.runtime.arrays import largest, where_each
from secret_jax.runtime.linalg import AnyArray, namespace
from secret_jax.runtime.values import Range, at_least, real
from secret_jax.splits.candidates import PreparedNodes, axis_candidates, scored
from secret_jax.splits.interface import Split
from secret_jax.splits.node_axis import leading_component, projections
from secret_jax.splits.node_chosen import Candidates
from secret_jax.splits.one_node import Columns, Node, OneNodeFinder
from secret_jax.splits.rss import RssSplits
from secret_jax.splits.rss_search import Begun, begun, finalists_of
from secret_jax.tree.structure import SplitKind


@dataclass(frozen=True, kw_only=True)
class ConjunctiveSplits(OneNodeFinder):
    """Conjunctions of conditions, such as ``age <= 30 and education in {HS}``.

    Rows that meet all conditions go one way, all others the other. As with `RssSplits`
    the drop in the residual sum of squares of the children's models decides; a
    condition on a column of numbers is one side of a threshold, on one of categories a
    set of them.

    Attributes
    ----------
    max_conditions : int, default=3
        Most conditions of a split, from 2 to 8.
    least_rise : float, default=0.2
        Share by which a further condition must raise the gain to be worth its reading.
    n_starts : int, default=2
        How many of the best splits on one attribute are tried as a first condition.
    scores : RssSplits, default=RssSplits()
        How splits on one attribute are found, and all are scored; what concerns oblique
        ones does not matter.

    Notes
    -----
    The reference evolves columns, sides and cuts by genetic algorithms, one within the
    other. On six tables that gained less than adding conditions one by one, in five to
    fifty times the time.

    References
    ----------
    J. M. Lanning. A Kernelized Genetic Algorithm Decision Tree with Information
    Criteria. PhD dissertation, University of Tennessee, 2008.

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
    [0] if x2 >= 0.505 and x0 <= 0.405
    |   [1] y = 4
    ...
    [0] else x2 < 0.505 or x0 > 0.405
    |   [2] y = 0
    ...
    """

    max_conditions: Annotated[int, Range(Integral, 2, 8, closed="both")] = 3
    least_rise: Annotated[float, real(0.0)] = 0.2
    n_starts: Annotated[int, at_least(1)] = 2
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
    def n_conditions(self) -> int:
        return self.max_conditions

    def needs_host_inputs(self, n_columns: int) -> bool:
        return self.scores.needs_host_inputs(n_columns)

    def host_inputs(
        self, x: np.ndarray, weight: np.ndarray, columns: Columns
    ) -> dict[str, np.ndarray]:
        return self.scores.host_inputs(x, weight, columns)

    def worth(self, gain: AnyArray, n_conditions: AnyArray) -> AnyArray:
        """What a gain is worth that takes so many conditions."""
        n_more = namespace(gain).asarray(n_conditions, gain.dtype) - 1.0
        return gain / (1.0 + self.least_rise) ** n_more

    def __call__(self, node: Node) -> Split:
        """Best split of one node, or of each of many; see `RssSplits`."""
        start = begun(self.scores, node)
        found = _greedy(self, start, node)
        n_thresholds = self.scores.n_thresholds
        conditions, gain = sharpened(*found, start, node, n_thresholds)
        return split_on(conditions, found[1], gain, start, node)


class _Found(NamedTuple):
    """Conditions of each node that hold together, and what they gain."""

    conditions: list[Condition]
    gain: AnyArray

    def where(self, chosen: AnyArray, other: _Found, batch: Node) -> _Found:
        """These conditions in some nodes, and others in the rest.

        Where they are more, the last ones are theirs in all nodes.
        """
        pairs = zip_longest(self.conditions, other.conditions)
        return _Found(
            [
                own if one is None else own.where(chosen, one, batch)
                for own, one in pairs
            ],
            where_each(chosen, self.gain, other.gain),
        )


def _greedy(
    finder: ConjunctiveSplits, start: Begun, batch: Node
) -> tuple[list[Condition], AnyArray, AnyArray]:
    """Conditions of each node, how many, the first ones, it has, and their gain."""
    node, scores, pieces = start.node, finder.scores, batch.pieces
    xp = namespace(node.z)
    singles, _ = finalists_of(axis_candidates(node, scores), node, scores)
    n_starts = min(finder.n_starts, singles.gain.shape[-1])
    singles = singles.take(largest(singles.gain, n_starts), pieces)

    def single(place: int, above: bool) -> _Found:
        pick = singles.take(xp.full(singles.gain.shape[:-1], place), pieces)
        return _Found([Condition(pick, xp.full(pick.gain.shape, above))], pick.gain)

    def longer(found: _Found) -> _Found:
        one = _addition(found.conditions, scores, node, batch)
        return _Found([*found.conditions, one], one.pick.gain)

    def refined(found: _Found) -> _Found:
        """Look for a better condition in the place of each but the last."""
        for place in range(len(found.conditions) - 1):
            others = [*found.conditions]
            others.pop(place)
            one = _addition(others, scores, node, batch)
            other = [*found.conditions]
            other[place] = one
            found = _Found(other, one.pick.gain).where(
                one.pick.gain > found.gain, found, batch
            )
        return found

    starts = [
        longer(single(i, above)) for i in range(n_starts) for above in (False, True)
    ]
    found = starts[0]
    for other in starts[1:]:
        found = other.where(other.gain > found.gain, found, batch)
    best = single(0, False)
    n_held = xp.ones(best.gain.shape, np.int32)
    for n in range(2, finder.max_conditions + 1):
        found = refined(found if n == 2 else longer(found))
        better = finder.worth(found.gain, n) > finder.worth(best.gain, n_held)
        best = found.where(better, best, batch)
        n_held = xp.where(better, n, n_held)
    return best.conditions, n_held, best.gain


def _addition(
    held: Sequence[Condition], scores: RssSplits, node: PreparedNodes, batch: Node
) -> Condition:
    """The condition that gains most where others hold already."""
    xp, rows = namespace(node.z), node.rows
    inside = xp.stack([one.holds(batch) for one in held]).all(axis=0)
    part = replace(batch, weight=xp.where(inside, batch.weight, 0.0))
    axis = projections(part, leading_component(rows.residual, part.weight, rows.pieces))
    n = len(axis.kind)

    def both(array: AnyArray, sign: float = 1.0, axis: int = -2) -> AnyArray:
        """Of both sides of each attribute."""
        return xp.concatenate([array, sign * array], axis=axis)

    values = axis.projection if axis.value is None else axis.value
    weight = part.weight if axis.weight is None else both(axis.weight)
    sides = xp.where(inside[..., None, :], both(axis.projection, -1.0), xp.inf)
    gain, threshold = scored(sides, node, scores, weight, both(values))
    kind, attribute = np.tile(axis.kind, 2), xp.concatenate([axis.attribute] * 2)
    above = np.arange(2 * n) >= n
    allowed = xp.concatenate([axis.allowed] * 2, axis=-1)
    for one in held:  # another bound on the same side says nothing new
        same = kind == one.pick.kind[..., None]
        same = same & (attribute == one.pick.attribute[..., None])
        alike = (kind == SplitKind.DISCRETE) | (above == one.above[..., None])
        allowed = allowed & ~(same & alike)
    gain = xp.where(allowed, gain, -xp.inf)
    every = Candidates(
        gain=gain,
        projection=sides,
        direction=both(axis.direction),
        threshold=threshold,
        kind=xp.broadcast_to(xp.asarray(kind, xp.int32), gain.shape),
        attribute=xp.broadcast_to(xp.arange(2 * n), gain.shape),  # to know the best one
        chance=xp.zeros_like(gain),
    )
    finalists, _ = finalists_of(every, node, scores)
    best = finalists.take(xp.argmax(finalists.gain, axis=-1), rows.pieces)
    is_above = best.attribute >= n
    pick = axis.candidates(gain[..., :n], threshold[..., :n])
    pick = pick.take(best.attribute % n, rows.pieces)
    cut = xp.where(is_above, -next_above(best.threshold), best.threshold)
    return Condition(pick._replace(gain=best.gain, threshold=cut), is_above)
