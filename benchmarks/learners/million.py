"""A classifier on many rows beside LightGBM's one tree of 64 leaves.

    python -m benchmarks.learners.million

fits each three times (the first fit of ours may compile) on rows of `make_fried` whose
class is whether the output is above its median, and prints seconds and errors on
200,000 other rows. Nothing is tuned; LightGBM's tree is a booster of one round with a
learning rate of 1.
"""

from __future__ import annotations

import argparse
import functools
import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import log_loss

from benchmarks.shared import markdown, whole_number
from benchmarks.timing import Seconds, add_busy_option, refuse_if_busy, timed
from secret_jax import SecretClassifier
from secret_jax.datasets import make_fried

_LEAVES = 64
_TEST_ROWS = 200_000
_MEDIAN = 14.4  # of the outputs, for classes of like size


class Row(NamedTuple):
    """What came of one learner."""

    model: str
    seconds: list[Seconds]
    wrong: float
    log_loss: float
    leaves: int


def labelled(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten columns, and whether a noisy output was above its median."""
    X, y = make_fried(n_rows, random_state=seed)
    return X, (y > _MEDIAN).astype(np.int64)


def _lightgbm_tree() -> Any:
    lightgbm: Any = importlib.import_module("lightgbm")
    return lightgbm.LGBMClassifier(
        n_estimators=1, learning_rate=1.0, num_leaves=_LEAVES, verbose=-1
    )


def measured(name: str, n_rows: int) -> Row:
    """Fit and test one learner."""
    X, y = labelled(n_rows, 0)
    new, expected = labelled(_TEST_ROWS, 1)
    ours = {
        "secret": lambda: SecretClassifier(),
        "secret, 64 leaves": lambda: SecretClassifier(max_leaf_nodes=_LEAVES),
    }
    seconds, model = [], None
    for _ in range(3):
        model = ours[name]() if name in ours else _lightgbm_tree()
        seconds.append(timed(functools.partial(model.fit, X, y))[1])
    assert model is not None
    probability = model.predict_proba(new)
    return Row(
        model=name,
        seconds=seconds,
        wrong=float((probability.argmax(axis=1) != expected).mean()),
        log_loss=float(log_loss(expected, probability)),
        leaves=model.n_leaves_ if name in ours else _LEAVES,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit all, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learners.million",
        description="A classifier on many rows beside LightGBM's one tree.",
    )
    names = ("secret", "secret, 64 leaves", "LightGBM, one tree")
    parser.add_argument("--models", nargs="+", choices=names, default=list(names))
    parser.add_argument("--rows", type=whole_number, default=1_000_000)
    add_busy_option(parser)
    options = parser.parse_args(arguments)
    refuse_if_busy(options.busy)
    lines = [["model", "first fit", "later", "of processors"]]
    lines[0] += ["wrong", "log-loss", "leaves"]
    for name in options.models:
        row = measured(name, options.rows)
        later = [min(times) for times in zip(*row.seconds[1:], strict=True)]
        times = [f"{second:.2f} s" for second in (row.seconds[0].clock, *later)]
        cells = [f"{100 * row.wrong:.2f} %", f"{row.log_loss:.4f}", str(row.leaves)]
        lines.append([name, *times, *cells])
    print(markdown(lines))


if __name__ == "__main__":
    main()
