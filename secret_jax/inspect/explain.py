"""What columns do: predictions taken apart, and shares in what a tree explains."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from secret_jax.data.columns import is_missing
from secret_jax.data.rows import Table
from secret_jax.inspect.printing import entry, number, quoted
from secret_jax.inspect.view import View, as_view, estimator_of
from secret_jax.inspect.words import path_sentence
from secret_jax.runtime.environment import imported
from secret_jax.tree.routing import leaf_shares_of
from secret_jax.tree.structure import SplitKind, Tree

_ROW_BLOCK = 16384  # bounds the memory: a block needs n_leaves shares per row
# What a screen has room for.
_N_ROWS, _N_CLASSES = 5, 4  # of classes the likeliest
_MIN_CHANCE = 5e-4  # what rounds to 0.1 %
_N_DIGITS = 4  # of the largest figure of a row
# Clipping and missing shares that float64 rounding makes out of nothing.
_EXACT, _WHOLE = 1e-12, 1e-9
# The share of the variance that rounding leaves of a constant target.
_ROUNDING = 1e-9
_NOTHING = 1e-300  # below every sum of squares; shares of zero stay zero


@dataclass(frozen=True, eq=False, kw_only=True)
class Explanation:
    """Predictions taken apart; `str` shows the first rows.

    For every row ``baseline + contributions.sum(axis=1) + clipping == prediction``, to
    float64 rounding. Arrays are float64 of shape (n_rows,) or (n_rows, n_columns).

    Attributes
    ----------
    target : str, or tuple of str
        Name of what is taken apart: the target, or its logarithm; of classes their
        log-odds, of several the score of each row's predicted class.
    names : tuple of str
        The input columns.
    values : ndarray, object
        What the rows hold.
    categorical : tuple of bool
        Which columns hold categories.
    unknown : ndarray, bool
        Categories that training never saw.
    baseline : float, or ndarray where the targets differ
        The root's equation at the mean of the training rows, the mean of the target.
    linear : ndarray
        Slope of the leaf's equation times the deviation of the column from its mean in
        the leaf (of categories: of their indicators).
    splits : ndarray
        Steps of the level, a node's equation at the center of its own rows, by splits
        on the column; one on several is shared by the squares of their standardised
        coefficients.
    clipping : ndarray
        What clipping to the range of the leaf's outputs adds.
    prediction : ndarray
        What is taken apart: as `predict` gives it, without its float32 rounding, or the
        logarithm of that; of classes as `decision_function` does.
    leaf : ndarray, int32
        Node of the leaf, of a soft tree of the one with the largest share.
    share : ndarray
        Its share in the prediction.
    path : tuple of str
        The conditions on the way to it, in words.
    classes : tuple
        Labels; empty where numbers are predicted.
    outcome : str
        Name of the number whose logarithm is taken apart; otherwise empty.
    predicted : ndarray, object of classes
        What `predict` gives.
    probability : ndarray of shape (n_rows, n_classes)
        As `predict_proba` gives it; without columns where numbers are predicted.
    """

    target: str | tuple[str, ...]
    names: tuple[str, ...]
    values: np.ndarray = field(repr=False)
    categorical: tuple[bool, ...] = field(repr=False)
    unknown: np.ndarray = field(repr=False)
    baseline: float | np.ndarray
    linear: np.ndarray = field(repr=False)
    splits: np.ndarray = field(repr=False)
    clipping: np.ndarray = field(repr=False)
    prediction: np.ndarray = field(repr=False)
    leaf: np.ndarray = field(repr=False)
    share: np.ndarray = field(repr=False)
    path: tuple[str, ...] = field(repr=False)
    classes: tuple[Any, ...]
    outcome: str
    predicted: np.ndarray = field(repr=False)
    probability: np.ndarray = field(repr=False)

    @property
    def contributions(self) -> np.ndarray:
        """``linear + splits``: what every column adds, shape (n_rows, n_columns)."""
        return self.linear + self.splits

    def __len__(self) -> int:
        return len(self.prediction)

    def __str__(self) -> str:
        shown = [self.row_text(row) for row in range(min(len(self), _N_ROWS))]
        more = len(self) - len(shown)
        return "\n\n".join(shown + ([f"... {more} more rows"] if more else []))

    def row_text(self, row: int) -> str:
        """Write one row in words, its largest contributions first."""
        contributions, prediction = self.contributions[row], self.prediction[row]
        step = max(abs(prediction), np.abs(contributions).max(initial=0.0))
        size = np.floor(np.log10(step)) if step > 0 else _N_DIGITS
        digits = max(0, _N_DIGITS - 1 - int(size))
        target = self.target if isinstance(self.target, str) else self.target[row]
        head = value = f"{quoted(target)} = {prediction:.{digits}f}"
        if self.classes:
            chance = self.probability[row]
            chances = [
                f"{quoted(self.classes[i])} {100 * chance[i]:.1f} %"
                for i in np.argsort(-chance, kind="stable").tolist()
                if chance[i] >= _MIN_CHANCE
            ]
            chances[_N_CLASSES:] = ["..."] * (len(chances) > _N_CLASSES)
            label = quoted(self.predicted.tolist()[row])
            head = f"predicted {label} ({', '.join(chances)})"
        elif self.outcome:
            mean = number(self.predicted[row], digits=_N_DIGITS)
            head = f"{quoted(self.outcome)} = {mean}"
        share = self.share[row]
        part = "" if share > 1 - _WHOLE else f" ({100 * share:.0f} % of the mixture)"
        leaf = f"  leaf [{self.leaf[row]}]{part}: {self.path[row]}"
        lines = [f"row {row}: {head}", leaf, *[f"  {value}"] * (head != value)]
        steps = self.steps(row)
        if abs(self.clipping[row]) > _EXACT * step:
            steps.append(("clipping to the outputs of the leaf", self.clipping[row]))
        baseline = float(np.broadcast_to(self.baseline, len(self))[row])
        figures = [f"{baseline:.{digits}f}", *(f"{v:+.{digits}f}" for _, v in steps)]
        words = ["baseline", *(name for name, _ in steps)]
        width, pairs = max(map(len, figures)), zip(figures, words, strict=True)
        return "\n".join(
            [*lines, *(f"  {one:>{width}}  {word}" for one, word in pairs)]
        )

    def steps(self, row: int) -> list[tuple[str, float]]:
        """Contributions to a row in words, the largest first, without the baseline."""
        added, steps = self.contributions[row], []
        for column in np.argsort(-np.abs(added), kind="stable").tolist():
            if added[column] != 0:
                value = self.values[row, column]
                word = quoted if self.categorical[column] else entry
                cell = "missing" if is_missing(value) else word(value)
                new = " (not in training)" * bool(self.unknown[row, column])
                name = quoted(self.names[column])
                steps.append((f"{name} = {cell}{new}", float(added[column])))
        return steps

    def to_dataframe(self) -> Any:
        """Make a DataFrame of the contributions, with a row for each.

        Its columns are ``baseline``, those of the input, ``clipping``, ``prediction``,
        ``leaf`` and ``path``. Of classes and where logarithms are taken apart the sum
        is called ``score``, and ``prediction`` is as `predict` gives it; of classes
        there is a ``probability of ...`` each. Underscores are added to those of these
        names that an input column has.
        """
        first = "baseline"
        while first in self.names:
            first += "_"
        columns = {first: np.broadcast_to(self.baseline, len(self))}
        columns |= dict(zip(self.names, self.contributions.T, strict=True))
        after: dict[str, Any] = {"clipping": self.clipping}
        if self.classes or self.outcome:
            after["score"] = self.prediction
        after["prediction"] = self.predicted
        for label, chance in zip(self.classes, self.probability.T, strict=True):
            after[f"probability of {label}"] = chance
        after |= {"leaf": self.leaf, "path": np.array(self.path, object)}
        for name, values in after.items():
            while name in columns:
                name += "_"
            columns[name] = values
        columns = {name: values.tolist() for name, values in columns.items()}
        return imported("pandas", "Tables", "data").DataFrame(columns)


def explain(model: Any, X: Any, *, output: int | str | None = None) -> Explanation:
    """Take predictions apart: paths in words and additive contributions.

    On the way down every split moves the level, what a node's equation says at the
    center of its own rows and usually their mean, and that step is due to the columns
    that the split asks for. From the center of the leaf the equation is then moved to
    the row, column by column (its *linear* part). Of a soft tree the terms of all
    leaves are mixed by their shares of the row.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_rows, n_features)
    output : int or str, optional
        Which of several outputs of numbers. Of several classes each row tells of its
        predicted class, unless one is named here.

    Returns
    -------
    Explanation
        Of two classes of their log-odds, of several of scores, with probabilities
        beside them; of losses with an exponential link of logarithms.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(500, random_state=0)
    >>> why = SecretRegressor(random_state=0).fit(X, y).explain(X[:3])
    >>> total = why.baseline + why.contributions.sum(axis=1) + why.clipping
    >>> bool(abs(total - why.prediction).max() < 1e-9)
    True
    """
    model = estimator_of(model)
    view = as_view(model, output)
    tree, table = model._tree_and_rows(X)
    values = tree.schema.as_written(tree.schema.columns_of(X))
    return explain_rows(view, table.on_host(), values)


def explain_rows(view: View, table: Table, values: np.ndarray) -> Explanation:
    """Take predictions of encoded rows apart; ``values`` are those of the words."""
    trees, schema, n_rows = view.trees, view.tree.schema, len(table.x)
    of_row, predicted = np.zeros(n_rows, int), None
    classes, probability = (), np.zeros((n_rows, 0))
    if view.classes:
        classes = view.classes.labels
        probability = replace(view, only=None).predict(table)
        of_class = view.classes.predicted(probability)
        of_row = of_class if len(trees) > 1 else of_row
        predicted = np.fromiter(classes, object)[of_class]
    linear, splits = np.zeros((2, n_rows, len(schema.names)))
    clipping, share, baselines = np.zeros((3, n_rows))
    leaf, targets = np.zeros(n_rows, np.int32), np.full(n_rows, "", object)
    shown = np.unique(of_row).tolist() or [0]
    for output in shown:
        tree, rows = trees[output], np.flatnonzero(of_row == output)
        target = tree.schema.target_name
        baseline = float(tree.schema.restore_target(_levels(tree)[0]))
        targets[rows], baselines[rows] = target, baseline
        for start in range(0, len(rows), _ROW_BLOCK):
            block = rows[start : start + _ROW_BLOCK]
            part = _contributions(tree, table.take(block))
            linear[block], splits[block], clipping[block] = part[:3]
            leaf[block], share[block] = part[3:]
    if len(shown) > 1:
        target, baseline = tuple(targets), baselines
    prediction = baselines + (linear + splits).sum(axis=1) + clipping
    of_logarithm = not (classes or view.tree.says_targets)
    if of_logarithm:
        predicted = view.tree.loss.prediction(prediction)
    unknown = np.zeros(linear.shape, bool)
    unknown[:, schema.discrete] = table.codes < 0
    paths = {node: path_sentence(trees[0], node) for node in {*leaf.tolist()}}
    return Explanation(
        target=target,
        names=schema.names,
        values=values,
        categorical=tuple(i in schema.discrete for i in range(len(schema.names))),
        unknown=unknown,
        baseline=baseline,
        linear=linear,
        splits=splits,
        clipping=clipping,
        prediction=prediction,
        leaf=leaf,
        share=share,
        path=tuple(paths[node] for node in leaf.tolist()),
        classes=classes,
        outcome=view.target if of_logarithm else "",
        predicted=prediction if predicted is None else predicted,
        probability=probability,
    )


def _contributions(tree: Tree, table: Table) -> tuple[np.ndarray, ...]:
    """Linear, splits, clipping, leaf and share of `Explanation`, for one output."""
    schema, leaves = tree.schema, np.flatnonzero(tree.is_leaf)
    n_regressors, scale = schema.n_regressors, schema.target_scale
    coefficient = np.asarray(tree.coefficient[leaves, 0], np.float64)
    slope, center = coefficient[:, 1:], tree.center[leaves]
    inputs = np.array(schema.input_columns[:n_regressors], int)
    to_input = np.eye(len(schema.names))[inputs]
    low, high = (side[:, 0] for side in tree.clip_range())
    x = table.x[:, :n_regressors].astype(np.float64)
    shares = leaf_shares_of(tree, table).astype(np.float64)
    shares /= shares.sum(axis=1, keepdims=True)
    moved = x * (shares @ slope) - shares @ (slope * center)
    value = x @ slope.T + coefficient[:, 0]
    if tree.clip_leaves or not tree.is_soft:
        clipped = np.clip(value, low[leaves], high[leaves])
        clipping = (shares * (clipped - value)).sum(axis=1)
    else:
        mixed = (shares * value).sum(axis=1)
        clipping = np.clip(mixed, low[0], high[0]) - mixed
    largest = np.argmax(shares, axis=1)
    share = shares[np.arange(len(x)), largest]
    parts = (moved @ to_input, shares @ split_levels(tree)[leaves], clipping)
    return *(scale * part for part in parts), leaves[largest], share


def split_levels(tree: Tree) -> np.ndarray:
    """Steps of the level from the root to every node, by column, standardised."""
    level = _levels(tree)
    moved = np.zeros((tree.n_nodes, len(tree.schema.names)))
    for node in range(1, tree.n_nodes):  # parents come before their children
        parent = int(tree.parent[node])
        step = (level[node] - level[parent]) * split_columns(tree, parent)
        moved[node] = moved[parent] + step
    return moved


def _levels(tree: Tree) -> np.ndarray:
    """Value of every node's equation at the center of its own rows, standardised."""
    coefficient = np.asarray(tree.coefficient[:, 0], np.float64)
    return coefficient[:, 0] + np.einsum("nj,nj->n", coefficient[:, 1:], tree.center)


