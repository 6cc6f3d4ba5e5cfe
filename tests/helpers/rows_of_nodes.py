"""Rows of a level: the verbs as loops over nodes in float64, and rows in tiles."""

from __future__ import annotations

import numpy as np


class Loops:
    """Rows of nodes, one node after the other; see `secret_jax.data.ragged`."""

    def __init__(self, length):
        self.length = np.asarray(length)
        stop = np.cumsum(self.length)
        self.first = stop - self.length
        self.slices = list(map(slice, self.first, stop))

    def _of_nodes(self, function):
        return np.stack([function(node, rows) for node, rows in enumerate(self.slices)])

    def _of_rows(self, function):
        parts = [function(node, rows) for node, rows in enumerate(self.slices)]
        return np.concatenate(parts, axis=-1)

    def spread(self, values):
        """What each row's node has."""
        return self._of_rows(
            lambda node, rows: np.stack(
                [values[node]] * self.length[node], axis=np.ndim(values[node])
            )
        )

    def sums(self, values):
        """Sums over rows."""
        return self._of_nodes(lambda _, rows: np.float64(values)[..., rows].sum(-1))

    def least(self, values):
        """Smallest values."""
        return self._of_nodes(lambda _, rows: values[..., rows].min(-1))

    def products(self, left, right):
        """Sums of products."""
        left, right = np.float64(left), np.float64(right)
        return self._of_nodes(
            lambda _, r: np.einsum("...mr,...nr->...mn", left[..., r], right[..., r])
        )

    def transformed(self, matrices, values):
        """Rows by the matrices of their nodes."""
        return self._of_rows(
            lambda node, rows: np.float64(matrices[node]) @ np.float64(values[:, rows])
        )

    def sums_by_code(self, code, n_codes, values):
        """Sums of the rows of each code."""

        def of_node(_, rows):
            found = np.zeros((len(code), len(values), n_codes))
            for attribute, own in enumerate(code[:, rows]):
                for each, value in zip(own, np.float64(values[:, rows]).T, strict=True):
                    found[attribute, :, each] += value
            return found

        return self._of_nodes(of_node)

    def sums_below(self, values, cuts, of):
        """Sums of the rows up to each cut."""

        def of_node(node, rows):
            below = values[:, rows][:, None] <= cuts[node][:, :, None]  # (d, c, rows)
            return np.einsum("dcr,mr->dmc", np.float64(below), np.float64(of[:, rows]))

        return self._of_nodes(of_node)

    def head(self, values, n):
        """First rows, and zeros."""

        def of_node(_, rows):
            own = values[..., rows][..., :n]
            more = [(0, 0)] * (own.ndim - 1) + [(0, n - own.shape[-1])]
            return np.pad(own, more)

        return self._of_nodes(of_node)


def in_tiles(
    values: np.ndarray, length: np.ndarray, n_tiles: int, tile: int
) -> np.ndarray:
    """Put rows, one node after the other, where `secret_jax.data.tiles` does."""
    n_own = -(-length // tile)
    start = tile * (np.cumsum(n_own) - n_own) - (np.cumsum(length) - length)
    place = np.arange(length.sum()) + np.repeat(start, length)
    found = np.zeros((*values.shape[:-1], n_tiles * tile), values.dtype)
    found[..., place] = values
    found = found.reshape(*values.shape[:-1], n_tiles, tile)
    return np.ascontiguousarray(np.moveaxis(found, -2, 0))
