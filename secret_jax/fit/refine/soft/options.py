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
    penalty : float, default=6.0
        Larger starts are the grown trees cut at this penalty of a degree of freedom, in
        noise variances.
    max_leaves : int, default=128
        Trees with more leaves are no starts.
    gate_rate, leaf_rate : float
        Learning rates of adam for gates and leaves.
    batch_size : int, default=128
        Rows of a step; fewer where there are not eight such batches.
    l2 : float, default=1e-3
        Penalty on the mean squared change of the leaves' slopes.
    averaging : float, default=0.98
        Decay of the exponential average of the parameters over the steps.
    chunk : int, default=64
        Steps between two looks at the held-out rows.
    max_steps : int, default=4096
        Maximum number of steps of a start.
    screen_steps, n_kept : int, default=512, 4
        Number of steps after which only the best starts continue; half of them with
        many rows.
    patience_epochs : int, default=30
        Number of epochs without improvement after which a start stops,
    patience_steps : tuple of int, default=(320, 1024)
        with a minimum and a maximum in steps.
    n_folds : int, default=4
        Parts of the held-out rows for the comparison with the hard tree.
    n_committee : int, default=4
        Best starts that are trained again on all rows and averaged; 1: the best alone.
        With many rows they only go on for a while.
    committee_gain : float, default=0.05
        Share of the error that averaging is taken to save. The comparison with the hard
        tree, which is of single trainings, allows for it.
    distil_steps : int, default=1024
        Steps of the one tree that learns the committee's mean; half with many rows.
    jitter : float, default=0.5
        It learns at rows, and at points up to this share of the way to another row.
    max_validation_rows : int, default=4096
        Maximum number of held-out rows used in training.
    max_rows : int, default=524288
        Maximum number of training rows, and of held-out rows.
    many_rows : int, default=4096
        Number of training rows that are many. On fewer, half of the steps cost up to
        a quarter more error; on two sets of 4,000 and 75,000 rows nothing.

    References
    ----------
    M. I. Jordan and R. A. Jacobs. Hierarchical Mixtures of Experts and the EM
    Algorithm. Neural Computation 6, 1994.

    O. Irsoy, O. T. Yildiz and E. Alpaydin. Soft Decision Trees. ICPR 2012.
    """

    validation_fraction: float = 0.25
    widths: tuple[float, ...] = (0.3, 0.6, 1.2)
    penalty: float = 6.0
    max_leaves: int = 128
    gate_rate: float = 0.01
    leaf_rate: float = 0.005
    batch_size: int = 128
    l2: float = 1e-3
    averaging: float = 0.98
    chunk: int = 64
    max_steps: int = 4096
    screen_steps: int = 512
    n_kept: int = 4
    patience_epochs: int = 30
    patience_steps: tuple[int, int] = (320, 1024)
    n_folds: int = 4
    n_committee: int = 4
    committee_gain: float = 0.05
    distil_steps: int = 1024
    jitter: float = 0.5
    max_validation_rows: int = 4096
    max_rows: int = 2**19
    many_rows: int = 4096

    _parameter_constraints: ClassVar[dict] = {
        "validation_fraction": [real(0.0, 1.0, closed="neither")],
        "widths": [TupleOf(real(0.0, closed="neither"))],
        "penalty": [real(0.0, closed="neither")],
        "max_leaves": [at_least(2)],
        "gate_rate": [real(0.0)],
        "leaf_rate": [real(0.0)],
        "batch_size": [at_least(1)],
        "l2": [real(0.0)],
        "averaging": [real(0.0, 1.0)],
        "chunk": [at_least(1)],
        "max_steps": [at_least(1)],
        "screen_steps": [at_least(1)],
        "n_kept": [at_least(1)],
        "patience_epochs": [at_least(1)],
        "patience_steps": [TupleOf(at_least(1), length=2)],
        "n_folds": [at_least(2)],
        "n_committee": [at_least(1)],
        "committee_gain": [real(0.0, 1.0)],
        "distil_steps": [at_least(1)],
        "jitter": [real(0.0, 1.0, closed="both")],
        "max_validation_rows": [at_least(1)],
        "max_rows": [at_least(2)],
        "many_rows": [at_least(1)],
    }

    def check(self) -> None:
        """Check the fields; a start must be evaluated at least once."""
        super().check()
        if self.chunk > self.max_steps:
            refuse("chunk", type(self).__name__, "at most max_steps", self.chunk)

    def knows(self, loss: Loss) -> bool:
        """Whether gradients of a loss are known: squared errors and cross-entropy."""
        return isinstance(loss, SquaredError | CrossEntropy)
