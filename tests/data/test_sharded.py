"""Rows in shards on eight devices: the tree of one device, and few bytes between them.

Their process does everything once.
"""

import pytest
from eight_devices import on_eight_devices

_SCRIPT = """
import json
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

jax.config.update("jax_numpy_dtype_promotion", "strict")
from secret_jax import SecretRegressor, shard_rows
from secret_jax.data import shards as data
from secret_jax.data.columns import read_columns
from secret_jax.data.encoding import TableSource, matched
from secret_jax.data.scaling import moments_of
from secret_jax.datasets import load, make_fried
from secret_jax.models import resident
from secret_jax.splits.rss import RssSplits

SMALL = dict(
    splits=RssSplits(max_samples=64), max_leaf_nodes=8, oblique=False, random_state=0,
    equation_tolerance=0.0, pruning_tolerance=0.0,
)
found = {}


def compared(name, X, y, shards, options=SMALL, **more):
    model, expected = (
        SecretRegressor(**options).fit(rows, y, **more) for rows in (shards, X)
    )
    tree, other = model.tree_, expected.tree_
    same = ("attribute", "kind", "left", "right", "weight", "direction")
    found[name] = {
        "leaves": int(tree.n_leaves),
        "same splits": all(
            np.array_equal(getattr(tree, f), getattr(other, f)) for f in same
        ),
        "threshold": float(np.abs(tree.threshold - other.threshold).max()),
        "coefficient": float(np.abs(tree.coefficient - other.coefficient).max()),
        "range": float(np.abs(tree.upper - other.upper).max()),
        "prediction": float(
            np.abs(model.predict(shards) - expected.predict(X)).max()
        ),
    }
    return expected


def fried(n_rows):
    X, y = make_fried(n_rows, random_state=0)
    return X[:, :6].astype(np.float32), y


# Sorted: the rows of many nodes lie on one shard. Uneven: the last one is padded.
X, y = fried(12_003)
order = np.argsort(X[:, 3])
X, y = X[order], y[order]
shards = shard_rows(X)
expected = compared("sorted, uneven", X, y, shards)

# Weights are in the units of the columns, and in the order of the sample.
weight = 0.5 * np.random.default_rng(1).permuted(1 + np.arange(len(y)) % 3)  # mean 1
compared("weighted", X, y, shards, sample_weight=weight)

# Targets, weights, a device that is named and rows to predict: each lies elsewhere.
devices = jax.devices()
own = jax.device_put(y.astype(np.float32), devices[3])
mass = jax.device_put(weight.astype(np.float32), devices[4])
options = SMALL | {"device": "cpu:6"}
there = compared("elsewhere", X, own, shards, options, sample_weight=mass)
predicted = there.predict(jax.device_put(X, devices[2]))
found["predicted elsewhere"] = float(np.abs(predicted - there.predict(X)).max())

# An array that is sharded already, over four of the devices in another order.
mesh = Mesh(np.array(jax.devices())[[5, 1, 7, 2]], ("batch",))
there = jax.device_put(X[:8_000], NamedSharding(mesh, PartitionSpec("batch", None)))
compared("as they lie", X[:8_000], y[:8_000], there)
mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("batch", "copy"))
for name, spec in (("copies", ("batch", None)), ("by columns", (None, "copy"))):
    there = jax.device_put(X[:8_000], NamedSharding(mesh, PartitionSpec(*spec)))
    compared(name, X[:8_000], y[:8_000], there)

# More devices than rows; a soft tree; rows with a missing value: by way of the host.
tiny = SecretRegressor(max_depth=0).fit(shard_rows(X[:5]), y[:5])
found["five rows"] = float(
    np.abs(tiny.predict(shard_rows(X[:5])) - tiny.predict(X[:5])).max()
)
gap = X.copy()
gap[7, 2] = np.nan
compared("missing", gap, y, shard_rows(gap))

# Times in seconds: float32 would round them to 128 s.
rng = np.random.default_rng(0)
seconds = rng.uniform(0, 3600, 8_001)
late = np.column_stack([1.7e9 + seconds, rng.normal(size=8_001)])
wave = 5 * np.sin(seconds / 300) + 0.1 * rng.normal(size=8_001)
three = Mesh(np.array(devices[:3]), ("batch",))
late_shards = shard_rows(late, three)
few = SMALL | {"distill": False, "max_leaf_nodes": 16}
few["splits"] = RssSplits(max_samples=128)
compared("far from zero", late, wave, late_shards, few)
found["restored"] = float(np.abs(np.asarray(late_shards) - late).max())
whole = late.astype(np.int64)
back = np.asarray(shard_rows(whole, three))
found["whole numbers"] = float(np.abs(back - whole).max())

# The sample is that of the host.
columns, targets = read_columns(X), y[:, None]
schema = expected.tree_.schema
host = TableSource(schema, matched(schema, columns), targets, np.ones(len(y)))
source = TableSource(schema, shards, targets, np.ones(len(y)))
found["same sample"] = all(
    np.array_equal(a, b)
    for a, b in zip(
        jax.tree.leaves(source.sample(2000)), jax.tree.leaves(host.sample(2000))
    )
)
shifted = X + np.float32([0, 1e4, 0, 0, -3e3, 0])
center, scale, *_ = moments_of(shard_rows(shifted).sums(np.ones(len(y))), "abcdef")
exact = shifted.astype(np.float64)
error = np.abs(center - exact.mean(axis=0))
found["center"] = float((error / np.spacing(np.abs(center))).max())
found["scale"] = float(np.abs(scale / exact.std(axis=0) - 1).max())

# Each device looks at its own rows: no program takes those of two.
found["devices of programs"] = {}
for module, name in (
    (data, "sums_of_columns"), (data, "bits_below"), (data, "chosen_rows"),
    (resident, "_leaf_sums"),
):
    seen = found["devices of programs"][name] = []

    def noted(x, *arguments, program=getattr(module, name), seen=seen):
        seen.append(sorted(device.id for device in jax.tree.leaves(x)[0].devices()))
        return program(x, *arguments)

    setattr(module, name, noted)
SecretRegressor(**SMALL, prune=None).fit(shards, y)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict:
    return on_eight_devices(_SCRIPT)


@pytest.mark.parametrize(
    "name",
    [
        *("sorted, uneven", "weighted", "as they lie", "copies", "by columns"),
        *("missing", "far from zero", "elsewhere"),
    ],
)
def test_shards_give_the_tree_of_one_device(found, name):
    its = found[name]
    assert its["leaves"] > 2
    assert its["same splits"]
    assert its["threshold"] < 1e-5
    assert its["coefficient"] < 3e-5
    assert its["range"] < 1e-5
    assert its["prediction"] < 1e-4


def test_numbers_keep_the_digits_in_which_they_differ(found):
    assert found["restored"] < 2e-4
    assert found["whole numbers"] < 2e-4
    assert found["five rows"] < 1e-6  # on eight devices
    assert found["predicted elsewhere"] < 1e-5
    assert found["same sample"]
    # In units of the last place, of columns thousands of deviations from zero.
    assert found["center"] <= 2.0
    assert found["scale"] < 1e-12


def test_every_device_looks_at_its_own_rows(found):
    for seen in found["devices of programs"].values():
        assert sorted({tuple(devices) for devices in seen}) == [(i,) for i in range(8)]
