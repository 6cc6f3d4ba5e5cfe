"""Ensembles and their growth: many trees from one frontier, and rounds of boosters.

Friedman's (2002) stochastic gradient boosting, with models in the leaves. Only the
target changes from round to round: the encoded table stays, on an accelerator too, and
what is predicted for its rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import jax.numpy as jnp
import numpy as np

from secret_jax.data.encoding import Lying, Unencoded
from secret_jax.data.rows import Rows, Table, join
from secret_jax.data.schema import TableSchema
from secret_jax.fit.grow.execution import GrowOptions
from secret_jax.fit.grow.frontier import Root
from secret_jax.fit.grow.grower import grown
from secret_jax.fit.grow.on_device import resident
from secret_jax.fit.grow.trees import sums_make_models, with_leaf_models
from secret_jax.fit.prepare import parts_of
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import SQUARED_ERROR
from secret_jax.models.fitting import fit_models, weighted_errors
from secret_jax.models.glm import LinearOfLoss, Logistic
from secret_jax.models.interface import LeafModel
from secret_jax.models.ridge import Ridge
from secret_jax.runtime.hashing import mix
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.programs import program
from secret_jax.runtime.progress import Stage
from secret_jax.runtime.shapes import next_power_of_two, padded
from secret_jax.splits.rss import RssSplits
from secret_jax.tree.reshape import joined, separated
from secret_jax.tree.routing import TreeSum, predict_where_they_lie, values
from secret_jax.tree.structure import Tree, flaw_of

# Cheaper than the search of a single tree: later trees mend what it misses, and nobody
# reads their splits. With eight thresholds forests err 2 % more, on fifteen tables;
# with 2,048 rows of a node in place of 512 no less, on thirteen.
SPLITS = RssSplits(
    n_hessian=1,
    n_finalists=1,
    n_nearby=0,
    sparse_terms=(),
    least_share=1 / 16,
    max_samples=512,
)
# Of boosters: fewer steps are as accurate where one tree mends another; with one
# finalist of eight thresholds they err 2 % more, and take no less time.
_BOOSTER_SPLITS = replace(
    SPLITS, n_finalists=3, hinge_steps=1, max_split_features=None, max_samples=2048
)
# Maximum number of rows of a booster's tree, and least weight of a leaf of it.
_MOST_ROWS, _LEAST_WEIGHT = 1 << 14, 5.0
_RIDGE = Ridge()
# Rows that the mean prediction of the node above counts as, and Newton steps, of models
# that are fitted to a loss.
_PRIOR, _N_STEPS = 1.0, 2
# The greatest curvature of cross-entropy, of two classes and of more.
_OF_TWO, _OF_MORE = 0.25, 0.5
# Maximum number of rows for folds; with more one part is held out, and none averaged.
_MOST_FOLDED, _HELD_OUT_FOLDS = 1 << 15, 10


Lesson = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Mean of boosters."""

    # Trees of each; the first is a single leaf and counts fully.
    boosters: Sequence[Sequence[Tree]]
    learning_rate: float  # weight of each further tree in its booster

    @property
    def schema(self) -> TableSchema:
        """Schema of all trees."""
        return self.boosters[0][0].schema

    @cached_property
    def _sum(self) -> TreeSum:
        trees, steps = zip(*self.trees(), strict=True)
        return TreeSum(trees, np.array(steps))

    def saved(self) -> dict[str, Any]:
        """Content of a model file: all trees as one set of arrays."""
        trees = [tree for booster in self.boosters for tree in booster]
        return {
            "forest": joined(trees),
            "nodes": [tree.n_nodes for tree in trees],
            "n_boosters": len(self.boosters),
            "learning_rate": self.learning_rate,
        }

    @classmethod
    def loaded(cls, saved: dict[str, Any]) -> Self:
        """Restore what `saved` made, or raise an error that says what is wrong."""
        forest, nodes, n_boosters = saved["forest"], saved["nodes"], saved["n_boosters"]
        if min(nodes) < 1 or sum(nodes) != forest.n_nodes:
            raise ValueError("its trees have another number of nodes")
        trees = separated(forest, nodes)
        flaw = next(filter(None, map(flaw_of, trees)), "")
        if flaw:
            raise ValueError(flaw)
        length, rest = divmod(len(trees), n_boosters)
        if rest or not length:
            raise ValueError(f"{len(trees)} trees are not {n_boosters} equal boosters")
        boosters = [trees[at : at + length] for at in range(0, len(trees), length)]
        return cls(boosters, float(saved["learning_rate"]))

    def trees(self) -> Iterator[tuple[Tree, float]]:
        """All trees, round by round, with their weights in the prediction."""
        for number, trees in enumerate(zip(*self.boosters, strict=True)):
            step = self.learning_rate if number else 1.0
            for tree in trees:
                yield tree, step / len(trees)

    def values(self, table: Table | Unencoded) -> np.ndarray:
        """Predict in standardised units, shape (n_rows, n_outputs)."""
        return self._sum.values(table)

    @property
    def loss(self) -> Loss:
        """Loss of the trees, which says what their sum predicts."""
        return self.boosters[0][0].loss

    def predict(self, table: Lying | Unencoded, loss: Loss | None = None) -> Any:
        """Predict in the units of the target, shape (n_rows[, n_outputs]).

        ``loss``: of the sum, if the trees have another.
        """
        loss = self.loss if loss is None else loss
        if isinstance(table, Lying):
            return predict_where_they_lie(self._sum.model(), loss, table)

        def finish(value: np.ndarray) -> np.ndarray:
            return self.schema.restore_outputs(loss.prediction(value))

        found = self._sum.values(table, finish=finish)
        return found[:, 0] if self.schema.n_outputs == 1 else found

    def staged(self, table: Table) -> Iterator[np.ndarray]:
        """Predict after every round, beginning with the first models alone."""
        total = np.zeros((len(table.x), self.schema.n_outputs))
        n = len(self.boosters)
        for first in range(0, n * len(self.boosters[0]), n):
            total += self._sum.values(table, first, first + n)
            yield self.schema.restore_targets(self.loss.prediction(total.copy()))


