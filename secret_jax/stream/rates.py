"""Throughput of rows, for progress displays."""

from __future__ import annotations

from time import monotonic

from secret_jax.runtime.progress import Progress, Stage


class Rate:
    """Progress of a pass, in rows per second.

    Parameters
    ----------
    name : str
        What is being done.
    progress : callable
    n_rows : int or None
        Total number of rows; None if unknown.
    start : int
        Rows that were done before.
    """

    def __init__(
        self, name: str, progress: Progress, n_rows: int | None, start: int = 0
    ):
        self._stage, self._n_rows, self._start = Stage(name, progress), n_rows, start
        self._began = monotonic()
        self._stage.at(start, n_rows)

    def at(self, row: int) -> None:
        """Report that all rows before ``row`` are done."""
        seconds = max(monotonic() - self._began, 1e-9)
        rate = (row - self._start) / seconds
        detail = f"{row:,} rows, {rate / 1e6:.2f} million a second"
        self._stage.at(row, self._n_rows, detail)
