"""Source of all rows with residual targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from secret_jax.additive.stage import AdditiveStage
from secret_jax.data.rows import Rows
from secret_jax.data.source import RowSource

_Result = TypeVar("_Result")


def left_by(stage: AdditiveStage, rows: Rows) -> Rows:
    """Subtract the predictions of an additive stage from the targets of rows."""
    said = stage.predict(rows.table)[:, None]
    return rows._replace(targets=rows.targets - said)


@dataclass(frozen=True, eq=False)
class ResidualSource:
    """Source whose targets are the residuals of an additive stage."""

    source: RowSource
    stage: AdditiveStage

    @property
    def n_rows(self) -> int:
        """See `RowSource`."""
        return self.source.n_rows

    @property
    def total_weight(self) -> float:
        """See `RowSource`."""
        return self.source.total_weight

    def sample(self, n_wanted: int, seed: int) -> Rows:
        """See `RowSource`; samples the other source."""
        return left_by(self.stage, self.source.sample(n_wanted, seed))

    def blocks(
        self, function: Callable[[Rows], _Result], size: int
    ) -> Iterator[_Result]:
        """See `RowSource`."""

        def less_curves(rows: Rows) -> _Result:
            return function(left_by(self.stage, rows))

        return self.source.blocks(less_curves, size)