def feature_importances(tree: Tree, output: int = 0) -> np.ndarray:
    """Share of every input column in the explained variance of training.

    Returns shares of shape (n_columns,), float64, that sum to 1, or zeros if the tree
    explains nothing of the ``output``.

    The root's equation explains a part of the variance, and every split what the models
    of its children save over the model of the node; these add up. Each part is shared
    in proportion to the variance of what it changes, columns taken as independent:

    - The root's part goes to the columns of its equation, by slope squared times the
      variance of the column in training (of categories: of their terms together).
    - By how much the equations of the children differ from the node's, at the center of
      the child's own rows, is due to the columns that the split asks for. A changed
      slope, times the variance of its column in the child, is an interaction of these
      with the column of the slope; as in Shapley's value, half of it goes to either.

    The shares of columns that say the same are as arbitrary as their slopes, and
    permuting such a column may cost little.
    """
    weight = tree.weight
    if weight[0] <= 0:
        return np.zeros(len(tree.schema.names))
    importance = savings(tree.restricted(output), constant_loss(tree, output))
    total = importance.sum()
    explained = total > _ROUNDING * weight[0]
    return importance / total if explained else np.zeros_like(importance)


def constant_loss(tree: Tree, output: int) -> float:
    """Total training loss of an output if the root said the same of all rows."""
    constant = tree.loss.of_constant(tree.mean[0])
    if constant is None:  # as if errors grew with the variance of values
        error = tree.train_error[0]
        noise = np.maximum(tree.loss.noise(error, tree.mean[0]), _NOTHING)
        slopes = np.asarray(tree.coefficient[0, output, 1:], np.float64)
        constant = error * (1.0 + sum_variances(tree, 0, slopes).sum() / noise)
    return float(tree.weight[0] * constant[output])


