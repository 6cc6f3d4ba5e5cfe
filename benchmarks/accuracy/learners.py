"""The literature's learners on one grower: any finder, leaf model and pruning.

The same rows, leaf models and pruning, so that a difference is the method's and not the
program's. A new finder, leaf model or pruning rule is one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from benchmarks.accuracy.ours import Setting
from secret_jax.estimators.parameters import NAMED, value_of
from secret_jax.learners import GuideSplits

FINDERS: Mapping[str, Any] = {
    "rss": "rss",
    "secret": "secret",
    "cart": "cart",
    "m5": "m5",
    "retis": "retis",
    "support": "support",
    "guide": GuideSplits(thresholds="all", n_bootstraps=50),
    "guide(s)": GuideSplits(thresholds=0.01, n_bootstraps=50),
    "phd": "phd",
    "conjunctive": "conjunctive",
}
LEAVES = ("linear", "ridge", "constant", "simple", "m5")
PRUNINGS: Mapping[str, Any] = {
    name: None if name == "none" else name
    for name in ("cross-validation", "holdout", "bic", "cart", "guide", "m5", "none")
}
SPLITS = {"axis": False, "oblique": True}


def learners(
    finders: Iterable[str],
    leaves: Iterable[str],
    prunings: Iterable[str],
    splits: Iterable[str],
) -> dict[str, Setting]:
    """Every combination of the parts; oblique only where a finder knows how.

    Nothing is distilled: distilled trees of two finders would differ by more than the
    finders.
    """
    return {
        f"{finder}, {leaf}, {pruning}, {kind}": Setting(
            {
                "splits": FINDERS[finder],
                "leaf": leaf,
                "prune": PRUNINGS[pruning],
                "oblique": SPLITS[kind],
                "distill": False,
            }
        )
        for kind, finder, leaf, pruning in product(splits, finders, leaves, prunings)
        if kind == "axis"
        or value_of("splits", FINDERS[finder], NAMED).max_attributes != 1
    }
