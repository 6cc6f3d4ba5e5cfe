"""One tree over eight devices: that of one, each with its rows, few bytes between.

Their process does everything once.
"""

from __future__ import annotations

import pytest
from eight_devices import on_eight_devices

_SCRIPT = """
import collections, json, math, re
from unittest import mock

import jax
import numpy as np

jax.config.update("jax_numpy_dtype_promotion", "strict")
from secret_jax import RssSplits, SecretClassifier, SecretRegressor, shard_rows
from secret_jax.fit.grow import grower, on_device
from secret_jax.runtime import programs

programs.OPTIMIZATION_LEVEL = 0
SMALL = dict(random_state=0, max_depth=2, min_samples_leaf=40, prune=None)
call, found, called, laid = programs.Program.__call__, {}, {}, []


def noted(program, *arguments, **static):
    if static.get("mesh"):
        name = program.__wrapped__.__name__
        called[name] = program, arguments, static
    result = call(program, *arguments, **static)
    if static.get("mesh") and name == "laid_out":
        laid.append(result)
    return result


def grown(model, X, y, several):
    called.clear()
    with (
        mock.patch.object(grower, "on_accelerator", lambda: several),
        mock.patch.multiple(on_device, _NODES=8, _FEWEST_NODES=8, _FEWEST_ROWS=128),
        mock.patch.object(programs.Program, "__call__", noted),
    ):
        model.fit(shard_rows(X) if several else X, y)
    assert bool(called) == several
    return model.tree_, np.asarray(model.predict(X))


def compared(name, model, X, y):
    expected, before = grown(model, X, y, False)
    tree, after = grown(model, X, y, True)
    same = ("attribute", "kind", "left", "right", "weight", "stop_reason", "goes_left")
    found[name] = {"leaves": int(expected.n_leaves)} | {
        f: bool(np.array_equal(getattr(tree, f), getattr(expected, f))) for f in same
    }
    found[name]["apart"] = {
        f: float(np.abs(getattr(tree, f) - getattr(expected, f)).max())
        for f in ("threshold", "direction", "coefficient")
    } | {"prediction": float(np.mean(np.abs(after != before)))}
    length, x = np.asarray(laid[-1].rows.length), laid[-1].x
    found[name]["rows"] = length.reshape(8, -1).sum(axis=1).tolist()
    shares = [s.data.nbytes / x.nbytes for s in x.addressable_shards]
    found[name]["shares"] = shares


def between():
    sizes = {"pred": 1, "s32": 4, "u32": 4, "f32": 4}
    collective = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
    every = {}
    for name, (program, arguments, static) in called.items():
        text = program.jitted(arguments).lower(*arguments, **static).compile().as_text()
        own = every[name] = collections.Counter()
        for kind, op in re.findall(rf"= (.*?) ({collective})(?:-start)?\\(", text):
            for dtype, shape in re.findall(r"(\\w+)\\[([\\d,]*)\\]", kind):
                own[op] += sizes[dtype] * math.prod(map(int, filter(None, shape.split(","))))
    return every


rng = np.random.default_rng(0)


def planes(n_rows):
    X = rng.normal(size=(n_rows, 4)).astype(np.float32)
    y = np.abs(4 * X[:, 0] + X[:, 1]) + 2 * (X[:, 2] > 0.3) + X[:, 3]
    return X, y + 0.1 * rng.normal(size=n_rows)


X, y = planes(1800)
compared("paper, oblique", SecretRegressor.paper(random_state=0, max_depth=2), X, y)
found["bytes"] = {"paper": between()}
axis = SecretRegressor.paper(random_state=0, max_depth=2, oblique=False)
compared("paper, axis", axis, X, y)
compared("default", SecretRegressor(oblique=True, **SMALL), X, y)
found["bytes"]["default"] = between()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict:
    folder = str(tmp_path_factory.mktemp("programs"))
    return on_eight_devices(_SCRIPT, JAX_COMPILATION_CACHE_DIR=folder)


def test_print(found):
    import json
    print(json.dumps(found, indent=1))
    assert 0