def grown_with_models(
    rows: Rows,
    there: Table,
    schema: TableSchema,
    roots: Sequence[Root],
    finder: RssSplits,
    *,
    leaf: LeafModel = _RIDGE,
    lessons: Sequence[Lesson] | None = None,
    max_leaf_nodes: int | None = None,
    max_features: int | None = None,
) -> list[Tree]:
    """Grow trees with linear models in their leaves, on the roots' weights.

    ``there``: the table of the rows where they grow, see `resident`; ``lessons``: the
    targets and weights that models are fitted to, if not those of the roots.
    """
    options = GrowOptions(
        finder=finder,
        sample=finder.max_samples,
        min_gain=0.0,
        max_leaf_nodes=max_leaf_nodes,
        max_features=max_features,
        in_batches=True,
        models_of_all=lessons is None,
    )
    if lessons is None and sums_make_models(_RIDGE, leaf, schema):
        roots = [replace(root, measured=True) for root in roots]
    found = grown(rows._replace(table=there), schema, options, roots)
    if lessons is not None:
        roots = [
            replace(root, targets=targets, weight=weight)
            for root, (targets, weight) in zip(roots, lessons, strict=True)
        ]
    return with_leaf_models(found, rows, roots, leaf, _RIDGE)


def key_of(*numbers: int) -> int:
    """Key of a root from numbers."""
    return int(mix(np.array(numbers, np.uint64)).sum() >> np.uint64(1))


def total_error(loss: Loss, rows: Rows, value: np.ndarray) -> float:
    """Total weighted loss at raw predictions; squared errors averaged over outputs."""
    total = float(weighted_errors(value, rows, loss).sum())
    return total / (value.shape[1] if loss == SQUARED_ERROR else 1)


class Boosted(NamedTuple):
    """Result of a fit of boosters."""

    ensemble: Ensemble
    folds: list[Ensemble]  # which have each not seen a part of the rows, if any
    parts: list[np.ndarray]  # masks (n_rows,) of these parts
    unseen: np.ndarray | None  # (n_rows, n_outputs): what the folds predict for them
    # (n_rounds_run + 1,): mean loss on held-out rows, see ``validation_errors_``.
    errors: np.ndarray


@dataclass(eq=False, kw_only=True)
class _Booster:
    """Sum of trees while it grows."""

    key: int  # which rows its trees see
    training: np.ndarray  # (n_training,), int: rows of the table that train it, rising
    held_out: np.ndarray  # (n_held_out,), int: rows that judge it
    prediction: Any  # of all rows, in standardised units, see `_added`
    trees: list[Tree] = field(default_factory=list)  # the first is a single leaf


