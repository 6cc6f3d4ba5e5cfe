"""Leaf models for losses other than squared error: generalised linear models.

Newton steps lead several nodes at once to the least loss, with a penalty on the
correction of the parent's model (`secret_jax.models.ridge`). Every step fits parabolas
in place of the loss, row by row, from the same statistics as least squares (McCullagh &
Nelder 1989, section 2.5), and is shortened until the penalised loss of the node falls.
A loss with corners is rounded first, then rounded less in each stage.
"""

from abc import abstractmethod
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from secret_jax.losses.classes import Brier, CrossEntropy
from secret_jax.losses.interface import Likelihood, Loss, Pair, QuasiLikelihood
from secret_jax.models.interface import LeafModel, Levels, Models, RowGroups
from secret_jax.models.linear import CONSTANT_VARIANCE, Constant, LeastSquares
from secret_jax.models.ridge import Ridge, shrunken
from secret_jax.models.statistics import NodeStatistics, slice_statistics
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.runtime.values import at_least, real
from secret_jax.tree.structure import Tree

# A loss that falls by a smaller share of itself has settled, or nearly, where its
# penalty or its corner is still to change.
_SETTLED, _NEARLY = 1e-6, 1e-4
# Maximum number of halvings of a step before it is given up.
_HALVINGS = 12
# Shares of the relevant rows over which corners are rounded, stage by stage.
_ROUNDINGS = (1.0, 0.3, 0.1)
# Losses whose curvature is information, up to a factor.
_INFORMATIVE = Likelihood, QuasiLikelihood
# Cumulative models keep this share of the distance of those with common slopes.
_LEAST_APART = 0.25
# A ridge becomes weaker with the likelihood's curvature, down to this share.
_WEAKEST = 0.1


@dataclass(frozen=True, kw_only=True)
class GLMLeaf(LeafModel):
    """Base of the leaf models that are fitted to a loss; a subclass names the loss.

    Attributes
    ----------
    prior : float, default=1.0
        Number of rows, in the middle of a node's, that the parent's mean prediction
        counts as: no class frequency is 0.
    gcv_factor : float, default=1.2
        Weight of a degree of freedom in choosing the ridge, see `secret_jax.Ridge`.
    n_steps : int, default=20
        Maximum number of steps of weighted least squares.
    """

    prior: Annotated[float, real(0.0)] = 1.0
    gcv_factor: Annotated[float, real(0.0)] = 1.2
    n_steps: Annotated[int, at_least(1)] = 20

    @property
    @abstractmethod
    def loss(self) -> Loss:
        """Loss that the models minimise."""

    def fit(self, statistics: NodeStatistics, parent: np.ndarray) -> Models:
        """Raise a TypeError: statistics do not determine a loss; see `fit_tree`."""
        raise TypeError(f"{type(self).__name__} is fitted to rows, not to statistics.")

    def fit_tree(
        self,
        tree: Tree,
        statistics: NodeStatistics,
        levels: Levels,
        stage: Stage = UNTOLD,
    ) -> Models:
        """See `LeafModel`: fitted to the rows."""
        shape = (tree.n_nodes, statistics.n_outputs, 1 + statistics.n_regressors)
        coefficient, degrees = np.zeros(shape), np.zeros(tree.n_nodes)
        done = 0
        for group in levels():
            parent = tree.parent[group.node]
            base = coefficient[parent]
            base[parent < 0] = 0.0
            base[parent < 0, :, 0] = self._constants(group)[parent < 0]
            if self.prior > 0:  # rows that the parents' mean predictions count as
                mean = self.loss.prediction(group.values(base))
                group = group.with_centers(mean, self.prior)
            if group.x.shape[1]:
                options = self.gcv_factor, self.n_steps
                if self.loss.is_cumulative:
                    base = with_common_slopes(self.loss, group, base, *options)
                models = penalised_models(self.loss, group, base, *options)
                coefficient[group.node], degrees[group.node], _ = models
                if self.loss.is_cumulative:
                    own = coefficient[group.node]
                    coefficient[group.node] = uncrossed(group, base, own)
            else:
                coefficient[group.node, :, 0] = self._constants(group)
                degrees[group.node] = 1.0
            done += len(group.node)
            stage.at(done, tree.n_nodes)
        return Models(coefficient, degrees)

    def _constants(self, group: RowGroups) -> np.ndarray:
        """Best constants of the nodes, shape (n_nodes, n_outputs)."""
        targets, weight, constant = group.targets, group.weight, self.loss.constant
        return np.array([constant(targets[rows], weight[rows]) for rows in group.rows])


