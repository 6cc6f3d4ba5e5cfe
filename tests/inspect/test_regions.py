"""Regions and equations of leaves agree with `predict`, and a solver uses them."""

import numpy as np
import pandas as pd
import pytest
from configurations import refusal
from handmade import SHAPES, build_tree
from random_trees import encode, random_frame, random_rows, random_tree, with_gates
from scipy.linalg import block_diag
from scipy.optimize import Bounds, LinearConstraint, milp

from secret_jax.data.rows import Table
from secret_jax.inspect.regions import Regions, regions
from secret_jax.tree.routing import apply, predict


def as_columns(found: Regions, frame: pd.DataFrame) -> np.ndarray:
    """Rows as the regions have them, shape (n_rows, n_columns)."""
    names = {
        f"[{name} = {value}]": (name, value)
        for name in frame
        for value in set(frame[name])
    }
    columns = []
    for label in found.columns:
        if label in frame:
            columns.append(frame[label].to_numpy(float))
        elif label in names:
            name, value = names[label]
            columns.append((frame[name] == value).to_numpy(float))
        else:  # a category that no row has
            columns.append(np.zeros(len(frame)))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("clip_margin", [0.1, None])
def test_a_row_is_in_the_region_of_its_leaf(clip_margin):
    tree, rows = random_tree(12, 12, clip_margin=clip_margin), random_rows(1, 300)
    frame = random_frame(1, 300)
    found = regions(tree)
    z, table = as_columns(found, frame), encode(rows)
    leaf, expected = apply(tree, table), predict(tree, table)
    n_inside = np.zeros(len(z))
    for region in found.leaves:
        rounding = 1e-9 * (np.abs(z) @ np.abs(region.A.T) + np.abs(region.b))
        inside = (z @ region.A.T <= region.b + rounding).all(axis=1)
        assert inside[leaf == region.leaf].all()
        n_inside += inside
        here = leaf == region.leaf
        said = region.intercept + z[here] @ region.coefficient
        np.testing.assert_allclose(
            np.clip(said, region.low, region.high),
            expected[here],
            rtol=0,
            atol=3e-5 * tree.schema.target_scale,
        )
    assert n_inside.mean() < 1.05  # borders alone are shared


def least(found: Regions, lower: np.ndarray, upper: np.ndarray, budget: float):
    """Row of least prediction whose numbers add up to at most a budget, by HiGHS.

    Every leaf has a switch, one of which is 1, and a copy of the columns, which is zero
    unless it is: the convex hull of the regions (Balas 1985). Leaves do not clip.
    """
    n, leaves = len(found.columns), found.leaves
    numbers = np.ones(n)
    numbers[[place for own in found.attributes for place in own]] = 0.0
    blocks, switches = [], np.zeros((1, 0))
    for leaf in leaves:
        ways = np.hstack([leaf.A, -leaf.b[:, None]])
        above = np.hstack([np.eye(n), -upper[:, None]])
        below = np.hstack([-np.eye(n), lower[:, None]])
        one_each = np.zeros((len(found.attributes), n + 1))
        for row, own in zip(one_each, found.attributes, strict=True):
            row[[*own]], row[n] = 1.0, -1.0
        blocks.append(np.vstack([ways, above, below, one_each]))
        switches = np.hstack([switches, [[0.0] * n + [1.0]]])
    spent = np.tile([*numbers, 0.0], len(leaves))
    result = milp(
        np.concatenate([[*leaf.coefficient, leaf.intercept] for leaf in leaves]),
        integrality=np.tile([*(1.0 - numbers), 1.0], len(leaves)),
        bounds=Bounds(-np.inf, np.inf),
        constraints=[
            LinearConstraint(block_diag(*blocks), ub=0.0),
            LinearConstraint(switches, 1.0, 1.0),
            LinearConstraint(spent[None], ub=budget),
        ],
    )
    copies = result.x.reshape(len(leaves), n + 1)
    return copies[:, :n].sum(axis=0), int(copies[:, n].argmax()), result.fun


@pytest.mark.parametrize("seed", range(3))
def test_a_solver_finds_the_least_prediction(seed):
    tree = build_tree(SHAPES["bushy"], seed)
    found = regions(tree)
    number = np.array([not name.startswith("[") for name in found.columns])
    lower, upper = np.where(number, -2.0, 0.0), np.where(number, 2.0, 1.0)
    budget = 0.5
    best, place, value = least(found, lower, upper, budget)
    leaf = found.leaves[place]
    assert (leaf.A @ best <= leaf.b + 1e-6).all()
    assert best[number].sum() <= budget + 1e-6
    assert leaf.intercept + leaf.coefficient @ best == pytest.approx(value, abs=1e-6)
    # A fine grid within the budget has no lower prediction, and one nearly as low.
    step = np.linspace(-2.0, 2.0, 201)
    a, b, code = (each.ravel() for each in np.meshgrid(step, step, np.arange(3)))
    used = {"a": a, "b": b}
    allowed = sum(used[name] for name in found.columns if name in used) <= budget
    x = np.stack([a, b], axis=1).astype(np.float32)[allowed]
    grid = predict(tree, Table(x, code[allowed, None].astype(np.int32)))
    assert value - 1e-5 <= grid.min() <= value + 0.2


def test_gates_are_refused():
    with refusal("gates", "refine"):
        regions(with_gates(random_tree(0, 4)))
