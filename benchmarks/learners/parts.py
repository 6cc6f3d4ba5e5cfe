"""What learners are made of: a new finder, leaf model or pruning rule is one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from benchmarks.accuracy.ours import Setting, candidate_of, key_of_setting
from benchmarks.accuracy.peers import Candidate
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
}
LEAVES: Mapping[str, Any] = {
    "linear": "linear",
    "ridge": "ridge",
    "constant": "constant",
    "simple": "simple",
    "m5": "m5",
}
PRUNINGS: Mapping[str, Any] = {
    "cross-validation": "cross-validation",
    "holdout": "holdout",
    "bic": "bic",
    "cart": "cart",
    "guide": "guide",
    "m5": "m5",
    "none": None,
}
SPLITS: Mapping[str, bool] = {"axis": False, "oblique": True}


class Learner(NamedTuple):
    """Names of the parts of a learner."""

    finder: str
    leaf: str
    pruning: str
    splits: str

    @property
    def name(self) -> str:
        """As it stands in the tables."""
        return ", ".join(self)

    @property
    def setting(self) -> Setting:
        """Its parameters; everything else is the estimator's default, but distillation.

        Distilled trees of two finders would differ by more than the finders.
        """
        return Setting(
            {
                "splits": FINDERS[self.finder],
                "leaf": LEAVES[self.leaf],
                "prune": PRUNINGS[self.pruning],
                "oblique": SPLITS[self.splits],
                "distill": False,
            }
        )

    def candidate(self, code: str) -> Candidate:
        """The learner as the benchmark of accuracy runs it."""
        return candidate_of(self.name, self.setting, key_of_setting(self.setting, code))


def learners(
    finders: Iterable[str],
    leaves: Iterable[str],
    prunings: Iterable[str],
    splits: Iterable[str],
) -> list[Learner]:
    """Every combination of the parts; oblique only where a finder knows how."""
    leaves, prunings, splits = list(leaves), list(prunings), list(splits)
    return [
        Learner(finder, leaf, pruning, kind)
        for kind in splits
        for finder in finders
        for leaf in leaves
        for pruning in prunings
        if kind == "axis"
        or value_of("splits", FINDERS[finder], NAMED).max_attributes != 1
    ]
