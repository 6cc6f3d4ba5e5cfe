"""The programs of a level for accelerators that are not there: exported, not run."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import jax
import numpy as np
import pandas as pd
import pytest
from configurations import encoded

from benchmarks.device.counting import as_on_accelerator, described_by, with_kernels
from secret_jax import RssSplits, SecretSplits
from secret_jax.fit.grow import on_device
from secret_jax.fit.grow.execution import GrowOptions
from secret_jax.fit.grow.frontier import Root
from secret_jax.fit.grow.grower import grown
from secret_jax.runtime.devices import in_32_bits
from secret_jax.runtime.programs import Program

FINDERS = {
    "rss": RssSplits(),
    "secret": SecretSplits(n_starts=2),
}
# Settings of a grid, on which no size depends.
SETTINGS = {
    "rss": {"ridge": 30.0, "least_share": 0.4, "gcv_factor": 1.0, "min_gain": 0.0},
    "secret": {"tol": 1e30, "min_gain": 3.0, "fixed_splits": [("a", 0.5)]},
}
# Of Triton JAX promises that it compiles, not that a later version reads it.
KERNELS = [
    jax.export.DisabledSafetyCheck.custom_call(name)
    for name in ("__gpu$xla.gpu.triton", "triton_kernel_call_ffi")
]


@dataclass
class Calls:
    """Programs, by name, with the shapes of what they were called with last."""

    found: dict[str, tuple[Program, Any, dict[str, Any]]] = field(default_factory=dict)
    n_compiled: list[int] = field(default_factory=list)  # after each growth
    trees: list[Any] = field(default_factory=list)

    def note(self, program: Program, arguments: Any, static: dict[str, Any]) -> None:
        def shape(value):
            return jax.ShapeDtypeStruct(np.shape(value), value.dtype)

        name = program.__wrapped__.__name__  # pyright: ignore
        self.found[name] = program, jax.tree.map(shape, arguments), static


@pytest.fixture(scope="module", params=FINDERS)
def calls(request):
    """Programs of growth on numbers with gaps and a colour."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    colour = rng.choice(list("rgb"), 300)
    y = np.abs(x[:, 0] + x[:, 1]) + (colour == "r") * x[:, 2]
    x[rng.random(300) < 0.1, 2] = np.nan
    finder, missing = FINDERS[request.param], "mean"
    if request.param == "rss":
        missing = "learn"
    X = pd.DataFrame(x, columns=list("abc")).assign(colour=colour)
    rows, schema = encoded(X, y, missing=missing)
    sample = None if request.param == "secret" else 64
    options = GrowOptions(finder=finder, sample=sample, max_depth=1)
    root = Root(rows=np.arange(300), min_split_weight=50.0, min_leaf_weight=20.0)
    noted, call = Calls(), Program.__call__

    def called(self, *arguments, **static):
        noted.note(self, arguments, static)
        return call(self, *arguments, **static)

    with (
        as_on_accelerator(),
        mock.patch.object(Program, "__call__", called),
        mock.patch.multiple(on_device, _NODES=8, _FEWEST_ROWS=1 << 10),
    ):
        for own in ({}, SETTINGS[request.param]):
            setting = replace(options, finder=replace(finder, **own))
            noted.trees += grown(rows, schema, setting, [root])
            programs = (program for program, *_ in noted.found.values())
            noted.n_compiled.append(sum(program.n_compiled for program in programs))
    return noted


def test_settings_of_a_grid_are_arguments_of_one_program(calls):
    before, after = calls.n_compiled
    assert after == before
    tree, other = (each.tree for each in calls.trees)  # the numbers reach it
    arrays = "kind", "attribute", "direction", "threshold", "goes_left"
    assert not all(
        np.array_equal(getattr(tree, name), getattr(other, name)) for name in arrays
    )


@pytest.mark.parametrize("platform", ["cuda", "cuda with Triton", "tpu"])
def test_programs_are_exported_for_accelerators(calls, platform):
    platform, triton = platform.split()[0], "Triton" in platform
    if triton and jax.__version_info__ >= (0, 11):  # it compiles while it lowers
        plugins = "jax_cuda12_plugin", "jax_cuda13_plugin"
        if not any(map(importlib.util.find_spec, plugins)):
            pytest.skip("kernels of Triton need a plugin of CUDA")
    wanted = {"laid_out", "divided", "searched"}
    assert wanted <= set(calls.found) <= {*wanted, "samples"}
    wanted = {"searched"} if triton else set(calls.found)  # no other has kernels
    for program, arguments, options in map(calls.found.get, wanted):
        function = jax.jit(program.__wrapped__, static_argnames=tuple(options))
        card = described_by("NVIDIA H100 80GB HBM3")
        with in_32_bits(), with_kernels(triton), card:
            leaves, tree = jax.tree.flatten(arguments)

            def plain(*leaves, function=function, tree=tree, static=options):
                found = function(*jax.tree.unflatten(tree, leaves), **static)
                return tuple(jax.tree.leaves(found))

            exported = jax.export.export(
                jax.jit(plain), platforms=[platform], disabled_checks=KERNELS
            )(*leaves)
        assert exported.platforms == (platform,)
        # A library's function would be one call, of many kernels on some devices.
        assert "custom_call @cusolver" not in exported.mlir_module()
        finder = getattr(options.get("traced"), "finder", None)
        mixtures = triton and isinstance(finder, SecretSplits)
        assert ("triton" in exported.mlir_module()) == mixtures
