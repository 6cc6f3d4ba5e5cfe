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
from secret_jax import RssSplits, SecretRegressor, shard_rows
from secret_jax.fit.grow import grower, on_device
from secret_jax.runtime import programs

programs.OPTIMIZATION_LEVEL = 0
# Room for few nodes and rows at first: that of two must grow.
ROOM = dict(_NODES=2, _FEWEST_NODES=2, _FEWEST_ROWS=128)
SMALL = dict(random_state=0, max_depth=2, min_samples_leaf=40, prune=None)
SAME = ("attribute", "kind", "left", "right", "goes_left", "weight", "stop_reason")
call = programs.Program.__call__
called, laid = {}, []  # on several devices: the last calls; the first tiles


def noted(program, *arguments, **static):
    result = call(program, *arguments, **static)
    if static.get("mesh"):
        name = program.__wrapped__.__name__
        called[name] = program, arguments, static
        if name == "laid_out":
            laid.append(result)
    return result


def grown(model, X, y, several, **more):
    called.clear()
    laid.clear()
    with (
        mock.patch.object(grower, "on_accelerator", lambda: several),
        mock.patch.multiple(on_device, **ROOM),
        mock.patch.object(programs.Program, "__call__", noted),
    ):
        model.fit(shard_rows(X) if several else X, y, **more)
    return model.tree_, model.score(X, y)


def rows_of_devices():
    length = np.asarray(laid[0].rows.length)
    shards = laid[0].x.addressable_shards
    assert {shard.data.nbytes * len(shards) for shard in shards} == {laid[0].x.nbytes}
    return length.reshape(len(shards), -1).sum(axis=1).tolist()


def bytes_between():
    size = {"pred": 1, "s32": 4, "u32": 4, "f32": 4}
    names = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
    every = {}
    for name, (program, arguments, static) in called.items():
        lowered = program.jitted(arguments).lower(*arguments, **static)
        own = every[name] = collections.Counter()
        text = lowered.compile().as_text()
        for kinds, op in re.findall(rf"= (.*?) ({names})(?:-start)?\\(", text):
            for dtype, shape in re.findall(r"(\\w+)\\[([\\d,]*)\\]", kinds):
                numbers = math.prod(map(int, filter(None, shape.split(","))))
                own[op] += size[dtype] * numbers
    return every


found = {"trees": {}, "rows": {}, "bytes": {}}


def compared(name, model, X, y, **more):
    expected, _ = grown(model, X, y, False, **more)
    tree, _ = grown(model, X, y, True, **more)
    apart = {
        f: float(np.abs(getattr(tree, f) - getattr(expected, f)).max(initial=0.0))
        for f in ("threshold", "direction", "coefficient")
    }
    same = [np.array_equal(getattr(tree, f), getattr(expected, f)) for f in SAME]
    found["trees"][name] = {"leaves": int(tree.n_leaves), "same": all(same), **apart}
    found["rows"][name] = rows_of_devices()


def planes(n_rows):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4)).astype(np.float32)
    y = np.abs(4 * X[:, 0] + X[:, 1]) + 2 * (X[:, 2] > 0.3) + X[:, 3]
    return X, y + 0.1 * rng.normal(size=n_rows)


X, y = planes(1800)
paper, axis = (
    SecretRegressor.paper(random_state=0, max_depth=2, oblique=oblique)
    for oblique in (True, False)
)
compared("paper, axis", axis, X, y)
compared("paper, oblique", paper, X, y)
found["bytes"]["paper"] = bytes_between()
grown(paper, *planes(8000), True)
found["bytes"]["paper, more rows"] = bytes_between()
oblique = SecretRegressor(oblique=True, **SMALL)
compared("default", oblique, X, y)
found["bytes"]["default"] = bytes_between()

# Weights, and nodes that wait; five folds beside all rows, gaps and categories.
mixed = X.copy()
mixed[::7, 1], mixed[:, 3] = np.nan, np.floor(2 * X[:, 3]).clip(-2, 2)
weight = 1.0 + np.arange(len(y)) % 3
best_first = SecretRegressor(**SMALL | dict(max_depth=None, max_leaf_nodes=5))
compared("weights", best_first, X, y, sample_weight=weight)
several = dict(prune="cross-validation", oblique=False, distill=False)
several |= dict(categorical_features=[3], leaf="constant")
compared("gaps", SecretRegressor(**SMALL | several), mixed, y)

# Of larger nodes than a search sees other rows are seen.
few = SecretRegressor(splits=RssSplits(max_samples=256), oblique=True, **SMALL)
found["scores"] = [grown(few, *planes(8000), where)[1] for where in (False, True)]

# Where it is not worth it, or not wanted: the rows lie there before a search.
found["devices"], leaf = {}, SMALL | dict(max_depth=0, oblique=True)
for name, device, n_rows in (("few rows", None, 300), ("named", "cpu:1", 1800)):
    grown(SecretRegressor(device=device, **leaf), *planes(n_rows), True)
    found["devices"][name] = len(rows_of_devices()) if laid else 1
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict:
    folder = str(tmp_path_factory.mktemp("programs"))
    return on_eight_devices(_SCRIPT, JAX_COMPILATION_CACHE_DIR=folder)


TREES = "paper, oblique", "paper, axis", "default", "weights", "gaps"


@pytest.mark.parametrize("name", TREES)
def test_the_tree_is_that_of_one_device(found, name):
    its = found["trees"][name]
    assert its["leaves"] > 2
    assert its["same"]
    assert its["threshold"] < 1e-5
    assert its["direction"] < 1e-5
    assert its["coefficient"] < 1e-5


@pytest.mark.parametrize("name", TREES)
def test_every_device_has_an_equal_part_of_the_rows(found, name):
    rows = found["rows"][name]
    assert len(rows) == 8
    n_roots = {"gaps": 6}.get(name, 1)  # five folds beside all rows
    assert max(rows) - min(rows) <= n_roots


def test_what_crosses_between_devices_are_sums_of_nodes(found):
    """Of a table of five numbers, regressors and output, and of eight nodes."""
    for every in found["bytes"].values():
        assert set().union(*every.values()) == {"all-reduce", "all-gather"}
        assert {name for name, own in every.items() if own} == {"divided", "searched"}
        moments = 6 + 6**2 + 2  # sums, sums of products, the ends of the output
        assert every["divided"] == {"all-reduce": 4 * 8 * moments, "all-gather": 4 * 64}
    paper, default = (found["bytes"][name] for name in ("paper", "default"))
    # Of the two nodes that are searched, of each step of a loop.
    assert sum(paper["searched"].values()) < 2 * 4 * (8 * 6**2)
    # Beside sums the first 2,048 rows of a node along its split, to be sorted.
    assert sum(default["searched"].values()) < 2 * 4 * (4096 + 4 * 2048)
    assert found["bytes"]["paper, more rows"] == paper  # four times as many


def test_a_search_of_samples_sees_some_of_every_device(found):
    """Other ones than on one device, which are as good."""
    one, eight = found["scores"]
    assert eight > 0.98
    assert abs(eight - one) < 0.005


def test_few_rows_stay_on_few_devices_and_a_named_one_is_alone(found):
    assert found["devices"] == {"few rows": 2, "named": 1}