@dataclass(frozen=True, kw_only=True)
class Logistic(GLMLeaf):
    """Logistic regression shrunk toward the parent's model, by a GCV penalty.

    Iterated weighted least squares (McCullagh & Nelder. Generalized Linear Models.
    Chapman & Hall, 1989) with the ridge of least generalised cross-validation error, as
    `secret_jax.Ridge` has it, in units of the curvature of the likelihood.

    Attributes
    ----------
    clip_margin : float or None, default=0.1
        Log-odds are clipped to the range of those of the training rows in their leaf,
        widened on both sides by this share of it. None: no clipping.
    clip_min_samples : int, default=50
        A leaf of less weight takes that range from the nearest ancestor with more.
    prior, gcv_factor, n_steps
        See `secret_jax.models.glm.GLMLeaf`.

    Examples
    --------
    >>> from secret_jax import Logistic, SecretClassifier
    >>> SecretClassifier(leaf=Logistic(prior=2.0)).leaf.prior
    2.0
    """

    @property
    def loss(self) -> Loss:
        return CrossEntropy()


@dataclass(frozen=True, kw_only=True)
class ClassFrequencies(GLMLeaf):
    """Class frequencies; every continuous attribute is split-only.

    Those of the parent count as ``prior`` further rows; with 0 they are the plain
    frequencies in the node.

    Attributes
    ----------
    impurity : {"entropy", "gini"}, default="entropy"
        Criterion of pruning: the entropy or the Gini impurity of the frequencies in a
        leaf; on other rows the cross-entropy or the Brier score.
    clip_margin, clip_min_samples, prior, gcv_factor, n_steps
        As in `Logistic`; the last two have no effect.
    """

    impurity: Literal["entropy", "gini"] = "entropy"

    uses_regressors: ClassVar[bool] = False

    @property
    def loss(self) -> Loss:
        return CrossEntropy() if self.impurity == "entropy" else Brier()


@dataclass(frozen=True, kw_only=True)
class LinearOfLoss(GLMLeaf):
    """Linear model of the raw prediction of a loss ``of`` numbers."""

    of: Loss
    prior: float = 0.0

    @property
    def loss(self) -> Loss:
        return self.of


@dataclass(frozen=True, kw_only=True)
class ConstantOfLoss(LinearOfLoss):
    """Constant of least loss."""

    uses_regressors: ClassVar[bool] = False


def leaf_for_loss(leaf: LeafModel, loss: Loss) -> LeafModel | None:
    """Counterpart of a squared-error leaf model for a loss; None if there is none."""
    if leaf.loss == loss:
        return leaf
    names = [field.name for field in fields(LeafModel)]
    options: dict[str, Any] = {name: getattr(leaf, name) for name in names}
    if type(leaf) is Constant:
        return ConstantOfLoss(of=loss, **options)
    if type(leaf) is LeastSquares:
        return LinearOfLoss(of=loss, gcv_factor=0.0, **options)
    if type(leaf) is Ridge:  # what a subclass makes of it is not known
        return LinearOfLoss(of=loss, gcv_factor=leaf.gcv_factor, **options)
    return None


def penalised_models(
    loss: Loss,
    group: RowGroups,
    base: Float[np.ndarray, "n_nodes n_outputs _"],
    gcv_factor: float,
    n_steps: int,
) -> Models:
    """Fit models of least loss, shrunk toward given ones by a GCV penalty."""
    value = group.values(base)
    smooth = smoothed(loss, group, value, _ROUNDINGS[0])
    strength, degrees = _strengths(smooth, group, base, value, gcv_factor)
    spread = _spreads(smooth, group, value)
    search = _Search(group, base, strength[:, :, None] * spread)
    at_once = smooth is loss and not isinstance(loss, _INFORMATIVE)
    model = search.settled(smooth, base, n_steps, _SETTLED if at_once else _NEARLY)
    if smooth is not loss:
        for share, settled in zip(_ROUNDINGS[1:], (_NEARLY, _SETTLED), strict=True):
            smooth = smoothed(loss, group, group.values(model), share)
            model = search.settled(smooth, model, n_steps, settled)
    elif isinstance(loss, _INFORMATIVE):
        # Strengths are in units of the curvature, which a good fit has less of.
        left = _spreads(loss, group, group.values(model))
        spread = np.clip(left, _WEAKEST * spread, spread)
        search = _Search(group, base, strength[:, :, None] * spread)
        model = search.settled(loss, model, n_steps, _SETTLED)
    return Models(model, degrees.mean(axis=1))


