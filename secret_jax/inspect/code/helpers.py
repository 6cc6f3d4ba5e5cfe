"""Functions that exported programs of Python call."""

from __future__ import annotations

from secret_jax.data.attributes import DAYS
from secret_jax.tree.soft import HARD_LOGIT

# The parts of a date are those that `secret_jax.data.attributes` makes.
_HELPERS = {
    "calendar": f"""\
def calendar(value, part):
    if value is None or value != value:
        return None
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if part == "hour":
        if not isinstance(value, datetime):
            return 0.0
        return value.hour + value.minute / 60 + value.second / 3600
    if part == "weekday":
        return value.isoweekday()
    if part == {DAYS!r}:
        return value.toordinal() - 719163
    return getattr(value, part)  # year, month
""",
    "gate": f"""\
def gate(distance):
    return 1.0 / (1.0 + exp(-clip(distance, -{HARD_LOGIT!r}, {HARD_LOGIT!r})))
""",
    "clip": """\
def clip(value, low, high):
    return min(max(value, low), high)
""",
    "number": """\
def number(value, mean):
    return mean if missing(value) else float(value)
""",
    "missing": """\
def missing(value):
    return value is None or value != value
""",
}


def with_helpers(code: str) -> str:
    """Add the imports and functions that code calls."""
    helpers = ""
    for name, text in _HELPERS.items():
        if f"{name}(" in code + helpers:
            helpers += text + "\n\n"
    imports = ""
    for name, module in (("exp(", "math"), ("datetime.", "datetime")):
        if name in helpers + code:
            imports += f"from {module} import {name[:-1]}\n"
    return imports + "\n\n" * bool(imports) + helpers + code
