"""Table of the nodes of a tree, in the units and column names of the data."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from secret_jax.inspect.equations import CategorySplit, clip_range_of, conditions_at
from secret_jax.inspect.rounding import rounded_split
from secret_jax.inspect.view import Readable, outputs_of
from secret_jax.inspect.words import model_equation, split_sentence
from secret_jax.runtime.optional import imported
from secret_jax.tree.structure import SplitKind, StopReason, Tree

# Of every node, and of every output in it; of several outputs these have a column each.
WHOLE, FLOAT, TEXT = "int64", "float64", "object"
_PLACES = "parent", "left", "right", "depth"
_OF_NODE: dict[str, str] = dict.fromkeys(("node", *_PLACES), WHOLE)
_OF_NODE |= dict.fromkeys(("kind", "split", "attribute", "factors"), TEXT)
_OF_NODE |= dict.fromkeys(("threshold", "rows", "share", "gain"), FLOAT)
_OF_NODE |= {"stop_reason": TEXT}
_OF_OUTPUT = {"mean": FLOAT, "error": FLOAT, "model": TEXT, "low": FLOAT, "high": FLOAT}


def to_dataframe(tree: Readable, *, output: int | str | None = None) -> Any:
    """Make a DataFrame of the nodes of a tree.

    Parameters
    ----------
    output : int or str, optional
        Which of several outputs; by default all.

    Returns
    -------
    pandas.DataFrame
        One row per node, parents before their children:

        - ``node``, ``parent``, ``left``, ``right``: ids as `apply` gives them, -1 where
          there is none; ``depth``.
        - ``kind``: "axis", "oblique", "discrete", "conjunction" or "leaf".
        - ``split``: the condition to go left, in words.
        - ``attribute``: the column of an axis or discrete split; ``factors`` of axis
          and oblique splits as JSON, ``{"length": 1.0, "weight": -2.26}``, and the
          ``threshold`` of their sum, as printed; numbers of gates are not rounded.
        - ``rows``: sum of the weights of the training rows; ``share`` of all.
        - ``gain`` of the split as the search measured it; comparable within a tree. Of
          a fixed split what the models of its sides save, in squared error or loss.
        - ``stop_reason``: why a leaf was not split, in words.
        - ``mean`` of the target on these rows; of classes the share of the class.
        - ``error``: root mean squared error of the node's model on these rows, in units
          of the target, or with a loss its mean.
        - ``model``: the equation of the node, of inner nodes too; its value is clipped
          to [``low``, ``high``].

        Of several outputs the last five are there for each: ``mean of A`` and so on.

    Raises
    ------
    ImportError
        If pandas is not installed.
    """
    tree = outputs_of(tree, output)
    loss, several, types = tree.loss, tree.n_outputs > 1, dict(_OF_NODE)
    rows = [_row(tree, node) for node in range(tree.n_nodes)]
    for which, name in enumerate(tree.schema.target_names):
        one, suffix = (tree.output(which), f" of {name}") if several else (tree, "")
        types |= {what + suffix: kind for what, kind in _OF_OUTPUT.items()}
        schema = one.schema
        for node, row in enumerate(rows):
            mean_loss = max(float(one.train_error[node, 0]), 0.0)
            low, high = clip_range_of(one, node)
            row |= {
                f"mean{suffix}": float(schema.restore_target(one.mean[node, 0])),
                f"error{suffix}": loss.reported(mean_loss, schema.target_scale),
                f"model{suffix}": model_equation(one, node),
                f"low{suffix}": low,
                f"high{suffix}": high,
            }
    return made_table(rows, types)


def _row(tree: Tree, node: int) -> dict[str, Any]:
    """Describe a node, whatever its outputs."""
    kind, is_leaf = SplitKind(int(tree.kind[node])), bool(tree.is_leaf[node])
    attribute, factors, threshold = None, None, math.nan
    several = len(tree.comparisons_at(node)) > 1
    if not is_leaf and not several:
        ((_, split),) = conditions_at(tree, node)
        if isinstance(split, CategorySplit):
            attribute = split.name
        else:
            split = split if split.width else rounded_split(split)
            attribute = split.terms[0].name if kind == SplitKind.AXIS else None
            factors = json.dumps({term.label: term.factor for term in split.terms})
            threshold = split.threshold
    gain = float(tree.gain[node])
    if not math.isfinite(gain):  # of a fixed split
        error = tree.weight * tree.train_error.sum(axis=1)
        saved = error[node] - error[tree.left[node]] - error[tree.right[node]]
        gain = max(float(saved), 0.0)
    reason = StopReason(int(tree.stop_reason[node])).sentence
    return {
        "node": node,
        **{name: int(getattr(tree, name)[node]) for name in _PLACES},
        "kind": "conjunction" if several else kind.name.lower(),
        "split": None if is_leaf else split_sentence(tree, node),
        "attribute": attribute,
        "factors": factors,
        "threshold": threshold,
        "rows": float(tree.weight[node]),
        "share": float(tree.weight[node] / tree.weight[0]),
        "gain": gain,
        "stop_reason": reason if is_leaf else None,
    }


def made_table(rows: Sequence[Mapping[str, Any]], types: Mapping[str, str]) -> Any:
    """Make a DataFrame of rows, with the columns of given types."""
    pandas = import_pandas()
    columns = {name: [row[name] for row in rows] for name in types}
    return pandas.DataFrame(
        {name: pandas.Series(columns[name], dtype=kind) for name, kind in types.items()}
    )


def import_pandas() -> Any:
    return imported("pandas", "Tables", "data")