def with_common_slopes(
    loss: Loss,
    group: RowGroups,
    base: Float[np.ndarray, "n_nodes n_outputs _"],
    gcv_factor: float,
    n_steps: int,
) -> Float[np.ndarray, "n_nodes n_outputs _"]:
    """Correct the slopes of all outputs alike, and their constants one by one.

    The ridge of least generalised cross-validation error, as of a single output.
    """
    model, value = base.copy(), group.values(base)
    cost = group.sums(loss.losses(group.targets, value).sum(axis=1))
    common, penalty = np.zeros((len(base), base.shape[2])), None
    for _ in range(n_steps):
        told = group.values(common[:, None])[:, 0]
        slope, curvature = loss.working(group.targets, value)
        each = [
            _statistics(group, told, *(part[:, i] for part in (slope, curvature)))
            for i in range(base.shape[1])
        ]
        weight = sum(one.weight for one in each)
        scatter = sum(one.scatter for one in each)
        unit = np.where(weight > 0, weight / group.total, 1.0)
        joint = each[0]._replace(
            weight=weight / unit,
            scatter=scatter / unit[:, None, None],
            mean=np.zeros_like(each[0].mean),
        )
        if penalty is None:
            strength = shrunken(joint, common, gcv_factor)[2]
            spread = np.einsum("nii->ni", joint.scatter)[:, :-1]
            penalty = strength[:, None] * np.where(spread > 0, spread, 1.0)
        aim = _penalised(joint, np.zeros_like(common), penalty)
        new = model.copy()
        new[:, :, 1:] = base[:, :, 1:] + aim[:, None, 1:]
        for i, one in enumerate(each):
            shift = np.einsum("nj,nj->n", aim[:, 1:], one.mean[:, :-1])
            new[:, i, 0] += one.mean[:, -1] - shift
        there = group.values(new)
        after = group.sums(loss.losses(group.targets, there).sum(axis=1))
        better = after < cost * (1.0 - _SETTLED)
        if not better.any():
            break
        model[better], cost = new[better], np.where(better, after, cost)
        common[better, 1:] = aim[better, 1:]
        value = group.values(model)
    return model


def uncrossed(group: RowGroups, common: np.ndarray, model: np.ndarray) -> np.ndarray:
    """Models between two of each node, in which outputs stay in order at its rows."""
    value = group.values(common)
    apart = -np.diff(value, axis=1)
    closer = np.diff(group.values(model) - value, axis=1)
    room = (1.0 - _LEAST_APART) * np.maximum(apart, 0.0)
    share = np.divide(room, closer, out=np.ones_like(room), where=closer > room)
    share = np.minimum.reduceat(share.min(axis=1, initial=1.0), group.start)
    return common + share[:, None, None] * (model - common)


def smoothed(loss: Loss, group: RowGroups, value: np.ndarray, share: float) -> Loss:
    """Smooth a loss at raw predictions of a group's rows; see `Loss.smoothed`."""
    least = max(share * (1.0 + group.x.shape[1]), 2.0)  # rows that a model can fit
    return loss.smoothed(group.targets, value, group.weight, group.rows, share, least)


def _parabolas(loss: Loss, group: RowGroups, value: np.ndarray) -> Pair:
    """Slopes and curvatures; those that are no information are averaged in nodes."""
    slope, curvature = loss.working(group.targets, value)
    if not isinstance(loss, _INFORMATIVE):
        curvature = (group.sums(curvature) / group.total[:, None])[group.slot]
    return slope, curvature


def _strengths(
    loss: Loss, group: RowGroups, base: np.ndarray, value: np.ndarray, gcv_factor: float
) -> Pair:
    """Ridge strengths relative to the spreads, and degrees of freedom, per output."""
    # By parabolas at the given models: those at a good fit would favour weak ridges.
    strength, degrees = np.empty(base.shape[:2]), np.empty(base.shape[:2])
    slope, curvature = _parabolas(loss, group, value)
    for i in range(base.shape[1]):
        statistics = _statistics(group, value[:, i], slope[:, i], curvature[:, i])
        mean = statistics.weight / group.total
        unit = np.where(mean > 0, mean, 1.0)
        statistics = statistics._replace(
            weight=statistics.weight / unit,
            scatter=statistics.scatter / unit[:, None, None],
        )
        _, degrees[:, i], strength[:, i] = shrunken(statistics, base[:, i], gcv_factor)
    return strength, degrees


