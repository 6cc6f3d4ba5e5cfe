"""Why a row got its prediction: its way in words, and a sum of contributions."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import narwhals as nw
import numpy as np

from secret_jax.data.rows import Table
from secret_jax.inspect.equations import LinearSplit, Side, split_in_original_units
from secret_jax.inspect.frame import installed_backend
from secret_jax.inspect.printing import entry, quoted
from secret_jax.inspect.shapley import shapley_values
from secret_jax.inspect.shares import node_levels, split_levels
from secret_jax.inspect.words import split_sentence
from secret_jax.tree.routing import leaf_shares_of, said
from secret_jax.tree.structure import Tree

# What a screen has room for.
_ROWS_SHOWN = 5
_TERMS_SHOWN = 4  # of a condition
_CLASSES_SHOWN, _LEAST = 4, 5e-4  # the likeliest, and what rounds to 0.1 %
_DIGITS_SHOWN = 4  # of the largest figure of a row
_ROW_BLOCK = 16384  # bounds the memory: a block needs n_leaves shares per row
# Clipping and missing shares that float64 rounding makes out of nothing.
_EXACT, _WHOLE = 1e-12, 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class Explanation:
    """Predictions taken apart; `str` shows the first rows.

    For every row ``baseline + contributions.sum(axis=1) + clipping == prediction``, to
    float64 rounding.

    Attributes
    ----------
    target : str, or tuple of str
        Name of what is taken apart: the target, of classes their log-odds. Of several
        classes it is of each row the score of its predicted class, whose exponential
        the probability is in proportion to.
    names : tuple of str
        The input columns.
    values : ndarray of shape (n_rows, n_columns), object
        What the rows hold.
    baseline : float, or ndarray of shape (n_rows,) where the targets differ
        Where the root starts: what its equation says at the mean of the training rows,
        which is the mean of the target; with ``background``, the mean of what is said
        of those rows.
    linear : ndarray of shape (n_rows, n_columns), float64
        Slope of the leaf's equation times the deviation of the column from its mean in
        the leaf (of categories: of their indicators).
    splits : ndarray of shape (n_rows, n_columns), float64
        What the splits on the column change on the way to the leaf: the step from the
        level of a node, its equation at the center of its own rows, to that of its
        child. A split on several columns is shared by the
        squares of their standardised coefficients.
    contributions : ndarray of shape (n_rows, n_columns), float64
        ``linear + splits``.
    clipping : ndarray of shape (n_rows,), float64
        What clipping to the range of the leaf's outputs adds.
    prediction : ndarray of shape (n_rows,), float64
        What is taken apart: as `predict` gives it, without its float32 rounding; of
        classes as `decision_function` does.
    leaf : ndarray of shape (n_rows,), int32
        Node id of the leaf, of a soft tree the one with the largest share.
    share : ndarray of shape (n_rows,), float64
        Share of that leaf in the prediction; 1 of a hard tree.
    path : tuple of str
        The conditions on the way to that leaf, in words.
    classes : tuple
        Labels; empty where numbers are predicted.
    predicted : ndarray of shape (n_rows,)
        Of classes their labels as `predict` gives them; of numbers ``prediction``.
    probability : ndarray of shape (n_rows, n_classes), float64
        As `predict_proba` gives it.
    """

    target: str | tuple[str, ...]
    names: tuple[str, ...]
    values: np.ndarray = field(repr=False)
    baseline: float | np.ndarray
    linear: np.ndarray = field(repr=False)
    splits: np.ndarray = field(repr=False)
    clipping: np.ndarray = field(repr=False)
    prediction: np.ndarray = field(repr=False)
    leaf: np.ndarray = field(repr=False)
    share: np.ndarray = field(repr=False)
    path: tuple[str, ...] = field(repr=False)
    classes: tuple[Any, ...] = ()
    predicted: np.ndarray = field(repr=False, default_factory=lambda: np.zeros(0))
    probability: np.ndarray = field(
        repr=False, default_factory=lambda: np.zeros((0, 0))
    )

    def __post_init__(self) -> None:
        if not self.classes:
            object.__setattr__(self, "predicted", self.prediction)

    @property
    def contributions(self) -> np.ndarray:
        """What every column adds to the prediction, shape (n_rows, n_columns)."""
        return self.linear + self.splits

    def __len__(self) -> int:
        return len(self.prediction)

    def __str__(self) -> str:
        shown = [self.row_text(row) for row in range(min(len(self), _ROWS_SHOWN))]
        more = len(self) - len(shown)
        return "\n\n".join(shown + ([f"... {more} more rows"] if more else []))

    def row_text(self, row: int) -> str:
        """One row in words, its largest contributions first."""
        contributions = self.contributions[row]
        step = max(abs(self.prediction[row]), np.abs(contributions).max(initial=0.0))
        digits = 0
        if step > 0:
            digits = max(0, _DIGITS_SHOWN - 1 - int(np.floor(np.log10(step))))
        share = self.share[row]
        part = "" if share > 1 - _WHOLE else f" ({100 * share:.0f} % of the mixture)"
        target = self.target if isinstance(self.target, str) else self.target[row]
        value = f"{quoted(target)} = {self.prediction[row]:.{digits}f}"
        lines = [
            f"row {row}: {self._in_chances(row) if self.classes else value}",
            f"  leaf [{self.leaf[row]}]{part}: {self.path[row]}",
        ]
        if self.classes:
            lines.append(f"  {value}")
        baseline = float(np.broadcast_to(self.baseline, self.prediction.shape)[row])
        terms = [("baseline", baseline)]
        for column in np.argsort(-np.abs(contributions), kind="stable"):
            if contributions[column] != 0:
                value = self.values[row, column]
                missing = value is None or value != value
                held = "missing" if missing else entry(value)
                what = f"{quoted(self.names[column])} = {held}"
                terms.append((what, contributions[column]))
        if abs(self.clipping[row]) > _EXACT * step:
            terms.append(("clipping to the outputs of the leaf", self.clipping[row]))
        figures = [f"{value:+.{digits}f}" for _, value in terms]
        figures[0] = f"{baseline:.{digits}f}"
        width = max(map(len, figures))
        lines += [
            f"  {figure:>{width}}  {what}"
            for figure, (what, _) in zip(figures, terms, strict=True)
        ]
        return "\n".join(lines)

    def _in_chances(self, row: int) -> str:
        """The class of a row, and the probabilities of the likeliest ones."""
        chance = self.probability[row]
        order = [i for i in np.argsort(-chance, kind="stable") if chance[i] >= _LEAST]
        chances = [
            f"{quoted(self.classes[which])} {100 * chance[which]:.1f} %"
            for which in order[:_CLASSES_SHOWN]
        ]
        if len(order) > _CLASSES_SHOWN:
            chances.append("...")
        label = self.predicted.tolist()[row]
        return f"predicted {quoted(label)} ({', '.join(chances)})"

    def to_shap(self) -> Any:
        """The contributions as a ``shap.Explanation``, for that library's pictures.

        Returns
        -------
        shap.Explanation
            Clipping is part of the base values, so that each row adds up.

        Raises
        ------
        ImportError
            If shap is not installed.
        """
        try:
            import shap  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise ImportError("to_shap needs shap: pip install shap.") from None
        return shap.Explanation(
            values=self.contributions,
            base_values=self.baseline + self.clipping,
            data=self.values,
            feature_names=list(self.names),
        )

    def to_dataframe(self, *, backend: str | None = None) -> Any:
        """The contributions as a DataFrame.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            By default the first of these that is installed.

        Returns
        -------
        DataFrame or Table of ``backend``
            One row per row; ``baseline``, a column for every input column,
            ``clipping``, ``prediction``, ``leaf`` and ``path``. Of classes the sum is
            called ``score``, ``prediction`` is the class, and there is a
            ``probability of ...`` each. An underscore is added to those of these names
            that an input column has.
        """
        contributions = self.contributions
        own = {name: contributions[:, i] for i, name in enumerate(self.names)}

        def free(name: str) -> str:
            while name in own:
                name += "_"
            return name

        baseline = np.broadcast_to(self.baseline, len(self))
        columns = {free("baseline"): baseline, **own}
        columns[free("clipping")] = self.clipping
        if self.classes:
            columns[free("score")] = self.prediction
        columns[free("prediction")] = self.predicted
        for label, chance in zip(self.classes, self.probability.T, strict=True):
            columns[free(f"probability of {label}")] = chance
        columns[free("leaf")] = self.leaf
        data = {name: values.tolist() for name, values in columns.items()}
        data[free("path")] = list(self.path)
        return nw.from_dict(data, backend=installed_backend(backend)).to_native()


def explain(
    tree: Tree,
    table: Table,
    values: np.ndarray,
    *,
    precision: int | None = None,
    background: Table | None = None,
) -> Explanation:
    """Take the predictions for some rows apart.

    Parameters
    ----------
    table : Table
        Rows encoded with ``tree.schema``.
    values : ndarray of shape (n_rows, n_columns), object
        The rows as they were given, for the words.
    precision : int, optional
        Significant digits of the words, as in `secret_jax.inspect.text.export_text`.
    background : Table, optional
        Rows against which the contributions are measured, as Shapley values
        (`secret_jax.inspect.shapley`); all of them are then in ``linear``.

    Notes
    -----
    On the way down every split moves the level, what a node's equation says at the
    center of its own rows and usually their mean, and that step is due to the columns
    that the split asks for. From the center of the leaf the equation is then moved to
    the row, column by column (its *linear* part). Of a soft tree the terms of all
    leaves are mixed by their shares of the row.
    """
    schema, inputs = tree.schema, np.array(tree.schema.input_columns, int)
    n_rows, n_columns = len(table.x), len(schema.names)
    scale = schema.target_scale
    leaves = np.flatnonzero(tree.is_leaf)
    coefficient = np.asarray(tree.coefficient[:, 0], np.float64)
    slope, level = coefficient[leaves, 1:], node_levels(tree)
    center = tree.center[leaves]
    to_input = np.zeros((schema.n_regressors, n_columns))
    to_input[np.arange(schema.n_regressors), inputs[: schema.n_regressors]] = 1.0
    of_splits = split_levels(tree)[leaves]
    low, high = (side[:, 0] for side in tree.clip_range())
    linear, splits = np.zeros((2, n_rows, n_columns))
    clipping, share = np.zeros((2, n_rows))
    leaf = np.zeros(n_rows, np.int32)
    for start in range(0, n_rows, _ROW_BLOCK):
        block = slice(start, start + _ROW_BLOCK)
        part = Table(table.x[block], table.codes[block])
        x = part.x[:, : schema.n_regressors].astype(np.float64)
        shares = leaf_shares_of(tree, part).astype(np.float64)
        shares /= shares.sum(axis=1, keepdims=True)
        moved = x * (shares @ slope) - shares @ (slope * center)
        linear[block] = moved @ to_input
        splits[block] = shares @ of_splits
        value = x @ slope.T + coefficient[leaves, 0]
        if tree.clip_leaves or not tree.is_soft:
            clipped = np.clip(value, low[leaves], high[leaves])
            clipping[block] = (shares * (clipped - value)).sum(axis=1)
        else:
            mixed = (shares * value).sum(axis=1)
            clipping[block] = np.clip(mixed, low[0], high[0]) - mixed
        largest = np.argmax(shares, axis=1)
        leaf[block] = leaves[largest]
        share[block] = shares[np.arange(len(x)), largest]
    baseline = float(schema.restore_target(level[0]))
    linear, splits, clipping = linear * scale, splits * scale, clipping * scale
    if background is not None:
        found = shapley_values(partial(said, tree), schema, table, background)
        linear, baseline = found[0][0], float(found[1][0])
        splits, clipping = np.zeros_like(linear), np.zeros(n_rows)
    words = {node: path_sentence(tree, node, precision) for node in set(leaf.tolist())}
    return Explanation(
        target=schema.target_name,
        names=schema.names,
        values=values,
        baseline=baseline,
        linear=linear,
        splits=splits,
        clipping=clipping,
        prediction=baseline + (linear + splits).sum(axis=1) + clipping,
        leaf=leaf,
        share=share,
        path=tuple(words[node] for node in leaf.tolist()),
    )


def path_sentence(tree: Tree, node: int, precision: int | None = None) -> str:
    """The conditions on the way to a node, in words.

    Of several bounds on one column in one direction only the tightest is told.

    Examples
    --------
    ``"length <= 3.1 and sex in {F, M}"``; of the root ``"all rows"``.
    """
    said: dict[Any, tuple[float, str]] = {}
    steps: list[tuple[int, Side]] = []
    while node:
        parent = int(tree.parent[node])
        steps.append((parent, "left" if tree.left[parent] == node else "right"))
        node = parent
    for parent, side in reversed(steps):
        sentence = split_sentence(
            tree, parent, precision=precision, max_terms=_TERMS_SHOWN, side=side
        )
        split = split_in_original_units(tree, parent)
        key, bound = (parent, False, False), 0.0
        # Where missing values have a side of their own, a looser bound is not implied
        # by a tighter one.
        if (
            isinstance(split, LinearSplit)
            and len(split.terms) == 1
            and split.missing_left is None
        ):
            below = split.at_most == (side == "left")
            key = (split.names[0], below, split.width > 0)
            bound = split.threshold if below else -split.threshold
        if key in said and bound > said[key][0]:
            continue
        said.pop(key, None)
        said[key] = (bound, sentence)
    return " and ".join(sentence for _, sentence in said.values()) or "all rows"
