"""Trees of any shape with splits and models that no data ever asked for."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
from handmade import LEAF, build_tree

from secret_jax import SecretClassifier, SecretRegressor
from secret_jax.data import encoding
from secret_jax.data.rows import Table
from secret_jax.data.schema import Role, TableSchema
from secret_jax.losses.classes import CrossEntropy
from secret_jax.tree.structure import (
    COMPARISON_FIELDS,
    SplitKind,
    StopReason,
    Tree,
)

NAMES = ("length", "sex", "shell weight", "a - b", "age", "place", "2nd (kg)")
TOWNS = tuple(f"town{i}" for i in range(12))


def table_schema(n_outputs: int = 1) -> TableSchema:
    """Four regressors, one split-only column, two discrete ones, in mixed order.

    The outputs are ``rings``, ``rings1`` and so on, each on a scale of its own.
    """
    continuous, split_only, discrete = (0, 2, 3, 6), (4,), (1, 5)
    roles = [Role.DISCRETE] * len(NAMES)
    for column in continuous:
        roles[column] = Role.REGRESSOR
    roles[4] = Role.SPLIT
    return TableSchema(
        names=NAMES,
        named=True,
        roles=tuple(roles),
        continuous=continuous + split_only,
        n_regressors=4,
        center=np.array([0.52, 1990.0, -3e-5, 4e6, 40.0]),
        scale=np.array([0.12, 8.0, 2e-6, 3e5, 12.0]),
        discrete=discrete,
        categories=(("F", "I", "M"), TOWNS),
        target_names=tuple(f"rings{i}" if i else "rings" for i in range(n_outputs)),
        target_centers=tuple(9.9 - 100 * i for i in range(n_outputs)),
        target_scales=tuple(3.2 * 20**i for i in range(n_outputs)),
    )


def random_tree(
    seed: int,
    n_leaves: int,
    *,
    kinds=(1, 2, 3),
    clip_margin: float | None = 0.1,
    n_outputs: int = 1,
) -> Tree:
    """A tree with a number of leaves; everything else is drawn at random."""
    generator = np.random.default_rng(seed)
    schema = table_schema(n_outputs)
    n_nodes, n_continuous = 2 * n_leaves - 1, len(schema.continuous)
    links = [LEAF] * n_nodes
    depth, weight = np.zeros(n_nodes, int), np.zeros(n_nodes)
    weight[0] = 1000.0
    for child in range(1, n_nodes, 2):
        leaves = [i for i in range(child) if links[i] == LEAF and depth[i] < 8]
        node = generator.choice(leaves, p=weight[leaves] / weight[leaves].sum())
        links[node] = child, child + 1
        depth[child : child + 2] = depth[node] + 1
        weight[child] = np.ceil(weight[node] * generator.uniform(0.2, 0.8))
        weight[child + 1] = weight[node] - weight[child]
    tree = build_tree(links, seed, clip_margin, n_outputs)
    kind = np.where(tree.is_leaf, SplitKind.LEAF, generator.choice(kinds, n_nodes))
    attribute = np.full(n_nodes, -1, np.int32)
    direction = np.zeros((n_nodes, n_continuous), np.float32)
    goes_left = np.zeros((n_nodes, len(TOWNS)), bool)
    for node in np.flatnonzero(~tree.is_leaf):
        if kind[node] == SplitKind.AXIS:
            attribute[node] = generator.integers(n_continuous)
            direction[node, attribute[node]] = 1
        elif kind[node] == SplitKind.OBLIQUE:
            direction[node] = generator.normal(size=n_continuous)
        else:
            attribute[node] = generator.integers(2)
            n_categories = len(schema.categories[attribute[node]])
            chosen = generator.permutation(n_categories)
            goes_left[node, chosen[: generator.integers(1, n_categories)]] = True
    coefficient = generator.normal(size=(n_nodes, n_outputs, 1 + schema.n_regressors))
    outputs = (n_nodes, n_outputs)
    return dataclasses.replace(
        tree,
        kind=kind.astype(np.int32),
        attribute=attribute,
        direction=direction,
        threshold=generator.normal(0, 0.5, n_nodes).astype(np.float32),
        goes_left=goes_left,
        larger_left=generator.random(n_nodes) < 0.5,
        coefficient=coefficient,
        lower=coefficient[:, :, 0] - generator.uniform(0.5, 2, outputs),
        upper=coefficient[:, :, 0] + generator.uniform(0.5, 2, outputs),
        weight=weight,
        n_rows=weight.astype(np.int64),
        train_error=generator.uniform(0.01, 0.5, outputs),
        mean=generator.normal(size=outputs),
        center=np.zeros((n_nodes, schema.n_regressors)),
        spread=np.ones((n_nodes, schema.n_regressors)),
        standard_error=np.full(coefficient.shape, np.nan),
        stop_reason=np.where(tree.is_leaf, StopReason.PRUNED, 0).astype(np.int32),
        schema=schema,
    )


def with_conjunctions(tree: Tree, seed: int = 0, most: int = 3) -> Tree:
    """The tree with conjunctions of two comparisons or more in place of most splits.

    The first comparison is the split itself, if it is on one attribute.
    """
    rng, schema = np.random.default_rng(seed), tree.schema
    n_columns = tree.direction.shape[1]
    chosen = ~tree.is_leaf & (rng.uniform(size=tree.n_nodes) < 0.7)
    chosen[0] = not tree.is_leaf[0]
    arrays = {name: list(getattr(tree, name)) for name in COMPARISON_FIELDS}
    further = []
    for node in np.flatnonzero(chosen):
        for place in range(rng.integers(2, most + 1)):
            if place == 0 and tree.kind[node] != SplitKind.OBLIQUE:
                continue
            direction, threshold = np.zeros(n_columns, np.float32), np.float32(0)
            goes_left = np.zeros(tree.goes_left.shape[1], bool)
            if rng.uniform() < 0.6:
                kind, attribute = SplitKind.AXIS, rng.integers(n_columns)
                direction[attribute] = rng.choice([-1, 1])
                threshold = np.float32(rng.normal(0.8, 0.3))
            else:
                kind, attribute = SplitKind.DISCRETE, rng.integers(len(schema.discrete))
                n = len(schema.categories[attribute])
                goes_left[rng.permutation(n)[: rng.integers(1, n)]] = True
            one = (int(kind), attribute, direction, threshold, goes_left)
            for name, value in zip(COMPARISON_FIELDS, one, strict=True):
                if place == 0:
                    arrays[name][node] = value
                else:
                    arrays[name].append(value)
            if place:
                further.append(node)
    changed = {
        name: np.array(values, getattr(tree, name).dtype)
        for name, values in arrays.items()
    }
    return dataclasses.replace(tree, **changed, further=np.array(further, np.int32))


def class_tree(seed: int, n_leaves: int, names: list[str], **options) -> Tree:
    """A tree of classes: shares that add up, and equations of log-odds or scores.

    Of two classes it has one output, the second.
    """
    n_outputs = 1 if len(names) == 2 else len(names)
    tree = random_tree(seed, n_leaves, n_outputs=n_outputs, **options)
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(len(names)), tree.n_nodes)
    schema = dataclasses.replace(
        tree.schema,
        target_names=tuple(names[-n_outputs:]),
        target_centers=(0.0,) * n_outputs,
        target_scales=(1.0,) * n_outputs,
    )
    mean = shares[:, -n_outputs:]
    return dataclasses.replace(tree, schema=schema, mean=mean, loss=CrossEntropy())


def random_rows(seed: int, n_rows: int) -> list[np.ndarray]:
    """Columns for `table_schema`, in the order of its names."""
    generator = np.random.default_rng(seed)
    schema = table_schema()
    columns: list[np.ndarray] = [np.empty(0)] * len(NAMES)
    for position, column in enumerate(schema.continuous):
        z = generator.normal(size=n_rows)
        columns[column] = schema.center[position] + schema.scale[position] * z
    for position, column in enumerate(schema.discrete):
        categories = np.array(schema.categories[position], object)
        columns[column] = generator.choice(categories, n_rows)
    return columns


def random_frame(seed: int, n_rows: int) -> pd.DataFrame:
    """The columns of `random_rows` as a DataFrame."""
    return pd.DataFrame(dict(zip(NAMES, random_rows(seed, n_rows), strict=True)))


def reading(tree: Tree, classes: list[str] | None = None) -> Any:
    """An estimator that was fitted to nothing and reads this tree."""
    model: Any = SecretRegressor() if classes is None else SecretClassifier()
    model.tree_, model.n_features_in_ = tree, len(tree.schema.names)
    model.feature_names_in_ = np.array(tree.schema.names, object)
    if classes is not None:
        model.classes_ = np.array(classes)
    return model


def encode(columns: list[np.ndarray]) -> Table:
    """Columns of `random_rows` as a tree reads them."""
    return encoding.encode(table_schema(), np.array(columns, object).T)


def with_gates(tree: Tree, seed: int = 0, hard_share: float = 0.3) -> Tree:
    """The tree with gates of random widths in place of most linear splits."""
    rng = np.random.default_rng(seed)
    linear = (tree.kind == SplitKind.AXIS) | (tree.kind == SplitKind.OBLIQUE)
    soft = linear & (rng.uniform(size=tree.n_nodes) > hard_share)
    soft[0] = linear[0]
    width = np.where(soft, rng.uniform(0.1, 2.0, tree.n_nodes), 0)
    return dataclasses.replace(tree, gate_width=width.astype(np.float32))
