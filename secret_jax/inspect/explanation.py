"""Predictions taken apart: arrays, words, tables."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from secret_jax.data.columns import is_missing
from secret_jax.inspect.frame import import_pandas
from secret_jax.inspect.printing import entry, number, quoted

# What a screen has room for.
_ROWS_SHOWN = 5
_CLASSES_SHOWN, _LEAST = 4, 5e-4  # the likeliest, and what rounds to 0.1 %
_DIGITS_SHOWN = 4  # of the largest figure of a row
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
        Name of what is taken apart: the target, or its logarithm; of classes their
        log-odds, of several the score of each row's predicted class.
    names : tuple of str
        The input columns.
    values : ndarray of shape (n_rows, n_columns), object
        What the rows hold.
    categorical : tuple of bool
        Whether a column holds categories, which have all their digits in words.
    unknown : ndarray of shape (n_rows, n_columns), bool
        Whether it is a category, or a gap among them, that training never saw.
    baseline : float, or ndarray of shape (n_rows,) where the targets differ
        Where the root starts: its equation at the mean of the training rows, which is
        the mean of the target.
    linear : ndarray of shape (n_rows, n_columns), float64
        Slope of the leaf's equation times the deviation of the column from its mean in
        the leaf (of categories: of their indicators).
    splits : ndarray of shape (n_rows, n_columns), float64
        Steps of the level, a node's equation at the center of its own rows, by splits
        on the column; a split on several is shared by the squares of their standardised
        coefficients.
    clipping : ndarray of shape (n_rows,), float64
        What clipping to the range of the leaf's outputs adds.
    prediction : ndarray of shape (n_rows,), float64
        What is taken apart: as `predict` gives it, without its float32 rounding, or the
        logarithm of that; of classes as `decision_function` does.
    leaf : ndarray of shape (n_rows,), int32
        Node id of the leaf, of a soft tree the one with the largest share.
    share : ndarray of shape (n_rows,), float64
        Share of that leaf in the prediction; 1 of a hard tree.
    path : tuple of str
        The conditions on the way to that leaf, in words.
    classes : tuple
        Labels; empty where numbers are predicted.
    outcome : str
        Name of the number that is predicted where its logarithm is taken apart;
        otherwise empty.
    predicted : ndarray of shape (n_rows,)
        As `predict` gives it: of classes their labels, of numbers ``prediction`` or
        what it is the logarithm of.
    probability : ndarray of shape (n_rows, n_classes), float64
        As `predict_proba` gives it.
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
        shown = [self.row_text(row) for row in range(min(len(self), _ROWS_SHOWN))]
        more = len(self) - len(shown)
        return "\n\n".join(shown + ([f"... {more} more rows"] if more else []))

    def row_text(self, row: int) -> str:
        """Write one row in words, its largest contributions first."""
        contributions, prediction = self.contributions[row], self.prediction[row]
        step = max(abs(prediction), np.abs(contributions).max(initial=0.0))
        digits = 0
        if step > 0:
            digits = max(0, _DIGITS_SHOWN - 1 - int(np.floor(np.log10(step))))
        share = self.share[row]
        part = "" if share > 1 - _WHOLE else f" ({100 * share:.0f} % of the mixture)"
        value = f"{quoted(self.target_of(row))} = {prediction:.{digits}f}"
        head, told_apart = value, []
        if self.classes:
            head, told_apart = self._in_chances(row), [f"  {value}"]
        elif self.outcome:
            mean = number(self.predicted[row], digits=_DIGITS_SHOWN)
            head, told_apart = f"{quoted(self.outcome)} = {mean}", [f"  {value}"]
        lines = [
            f"row {row}: {head}",
            f"  leaf [{self.leaf[row]}]{part}: {self.path[row]}",
            *told_apart,
        ]
        baseline, steps = self.baseline_of(row), self.steps(row)
        if abs(self.clipping[row]) > _EXACT * step:
            steps.append(("clipping to the outputs of the leaf", self.clipping[row]))
        figures = [f"{baseline:.{digits}f}", *(f"{v:+.{digits}f}" for _, v in steps)]
        words = ["baseline", *(name for name, _ in steps)]
        width = max(map(len, figures))
        pairs = zip(figures, words, strict=True)
        return "\n".join([*lines, *(f"  {f:>{width}}  {name}" for f, name in pairs)])

    def steps(self, row: int) -> list[tuple[str, float]]:
        """Contributions to a row in words, the largest first, without the baseline."""
        added, steps = self.contributions[row], []
        for column in np.argsort(-np.abs(added), kind="stable").tolist():
            if added[column] != 0:
                value = self.values[row, column]
                word = quoted if self.categorical[column] else entry
                held = "missing" if is_missing(value) else word(value)
                new = " (not in training)" * bool(self.unknown[row, column])
                words = f"{quoted(self.names[column])} = {held}{new}"
                steps.append((words, float(added[column])))
        return steps

    def target_of(self, row: int) -> str:
        """Name of what is taken apart of a row."""
        return self.target if isinstance(self.target, str) else self.target[row]

    def baseline_of(self, row: int) -> float:
        """Where the sum of a row starts."""
        return float(np.broadcast_to(self.baseline, len(self))[row])

    def _in_chances(self, row: int) -> str:
        """Write the class of a row, and the probabilities of the likeliest ones."""
        chance = self.probability[row]
        order = [i for i in np.argsort(-chance, kind="stable") if chance[i] >= _LEAST]
        chances = [
            f"{quoted(self.classes[i])} {100 * chance[i]:.1f} %"
            for i in order[:_CLASSES_SHOWN]
        ]
        if len(order) > _CLASSES_SHOWN:
            chances.append("...")
        label = self.predicted.tolist()[row]
        return f"predicted {quoted(label)} ({', '.join(chances)})"

    def to_dataframe(self) -> Any:
        """Make a DataFrame of the contributions.

        Returns
        -------
        pandas.DataFrame
            One row per row; ``baseline``, a column for every input column,
            ``clipping``, ``prediction``, ``leaf`` and ``path``. Of classes and where
            logarithms are taken apart the sum is called ``score``, and ``prediction``
            is as `predict` gives it; of classes there is a ``probability of ...`` each.
            An underscore is added to those of these names that an input column has.
        """
        before = {"baseline": np.broadcast_to(self.baseline, len(self))}
        after: dict[str, Any] = {"clipping": self.clipping}
        if self.classes or self.outcome:
            after["score"] = self.prediction
        after["prediction"] = self.predicted
        for label, chance in zip(self.classes, self.probability.T, strict=True):
            after[f"probability of {label}"] = chance
        after |= {"leaf": self.leaf, "path": np.array(self.path, object)}

        def free(columns: dict[str, Any]) -> dict[str, list[Any]]:
            named = {}
            for name, values in columns.items():
                while name in self.names:
                    name += "_"
                named[name] = values.tolist()
            return named

        columns = dict(zip(self.names, self.contributions.T.tolist(), strict=True))
        return import_pandas().DataFrame(free(before) | columns | free(after))
