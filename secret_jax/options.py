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
        A split must save this many noise variances for each coefficient that it adds;
        the estimator asks for more where there are many rows.
    gcv_factor : float
        Price of a degree of freedom in generalised cross-validation.
    max_split_features : int or None
        Most attributes of an oblique split; None: all.
    """

    sample: int | None = 2048
    n_thresholds: int = 16
    em_starts: bool = True
    n_random_starts: int = 2
    em_steps: int = 4
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
    rule : {"holdout", "cross-validation"}, str or None
        Or a name in `secret_jax.prune.rules.PRUNING_RULES`.
    ccp_alpha : float or None
        With ``rule=None``: price of a leaf in units of the target squared.
    n_folds : int
        Of ``rule="cross-validation"``.
    """

    rule: str | None = None
    ccp_alpha: float | None = None
    n_folds: int = 5


@dataclass(frozen=True, kw_only=True)
class BornAgainOptions:
    """What a tree learns from the trees of a cross-validation.

    Attributes
    ----------
    own_share : float
        Of a row's own output in what is learned of it; the rest is what the trees say.
    points_per_row : float
        Points between the rows, for each row,
    least_points : int
        and at least.
    reach : float
        How far from its row a point lies at most, as a share of the way to another row.
    most_rise : float
        The new tree is taken if its error on the rows themselves is higher than that of
        the old one by at most this share of what the old one errs more on rows that it
        has not seen, and at most twice as high: without noise there is nothing to
        average away, and what is exact stays exact.
    """

    own_share: float = 0.5
    points_per_row: float = 2.0
    least_points: int = 2000
    reach: float = 0.5
    most_rise: float = 0.5


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
    node_rows: int = 2048
    most_rows: int = 1 << 15
    price: float = 1.0
    margin: float = 2.0
    checked_share: float = 0.25


@dataclass(frozen=True, kw_only=True)
class BlendOptions:
    """The choice of ``refine="blend"``.

    Attributes
    ----------
    widths : tuple of float
        Relative widths that are tried, in deviations of a split's projection; 0 is the
        hard tree and wins ties where it comes first.
    """

    widths: tuple[float, ...] = (0.0, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3)


@dataclass(frozen=True, kw_only=True)
class SoftOptions:
    """Training of ``refine="soft"``.

    Attributes
    ----------
    widths : tuple of float
        Gates start this wide, in deviations of the projection. Narrow gates stay where
        they are; which wide ones are best depends on the data, so all are tried.
    price : float
        Larger starts are the grown trees cut at this price of a degree of freedom, in
        noise variances.
    max_leaves : int
        Trees with more leaves are no starts.
    gate_rate, leaf_rate : float
        Learning rates of adam for gates and leaves.
    batch_size : int
        Rows of a step; fewer where there are not eight such batches.
    pull : float
        Penalty on the mean squared change of the leaves' slopes.
    averaging : float
        Of the exponential average of the parameters over the steps.
    chunk : int
        Steps between two looks at the pruning rows.
    max_steps : int
        Most steps of a start.
    screen_steps, n_kept : int
        After so many steps the best starts go on alone.
    patience_epochs : int
        A start stops after so many epochs without improvement,
    patience_steps : tuple of int
        which are at least and at most so many steps.
    n_folds : int
        Parts of the pruning rows for the comparison with the hard tree.
    n_committee : int
        Best starts that are trained again on all rows and averaged; 1: the best alone.
    committee_gain : float
        Share of the error that averaging saves: 4 to 7 % over the ten real sets. The
        comparison with the hard tree, which is of single trainings, allows for it.
    distil_steps : int
        Steps of the one tree that learns the committee's mean.
    jitter : float
        It learns at the rows and at points up to this share of the way to another row.
    max_validation_rows : int
        Most pruning rows that training looks at.
    max_rows : int
        Most training rows, and most pruning rows, that are read.
    """

    widths: tuple[float, ...] = (0.3, 0.6, 1.2)
    price: float = 6.0
    max_leaves: int = 128
    gate_rate: float = 0.01
    leaf_rate: float = 0.005
    batch_size: int = 128
    pull: float = 1e-3
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
    max_validation_rows: int = 8192
    max_rows: int = 2**19
