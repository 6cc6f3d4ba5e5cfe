"""What trees with kernels over them share, of numbers and of classes."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from secret_jax.composed.base import ComposedEstimator, Given
from secret_jax.composed.kernel.covariances import without_rounding
from secret_jax.composed.kernel.gp import GaussianProcess
from secret_jax.composed.kernel.interface import Head, HeadFit, Regions
from secret_jax.composed.kernel.rbf import RadialBasis
from secret_jax.composed.kernel.search import (
    SEARCHES,
    Found,
    GreedySearch,
    Heads,
    Search,
)
from secret_jax.composed.kernel.smoothing import Smoothing
from secret_jax.data.given import TableLike
from secret_jax.data.repeats import repeats_of
from secret_jax.data.validation import validated
from secret_jax.runtime.parallel import one_thread_for_products
from secret_jax.runtime.progress import Stage
from secret_jax.runtime.progress_line import shown
from secret_jax.runtime.values import at_least, refuse
from secret_jax.tree import routing

HEADS: dict[str, Head] = {
    "kernel": Smoothing(),
    "local": Smoothing(linear=True),
    "rbf": RadialBasis(),
    "gp": GaussianProcess(),
}
HeadOption: TypeAlias = Annotated[str, StrOptions({*HEADS, "auto"})] | Head


@dataclass(eq=False, repr=False)
class KernelTree(ComposedEstimator):
    """Base of the estimators that put a head over a fitted tree."""

    tree: Any = None
    _: KW_ONLY
    head: HeadOption = "kernel"
    search: Annotated[str, StrOptions(set(SEARCHES))] | Search | None = None
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
            return list(HEADS.values())
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
            _regions(*self._routed(tree, given.X, one), target, weight) for one in heads
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
            fitted: dict[str, Any] = {"tree_": tree}
            if search is not None:
                found = fitted["search_"] = self._searched(search, head, rows)
                head = found.head
            fit = head.fit(rows.of(head))
        return fitted | {"head_": head, "fitted_head_": fit.model}, rows, fit

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

    def _searched(self, search: Search, head: Head, rows: Regions) -> Found:
        """Search the head of the least criterion."""
        heads = Heads(head, rows.x.shape[1], self._scorer(search, rows))
        with shown(self.verbose) as progress:
            stage, found = Stage("searching kernels", progress), heads.found(head, 0)
            for found in search.turns(heads, self.random_state):
                stage.at(found.n_turns, None, f"criterion {found.criterion:.5g}")
        return found

    def _criterion(self, name: str, head: Head, fit: HeadFit, rows: Regions) -> float:
        """Information criterion of a fitted head."""
        raise NotImplementedError

    def _predicted(self, X: TableLike) -> tuple[np.ndarray, np.ndarray]:
        """What tree and head predict, and its deviations, (n_rows, n_outputs) each."""
        check_is_fitted(self)
        X = validated(self, X, reset=False)
        x, leaf, base = self._routed(self.tree_, X, self.head_)
        return self.fitted_head_.predict(self.head_.of(x), leaf, base)

    def _routed(
        self, tree: Any, X: TableLike, head: Head
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Standardised columns of rows, their leaves, and what the head adds to."""
        with tree._computing(X, fall_back=True):
            flat, table = tree._tree_and_rows(X)
            outputs, leaf = routing.predict(flat, table), routing.apply(flat, table)
        x = table.on_host().x[:, _positions(flat.schema)].astype(np.float64)
        said = self._base(outputs.reshape(len(x), -1))
        return x, leaf, head.base_of(said, constants=flat.schema.n_regressors == 0)

    def _base(self, outputs: np.ndarray) -> np.ndarray:
        """What a tree says of rows, in the units of the head's targets."""
        return outputs

    def _new_tree(self, usual: Any) -> Any:
        """The tree to fit, which keeps all regressors and no order."""
        tree: Any = clone(usual if self.tree is None else self.tree)
        if tree.monotonic_cst is not None:
            allowed = "one without monotonic_cst: what is added to it keeps no order"
            refuse("tree", type(self).__name__, allowed, tree)
        # Heads name columns by their places, and measure distances in all of them.
        if "leaf__drops_regressors" in tree.get_params():
            tree.set_params(leaf__drops_regressors=False)
        return tree


def _regions(
    x: np.ndarray,
    leaf: np.ndarray,
    base: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
) -> Regions:
    """Distinct rows: one is left out with all its copies, which would tell what it is.

    Rows without weight are dropped. The order is that of their values, of which some
    heads take every other one, and smoothers tell equal ones apart. Means that rows in
    another order round otherwise leave it as it is.
    """
    used = weight > 0
    parts = [leaf[:, None], x, target, base]
    table = np.column_stack(parts)[used]
    found = repeats_of([*x[used].T], table[:, :1], target[used])
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
