"""What a card computes is right, the same twice, and the same without kernels.

Tests marked `gpu` need one: `pytest -m gpu`. A pretended one shows that they run.
"""

from __future__ import annotations

import functools
import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from configurations import crease

from benchmarks.device.counting import as_on_accelerator, with_kernels
from benchmarks.device.measuring import Machine, _mixture_rows
from secret_jax import (
    SecretBoostingRegressor,
    SecretClassifier,
    SecretRegressor,
    SecretSplits,
)
from secret_jax.data import fallback
from secret_jax.datasets import make_fried
from secret_jax.runtime.devices import in_32_bits, runs_triton
from secret_jax.splits.mixture import fit_mixtures
from secret_jax.tree.structure import SplitKind

N_ROWS = 65_536
WEIGHTS = np.random.default_rng(0).uniform(0.5, 2.0, N_ROWS)
PAPER = functools.partial(SecretRegressor.paper, oblique=True)
# What is fitted, the number of columns, and whether rows have weights.
CASES = {
    "default": (SecretRegressor, 10, False),
    "default, weights": (SecretRegressor, 10, True),
    "default, wide": (SecretRegressor, 31, False),
    "paper": (PAPER, 10, False),
    "paper, weights": (PAPER, 10, True),
    "paper, wide": (PAPER, 31, False),
    "classes": (SecretClassifier, 10, False),
    "booster": (functools.partial(SecretBoostingRegressor, max_iter=20), 10, False),
    "gates": (functools.partial(SecretRegressor, refine="soft"), 10, False),
}


@pytest.fixture
def card():
    """The first GPU."""
    try:
        return jax.local_devices(backend="gpu")[0]
    except RuntimeError:
        pytest.skip("JAX sees no GPU")


def table(name, seed=0, n_rows=N_ROWS):
    kind, n_columns, weighted = CASES[name]
    X, y = make_fried(n_rows, n_features=n_columns, random_state=seed)
    y = np.digitize(y, [11.0, 17.0]) if kind is SecretClassifier else y
    return X, y, {"sample_weight": WEIGHTS} if weighted else {}


@functools.cache
def fitted(name, device, again=False):
    """A model of a case; ``again`` asks for another fit."""
    X, y, more = table(name)
    return CASES[name][0](random_state=0, device=device).fit(X, y, **more)


def error_of(name, model):
    X, y, _ = table(name, seed=1, n_rows=20_000)
    if hasattr(model, "predict_proba"):
        share = model.predict_proba(X)[np.arange(len(y)), y]
        return -np.mean(np.log(np.maximum(share, 1e-6)))
    return np.mean((model.predict(X) - y) ** 2)


def assert_same_but_for_ties(tree, other):
    """Nodes split alike from the root down, or by splits that gain as much."""
    pairs = [(0, 0)]
    while pairs:
        here, there = pairs.pop()
        kinds = tree.kind[here], other.kind[there]
        if SplitKind.LEAF in kinds:
            continue  # pruning compares errors, which the test does as well
        along = np.abs(tree.direction[here] @ other.direction[there])
        lengths = [
            np.linalg.norm(each.direction[node])
            for each, node in ((tree, here), (other, there))
        ]
        alike = kinds[0] == kinds[1] and (
            tree.attribute[here] == other.attribute[there]
            and along >= 0.999 * np.prod(lengths)
        )
        if alike:
            pairs += [
                (tree.left[here], other.left[there]),
                (tree.right[here], other.right[there]),
            ]
        else:
            gains = tree.gain[here], other.gain[there]
            np.testing.assert_allclose(*gains, rtol=1e-2)


def digest(model):
    """Bits of a tree, or of the predictions of several."""
    found = hashlib.sha256(np.ascontiguousarray(model.predict(table("paper")[0][:999])))
    if hasattr(model, "tree_"):
        for name in ("kind", "attribute", "direction", "threshold", "coefficient"):
            found.update(np.ascontiguousarray(getattr(model.tree_, name)))
    return found.hexdigest()


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_a_card_is_as_good_as_processors(name, card):
    found, expected = fitted(name, "gpu"), fitted(name, "cpu")
    errors = [error_of(name, model) for model in (found, expected)]
    np.testing.assert_allclose(*errors, rtol=1e-2)
    if name.startswith("default"):
        assert_same_but_for_ties(found.tree_, expected.tree_)


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in CASES if "wide" not in name])
def test_a_card_computes_the_same_bits_twice(name, card):
    first, again = fitted(name, "gpu"), fitted(name, "gpu", again=True)
    assert digest(first) == digest(again)


PROCESS = """
import sys
sys.path[:0] = {path!r}
from test_on_a_card import digest_of
print(digest_of({name!r}))
"""


def digest_of(name):
    return digest(fitted(name, "gpu"))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["default", "default, weights", "paper"])
def test_a_card_computes_the_same_bits_in_another_process(name, card):
    path = [str(Path(__file__).parent), *sys.path]
    script = PROCESS.format(path=path, name=name)
    found = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert found.stdout.split()[-1] == digest_of(name)


@pytest.mark.gpu
@pytest.mark.parametrize("n_steps", [1, 10])
@pytest.mark.parametrize(("n_nodes", "width"), [(64, 2), (64, 11), (1024, 11)])
def test_kernels_compute_what_xla_does(n_nodes, width, n_steps, card):
    if not runs_triton(card):
        pytest.skip("the card runs no kernels of Triton")
    known, start = _mixture_rows(Machine("gpu"), n_nodes, 2048, width)
    found = []
    for used in (False, True):
        steps = functools.partial(
            fit_mixtures, max_iter=n_steps, tolerance=-1e9, floor=1e-5
        )
        with in_32_bits(), jax.default_device(card), with_kernels(used):
            found.append(jax.jit(steps)(known, start))
    for own, other in zip(*map(jax.tree.leaves, found), strict=True):
        scale = np.max(np.abs(own))
        np.testing.assert_allclose(other, own, rtol=1e-3, atol=1e-4 * scale)


@pytest.mark.gpu
def test_kernels_work_on_the_card(card, monkeypatch, tmp_path):
    if not runs_triton(card):
        pytest.skip("the card runs no kernels of Triton")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert fallback._failure_on(card) is None


@pytest.mark.gpu
def test_the_paper_errs_as_much_without_kernels(card, monkeypatch):
    monkeypatch.setenv("SECRET_JAX_KERNELS", "off")
    plain = CASES["paper"][0](random_state=0, device="gpu").fit(*table("paper")[:2])
    errors = [error_of("paper", each) for each in (plain, fitted("paper", "gpu"))]
    np.testing.assert_allclose(*errors, rtol=1e-2)


def test_a_pretended_card_splits_as_processors_do():
    X, y = crease()
    options = {"prune": None, "max_leaf_nodes": 6, "oblique": True}
    options["splits"] = SecretSplits(n_starts=1, n_attempts=1)
    model = SecretRegressor(random_state=0, **options)
    expected = model.fit(X, y).tree_
    with as_on_accelerator():
        found = model.fit(X, y).tree_
    assert found.n_leaves == 6
    assert_same_but_for_ties(found, expected)
    broken = np.full_like(expected.attribute, 2)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_same_but_for_ties(
            found, replace(expected, attribute=broken, gain=2 * expected.gain)
        )