@dataclass(frozen=True, kw_only=True)
class Boosting:
    """Grows a booster for each fold, and one of all rows, side by side."""

    max_leaf_nodes: int
    learning_rate: float  # share of each tree but the first in the prediction
    subsample: float  # share of a booster's rows that each tree sees
    leaf: LeafModel  # of a single tree, with the loss
    seed: int
    max_iter: int
    early_stopping: bool
    n_iter_no_change: int  # rounds without a lower error on held-out rows to stop after
    n_folds: int
    ensemble: bool  # whether the boosters of the folds are part of the model

    @property
    def loss(self) -> Loss:
        """Loss that the boosters minimise."""
        return self.leaf.loss

    def __call__(
        self, rows: Rows, schema: TableSchema, others: Rows | None, stage: Stage
    ) -> Boosted:
        """Add rounds, until errors on held-out rows rise if they say when to stop.

        ``rows``: in hash order; ``others``: rows to hold out in place of folds.
        """
        parts = self._parts(rows) if others is None else []
        every_row = rows if others is None else join([rows, others])
        held_out = [*parts, np.arange(rows.n_rows, every_row.n_rows)]
        if len(parts) == 1:  # one part says when to stop, and no booster has all rows
            held_out, parts = parts, []
        boosters = [
            _Booster(
                key=key,
                training=np.delete(np.arange(rows.n_rows), part[part < rows.n_rows]),
                held_out=part,
                prediction=np.zeros(every_row.targets.shape),
            )
            for key, part in enumerate(held_out)
        ]
        there = resident(every_row.table)
        judged = [(b, every_row.take(b.held_out)) for b in boosters if len(b.held_out)]
        weight = sum(float(unseen.weight.sum()) for _, unseen in judged)
        errors, best, predictions = list[float](), 0, list[np.ndarray]()
        for number in range(1 + self.max_iter):
            known = number and judged
            detail = f"error {errors[best]:.4g} in unseen rows" if known else ""
            stage.at(number, self.max_iter, detail)
            self.add_round(boosters, every_row, there, schema)
            lost = 0.0
            said = _of_rows((b.prediction, b.held_out) for b, _ in judged)
            for (_, unseen), value in zip(judged, said, strict=True):
                lost += total_error(self.loss, unseen, value)
            errors.append(lost / weight if judged else np.nan)
            if not (number and self.early_stopping) or errors[-1] < errors[best]:
                best, predictions = number, [each.prediction for each in boosters]
            # Without held-out rows nothing says when to stop: the first model is kept.
            waited = not judged or number - best >= self.n_iter_no_change
            if self.early_stopping and waited:
                break
        unseen = np.empty_like(rows.targets)
        pairs = list(zip(predictions, parts, strict=False))
        for part, value in zip(parts, _of_rows(pairs), strict=True):
            unseen[part] = value

        trees = [each.trees[: 1 + best] for each in boosters]
        rate = self.learning_rate
        return Boosted(
            ensemble=Ensemble(trees if self.ensemble else trees[-1:], rate),
            folds=[Ensemble([own], rate) for own in trees[: len(parts)]],
            parts=[np.isin(np.arange(rows.n_rows), part) for part in parts],
            unseen=unseen if parts else None,
            errors=np.array(errors if judged else []),
        )

    def _parts(self, rows: Rows) -> list[np.ndarray]:
        """Rows that are each held out of a booster; one part if there are very many."""
        many = rows.n_rows > _MOST_FOLDED
        if not self.early_stopping and (many or not self.ensemble):
            return []
        n_folds = _HELD_OUT_FOLDS if many else self.n_folds
        masks = parts_of(rows.weight, n_folds, group=rows.group)
        return [np.flatnonzero(mask) for mask in (masks[:1] if many else masks)]

    def add_round(
        self,
        boosters: Sequence[_Booster],
        rows: Rows,
        there: Table,
        schema: TableSchema,
    ) -> None:
        """Grow the next tree of every booster, all together."""
        parts = list(map(self._drawn, boosters))
        said = _of_rows((b.prediction, p) for b, p in zip(boosters, parts, strict=True))
        roots = [
            self._root(rows, *own) for own in zip(boosters, parts, said, strict=True)
        ]
        trees = grown_with_models(
            rows,
            there,
            schema,
            roots,
            _BOOSTER_SPLITS,
            max_leaf_nodes=self.max_leaf_nodes,
            **self._lessons(rows, parts, said),
        )
        is_first = not boosters[0].trees
        step = 1.0 if is_first else self.learning_rate
        if is_first and self.loss.labels(schema.target_names) is not None:
            trees = _started(trees, [rows.take(root.rows) for root in roots])
        new = _added([each.prediction for each in boosters], step, trees, there)
        for booster, tree, prediction in zip(boosters, trees, new, strict=True):
            booster.trees.append(tree)
            booster.prediction = prediction

    def _lessons(
        self, rows: Rows, parts: Sequence[np.ndarray], said: Sequence[np.ndarray]
    ) -> dict[str, Any]:
        """Leaf models of a round, and the targets that they learn beside predictions.

        Squared errors, and classes' steps, are those on which trees grow.
        """
        if not isinstance(self.leaf, LinearOfLoss):
            return {}
        pairs = zip(parts, said, strict=True)
        return {
            "leaf": replace(self.leaf, prior=_PRIOR, n_steps=_N_STEPS),
            "lessons": [
                self.loss.remaining(rows.targets[part], value, rows.weight[part])
                for part, value in pairs
            ],
        }

    def _drawn(self, booster: _Booster) -> np.ndarray:
        """Rows of the next tree, drawn without replacement but for the first one."""
        part, number = booster.training, len(booster.trees)
        share = self.subsample if number else 1.0
        wanted = min(max(round(share * len(part)), 1), _MOST_ROWS)
        if wanted >= len(part):
            return part
        random = np.random.default_rng([self.seed, booster.key, number])
        chosen = random.choice(len(part), wanted, replace=False, shuffle=False)
        return part[np.sort(chosen)]

    def _root(
        self, rows: Rows, booster: _Booster, part: np.ndarray, value: np.ndarray
    ) -> Root:
        """Root of the next tree, given the rows that it sees and what is predicted."""
        number = len(booster.trees)
        targets, weight = self.loss.steps(rows.targets[part], value, rows.weight[part])
        return Root(
            rows=part,
            min_split_weight=2 * _LEAST_WEIGHT,
            min_leaf_weight=_LEAST_WEIGHT,
            key=key_of(booster.key, number),
            weight=weight,
            targets=targets,
            max_leaf_nodes=None if number else 1,
        )


