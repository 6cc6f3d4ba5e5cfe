"""Regions of a tree's leaves as linear inequalities, for optimisation models."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from secret_jax.inspect.code.program import Program, program_of
from secret_jax.inspect.equations import (
    AnySplit,
    CategorySplit,
    Conjunction,
    Term,
)
from secret_jax.inspect.views import Readable, as_view
from secret_jax.tree.totals import Side, way_to

# A column of numbers by its name, or a category by the name of its column and itself.
_Key: TypeAlias = tuple[Any, ...]


class Region(NamedTuple):
    """Rows of a leaf, ``A @ z <= b``, and what they are predicted.

    That is ``clip(intercept + coefficient @ z, low, high)``, for ``z`` the columns of
    `Regions`.

    Attributes
    ----------
    leaf : int
    A : ndarray of shape (n_inequalities, n_columns), float64
    b : ndarray of shape (n_inequalities,), float64
    coefficient : ndarray of shape (n_columns,), float64
    intercept, low, high : float
    """

    leaf: int
    A: np.ndarray
    b: np.ndarray
    coefficient: np.ndarray
    intercept: float
    low: float
    high: float


class Regions(NamedTuple):
    """Leaves of a tree as polyhedra of some columns.

    Attributes
    ----------
    columns : tuple of str
        Numbers by their names, and categories as indicators, ``"[city = Paris]"``.
    lower, upper : ndarray of shape (n_columns,), float64
        Bounds within which the inequalities and equations hold: 0 and 1 of indicators,
        which are integers; of numbers those beyond which the tree is flat in them.
    attributes : tuple of tuple of int
        Positions of the indicators of each attribute; at most one of them is 1.
    leaves : list of Region
    """

    columns: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    attributes: tuple[tuple[int, ...], ...]
    leaves: list[Region]


def regions(tree: Readable, *, output: int | str | None = None) -> Regions:
    """Write the leaves as linear inequalities, with their equations.

    So that the tree can be part of an optimisation model: in a region the prediction is
    linear, and one of the regions holds.

    Parameters
    ----------
    output : int or str, optional
        Which of several outputs or classes: of classes the log-odds, or the score.

    Returns
    -------
    Regions

    Raises
    ------
    ValueError
        If the tree has gates: its prediction is not linear in any region.

    Notes
    -----
    Regions are closed: on a border that two of them share, the row belongs to the one
    on the left. No column is taken as missing. With a loss the equations give what the
    link makes a prediction of, such as the logarithm of an expected count.

    Examples
    --------
    The least prediction, by a linear programme for each leaf:

    >>> import numpy as np
    >>> from scipy.optimize import LinearConstraint, milp
    >>> from secret_jax import SecretRegressor
    >>> X = np.random.default_rng(0).uniform(size=(300, 2))
    >>> y = np.where(X[:, 0] < 0.5, 5 + X[:, 1], 1 + 2 * X[:, 1])
    >>> model = SecretRegressor(max_leaf_nodes=2, leaf="linear", distill=False)
    >>> tree = model.fit(X, y).regions()
    >>> lowest = []
    >>> for leaf in tree.leaves:
    ...     inside = LinearConstraint(leaf.A, ub=leaf.b)
    ...     found = milp(leaf.coefficient, constraints=inside, bounds=(0, 1))
    ...     lowest.append(found.fun + leaf.intercept)
    >>> print([round(value) for value in lowest], tree.columns)
    [5, 1] ('x0', 'x1')
    """
    (one, *_) = as_view(tree, output).equations
    if one.is_soft:
        raise ValueError(
            "The tree has gates, so its prediction is linear nowhere. Fit one without "
            "refine='blend' or 'soft'."
        )
    program = program_of(one)
    bounds = _bounds(program)
    place = {key: i for i, key in enumerate(bounds)}
    names = [f"[{name} = {one[0]}]" if one else name for name, *one in bounds]
    indicators: dict[str, list[int]] = {}
    for (name, *category), position in place.items():
        if category:
            indicators.setdefault(name, []).append(position)
    lower, upper = np.reshape([*bounds.values()], (-1, 2)).T
    return Regions(
        columns=tuple(names),
        lower=lower,
        upper=upper,
        attributes=tuple(map(tuple, indicators.values())),
        leaves=[_region(program, leaf, place) for leaf in program.models],
    )


def _bounds(program: Program) -> dict[_Key, tuple[float, float]]:
    """Numbers and categories that the tree asks for, with their bounds."""
    bounds: dict[_Key, tuple[float, float]] = {}
    for term in program.terms:
        if term.asks == "number":
            low, high = bounds.get((term.name,), (-np.inf, np.inf))
            bounds[term.name,] = max(low, term.low), min(high, term.high)
        elif term.category is not None:
            bounds[term.name, term.category] = 0.0, 1.0
    for split in program.lists:
        bounds |= {(split.name, one): (0.0, 1.0) for one in _known(split)}
    return bounds


def _known(split: CategorySplit) -> list[Any]:
    """Categories that a split lists; missing values have no column."""
    return [category for category in split.listed if category is not None]


def _factors(terms: tuple[Term, ...], place: Mapping[_Key, int]) -> np.ndarray:
    """Coefficients of the columns in a sum."""
    factors = np.zeros(len(place))
    for term in terms:
        key = (term.name,) if term.asks == "number" else (term.name, term.category)
        if key in place:
            factors[place[key]] += term.factor
    return factors


def _inequality(
    split: AnySplit, side: Side, place: Mapping[_Key, int]
) -> tuple[np.ndarray, float]:
    """Factors and right side under which a row goes to a side."""
    if isinstance(split, Conjunction):
        raise ValueError(
            "The tree has conjunctions, beyond which no region is convex. Fit one "
            "with other splits, such as splits='rss'."
        )
    if isinstance(split, CategorySplit):
        listed = np.zeros(len(place))
        listed[[place[split.name, one] for one in _known(split)]] = 1.0
        inside = side == split.listed_side
        return (-listed, -1.0) if inside else (listed, 0.0)
    factors = _factors(split.terms, place)
    at_most = split.at_most == (side == "left")
    return (factors, split.threshold) if at_most else (-factors, -split.threshold)


def _region(program: Program, leaf: int, place: Mapping[_Key, int]) -> Region:
    way, model = way_to(program.tree, leaf), program.models[leaf]
    sides = [_inequality(program.splits[node], side, place) for node, side in way]
    return Region(
        leaf=leaf,
        A=np.array([row for row, _ in sides]).reshape(len(sides), len(place)),
        b=np.array([end for _, end in sides]),
        coefficient=_factors(model.terms, place),
        intercept=model.intercept,
        low=model.low,
        high=model.high,
    )