def _spreads(loss: Loss, group: RowGroups, value: np.ndarray) -> np.ndarray:
    """Sum of squares of regressors, weighted by curvatures of outputs; 1 for none."""
    spreads = []
    for curvature in (group.weight[:, None] * _parabolas(loss, group, value)[1]).T:
        own = group._replace(weight=curvature)
        offset = group.x - (own.sums(group.x) / own.total[:, None])[group.slot]
        spreads.append(own.sums(offset**2))
    spread = np.stack(spreads, axis=1)
    return np.where(spread > 0, spread, 1.0)


class _Search(NamedTuple):
    """Line search along Newton steps, for several nodes."""

    group: RowGroups
    base: np.ndarray
    penalty: np.ndarray  # on each squared change of a slope

    def settled(
        self, loss: Loss, model: np.ndarray, n_steps: int, settled: float
    ) -> np.ndarray:
        """Iterate ``n_steps`` times, or until the penalised losses stop falling."""
        model, search, node = model.copy(), self, np.arange(len(model))
        for _ in range(n_steps):
            before, after = search.step(loss, model, node)
            moving = np.flatnonzero(before - after > settled * np.abs(after))
            if not len(moving):
                break
            if len(moving) < len(node):
                node = node[moving]
                group, row = search.group.take(moving)
                loss = loss.take(row)
                search = _Search(group, self.base[node], self.penalty[node])
        return model

    def step(self, loss: Loss, model: np.ndarray, node: np.ndarray) -> Pair:
        """Make a step in each output of some models, in place; return the costs."""
        group, own = self.group, model[node]
        value = group.values(own)
        before = cost = self.cost(loss, own, value)
        for output in range(own.shape[1]):
            parabolas = loss.working(group.targets, value)
            slope, curvature = (of_rows[:, output] for of_rows in parabolas)
            statistics = _statistics(group, value[:, output], slope, curvature)
            aim = _penalised(statistics, self.base[:, output], self.penalty[:, output])
            change = np.zeros_like(own)
            change[:, output] = aim - own[:, output]
            moved = group.values(change)
            length = np.ones(len(own))
            for halving in range(_HALVINGS + 1):
                there = value + length[group.slot, None] * moved
                new = self.cost(loss, own + length[:, None, None] * change, there)
                worse = ~(new <= cost)
                if not worse.any():
                    break
                # At last a step that still makes it worse is given up.
                length[worse] *= 0.5 if halving < _HALVINGS - 1 else 0.0
            own, value = own + length[:, None, None] * change, there
            cost = np.where(worse, cost, new)
        model[node] = own
        return before, cost

    def cost(self, loss: Loss, model: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Penalised loss of each node."""
        with np.errstate(over="ignore", invalid="ignore"):
            losses = loss.losses(self.group.targets, value).sum(axis=1)
        change = model[:, :, 1:] - self.base[:, :, 1:]
        price = np.where(np.isfinite(self.penalty), self.penalty, 0.0)
        return self.group.sums(losses) + 0.5 * np.sum(price * change**2, axis=(1, 2))


def _statistics(
    group: RowGroups, value: np.ndarray, slope: np.ndarray, curvature: np.ndarray
) -> NodeStatistics:
    """Statistics of regressors and working responses of the parabolas."""
    return slice_statistics(
        group.x,
        None,
        (value + slope / curvature)[:, None],
        group.weight * curvature,
        group.x.shape[1],
        np.arange(len(group.weight)),
        group.start,
        group.stop,
    )


def _penalised(
    statistics: NodeStatistics, base: np.ndarray, penalty: np.ndarray
) -> np.ndarray:
    """Least squares of an output, with penalties on changes of slopes."""
    mean, scatter = statistics.mean, statistics.scatter
    slopes, gram = base[:, 1:], scatter[:, :-1, :-1]
    moment = scatter[:, :-1, -1] - np.einsum("nij,nj->ni", gram, slopes)
    # What does not vary, or must not change, gets a row of the identity.
    varies = np.einsum("nii->ni", gram) > CONSTANT_VARIANCE * statistics.weight[:, None]
    free = varies & np.isfinite(penalty)
    gram = np.where(free[:, :, None] & free[:, None, :], gram, 0.0)
    n = np.arange(gram.shape[1])
    gram[:, n, n] += np.where(free, penalty, 1.0)
    moment = np.where(free, moment, 0.0)
    slopes = slopes + np.linalg.solve(gram, moment[:, :, None])[..., 0]
    constant = mean[:, -1] - np.einsum("ni,ni->n", slopes, mean[:, :-1])
    return np.concatenate([constant[:, None], slopes], axis=1)