def _added(
    predictions: Sequence[Any], step: float, trees: Sequence[Tree], table: Table
) -> Sequence[Any]:
    """Predictions of boosters with a tree more: where the table lies they stay.

    On the host they are float64 of shape (n_rows, n_outputs); on an accelerator
    float32, outputs first, and there is room for more rows.
    """
    if isinstance(table.codes, np.ndarray):
        pairs = zip(predictions, trees, strict=True)
        return [value + step * values(tree, table) for value, tree in pairs]
    new = [TreeSum([tree]).where_they_lie(table) for tree in trees]
    if isinstance(predictions[0], np.ndarray):  # there was no tree
        return new
    return _sums(predictions, np.float32(step), new)


def _of_rows(pairs: Iterable[tuple[Any, np.ndarray]]) -> list[np.ndarray]:
    """Predictions of some rows on the host, (n_rows, n_outputs) each, float64."""
    pairs = list(pairs)
    if not pairs or isinstance(pairs[0][0], np.ndarray):
        return [prediction[row] for prediction, row in pairs]
    predictions, rows = zip(*pairs, strict=True)
    most = next_power_of_two(max(map(len, rows)))
    found = _taken(
        predictions, np.stack([padded(r.astype(np.int32), most) for r in rows])
    )
    each = zip(np.asarray(found), rows, strict=True)
    return [own[:, : len(row)].T.astype(np.float64) for own, row in each]


@program()
def _sums(values: Any, step: AnyArray, new: Any) -> Any:
    return [one + step * other for one, other in zip(values, new, strict=True)]


@program()
def _taken(values: Any, rows: AnyArray) -> AnyArray:
    return jnp.stack([own[:, row] for own, row in zip(values, rows, strict=True)])


def _started(trees: Sequence[Tree], parts: Sequence[Rows]) -> list[Tree]:
    """Logistic regressions as single leaves: the first models of classifiers."""
    new = []
    for tree, rows in zip(fit_models(trees, parts, Logistic()), parts, strict=True):
        probability = tree.loss.prediction(values(tree, rows.table).astype(np.float64))
        share = rows.weight / rows.weight.sum()
        greatest = _OF_TWO if tree.n_outputs == 1 else _OF_MORE
        # In the units of the steps of further trees.
        error = share @ (rows.targets - probability) ** 2 / greatest**2
        units = {"train_error": error[None], "deviation": tree.deviation / greatest}
        new.append(replace(tree, loss=SQUARED_ERROR, **units))
    return new
