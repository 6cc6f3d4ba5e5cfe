"""What is compiled: the paper's finders on accelerators, and finders of one node."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from level_batches import (
    NodeRows,
    find,
    goes_left,
    level_of,
    mixed_level,
    node_rows,
    on_tiles,
    with_rows,
)

from secret_jax import SecretSplits
from secret_jax.data.mixtures import weighted_products
from secret_jax.splits.classes import ClassSplits
from secret_jax.splits.interface import Node, OneNodeFinder, Split
from secret_jax.splits.mixture import fit_mixtures, maximise, whiten
from secret_jax.tree.structure import SplitKind

SECRET = SecretSplits(n_starts=2, max_iter=15)
FINDERS = {
    "rows": replace(SECRET, start="rows"),
    "counted": replace(SECRET, gain="counted", n_attempts=1),
    "classes": ClassSplits(),
    "classes, counted": ClassSplits(gain="counted"),
}


def as_classes(level, n_classes):
    """Outputs that indicate classes, which thirds of the outputs are."""
    rows = [node_rows(level, node) for node in range(level.n_nodes)]
    changed = []
    for each in rows:
        code = np.digitize(each.targets[:, 0], [-0.4, 0.4][: n_classes - 1])
        one = np.eye(n_classes)[code]
        changed.append(each._replace(targets=one if n_classes > 2 else one[:, 1:]))
    return with_rows(level, changed)


def assert_same_splits(level, found, other):
    assert np.array_equal(found.kind, other.kind)
    assert np.array_equal(found.attribute, other.attribute)
    assert np.array_equal(found.pure, other.pure)
    np.testing.assert_allclose(found.gain, other.gain, rtol=2e-3)
    for node in range(level.n_nodes):
        rows = node_rows(level, node)
        moved = goes_left(rows, found, node) != goes_left(rows, other, node)
        assert moved.sum() <= (found.kind[node] == SplitKind.OBLIQUE)


@pytest.mark.parametrize(
    ("name", "oblique"), [*((name, True) for name in FINDERS), ("rows", False)]
)
def test_splits(name, oblique):
    finder = FINDERS[name]
    level = mixed_level(finder, oblique=oblique)
    if name.startswith("classes"):
        level = as_classes(level, 2 if "counted" in name else 3)
    found = find(level, finder)
    assert (found.kind != SplitKind.LEAF).all()
    other = on_tiles(finder.find, level)
    assert_same_splits(level, found, other)
    if finder.implies_models:
        models = found.child_models, other.child_models
        np.testing.assert_allclose(*models, atol=2e-3)


def test_a_node_that_found_nothing_tries_again_and_no_other():
    finder = replace(SECRET, start="rows", n_starts=1, n_attempts=4)
    level = mixed_level(finder)
    x = level.x.copy()
    x[:, level.rows.first + 7] = 9.0
    targets = level.targets.copy()
    bad, good = (3, 7), (20, 50)
    place = np.array([good + 3 * bad, 2 * bad + good + bad, 4 * bad])
    random = np.float32((place + 0.5) / level.rows.length[:, None])
    level = replace(level, x=x, targets=targets, random=random)
    found = find(level, finder)
    assert (found.kind == SplitKind.LEAF).tolist() == [False, False, True]
    assert_same_splits(level, found, on_tiles(finder.find, level))


def test_a_step_of_em(rng):
    level = mixed_level(SECRET)
    share = rng.random((2, level.rows.n_rows)).astype(np.float32)
    on_host = whiten(level).rows
    start = weighted_products(on_host.rows, share * level.weight, on_host.z)
    level = replace(level, model=start)  # it comes to the tiles with the nodes

    def step(level):
        known = whiten(level).rows
        fit = fit_mixtures(
            known, level.model, max_iter=1, tolerance=-1.0, floor=SECRET.floor
        )
        return fit.moments, fit.objective, maximise(level.model, known, SECRET.floor)

    with np.errstate(all="ignore"):
        found = step(level)

    other = on_tiles(step, level)
    scale = np.einsum("nsii->nsi", found[0])
    scale = np.sqrt(scale[..., :, None] * scale[..., None, :])
    assert (np.abs(found[0] - other[0]) < 1e-5 * scale).all()
    for one, another in zip(
        jax.tree.leaves(found[1:]), jax.tree.leaves(other[1:]), strict=True
    ):
        np.testing.assert_allclose(one, another, rtol=1e-4, atol=1e-5)


@dataclass(frozen=True, kw_only=True)
class AtTheMean(OneNodeFinder):
    """Cuts the first column at its mean; rows without weight do not count."""

    def __call__(self, node: Node) -> Split:
        weight, x = node.weight, node.x[:, 0]
        return Split(
            kind=jnp.int32(SplitKind.AXIS),
            attribute=jnp.int32(0),
            direction=jnp.eye(1, node.x.shape[1])[0],
            threshold=jnp.sum(weight * x) / jnp.sum(weight),
            goes_left=jnp.zeros(node.n_categories, bool),
            gain=jnp.sum(weight),
            chance_gain=jnp.float32(0.0),
            pure=jnp.all(node.targets == 0),
        )


def test_every_node_is_searched_by_its_own_rows(rng):
    length = [3, 700, 40, 1, 513]
    nodes = [NodeRows(rng.normal(size=(n, 2)), np.full(n, n != 3)) for n in length]
    found = find(level_of(AtTheMean(), nodes), AtTheMean())
    means = [node.x[:, 0].mean() for node in nodes]
    np.testing.assert_allclose(found.threshold, means, atol=1e-6)
    np.testing.assert_array_equal(found.gain, length)
    np.testing.assert_array_equal(found.pure, np.array(length) == 3)
    assert found.direction.shape == (5, 2)
