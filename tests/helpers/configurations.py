"""The configurations, tables and comparisons that the behavioural tests share.

A new split finder or mode gets one line in `CONFIGURATIONS`. Every shape of a table
compiles its own programs, so the tests keep to two: 65 to 128 rows of three numbers, or
of two numbers and a colour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from schemas import learn_schema

from secret_jax import SecretRegressor, SecretSplits, SoftGates
from secret_jax.data.columns import read_columns
from secret_jax.data.encoding import encode
from secret_jax.data.learning import ColumnOptions
from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.fit.grow.grower import grown
from secret_jax.tree.structure import ARRAY_FIELDS, Tree

CONFIGURATIONS: dict[str, Callable[..., SecretRegressor]] = {
    "default": SecretRegressor,
    # One start, so that it shares the programs of the paper's mode.
    "secret": partial(SecretRegressor, oblique=True, splits=SecretSplits(n_starts=1)),
    "paper": SecretRegressor.paper,
}
# Gates that are trained for a moment.
FEW = SoftGates(max_steps=64, chunk=8, batch_size=16)
every_configuration = pytest.mark.parametrize("configuration", CONFIGURATIONS)

# Fields that say where rows go; the others hold numbers that rounding may touch.
STRUCTURE_FIELDS = (
    "left",
    "right",
    "parent",
    "depth",
    "kind",
    "attribute",
    "goes_left",
    "stop_reason",
)


# Fields that hold decimals in the units of the data, which other units round elsewhere.
DECIMALS = ("threshold", "direction")


def regressor(configuration: str, **changes: Any) -> SecretRegressor:
    """A model of a configuration with a fixed seed and small trees."""
    model = CONFIGURATIONS[configuration](random_state=0)
    return model.set_params(**({"min_samples_split": 0.05} | changes))


def crease(n_rows: int = 128, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two planes that meet in an oblique crease, as multiples of 1/64.

    Such numbers survive offsets of 1e6 and products with powers of two exactly, even
    in float32.
    """
    rng = np.random.default_rng(seed)
    X = _dyadic(rng.normal(size=(n_rows, 3)))
    noise = 0.2 * rng.normal(size=n_rows)
    return X, _dyadic(np.abs(4 * X[:, 0] + X[:, 1]) + X[:, 1] - X[:, 2] + noise)


def shop(n_rows: int = 128, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Prices by width, height and colour; two colours cost more with the width."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "width": _dyadic(rng.normal(size=n_rows)),
            "colour": rng.choice(["red", "green", "blue", "white"], n_rows),
            "height": _dyadic(rng.normal(size=n_rows)),
        }
    )
    bright = frame["colour"].isin(["red", "white"])
    slope = np.where(bright, 3.0, -3.0)
    price = slope * frame["width"] + 8.0 * bright + frame["height"]
    noise = 0.2 * rng.normal(size=n_rows)
    return frame, pd.Series(_dyadic(price + noise), name="price")


def planes(n_rows: int = 128, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two planes without noise on the two sides of a gap in the first column."""
    X = np.random.default_rng(seed).normal(size=(n_rows, 3))
    X[:, 0] += np.where(X[:, 0] > 0, 1, -1)
    above = 30 - X @ [0.0, 1.0, 1.0]
    return X, np.where(X[:, 0] > 0, above, X @ [0.5, 2.0, 0.0])


def persons(
    n_persons: int = 50, n_rows: int = 6, noise: float = 0.01
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of persons, whose levels are no function of what is known of them."""
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(n_persons), n_rows)
    known, level = rng.uniform(size=(2, n_persons))
    X = np.column_stack([known[who], rng.normal(size=len(who))])
    return X, level[who] + noise * rng.normal(size=len(who)), who


def _dyadic(values: Any) -> np.ndarray:
    return np.round(np.asarray(values) * 64) / 64


@contextmanager
def refusal(*fragments: str) -> Iterator[None]:
    """Expect a ValueError whose message holds every fragment."""
    with pytest.raises(ValueError, match=r"\w") as caught:
        yield
    for fragment in fragments:
        assert fragment in str(caught.value)


def grow(*arguments: Any) -> list[Tree]:
    """Grow several trees and return them alone; see `secret_jax.fit.grow.grower`."""
    return [each.tree for each in grown(*arguments)]


def encoded(X: Any, y: np.ndarray, **options: Any) -> tuple[Rows, TableSchema]:
    """A table as trees are grown on it, with the schema that it was read by."""
    weight, targets = np.ones(len(y)), np.asarray(y).reshape(len(y), -1)
    schema = learn_schema(read_columns(X), targets, weight, ColumnOptions(**options))
    return Rows(encode(schema, X), schema.scale_targets(targets), weight), schema


def tree_bytes(tree: Tree) -> dict[str, bytes]:
    """Every array of a tree, byte by byte."""
    return {name: getattr(tree, name).tobytes() for name in ARRAY_FIELDS}


def assert_same_tree(
    found: Tree,
    expected: Tree,
    tolerance: float = 1e-5,
    skip: tuple[str, ...] = (),
) -> None:
    """The same structure, and numbers that differ by rounding only."""
    assert found.n_nodes == expected.n_nodes
    for name in STRUCTURE_FIELDS:
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    inner = ~expected.is_leaf  # a leaf that was a split may keep what it was
    assert np.array_equal(found.larger_left[inner], expected.larger_left[inner])
    for name in set(ARRAY_FIELDS) - {"larger_left", *skip}:
        np.testing.assert_allclose(
            np.asarray(getattr(found, name), np.float64),
            np.asarray(getattr(expected, name), np.float64),
            rtol=tolerance,
            atol=tolerance,
            err_msg=name,
        )
