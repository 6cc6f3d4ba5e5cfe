"""Oblique cuts of many nodes: few directions, scored as cuts of attributes are.

Principal Hessian directions (Li 1992) and the best cut of an attribute begin; hinge
steps by LDA (Breiman 1993) go on from the best of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import norm

from secret_jax.grow.cuts import Cuts, NodeMoments, combined, exact_sides, products
from secret_jax.runtime.eigenvectors import leading_eigenvectors
from secret_jax.runtime.linalg import (
    guarded_solve,
    inverse_cholesky,
    safe_divide,
    unit_vectors,
)
from secret_jax.splits.directions import sparse
from secret_jax.splits.rss import RssSplits

# Quantiles of a normal distribution between which directions are cut, and the mean and
# mean square in between: a projection is a sum of attributes.
_N_CUTS = 16
_QUANTILES = norm.ppf(np.arange(1, _N_CUTS) / _N_CUTS).astype(np.float32)
_DENSITIES = np.concatenate([[0.0], norm.pdf(_QUANTILES), [0.0]])
_MEANS = (_N_CUTS * -np.diff(_DENSITIES)).astype(np.float32)
_PRODUCTS = np.concatenate([[0.0], _QUANTILES * norm.pdf(_QUANTILES), [0.0]])
_SQUARES = (1.0 - _N_CUTS * np.diff(_PRODUCTS)).astype(np.float32)
# Residuals beyond so many deviations do not bend more: a bound against heavy tails.
_MOST_BENDING = 3.0
# A hinge step counts a row at most so many times as much as the mean row.
_MOST_WEIGHT = 4.0
# A hinge step that gains a smaller share is rounding.
_LEAST_RISE = 1e-4
_ROUNDING = 1e-6
# Arrays of nodes in `ObliqueCuts`: those that steps read only, and what they change.
_FIXED = ("covariance", "cross", "allowed")
_FOUND = ("gain", "direction", "threshold", "models")


@dataclass(eq=False, kw_only=True)
class ObliqueCuts:
    """Best cuts of nodes so far, and how they become better."""

    nodes: NodeMoments
    options: RssSplits
    z: np.ndarray  # (n_rows, n_columns), float32: columns, standardised in their nodes
    covariance: np.ndarray
    cross: np.ndarray
    allowed: np.ndarray
    gain: np.ndarray  # (n_nodes,), float32
    # (n_nodes, n_columns), float32: in these columns; zero where the first cut is still
    # the best.
    direction: np.ndarray
    threshold: np.ndarray  # (n_nodes,), float32
    models: np.ndarray  # (n_nodes, 2, 1 + n_model, n_outputs), float32: of both sides

    @classmethod
    def of(
        cls,
        nodes: NodeMoments,
        options: RssSplits,
        z: Float[np.ndarray, "n_rows n_columns"],
        allowed: Bool[np.ndarray, "n_nodes n_columns"],
        gain: Float[np.ndarray, " n_nodes"],
        models: Float[np.ndarray, "n_nodes 2 1+n_model n_outputs"],
    ) -> ObliqueCuts:
        """Improve on given splits, by their gains and the models of their sides.

        ``allowed``: which columns directions may combine.
        """
        n_columns, weight = z.shape[1], nodes.weight
        total = np.add.reduceat(weight, nodes.first)
        bounded = np.clip(nodes.residual / weight, -_MOST_BENDING, _MOST_BENDING)
        mean = np.add.reduceat(bounded * weight, nodes.first, axis=1) / total
        bounded -= mean.take(nodes.slot, axis=1)
        by = np.concatenate([weight[None], weight * bounded])[:, None]
        columns = np.ascontiguousarray(z.T)
        shape = len(by), *columns.shape
        weighted = nodes.scratch.array("columns", shape, np.float32)
        np.multiply(by, columns, out=weighted)
        sums = products(nodes.first, weighted, z) / total[:, None, None, None]
        cross = products(nodes.first, columns, nodes.basis)
        found = cls(
            nodes=nodes,
            options=options,
            z=z,
            covariance=sums[:, 0],
            cross=cross,
            allowed=allowed.astype(np.float32),
            gain=gain.copy(),
            direction=np.zeros((nodes.n_nodes, n_columns), np.float32),
            threshold=np.zeros(nodes.n_nodes, np.float32),
            models=models.copy(),
        )
        if options.n_hessian:
            found._improve(found._hessian(sums[:, 1:]))
        if options.hinge_steps:
            found._climb(options.hinge_steps)
        return found

    def _climb(self, n_steps: int) -> None:
        """Hinge steps, each in the nodes that the one before it made better."""
        better = np.flatnonzero(self._improve(self._hinge()))
        if n_steps == 1 or not len(better):
            return
        kept = np.isin(self.nodes.slot, better)
        part = replace(
            self,
            nodes=self.nodes.take(better, kept),
            z=self.z[kept],
            **{name: getattr(self, name)[better] for name in (*_FIXED, *_FOUND)},
        )
        part._climb(n_steps - 1)
        for name in _FOUND:
            getattr(self, name)[better] = getattr(part, name)

    def _hessian(self, hessian: np.ndarray) -> np.ndarray:
        """Principal Hessian directions, (n_nodes, n, n_columns)."""
        n_columns = self.z.shape[1]
        ridged = self.covariance + self.options.ridge * np.eye(
            n_columns, dtype=np.float32
        )
        whitener, _ = inverse_cholesky(ridged, 0.0)
        hessian = whitener[:, None] @ hessian @ np.swapaxes(whitener, 1, 2)[:, None]
        if hessian.shape[1] == 1:
            bent = hessian[:, 0]
        else:
            bent = np.sum(hessian @ hessian, axis=1)
        n = min(self.options.n_hessian, n_columns)
        return leading_eigenvectors(bent, n) @ whitener

    def _hinge(self) -> np.ndarray:
        """LDA between the rows that one side or the other predicts better."""
        nodes, z = self.nodes, self.z
        n_outputs = self.models.shape[3]
        model = np.moveaxis(self.models, 1, 2).reshape(nodes.n_nodes, -1, 2 * n_outputs)
        said = combined(nodes.first, nodes.plain, model).T
        residual = nodes.residual / nodes.weight
        error = [((residual - part) ** 2).sum(axis=0) for part in np.split(said, 2)]
        advantage, weight = error[1] - error[0], nodes.weight
        size = weight * np.abs(advantage)
        total = np.add.reduceat(weight, nodes.first)
        cap = _MOST_WEIGHT * np.add.reduceat(size, nodes.first) / total
        bounded = np.minimum(size, weight * cap.take(nodes.slot))
        of_class = np.stack([bounded * (advantage > 0), bounded * (advantage <= 0)])
        z1 = np.concatenate([np.ones((len(z), 1), np.float32), z], axis=1)
        weighted = nodes.scratch.array("columns", (2, *z1.T.shape), np.float32)
        np.multiply(of_class[:, None], np.ascontiguousarray(z1.T), out=weighted)
        sums = products(nodes.first, weighted, z1)
        mass = sums[:, :, 0, 0]
        center = safe_divide(sums[:, :, 0, 1:], mass[..., None])
        between = mass[..., None, None] * center[..., :, None] * center[..., None, :]
        within = (sums[:, :, 1:, 1:] - between).sum(axis=1)
        within = safe_divide(within, mass.sum(axis=1)[:, None, None])
        ridge = self.options.ridge + _ROUNDING
        within += ridge * np.eye(z.shape[1], dtype=np.float32)
        found = guarded_solve(within, center[:, 0] - center[:, 1], 0.0)
        return unit_vectors(found)[:, None]

    def _improve(self, direction: np.ndarray) -> np.ndarray:
        """Take the best of some directions of each node where it gains more."""
        nodes, options = self.nodes, self.options
        direction = unit_vectors(direction * self.allowed[:, None])
        if options.max_split_features:
            kept = options.max_split_features
            direction = sparse(direction, self.covariance, kept, options.ridge)
        turned = np.ascontiguousarray(np.swapaxes(direction, 1, 2))
        projection = combined(nodes.first, self.z, turned)
        variance = np.sum((direction @ self.covariance) * direction, axis=2)
        deviation = np.sqrt(np.maximum(variance, 0.0))
        scaled = safe_divide(projection, deviation.take(nodes.slot, axis=0))
        code = np.zeros(scaled.shape, np.uint8)
        for quantile in _QUANTILES:  # a sixth of the time of a search in them
            code += scaled > quantile
        sums = nodes.sums(code, _N_CUTS, nodes.moments)
        own = np.stack([_MEANS, _SQUARES])[:, None, None] * sums[:, :, 0]
        along = safe_divide(direction @ self.cross, deviation[..., None])
        cuts = Cuts.between(nodes, sums, own, along)
        screened, cut = cuts.best()
        ridge = np.full(nodes.n_nodes, options.ridge, np.float32)
        one_side = np.ascontiguousarray(
            (code <= cut.take(nodes.slot, axis=0)).T, np.float32
        )
        gain, models = exact_sides(nodes, one_side, ridge)
        gain = np.where(np.isfinite(screened), gain, -np.inf)
        best, node = gain.argmax(axis=1), np.arange(len(gain))
        gain = gain[node, best]
        better = gain > self.gain * (1 + _LEAST_RISE)
        chosen, which = node[better], best[better]
        self.gain[chosen] = gain[better]
        self.direction[chosen] = direction[chosen, which]
        at = _QUANTILES[cut[chosen, which]]
        self.threshold[chosen] = at * deviation[chosen, which]
        self.models[chosen] = models[chosen, which]
        return better
