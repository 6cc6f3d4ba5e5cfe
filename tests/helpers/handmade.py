"""Small trees made by hand, and rows for them, that need no fit."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from schemas import learn_schema

from secret_jax import SecretRegressor
from secret_jax.data.learning import ColumnOptions
from secret_jax.data.rows import Table
from secret_jax.data.schema import Role, TableSchema
from secret_jax.tree.reshape import compact
from secret_jax.tree.structure import SplitKind, StopReason, Tree

UNSEEN = -1


def schema(n_outputs: int = 1) -> TableSchema:
    """Regressor ``a``, split-only ``b``, discrete ``colour``; y = 10 + 2 y_std.

    Further outputs are ``y1`` = 11 + 3 y1_std, ``y2`` = 12 + 4 y2_std and so on.
    """
    outputs = range(n_outputs)
    return TableSchema(
        names=("colour", "a", "b"),
        named=True,
        roles=(Role.DISCRETE, Role.REGRESSOR, Role.SPLIT),
        continuous=(1, 2),
        n_regressors=1,
        center=np.zeros(2),
        scale=np.ones(2),
        discrete=(0,),
        categories=(("red", "green", "blue"),),
        target_names=tuple(f"y{i}" if i else "y" for i in outputs),
        target_centers=tuple(10.0 + i for i in outputs),
        target_scales=tuple(2.0 + i for i in outputs),
    )


def linked_tree(left: np.ndarray, right: np.ndarray, schema, **arrays) -> Tree:
    """A tree of links and further arrays; those that are not given say nothing."""
    n_nodes, parent, depth = len(left), np.full_like(left, -1), np.zeros_like(left)
    for node in np.flatnonzero(left >= 0):
        for child in (left[node], right[node]):
            parent[child], depth[child] = node, depth[node] + 1
    outputs, wide = (n_nodes, schema.n_outputs), (n_nodes, schema.n_regressors)
    usual = {
        **{"weight": np.ones(n_nodes), "degrees": np.zeros(n_nodes)},
        **{"train_error": np.zeros(outputs), "mean": np.zeros(outputs)},
        **{"deviation": np.ones(outputs), "center": np.zeros(wide)},
        **{"spread": np.ones(wide), "gain": np.zeros(n_nodes, np.float32)},
        "standard_error": np.full((*outputs, 1 + schema.n_regressors), np.nan),
        "gate_width": np.zeros(n_nodes, np.float32),
    }
    links = {"left": left, "right": right, "parent": parent, "depth": depth}
    return Tree(schema=schema, **links, **usual | arrays)


def build_tree(
    links: list[tuple[int, int]], seed: int, clip_margin=None, n_outputs: int = 1
) -> Tree:
    """A tree of the given (left, right) links; splits and models are random."""
    rng = np.random.default_rng(seed)
    n_nodes = len(links)
    left, right = np.array(links, np.int32).T
    inner = left >= 0
    kind = np.where(inner, rng.integers(1, 4, n_nodes), SplitKind.LEAF).astype(np.int32)
    axis, discrete = kind == SplitKind.AXIS, kind == SplitKind.DISCRETE
    attribute = np.where(axis, rng.integers(0, 2, n_nodes), np.where(discrete, 0, -1))
    direction = rng.normal(size=(n_nodes, 2))
    direction[axis] = np.eye(2)[attribute[axis]]
    direction[discrete | ~inner] = 0
    lower = rng.normal(size=(n_nodes, n_outputs)) - 0.5
    threshold = np.where(inner & ~discrete, rng.normal(size=n_nodes), 0)
    reason = np.where(inner, StopReason.SPLIT, StopReason.PURE)
    return linked_tree(
        left,
        right,
        schema(n_outputs),
        kind=kind,
        attribute=attribute.astype(np.int32),
        direction=direction.astype(np.float32),
        threshold=threshold.astype(np.float32),
        goes_left=rng.integers(0, 2, (n_nodes, 3)).astype(bool) & discrete[:, None],
        larger_left=rng.integers(0, 2, n_nodes).astype(bool),
        coefficient=rng.normal(size=(n_nodes, n_outputs, 2)),
        lower=lower,
        upper=lower + rng.uniform(0, 1, (n_nodes, n_outputs)),
        gain=np.where(inner, 0.5, 0).astype(np.float32),
        stop_reason=reason.astype(np.int32),
        clip_margin=clip_margin,
    )


LEAF = (-1, -1)
BUSHY = [(1, 2), (3, 4), (5, 6), (7, 8), LEAF, LEAF, (9, 10), LEAF, LEAF, LEAF, LEAF]
CHAIN = [(1, 2), LEAF, (3, 4), (5, 6), LEAF, LEAF, (7, 8), LEAF, LEAF]
STUMP = [(1, 2), LEAF, LEAF]
SHAPES = {"bushy": BUSHY, "chain": CHAIN, "stump": STUMP, "root": [LEAF]}


def axis_stump(
    attribute: int = 0, threshold: float = 0.0, sign: float = 1.0, **changes
) -> Tree:
    """A stump whose split is on ``a`` (0) or ``b`` (1), with further arrays of it."""
    direction = np.zeros((3, 2), np.float32)
    direction[0, attribute] = sign
    return replace(
        build_tree(STUMP, seed=0),
        kind=np.array([SplitKind.AXIS, 0, 0], np.int32),
        attribute=np.array([attribute, -1, -1], np.int32),
        direction=direction,
        threshold=np.array([threshold, 0, 0], np.float32),
        **changes,
    )


def rows(n_rows: int = 50, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, 2)).astype(np.float32)
    codes = rng.integers(UNSEEN, 3, (n_rows, 1)).astype(np.int32)
    return Table(x, codes)


def subtrees(tree: Tree) -> Iterator[Tree]:
    """All that pruning may leave of a tree."""
    inner = np.flatnonzero(~tree.is_leaf)
    for choice in itertools.product([False, True], repeat=len(inner)):
        keep = np.zeros(tree.n_nodes, bool)
        keep[inner] = choice
        yield compact(tree, keep)


# What a tree does, as plain loops


def goes_left(tree: Tree, node: int, x: np.ndarray, codes: np.ndarray) -> bool:
    if tree.kind[node] == SplitKind.DISCRETE:
        code = codes[tree.attribute[node]]
        return tree.larger_left[node] if code < 0 else tree.goes_left[node, code]
    return float(tree.direction[node] @ x) <= tree.threshold[node]


def path_of(tree: Tree, x: np.ndarray, codes: np.ndarray) -> list[int]:
    path = [0]
    while tree.left[path[-1]] >= 0:
        node = path[-1]
        side = tree.left if goes_left(tree, node, x, codes) else tree.right
        path.append(int(side[node]))
    return path


def prediction_of(tree: Tree, node: int, x: np.ndarray, output: int = 0) -> float:
    """In standardised units."""
    value = tree.coefficient[node, output] @ [1.0, x[0]]
    low, high = tree.lower[node, output], tree.upper[node, output]
    if tree.clip_margin is not None:
        margin = tree.clip_margin * (high - low)
        value = min(max(value, low - margin), high + margin)
    return value


def tree_on_numbers(shape: str, seed: int, n_columns: int, n_outputs: int = 1) -> Tree:
    """A tree of splits on single numbers, all of them regressors."""
    tree = build_tree(SHAPES[shape], seed, n_outputs=n_outputs)
    rng, inner = np.random.default_rng(seed), ~tree.is_leaf
    attribute = np.where(inner, rng.integers(0, n_columns, tree.n_nodes), -1)
    schema = learn_schema(
        [np.array([-1.0, 1.0])] * n_columns,
        np.ones((2, n_outputs)) * [[-1.0], [1.0]],
        np.ones(2),
        ColumnOptions(missing="learn"),
        tuple(f"y{i}" for i in range(n_outputs)),
    )
    wide = np.zeros((tree.n_nodes, n_columns))
    return replace(
        tree,
        schema=schema,
        kind=np.where(inner, SplitKind.AXIS, SplitKind.LEAF).astype(np.int32),
        attribute=attribute.astype(np.int32),
        direction=(np.eye(n_columns)[attribute] * inner[:, None]).astype(np.float32),
        threshold=(0.3 * rng.normal(size=tree.n_nodes) * inner).astype(np.float32),
        goes_left=np.zeros((tree.n_nodes, 0), bool),
        coefficient=np.zeros((tree.n_nodes, n_outputs, 1 + n_columns)),
        center=wide,
        spread=wide,
    )


def save_tree(tree: Tree, path: Path) -> None:
    """Write a file of an estimator with this tree."""
    model = SecretRegressor()
    model.tree_ = tree
    model.save(path)


def load_tree(path: Path) -> Tree:
    """Read the tree of an estimator's file."""
    return SecretRegressor.load(path).tree_