def savings(tree: Tree, square: float) -> np.ndarray:
    """Squared error that every column saves, over that of a constant, ``square``."""
    weight = tree.weight
    coefficient = np.asarray(tree.coefficient[:, 0], np.float64)
    error = weight * tree.train_error[:, 0]
    of_root = sum_variances(tree, 0, coefficient[0, 1:])
    importance = max(square - error[0], 0.0) * in_proportion(of_root)
    for node in np.flatnonzero(~tree.is_leaf):
        children = [int(tree.left[node]), int(tree.right[node])]
        saved = max(float(error[node] - error[children].sum()), 0.0)
        change = coefficient[children] - coefficient[node]
        slopes = change[:, 1:]
        level = change[:, 0] + np.einsum("cj,cj->c", slopes, tree.center[children])
        alone = float(weight[children] @ level**2)
        joint = weight[children] @ [
            sum_variances(tree, child, slope)
            for child, slope in zip(children, slopes, strict=True)
        ]
        of_split = split_columns(tree, int(node))
        total = alone + joint.sum()
        if total > 0:
            half = 0.5 * joint.sum() / total
            of_split = (1.0 - half) * of_split + half * in_proportion(joint)
        importance += saved * of_split
    return importance


def in_proportion(parts: np.ndarray) -> np.ndarray:
    """Parts that are not negative as shares of their sum; zeros stay zeros."""
    return parts / max(parts.sum(), _NOTHING)


