"""Columns with which predictions may only rise, or only fall."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from secret_jax.data.attributes import Attributes, Role, input_names
from secret_jax.runtime.values import is_real

_DIRECTIONS = (-1, 0, 1)


def directions_of(
    monotonic_cst: Any, attributes: Attributes
) -> tuple[tuple[int, int], ...]:
    """Pairs of attribute and direction, given by name or for all columns in order.

    1: rises; -1: falls; 0: no constraint. A ValueError names a column that is unknown
    or holds no numbers, and any other direction.
    """
    if monotonic_cst is None:
        return ()
    names = input_names(attributes.names, attributes.dates)
    if isinstance(monotonic_cst, Mapping):
        unknown = [name for name in monotonic_cst if name not in names]
        if unknown:
            raise ValueError(
                f"monotonic_cst names {unknown[0]!r}, but there is no such column. The "
                f"columns are {', '.join(map(repr, names))}."
            )
        directions = dict(monotonic_cst)
    else:
        try:
            given = np.asarray(monotonic_cst)
        except ValueError:  # ragged
            given = np.empty(0)
        if given.shape != (len(names),):
            raise ValueError(
                f"monotonic_cst has shape {given.shape}; give one direction for each "
                f"of the {len(names)} columns, or a dict of names and directions."
            )
        directions = dict(zip(names, given.tolist(), strict=True))
    found = []
    for name, direction in directions.items():
        if not is_real(direction) or direction not in _DIRECTIONS:
            raise ValueError(
                f"monotonic_cst has {direction!r} for column {name!r}; give 1 for "
                "rising, -1 for falling or 0 for no constraint."
            )
        if direction == 0:
            continue
        if name not in attributes.names:
            raise ValueError(
                f"monotonic_cst constrains column {name!r}, which holds dates. Give "
                "the numbers that you mean, such as days, as a column of their own."
            )
        attribute = attributes.names.index(name)
        if attributes.roles[attribute] is Role.DISCRETE:
            raise ValueError(
                f"monotonic_cst constrains column {name!r}, whose values are "
                "categories. Give numbers, or an ordered categorical column."
            )
        found.append((attribute, int(direction)))
    return tuple(sorted(found))
