"""Cuts between the bins of attributes in many nodes, and what they gain.

One sparse product sums the first moments of every bin of every node; the closed formula
of `secret_jax.splits.screening` scores all cuts between them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import csc_array

from secret_jax.runtime.linalg import guarded_solve, safe_divide
from secret_jax.runtime.scratch import Scratch
from secret_jax.splits.screening import gain_of_sides, narrowing

# Float32 rounding of sums of about a thousand products.
_ROUNDING = 1e-6
# Least share of the node on each side of a cut of an ordered attribute: the model of a
# few rows at an end explains them by chance, and such ends are many where columns are
# skewed.
_LEAST_SHARE = 1 / 16


class NodeMoments(NamedTuple):
    """Rows of nodes, one node after the other, with what bins are to sum of them."""

    slot: np.ndarray  # (n_rows,), int: node of each row
    first: np.ndarray  # (n_nodes,), int: first row of each node
    # (n_rows, 1 + n_outputs * (1 + n_model)), float32: weighted [1, residual,
    # residual * whitened coordinates], the last two of every output.
    moments: np.ndarray
    # (n_rows, 1 + n_model), float32: one, and the coordinates: not yet whitened, and of
    # mean zero in the node.
    plain: np.ndarray
    # (1 + n_model + n_outputs, n_rows), float32: weighted [1, coordinates, residuals],
    # a column in a row.
    weighted: np.ndarray
    # (n_nodes, 1 + n_model + n_outputs, 1 + n_model), float32: sums of products of
    # these with those.
    whole: np.ndarray
    whitener: np.ndarray  # (n_nodes, n_model, n_model), float32
    least: np.ndarray  # (n_nodes,), float32: least weight on each side of a cut
    scratch: Scratch  # of the search

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.first)

    @property
    def n_model(self) -> int:
        """Number of coordinates that models see."""
        return self.plain.shape[1] - 1

    @property
    def weight(self) -> np.ndarray:
        """Weights of the rows, (n_rows,)."""
        return self.weighted[0]

    @property
    def basis(self) -> np.ndarray:
        """Weighted coordinates, (n_rows, n_model)."""
        return np.ascontiguousarray(self.weighted[1 : self.plain.shape[1]].T)

    @property
    def residual(self) -> np.ndarray:
        """Weighted residuals, (n_outputs, n_rows)."""
        return self.weighted[self.plain.shape[1] :]

    def take(self, node: np.ndarray, kept: np.ndarray) -> NodeMoments:
        """Select nodes, given the mask of their rows."""
        length = np.diff(self.first, append=len(self.slot))[node]
        return NodeMoments(
            slot=np.repeat(np.arange(len(node)), length),
            first=np.cumsum(length) - length,
            moments=self.moments[kept],
            plain=self.plain[kept],
            weighted=self.weighted[:, kept],
            whole=self.whole[node],
            whitener=self.whitener[node],
            least=self.least[node],
            scratch=self.scratch,
        )

    def sums(
        self,
        code: Int[np.ndarray, "n_rows n_attributes"],
        n_codes: int,
        values: Float[np.ndarray, "n_rows n_values"],
        *,
        cumulative: bool = False,
    ) -> Float[np.ndarray, "n_nodes n_attributes n_values n_codes"]:
        """Sum values of the rows of each node with each code of each attribute.

        ``cumulative``: those of lower codes as well.
        """
        n_rows, n_attributes = code.shape
        cells = self.n_nodes * n_attributes
        shape = n_codes, self.n_nodes, n_attributes, values.shape[1]
        if not n_attributes:
            return np.moveaxis(np.zeros(shape, np.float32), 0, -1)
        position = code * np.int32(cells)
        position += n_attributes * self.slot[:, None]
        position += np.arange(n_attributes, dtype=np.int32)
        ones = np.ones(position.size, np.float32)
        starts = np.arange(0, position.size + 1, n_attributes, dtype=np.int32)
        shape_of_member = n_codes * cells, n_rows
        member = csc_array((ones, position.ravel(), starts), shape=shape_of_member)
        found = (member @ values).reshape(shape)
        if cumulative:  # codes come first: long runs are added to each other
            np.cumsum(found, axis=0, out=found)
        return np.ascontiguousarray(np.moveaxis(found, 0, -1))


class Cuts(NamedTuple):
    """Cuts of attributes, by what is left of them; the nodes' axis comes first."""

    # (n_nodes, n_attributes, n_cuts), float32: minus infinity where a side has too
    # little weight.
    gain: np.ndarray
    weight: np.ndarray  # (n_nodes, n_attributes, n_cuts), float32: left of each cut

    @classmethod
    def of(
        cls,
        nodes: NodeMoments,
        left: Float[np.ndarray, "n_nodes n_attributes n_sums n_cuts"],
        whole: Float[np.ndarray, "n_nodes n_attributes n_sums"],
        own: Float[np.ndarray, "2 n_nodes n_attributes n_cuts"],
        own_whole: Float[np.ndarray, "2 n_nodes n_attributes"],
        slope: Float[np.ndarray, "n_nodes n_attributes n_model"],
        *,
        free: Bool[np.ndarray, "n_nodes n_attributes"] | bool = False,
    ) -> Cuts:
        """Score cuts.

        Parameters
        ----------
        left, whole : ndarray
            Sums of the moments left of each cut, and over the node.
        own, own_whole : ndarray
            Sums of the projection that is cut, and of its square.
        slope : ndarray
            Of the whitened coordinates on the standardised projection.
        free : bool, or ndarray of shape (n_nodes, n_attributes), bool
            Whether attributes have few values: their rare ones may be cut off.
        """
        total, n = whole[..., 0], nodes.n_model
        mean, square = (each / total for each in own_whole)
        variance = np.maximum(square - mean**2, np.float32(0))
        scale = safe_divide(np.float32(1), np.sqrt(variance))
        weight = _both_sides(left[:, :, 0], total)
        share = 1 / np.maximum(weight, _ROUNDING)
        mean, scale = mean[..., None], scale[..., None]
        center = _both_sides(own[0], own_whole[0]) * share
        spread = _both_sides(own[1], own_whole[1]) * share
        spread = (spread - center**2) * scale**2
        center = (center - mean) * scale
        strength = np.sum(slope**2, axis=2)[..., None]
        narrow = narrowing(spread, strength)
        gain = np.float32(0)
        for first in range(1, left.shape[2], 1 + n):
            # What is right of a cut is the whole less what is left of it: its moments
            # are not needed, only their products with few vectors.
            moment = left[:, :, first + 1 : first + 1 + n]
            of_whole = whole[:, :, first + 1 : first + 1 + n]
            vectors = np.stack([slope, of_whole], axis=2)
            squares = np.empty_like(weight)
            np.einsum("namc,namc->nac", moment, moment, out=squares[0])
            along, with_whole = np.moveaxis(vectors @ moment, 2, 0)
            np.multiply(with_whole, -2, out=squares[1])
            squares[1] += squares[0] + np.sum(of_whole**2, axis=2)[..., None]
            along = _both_sides(along, np.sum(slope * of_whole, axis=2))
            level = _both_sides(left[:, :, first], whole[:, :, first])
            gain = gain + gain_of_sides(
                level * share,
                squares * share**2,
                along * share,
                center,
                strength,
                *narrow,
            )
        gain = (gain * weight).sum(axis=0)
        least = weight.min(axis=0)
        rare = np.where(free, np.float32(0), np.float32(_LEAST_SHARE))
        wanted = np.maximum(rare * total, nodes.least[:, None])
        allowed = (least >= wanted[..., None]) & (least > 0)
        gain = np.where(allowed & np.isfinite(gain), gain, np.float32(-np.inf))
        return cls(gain, weight[0])

    @classmethod
    def between(
        cls,
        nodes: NodeMoments,
        sums: Float[np.ndarray, "n_nodes n_attributes n_sums n_groups"],
        own: Float[np.ndarray, "2 n_nodes n_attributes n_groups"],
        along: Float[np.ndarray, "n_nodes n_attributes n_model"],
    ) -> Cuts:
        """Score the cuts between ordered groups of rows, rare ones too.

        ``sums``, ``own``: moments of each group; sums of the projection and of its
        square; ``along``: weighted sums of projections times coordinates before
        whitening.
        """
        left, own = np.cumsum(sums, axis=3), np.cumsum(own, axis=3)
        whole, own_whole = left[..., -1], own[..., -1]
        slope = slopes(nodes, along, own_whole, whole)
        before = left[..., :-1], whole, own[..., :-1], own_whole
        return cls.of(nodes, *before, slope, free=True)

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Best gain of each attribute in each node, and its cut."""
        cut = self.gain.argmax(axis=2)
        gain = np.take_along_axis(self.gain, cut[..., None], axis=2)[..., 0]
        return gain, cut

    def last_equal(
        self, node: np.ndarray, attribute: np.ndarray, cut: np.ndarray
    ) -> np.ndarray:
        """Last cuts with the same rows left of them as given ones."""
        weight = self.weight[node, attribute]
        equal = weight == weight[np.arange(len(node)), cut][:, None]
        last = weight.shape[1] - 1 - equal[:, ::-1].argmax(axis=1)
        return np.maximum(last, cut)


def _both_sides(
    left: Float[np.ndarray, "n_nodes n_attributes n_cuts"],
    whole: Float[np.ndarray, "n_nodes n_attributes"],
) -> Float[np.ndarray, "2 n_nodes n_attributes n_cuts"]:
    """Sums left of cuts, and right of them."""
    found = np.empty((2, *left.shape), np.float32)
    found[0] = left
    np.subtract(whole[..., None], left, out=found[1])
    return found


def slopes(
    nodes: NodeMoments,
    products: Float[np.ndarray, "n_nodes n_attributes n_model"],
    own: Float[np.ndarray, "2 n_nodes n_attributes"],
    whole: Float[np.ndarray, "n_nodes n_attributes n_sums"],
) -> Float[np.ndarray, "n_nodes n_attributes n_model"]:
    """Slopes of whitened coordinates on standardised projections.

    ``products``: weighted sums of projections times coordinates before whitening;
    ``own``: weighted sums of projections and of their squares.
    """
    total = whole[..., 0]
    deviation = np.sqrt(np.maximum(own[1] / total - (own[0] / total) ** 2, 0.0))
    slope = safe_divide(products, (total * deviation)[..., None])
    return slope @ np.swapaxes(nodes.whitener, 1, 2)


def exact_sides(
    nodes: NodeMoments,
    left: Float[np.ndarray, "n_splits n_rows"],
    ridge: Float[np.ndarray, " n_nodes"],
) -> tuple[
    Float[np.ndarray, "n_nodes n_splits"],
    Float[np.ndarray, "n_nodes n_splits 2 1+n_model n_outputs"],
]:
    """Drops of the penalised residual sums of squares by models of both sides.

    ``left`` (n_splits, n_rows), float32: 1 on the left, 0 on the right, in splits of
    the rows' nodes; ``ridge`` (n_nodes,): penalty in units of the coordinates'
    variances in the node. Returns ``gain`` (n_nodes, n_splits), float32; ``models``
    (n_nodes, n_splits, 2, 1 + n_model, n_outputs), float32: intercepts and slopes of
    the left and the right side.
    """
    width, whole = 1 + nodes.n_model, nodes.whole[:, None]
    shape = len(left), *nodes.weighted.shape
    masked = nodes.scratch.array("masked", shape, np.float32)
    np.multiply(nodes.weighted, left[:, None], out=masked)
    one = products(nodes.first, masked, nodes.plain)
    sides = np.moveaxis(np.stack([one, whole - one], axis=2), 3, 4)
    matrix, moment = sides[..., :width], sides[..., width:]
    weight, inner = sides[..., 0, 0], np.arange(1, width)
    variance = nodes.whole[:, inner, inner] / nodes.whole[:, 0, :1]
    share = 1.0 / np.maximum(weight, _ROUNDING)[..., None, None]
    matrix = matrix * share
    matrix[..., inner, inner] += (ridge[:, None] * variance)[:, None, None]
    found = guarded_solve(matrix, moment * share, _ROUNDING)
    return np.sum(found * moment, axis=(2, 3, 4)), found


def products(
    first: Int[np.ndarray, " n_nodes"],
    values: Float[np.ndarray, "*shape n_rows"],
    x: Float[np.ndarray, "n_rows n"],
) -> Float[np.ndarray, "n_nodes *shape n"]:
    """Sum the products of values with columns over the rows of each node."""
    found = np.empty((len(first), *values.shape[:-1], x.shape[1]), np.float32)
    flat = values.reshape(-1, len(x))
    of_nodes = found.reshape(len(first), len(flat), -1)
    last = np.append(first[1:], len(x)).tolist()
    for node, (start, stop) in enumerate(zip(first.tolist(), last, strict=True)):
        # Not by `numpy.matmul`, which lets no other thread run for so few results.
        np.dot(flat[:, start:stop], x[start:stop], out=of_nodes[node])
    return found


def combined(
    first: Int[np.ndarray, " n_nodes"],
    x: Float[np.ndarray, "n_rows n"],
    matrices: Float[np.ndarray, "n_nodes n k"],
) -> Float[np.ndarray, "n_rows k"]:
    """Multiply the rows of each node by its own matrix."""
    found = np.empty((len(x), matrices.shape[2]), np.float32)
    last = np.append(first[1:], len(x)).tolist()
    for node, (start, stop) in enumerate(zip(first.tolist(), last, strict=True)):
        np.dot(x[start:stop], matrices[node], out=found[start:stop])
    return found
