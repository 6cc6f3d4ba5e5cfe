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
class RssOptions:
    """The search of ``criterion="rss"``.

    Attributes
    ----------
    sample : int or None
        Most rows of a node that the search sees; None: all.
    n_thresholds : int
        Quantiles tried along each direction.
    em_starts : bool
        Whether short EM runs propose directions: from the first principal component,
        the residual, the first Hessian direction, the best axis split, at random.
    n_random_starts : int
        How many of the random ones.
    em_steps : int
        Steps of each run.
    n_hessian : int
        Principal Hessian directions.
    n_finalists : int
        Candidates, of axis and of oblique splits, that get an exact score.
    n_hinge, hinge_steps : int
        Best candidates that are improved by hinge steps, and how many steps.
    ridge : float
        Penalty of the children's models, in units of the regressors' variances.
    most_regressors : int
        With more columns their leading principal components score the splits.
    stop_factor : float
        A split must save this many noise variances for each coefficient that it adds.
    gcv_factor : float
        Price of a degree of freedom in generalised cross-validation.
    max_split_features : int or None
        Most attributes of an oblique split; None: all.
    """

    sample: int | None = 2048
    n_thresholds: int = 16
    em_starts: bool = True
    n_random_starts: int = 2
    em_steps: int = 6
    n_hessian: int = 2
    n_finalists: int = 5
    n_hinge: int = 3
    hinge_steps: int = 4
    ridge: float = 3e-2
    most_regressors: int = 24
    stop_factor: float = 1.5
    gcv_factor: float = 1.2
    max_split_features: int | None = None


@dataclass(frozen=True, kw_only=True)
class SplitOptions:
    """Which splits are looked for, and how they are compared.

    Attributes
    ----------
    criterion : {"rss", "gini"}
        By the children's linear models, or by the paper's Gini gain of labels.
    oblique : bool or "auto"
        Also look for oblique splits. "auto" grows both trees side by side.
    gini_gain : {"normal", "counted"}
        Gain from the p-values of the two normal distributions (section 4.2.1), or from
        the counted labels. Both gave errors alike on the paper's real sets, so the
        printed form is the default.
    """

    criterion: str = "rss"
    oblique: bool | str = "auto"
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
    split : SplitOptions
    mixture : MixtureOptions
        For the paper's criterion.
    rss : RssOptions
    """

    min_samples_split: float
    min_samples_leaf: float
    max_depth: int | None = None
    max_leaf_nodes: int | None = None
    keep_mixture_models: bool = False
    split: SplitOptions = field(default_factory=SplitOptions)
    mixture: MixtureOptions = field(default_factory=MixtureOptions)
    rss: RssOptions = field(default_factory=RssOptions)


@dataclass(frozen=True, kw_only=True)
class PruneOptions:
    """How a grown tree is pruned.

    Attributes
    ----------
    rule : {"auto", "holdout", "cross-validation", "aic", "bic", "icomp"} or None
    ccp_alpha : float or None
        With ``rule=None``: price of a leaf in units of the target squared.
    n_folds : int
        Of ``rule="cross-validation"``.
    most_cross_validated : int
        With ``rule="auto"`` so many rows are cross-validated, more held out.
    """

    rule: str | None = "auto"
    ccp_alpha: float | None = None
    n_folds: int = 5
    most_cross_validated: int = 8192


@dataclass(frozen=True, kw_only=True)
class AlternatingOptions:
    """How long and on how many rows the splits of a tree are alternated.

    Attributes
    ----------
    max_sweeps : int
        Most passes over all levels.
    tolerance : float
        Passes end when one lowers the objective by a smaller share.
    patience : int
        Passes end when so many in a row did not help the rows kept aside.
    node_rows : int
        Most rows of a node that its new split is looked for on.
    most_rows : int
        Most rows that splits are accepted on; all rows see the result.
    gcv_factor : float
        Price of a degree of freedom in the objective.
    price : float
        Least drop of the objective for every number in a new split, in noise variances.
    margin : float
        The rows kept aside must be better off by so many standard errors. Fewer let
        chance in: over real tables most of what passed one was worth nothing.
    checked_share : float
        Share of the rows that is kept aside.
    """

    max_sweeps: int = 10
    tolerance: float = 1e-3
    patience: int = 2
    node_rows: int = 4096
    most_rows: int = 1 << 16
    gcv_factor: float = 1.2
    price: float = 1.0
    margin: float = 2.0
    checked_share: float = 0.25
