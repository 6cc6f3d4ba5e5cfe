"""What trees with kernels over them share, of numbers and of classes."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from secret_jax.composed.base import ComposedEstimator, Given
from secret_jax.composed.kernel.covariances import without_rounding
from secret_jax.composed.kernel.gp import GaussianProcess
from secret_jax.composed.kernel.interface import Head, HeadFit, Regions, Voices
from secret_jax.composed.kernel.rbf import RadialBasis
from secret_jax.composed.kernel.search import (
    SEARCHES,
    Found,
    GreedySearch,
    Heads,
    Search,
)
from secret_jax.composed.kernel.smoothing import Smoothing
from secret_jax.composed.kernel.stacking import Stacking
from secret_jax.data.given import TableLike
from secret_jax.data.repeats import repeats_of
from secret_jax.data.validation import validated
from secret_jax.runtime.parallel import one_thread_for_products
from secret_jax.runtime.progress import Stage
from secret_jax.runtime.progress_line import shown
from secret_jax.runtime.values import at_least
from secret_jax.tree import routing

HEADS: dict[str, Head] = {
    "kernel": Smoothing(),
    "local": Smoothing(linear=True),
    "rbf": RadialBasis(),
    "gp": GaussianProcess(),
    "stack": Stacking(),
}
# A stack holds processes, and takes as long as all of these.
COMPARED = ("kernel", "local", "rbf", "gp")
HeadOption: TypeAlias = Annotated[str, StrOptions({*HEADS, "auto"})] | Head


class Through(NamedTuple):
    """Rows after the tree."""

    base: np.ndarray  # (n_rows, n_outputs), float64
    leaf: np.ndarray  # (n_rows,), int
    x: np.ndarray  # (n_rows, n_columns), float64: standardised columns


class KernelExplanation(NamedTuple):
    """Centers that say most about each row, in the units of the data."""

    prediction: np.ndarray  # (n_rows, n_outputs), float64
    leaf: np.ndarray  # (n_rows,), int: leaf that the row is in
    names: tuple[str, ...]  # of the columns that count for distances
    voices: Voices  # the centers, their leaves, and what each says

    def __str__(self) -> str:
        lines = []
        for row, (said, leaf) in enumerate(
            zip(self.prediction, self.leaf.tolist(), strict=True)
        ):
            lines.append(f"row {row}: {_numbers(said)}, in leaf {leaf}")
            centers = zip(*(part[row] for part in self.voices), strict=True)
            for own, center, share in centers:
                if own >= 0:
                    place = zip(self.names, center.tolist(), strict=True)
                    where = ", ".join(f"{name} {value:.4g}" for name, value in place)
                    lines.append(f"  {_numbers(share)} of leaf {own} at {where}")
        return "\n".join(lines)


@dataclass(eq=False, repr=False)
class KernelTree(ComposedEstimator):
    """Base of the estimators that put a head over a fitted tree."""

    tree: Any = None
    _: KW_ONLY
    head: HeadOption = "kernel"
    search: Annotated[str, StrOptions(set(SEARCHES))] | Search | None = None
    warm_start: bool = False
    random_state: Annotated[int, at_least(0)] = 0
    verbose: bool | Annotated[int, at_least(0)] = False
    if TYPE_CHECKING:  # no parameters
        head_: Head = field(init=False)
        fitted_head_: Any = field(init=False)
        search_: Found = field(init=False)

    _predicts_with: ClassVar[str] = "fitted_head_"

    @property
    def _heads(self) -> list[Head]:
        """The parameter as values, of which the best is taken."""
        if self.head == "auto":
            return [HEADS[name] for name in COMPARED]
        head = HEADS[self.head] if isinstance(self.head, str) else self.head
        head.check()
        return [head]

    def _with_head(
        self, tree: Any, given: Given, target: np.ndarray
    ) -> tuple[dict[str, Any], Regions, HeadFit]:
        """Fit the head over a fitted tree: fitted attributes, its rows and its fit."""
        heads, weight = self._heads, given.weight
        search = SEARCHES[self.search] if isinstance(self.search, str) else self.search
        if search is not None:
            search.check()
        every = [
            _regions(self._through(tree, given.X, one), target, weight) for one in heads
        ]
        best = 0
        with one_thread_for_products():  # of small matrices, many times
            if len(heads) > 1:
                pairs, by = zip(heads, every, strict=True), search or GreedySearch()
                scores = [self._scorer(by, rows)(one) for one, rows in pairs]
                best = int(np.argmin(scores))
            head, rows = heads[best], every[best]
            n_columns = rows.x.shape[1]
            for column in head.columns or ():
                if column not in range(n_columns):
                    raise ValueError(
                        f"columns={head.columns!r} names the column {column!r}; the "
                        f"tree has {n_columns} standardised ones, from 0 on."
                    )
            if search is not None:
                head = self._searched(search, head, rows)
            fit = head.fit(rows.of(head))
        fitted = {"tree_": tree, "head_": head, "fitted_head_": fit.model}
        if search is not None:
            fitted["search_"] = self.search_
        return fitted, rows, fit

    def _scorer(self, search: Search, rows: Regions) -> Callable[[Head], float]:
        """Criterion of heads, over some of the rows; infinite of one without a fit."""
        some = rows.some(search.max_rows)

        def score(head: Head) -> float:
            own = some.of(head)
            try:
                return self._criterion(search.criterion, head, head.fit(own), own)
            except np.linalg.LinAlgError:
                return np.inf

        return score

    def _searched(self, search: Search, head: Head, rows: Regions) -> Head:
        """Head of the least criterion; ``search_`` says after every turn where it is,
        also of a search that was interrupted.
        """
        start = getattr(self, "search_", None) if self.warm_start else None
        n_columns = rows.x.shape[1]
        if start is not None and start.n_columns != n_columns:
            raise ValueError(
                f"warm_start goes on with a search of {start.n_columns} columns, and "
                f"the tree has {n_columns} standardised ones. Set warm_start=False."
            )
        heads = Heads(head, n_columns, self._scorer(search, rows))
        with shown(self.verbose) as progress:
            stage = Stage("searching kernels", progress)
            turns = search.turns(heads, self.random_state, start)
            for found in search.within_time(turns):
                self.search_ = found
                stage.at(found.n_turns, None, f"criterion {found.criterion:.5g}")
        return self.search_.head

    def _criterion(self, name: str, head: Head, fit: HeadFit, rows: Regions) -> float:
        """Information criterion of a fitted head."""
        raise NotImplementedError

    def _said(self, X: TableLike) -> tuple[np.ndarray, np.ndarray, Through]:
        """What tree and head say of rows, its deviations, and the rows."""
        check_is_fitted(self)
        through = self._through(self.tree_, validated(self, X, reset=False), self.head_)
        x = self.head_.of(through.x)
        value, deviation = self.fitted_head_.predict(x, through.leaf, through.base)
        return value, deviation, through

    def explain(self, X: TableLike, *, n_centers: int = 3) -> KernelExplanation:
        """Tell which centers say most about each row.

        Of a network they are leaves, and say what their basis adds; of a process they
        are training rows, and say what they add to the network; of leaves that keep
        rows they are training rows, with their weight in the mean of what the tree
        leaves. ``tree_.explain`` takes the tree's part apart.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        n_centers : int, default=3

        Returns
        -------
        KernelExplanation
            ``print`` shows it in words.
        """
        value, _, through = self._said(X)
        schema = self.tree_.tree_.schema
        columns = self.head_.columns
        places = list(range(through.x.shape[1]) if columns is None else columns)
        x = self.head_.of(through.x)
        voices = self.fitted_head_.voices(x, through.leaf, n_centers)
        encoded = [_positions(schema)[place] for place in places]
        center = schema.center[encoded] + schema.scale[encoded] * voices.center
        names = tuple(schema.labels[column] for column in encoded)
        return KernelExplanation(
            value, through.leaf, names, voices._replace(center=center)
        )

    def _through(self, tree: Any, X: TableLike, head: Head) -> Through:
        """Route rows through the tree, for a head."""
        with tree._computing(X, fall_back=True):
            flat, table = tree._tree_and_rows(X)
            outputs, leaf = routing.predict(flat, table), routing.apply(flat, table)
        x = table.on_host().x[:, _positions(flat.schema)].astype(np.float64)
        said = self._base(outputs.reshape(len(x), -1))
        base = head.base_of(said, constants=flat.schema.n_regressors == 0)
        return Through(base, leaf, x)

    def _base(self, outputs: np.ndarray) -> np.ndarray:
        """What a tree says of rows, in the units of the head's targets."""
        return outputs

    def _new_tree(self, usual: Any) -> Any:
        tree = self._without_order(clone(usual if self.tree is None else self.tree))
        # Heads name columns by their places, and measure distances in all of them.
        if "leaf__drops_regressors" in tree.get_params():
            tree.set_params(leaf__drops_regressors=False)
        return tree


