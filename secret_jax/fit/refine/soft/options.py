"""Options of soft trees."""

from dataclasses import dataclass
from typing import ClassVar

from secret_jax.fit.refine.interface import Refinement
from secret_jax.losses.classes import CrossEntropy
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import SquaredError
from secret_jax.runtime.values import TupleOf, at_least, real, refuse


@dataclass(frozen=True, kw_only=True)
class SoftOptions(Refinement):
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
    max_leaves : int, default=128
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

    validation_fraction: float = 0.25
    widths: tuple[float, ...] = (0.3, 0.6, 1.2)
    max_leaves: int = 128
    batch_size: int = 128
    chunk: int = 64
    max_steps: int = 4096
    screen_steps: int = 512
    n_kept: int = 4
    n_committee: int = 4
    distil_steps: int = 1024

    _parameter_constraints: ClassVar[dict] = {
        "validation_fraction": [real(0.0, 1.0, closed="neither")],
        "widths": [TupleOf(real(0.0, closed="neither"))],
        "max_leaves": [at_least(2)],
        "batch_size": [at_least(1)],
        "chunk": [at_least(1)],
        "max_steps": [at_least(1)],
        "screen_steps": [at_least(1)],
        "n_kept": [at_least(1)],
        "n_committee": [at_least(1)],
        "distil_steps": [at_least(1)],
    }

    def check(self) -> None:
        """Check the fields; a start must be evaluated at least once."""
        super().check()
        if self.chunk > self.max_steps:
            refuse("chunk", type(self).__name__, "at most max_steps", self.chunk)

    def knows(self, loss: Loss) -> bool:
        """Whether gradients of a loss are known: squared errors and cross-entropy."""
        return isinstance(loss, SquaredError | CrossEntropy)
