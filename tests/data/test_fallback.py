"""Kernels are used where their sums are right, and given up where they fail.

A processor stands for a card that runs Triton. Unless a test says so, array operations
stand for the kernel: they trace and compile faster than its emulation.
"""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secret_jax.data import fallback, kernels, mixtures
from secret_jax.data.tiles import TiledRows

DEVICE = jax.devices("cpu")[0]
LENGTH, TILE, N_JOINT = [40, 64], 32, 3
N_TILES, N_STARTS = 4, 2


def imitation(layout, forms, arrays):
    """Sums of tiles as the kernel returns them."""
    length, first, node = layout
    n_tiles, n_joint, tile = arrays[0].shape
    filled = length[node] - (jnp.arange(n_tiles) - first[node]) * tile
    rows = TiledRows.samples(jnp.clip(filled, 0, tile), tile)
    forms = [values[node] for values in forms]
    moments, likelihood = mixtures.expectation(rows, forms, arrays)
    row, column = np.tril_indices(n_joint)
    return jnp.concatenate([moments[..., row, column], likelihood[..., None]], axis=-1)


class Card:
    """What is asked of kernels, and how they are broken from some call on."""

    def __init__(self):
        self.n_calls, self.breaks_at, self.broken = 0, np.inf, imitation

    def __call__(self, *arguments):
        self.n_calls += 1
        broken = self.n_calls >= self.breaks_at
        return (self.broken if broken else imitation)(*arguments)


@pytest.fixture
def card(monkeypatch, tmp_path):
    """A card on which no process has tried kernels."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SECRET_JAX_KERNELS", raising=False)
    monkeypatch.setattr(fallback, "runs_triton", lambda device: True)
    monkeypatch.setattr(kernels, "MOST_NUMBERS", N_JOINT)
    card = Card()
    monkeypatch.setattr(kernels, "sums_of_tiles", card)
    new_process(monkeypatch)
    return card


def new_process(monkeypatch):
    monkeypatch.setattr(fallback, "_WORKS", {})
    monkeypatch.setattr(fallback, "_UNSAID", {})


def given():
    """Rows of two nodes, and forms of mixtures."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(N_TILES, N_JOINT, TILE)).astype(np.float32)
    z[:, 0], weight = 1.0, np.ones((N_TILES, TILE), np.float32)
    weight[1, 8:] = 0.0
    forms = [
        rng.normal(size=(2, N_STARTS, 2)).astype(np.float32),
        rng.normal(size=(2, N_STARTS, 2, 2, 3)).astype(np.float32),
    ]
    forms[1] *= np.tri(2, 3, 1, np.float32)
    return TiledRows.of(LENGTH, N_TILES, TILE), forms, z, weight


def stepping():
    """An E step, compiled anew, as a fit calls it."""
    step = jax.jit(lambda rows, *arrays: rows.expectation(*arrays, np.ones(2, bool)))
    return lambda: fallback.with_fallback(
        lambda: [np.asarray(sums) for sums in step(*given())]
    )


def assert_right(found):
    rows, forms, z, weight = given()
    expected = jax.jit(mixtures.expectation)(rows, forms, (z, weight))
    for sums, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(sums, right, rtol=1e-4, atol=1e-4)


def raises(*_):
    raise NotImplementedError("no such instruction")


def off(*numbers):
    def broken(*arguments):
        sums = imitation(*arguments)
        return sums.at[(..., *numbers)].multiply(1.001)

    return broken


def no_numbers(*arguments):
    return jnp.full_like(imitation(*arguments), jnp.nan)


def test_kernels_are_tried_once_and_used(card, monkeypatch):
    step = stepping()
    assert_right(step())
    assert card.n_calls == 2  # the trial, and the step
    assert_right(step())
    assert card.n_calls == 2  # compiled
    new_process(monkeypatch)
    assert_right(stepping()())
    assert card.n_calls == 3  # an earlier process tried


@pytest.mark.parametrize(
    "broken",
    [raises, no_numbers, off(), *(off(number) for number in (0, 3, 5, -1))],
)
def test_none_that_is_broken_passes_the_trial(card, broken, monkeypatch):
    card.breaks_at, card.broken = 1, broken
    step = stepping()
    with pytest.warns(UserWarning, match=r"does not work on .*SECRET_JAX_KERNELS=off"):
        assert_right(step())
    assert card.n_calls == 1
    assert_right(step())  # no second warning
    new_process(monkeypatch)
    with pytest.warns(UserWarning, match="does not work"):  # failures are not kept
        stepping()()


@pytest.mark.parametrize("name", [None, "_square", "shares"])
def test_no_piece_of_the_kernel_may_be_wrong(name, monkeypatch):
    """It is emulated, and every piece of it is broken in turn."""
    monkeypatch.setattr(kernels, "INTERPRETED", True)
    monkeypatch.setattr(kernels, "MOST_NUMBERS", N_JOINT)
    sums_of_tiles, piece = kernels.sums_of_tiles, getattr(kernels, name or "shares")

    def broken(*arguments):
        return jax.tree.map(lambda values: 1.001 * values, piece(*arguments))

    # What is traced anew is another function.
    monkeypatch.setattr(kernels, "sums_of_tiles", lambda *a: sums_of_tiles(*a))
    if name is None:
        fallback._try_kernels()
        return
    monkeypatch.setattr(kernels, name, broken)
    with pytest.raises(ValueError, match="a sum is wrong by"):
        fallback._try_kernels()


def test_a_kernel_that_fails_later_is_given_up(card):
    card.breaks_at, card.broken = 2, raises
    with pytest.warns(UserWarning, match="no such instruction"):
        assert_right(stepping()())
    assert_right(stepping()())
    assert card.n_calls == 2


def test_too_little_memory_is_no_failure_of_a_kernel(card):
    def too_much(*_):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: 1 GB")

    card.breaks_at, card.broken = 2, too_much
    with pytest.raises(jax.errors.JaxRuntimeError, match="1 GB"):
        stepping()()
    card.broken = imitation
    assert_right(stepping()())
    assert card.n_calls == 3


def test_what_fails_without_kernels_as_well_is_raised(card):
    stepping()()

    def fails():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fallback.with_fallback(fails)
    assert fallback._WORKS == {DEVICE: True}


def test_warnings_that_are_errors_turn_nothing_off(card):
    def deprecated(*arguments):
        warnings.warn(
            "The Pallas Triton backend is deprecated", DeprecationWarning, stacklevel=1
        )
        return imitation(*arguments)

    card.breaks_at, card.broken = 1, deprecated
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_right(stepping()())
    assert card.n_calls == 2


def test_the_environment_turns_kernels_off(card, monkeypatch):
    monkeypatch.setenv("SECRET_JAX_KERNELS", "off")
    assert_right(stepping()())
    assert card.n_calls == 0
    monkeypatch.setenv("SECRET_JAX_KERNELS", "maybe")
    with pytest.raises(ValueError, match="'maybe' is neither 'on' nor 'off'"):
        stepping()()


def test_folders_that_cannot_be_written_only_keep_nothing(card, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert_right(stepping()())
    assert card.n_calls == 2