def _regions(through: Through, target: np.ndarray, weight: np.ndarray) -> Regions:
    """Distinct rows: one is left out with all its copies, which would tell what it is.

    Rows without weight are dropped. The order is that of their values, of which some
    heads take every other one, and smoothers tell equal ones apart. Means that rows in
    another order round otherwise leave it as it is.
    """
    used = weight > 0
    parts = [through.leaf[:, None], through.x, target, through.base]
    table = np.column_stack(parts)[used]
    found = repeats_of([*through.x[used].T], table[:, :1], target[used])
    observed = 1.0 if found is None else found.number.sum() / len(table)
    rows, copy_of = np.unique(table, axis=0, return_inverse=True)
    order = np.lexsort(without_rounding(rows).T[::-1])
    ends = np.cumsum([part.shape[1] for part in parts])[:-1]
    leaf, x, target, base = np.split(rows[order], ends, axis=1)
    total = observed * np.bincount(copy_of.ravel(), weight[used])[order]
    return Regions(x, leaf[:, 0].astype(int), target, base, total)


def _positions(schema: Any) -> list[int]:
    """Places of the standardised columns of a table: regressors, or numeric ones."""
    return list(range(schema.n_regressors) or schema.continuous_positions)


def _numbers(values: np.ndarray) -> str:
    return ", ".join(f"{value:.4g}" for value in values.tolist())
