"""Options of soft trees."""

from dataclasses import dataclass
from typing import Annotated

from secret_jax.fit.refine.interface import Gates
from secret_jax.losses.interface import Loss
from secret_jax.runtime.values import POSITIVE, TupleOf, at_least, real, refuse


@dataclass(frozen=True, kw_only=True)
class SoftOptions(Gates):
    """Options of `secret_jax.SoftGates`.

    Hierarchical mixtures of experts (Jordan & Jacobs 1994) with the structure of a
    grown tree; soft decision trees (Irsoy, Yildiz & Alpaydin 2012). The fields were
    chosen in a study over development sets of its own; differences under 2 % there are
    noise.

    Attributes
    ----------
    validation_fraction : float, default=0.25
        Share of the rows to hold out for early stopping after cross-validated pruning.
    widths : tuple of float
        Gates start this wide, in deviations of the projection. Narrow gates stay where
        they are; which wide ones are best depends on the data, so all are tried.
    max_leaves : int, default=256
        Trees with more leaves are no starts.
    batch_size : int, default=128
        Rows of a step; fewer where there are not eight such batches.
    chunk : int, default=64
        Steps between two looks at the held-out rows.
    max_steps : int, default=4096
        Maximum number of steps of a start.
    screen_steps, n_kept : int, default=512, 4
        Number of steps after which only the best starts continue; half of them with
        many rows.
    n_committee : int, default=4
        Best starts that are trained again on all rows and averaged; 1: the best alone.
        With many rows they only go on for a while.
    distil_steps : int, default=1024
        Steps of the one tree that learns the committee's mean; half with many rows.

    References
    ----------
    M. I. Jordan and R. A. Jacobs. Hierarchical Mixtures of Experts and the EM
    Algorithm. Neural Computation 6, 1994.

    O. Irsoy, O. T. Yildiz and E. Alpaydin. Soft Decision Trees. ICPR 2012.
    """

    validation_fraction: Annotated[float, real(0.0, 1.0, closed="neither")] = 0.25
    widths: Annotated[tuple[float, ...], TupleOf(POSITIVE)] = (0.3, 0.6, 1.2)
    max_leaves: Annotated[int, at_least(2)] = 256
    batch_size: Annotated[int, at_least(1)] = 128
    chunk: Annotated[int, at_least(1)] = 64
    max_steps: Annotated[int, at_least(1)] = 4096
    screen_steps: Annotated[int, at_least(1)] = 512
    n_kept: Annotated[int, at_least(1)] = 4
    n_committee: Annotated[int, at_least(1)] = 4
    distil_steps: Annotated[int, at_least(1)] = 1024

    def check(self) -> None:
        """Check the fields; a start must be evaluated at least once."""
        super().check()
        if self.chunk > self.max_steps:
            refuse("chunk", type(self).__name__, "at most max_steps", self.chunk)

    def knows(self, loss: Loss) -> bool:
        """Whether gradients of a loss are known."""
        return loss.trains_gates