def sum_variances(tree: Tree, node: int, slopes: np.ndarray) -> np.ndarray:
    """Variance that each input column, with its indicators, adds to a sum in a node."""
    schema = tree.schema
    columns = np.array(schema.input_columns[: len(slopes)], int)
    first = len(slopes) - schema.n_indicators
    categories = slice(first, first + len(schema.indicators))
    square = (slopes * tree.spread[node]) ** 2
    share, worth = tree.center[node, categories], slopes[categories]
    square[categories] = share * worth**2
    n_columns = len(schema.names)
    variance = np.bincount(columns, square, n_columns)
    mean = np.bincount(columns[categories], share * worth, n_columns)
    return np.maximum(variance - mean**2, 0.0)


def split_columns(tree: Tree, node: int) -> np.ndarray:
    """Share of every input column in a split: squares of standardised coefficients."""
    schema = tree.schema
    total = np.zeros(len(schema.names))
    for one in tree.comparisons_at(node):
        columns, parts = schema.input_columns, np.float64(tree.direction[one]) ** 2
        if tree.kind[one] == SplitKind.DISCRETE:
            columns, parts = [schema.discrete[tree.attribute[one]]], [1.0]
        total += in_proportion(np.bincount(columns, parts, len(total)))
    return in_proportion(total)
