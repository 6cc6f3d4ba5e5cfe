"""Serialise the state of the first pass to a JSON header and arrays, and back.

The same form goes into a checkpoint and from one process to the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from secret_jax.data.columns import listed
from secret_jax.data.roles import Attributes
from secret_jax.data.scaling import ColumnSums
from secret_jax.data.schema import Role
from secret_jax.stream.batches import Layout, StreamError
from secret_jax.stream.learning import Learner, Weights
from secret_jax.stream.pool import PoolRows

_PLAIN = (str, bool, int, float, type(None))


def packed(learner: Learner) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Convert a learner to a header for JSON, and arrays."""
    header: dict[str, Any] = {"layout": learner.layout}
    arrays: dict[str, np.ndarray] = {}
    if learner.layout is None:
        return header, arrays
    for name, values in zip(
        [
            learner.attributes.names[i]
            for i in learner.attributes.of_role(Role.DISCRETE)
        ],
        learner.categories,
        strict=True,
    ):
        odd = next((v for v in values if not isinstance(v, _PLAIN)), None)
        if odd is not None:
            raise StreamError(
                f"Column {name!r} has the category {odd!r}, a {type(odd).__name__}; a "
                "checkpoint holds text, numbers and booleans. Turn the column into "
                "text before fitting."
            )
    header |= {
        "attributes": learner.attributes,
        "weights": learner.weights,
        "digest": learner.digest,
        "categories": [list(its.items()) for its in learner.categories],
        "hours": sorted(learner.hours),
        "hours_hashed": learner.hours_hashed,
        "different": sorted(learner.different),
        "limit": learner.pool.limit,
        "merged": learner.pool.merged,
    }
    for name, sums in (("sums", learner.sums), ("targets", learner.target_sums)):
        for field, parts in zip(
            ColumnSums._fields, zip(*sums, strict=True), strict=False
        ):
            arrays[f"{name}.{field}"] = np.stack(parts)
    rows = learner.pool.rows()
    if rows is not None:
        for place, column in enumerate(rows.values):
            arrays[f"pool.{place}"] = column
        for field, array in zip(PoolRows._fields[1:], rows[1:], strict=True):
            arrays[f"pool.{field}"] = array
    return header, arrays


def unpack(
    learner: Learner, header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Restore a learner from a header and arrays."""
    if header["layout"] is None:
        return
    names, named, kinds, n_outputs = header["layout"]
    learner.layout = Layout(tuple(names), named, tuple(kinds), n_outputs)
    names, named, roles, dates, levels = header["attributes"]
    learner.attributes = Attributes(
        tuple(names),
        named,
        [Role(role) for role in roles],
        tuple((name, tuple(its)) for name, its in dates),
        tuple((i, tuple(its)) for i, its in levels),
    )
    learner.weights = Weights(*header["weights"])
    learner.digest = header["digest"]
    learner.categories = [dict(map(tuple, its)) for its in header["categories"]]
    learner.hours = set(header["hours"])
    learner.hours_hashed = tuple(header["hours_hashed"])
    learner.different = set(map(tuple, header["different"]))
    for name, sums in (("sums", learner.sums), ("targets", learner.target_sums)):
        if f"{name}.mass" in arrays:
            fields = (arrays[f"{name}.{field}"] for field in ColumnSums._fields)
            sums += [ColumnSums(*parts) for parts in zip(*fields, strict=True)]
    pool = learner.pool
    pool.limit, pool.merged = header["limit"], header["merged"]
    if "pool.weight" in arrays:
        n_values = sum(key.removeprefix("pool.").isdecimal() for key in arrays)
        values = [arrays[f"pool.{place}"] for place in range(n_values)]
        others = (arrays[f"pool.{field}"] for field in PoolRows._fields[1:])
        pool.put(PoolRows(values, *others))


def join(whole: Learner, parts: Sequence[Learner]) -> None:
    """Merge the state of several learners into an empty one, in their order.

    Raises
    ------
    StreamError
        If they have other columns, or columns of other kinds.
    """
    parts = [part for part in parts if part.layout is not None]
    if not parts:
        return
    first = parts[0]
    for number, part in enumerate(parts):
        if part.layout != first.layout or part.attributes != first.attributes:
            assert part.layout is not None
            assert first.layout is not None
            raise StreamError(
                f"The rows of process {number} have other columns, or columns of "
                f"other kinds, than those of the first: "
                f"{listed(_described(part.layout))}, and "
                f"{listed(_described(first.layout))}."
            )
    whole.layout, whole.attributes = first.layout, first.attributes
    whole.hours_hashed = first.hours_hashed
    whole.categories = [{} for _ in first.categories]
    whole.pool.limit = min(part.pool.limit for part in parts)
    kept = []
    for part in parts:
        whole.weights = whole.weights.plus(part.weights)
        whole.sums += part.sums
        whole.target_sums += part.target_sums
        whole.hours |= part.hours
        whole.different |= part.different
        whole.pool.merged |= part.pool.merged
        places = [
            _added(its, more)
            for its, more in zip(whole.categories, part.categories, strict=True)
        ]
        rows = part.pool.rows()
        if rows is not None:
            for attribute, place in enumerate(places):
                rows.codes[:, attribute] = place[rows.codes[:, attribute]]
            kept.append(rows.take(rows.hashed < whole.pool.limit))
    if kept:
        whole.pool.put(PoolRows.joined(kept))


def _added(its: dict[Any, float], more: dict[Any, float]) -> np.ndarray:
    """Add weights of categories in place; return the new codes of those added."""
    for value, weight in more.items():
        its[value] = its.get(value, 0.0) + weight
    place = {value: code for code, value in enumerate(its)}
    return np.array([place[value] for value in more], np.int32)


def _described(layout: Layout) -> list[str]:
    pairs = zip(layout.names, layout.kinds, strict=True)
    return [f"{name} ({kind})" for name, kind in pairs]
