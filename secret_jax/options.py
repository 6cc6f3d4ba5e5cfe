"""Every setting of growing a tree, its default and its reason, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class MixtureOptions:
    """How EM is started and stopped.

    Attributes
    ----------
    start : {"component", "rows"}
        First start of a node: the sign of the first principal component of the
        standardised (regressors, output), or two random rows as means. Further starts
        are always random rows.
    n_starts : int
        Starts run side by side; the likeliest is kept.
    n_attempts : int
        How often a node gets new starts before it gives up.
    max_iter : int
        Most EM steps. Five ruin the trees, thirty suffice.
    tolerance : float
        Least rise of the mean log-likelihood.
    floor : float
        Smallest variance of a component in whitened units, about what float32 resolves.
    sample : int or None
        Most rows of a node that EM sees; None: all.
    """

    start: str = "component"
    n_starts: int = 1
    n_attempts: int = 3
    max_iter: int = 50
    tolerance: float = 1e-6
    floor: float = 1e-5
    sample: int | None = None


@dataclass(frozen=True, kw_only=True)
class SplitOptions:
    """Which splits are looked for, and how they are compared.

    Attributes
    ----------
    oblique : bool
        Also look for oblique splits.
    gini_gain : {"normal", "counted"}
        Gain from the p-values of the two normal distributions (section 4.2.1), or from
        the counted labels.
    """

    oblique: bool = True
    gini_gain: str = "normal"


@dataclass(frozen=True, kw_only=True)
class GrowOptions:
    """The stopping ladder, and what growing is made of.

    Attributes
    ----------
    min_samples_split : float
        A node with less weight is not split.
    min_samples_leaf : float
        Least weight of a leaf.
    max_depth, max_leaf_nodes : int or None
    keep_mixture_models : bool
        Keep the regressor that each child's Gaussian implies (section 4.2.3).
    mixture : MixtureOptions
    split : SplitOptions
    """

    min_samples_split: float
    min_samples_leaf: float
    max_depth: int | None = None
    max_leaf_nodes: int | None = None
    keep_mixture_models: bool = False
    mixture: MixtureOptions = field(default_factory=MixtureOptions)
    split: SplitOptions = field(default_factory=SplitOptions)
