"""Copies of rows: map given rows to distinct ones, and find rows out of bag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from secret_jax.data.rows import Rows


@dataclass(frozen=True, eq=False, kw_only=True)
class Copies:
    """Map from given rows to the distinct rows that train.

    A draw of a row takes one of its copies, in proportion to their weights: bags are
    drawn as if from the given rows, where one of integer weight counts as several.

    Attributes
    ----------
    place : ndarray of shape (n_given,), int64
        Which distinct row each is.
    number : ndarray of shape (n_given,), int64
        Number of rows that each stands for.
    order : ndarray of shape (n_given,), int64
        Copies of a row one after the other.
    end : ndarray of shape (n_given,), float64
        Sums of the weights in that order.
    first, last : ndarray of shape (n_rows,), int64
        Where in that order the copies of each distinct row are.
    """

    place: np.ndarray
    number: np.ndarray
    order: np.ndarray
    end: np.ndarray
    first: np.ndarray
    last: np.ndarray

    @classmethod
    def of(cls, rows: Rows, given: Rows, number: np.ndarray) -> Self:
        """Match given rows with the distinct rows, which are all among them.

        Parameters
        ----------
        rows : Rows
            Given rows, merged by `secret_jax.data.rows.merged`.
        number : ndarray of shape (n_given,), int64
            Number of rows that each given one stands for.
        """
        known = {key: place for place, key in enumerate(_keys(rows))}
        place = np.array([known[key] for key in _keys(given)])
        # By weight, so that the order in which rows are given does not matter.
        order = np.lexsort((given.weight, place))
        places = np.arange(rows.n_rows)
        return cls(
            place=place,
            number=number,
            order=order,
            end=np.cumsum(given.weight[order]),
            first=np.searchsorted(place[order], places),
            last=np.searchsorted(place[order], places, side="right") - 1,
        )

    def out_of(self, count: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Number of copies that each given row stands for and that a bag lacks.

        Parameters
        ----------
        count : ndarray of shape (n_rows,), int
            How often each distinct row is in the bag.
        random : Generator
            Generator that draws the copies of a row.

        Returns
        -------
        ndarray of shape (n_given,), int64
        """
        drawn = np.repeat(np.arange(len(count)), count)
        first, last = self.first[drawn], self.last[drawn]
        begin = np.where(first > 0, self.end[first - 1], 0.0)
        at = begin + random.random(len(drawn)) * (self.end[last] - begin)
        taken = np.searchsorted(self.end, at, side="right")
        taken = np.clip(taken, first, last)  # sums are rounded
        number = self.number[self.order]
        # The position of a draw within its row determines the copy.
        begin = np.where(taken > 0, self.end[taken - 1], 0.0)
        share = np.clip((at - begin) / (self.end[taken] - begin), 0.0, 1.0)
        nth = np.minimum((share * number[taken]).astype(np.int64), number[taken] - 1)
        different = np.unique((np.cumsum(number) - number)[taken] + nth)
        of = np.searchsorted(np.cumsum(number), different, side="right")
        out = self.number.copy()
        out[self.order] -= np.bincount(of, minlength=len(number))
        return out


def _keys(rows: Rows) -> list[bytes]:
    """Content of every row, compared as in `secret_jax.data.rows.merged`."""
    targets = rows.targets.astype(np.float32)
    columns = [rows.table.x, rows.table.codes, targets]
    whole = np.hstack([np.asarray(column, np.float64) for column in columns])
    whole = np.ascontiguousarray(whole + 0.0)  # one zero, not two
    return [row.tobytes() for row in whole]
