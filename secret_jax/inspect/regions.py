"""Regions of a tree's leaves as linear inequalities, for optimisation models."""

from typing import Any, NamedTuple

import numpy as np

from secret_jax.inspect.code.program import Program, program_of
from secret_jax.inspect.equations import (
    AnySplit,
    CategorySplit,
    Conjunction,
    LinearModel,
    Term,
)
from secret_jax.inspect.views import Readable, as_view
from secret_jax.tree.totals import Side, way_to


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
    columns = _Columns(program)
    return Regions(
        columns=tuple(columns.place),
        lower=np.array([low for low, _ in columns.bounds]),
        upper=np.array([high for _, high in columns.bounds]),
        attributes=tuple(map(tuple, columns.attributes.values())),
        leaves=[
            _region(columns, program, leaf, model)
            for leaf, model in program.models.items()
        ],
    )


class _Columns:
    """Columns of the regions: numbers and categories that the tree asks for."""

    def __init__(self, program: Program):
        self.place: dict[str, int] = {}
        self.bounds: list[tuple[float, float]] = []
        self.attributes: dict[str, list[int]] = {}
        for term in program.terms:
            if term.asks == "number":
                place = self._add(term.name)
                low, high = self.bounds[place]
                self.bounds[place] = max(low, term.low), min(high, term.high)
            elif term.category is not None:
                self.category(term.name, term.category)
        for split in program.lists:
            for category in split.listed:
                if category is not None:
                    self.category(split.name, category)

    def _add(self, name: str, low: float = -np.inf, high: float = np.inf) -> int:
        if name not in self.place:
            self.bounds.append((low, high))
        return self.place.setdefault(name, len(self.place))

    def category(self, name: str, category: Any) -> int:
        """Column that indicates a category; None has none."""
        place = self._add(f"[{name} = {category}]", 0.0, 1.0)
        own = self.attributes.setdefault(name, [])
        if place not in own:
            own.append(place)
        return place

    def factors(self, terms: tuple[Term, ...]) -> np.ndarray:
        """Coefficients of the columns in a sum."""
        factors = np.zeros(len(self.place))
        for term in terms:
            if term.asks == "number":
                factors[self.place[term.name]] += term.factor
            elif term.category is not None:
                factors[self.category(term.name, term.category)] += term.factor
        return factors

    def inequality(self, split: AnySplit, side: Side) -> tuple[np.ndarray, float]:
        """Factors and right side under which a row goes to a side."""
        if isinstance(split, Conjunction):
            raise ValueError(
                "The tree has conjunctions, beyond which no region is convex. Fit one "
                "with other splits, such as splits='rss'."
            )
        if isinstance(split, CategorySplit):
            listed = np.zeros(len(self.place))
            known = [one for one in split.listed if one is not None]
            listed[[self.category(split.name, one) for one in known]] = 1.0
            inside = side == split.listed_side
            return (-listed, -1.0) if inside else (listed, 0.0)
        factors = self.factors(split.terms)
        at_most = split.at_most == (side == "left")
        return (factors, split.threshold) if at_most else (-factors, -split.threshold)


def _region(
    columns: _Columns, program: Program, leaf: int, model: LinearModel
) -> Region:
    ways = [
        columns.inequality(program.splits[node], side)
        for node, side in way_to(program.tree, leaf)
    ]
    return Region(
        leaf=leaf,
        A=np.array([row for row, _ in ways]).reshape(len(ways), len(columns.place)),
        b=np.array([end for _, end in ways]),
        coefficient=columns.factors(model.terms),
        intercept=model.intercept,
        low=model.low,
        high=model.high,
    )
