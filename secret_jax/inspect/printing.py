"""Numbers, names, counts and colours as they are printed, without what draws them."""

import colorsys
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

# What cannot be taken for a number, an operator or the end of a list.
_PLAIN_WORDS = re.compile(
    r"(?!.* - )[^\W\d][^\s{}<>=+,'\"]*(?: [^\s{}<>=+,'\"]+)*|\d{4}-\d\d-\d\d"
)
# Sizes between which an exponent would be longer, or harder to read, than the zeros.
_PLAIN_SIZES = 1e-4, 1e15
# From here on thousands are set apart; years are not.
_GROUPED = 1e4
# Of viridis, evenly spaced: dark for the lowest, bright for the highest.
_SHADES = (
    *("#440154", "#482878", "#3e4a89", "#31688e", "#26828e"),
    *("#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"),
)
# Of the "muted" scheme of P. Tol, Colour Schemes, 2021, the darkest one last.
_CLASSES = (
    *("#88ccee", "#cc6677", "#ddcc77", "#117733", "#aa4499"),
    *("#44aa99", "#999933", "#882255", "#332288"),
)
_BRIGHTNESS = 0.299, 0.587, 0.114  # of red, green and blue (ITU-R BT.601)


def number(value: float, digits: int | None = None) -> str:
    """Write the shortest decimal that is this number, or its first digits.

    >>> [number(v) for v in (1200.0, 0.05, -2.5e-7, 35500.0, 3e18)]
    ['1200', '0.05', '-2.5e-7', '35,500', '3e+18']
    >>> number(1234.5, digits=3)
    '1230'
    """
    if digits is not None:
        value = float(f"{value:.{digits}g}")
    low, high = _PLAIN_SIZES
    if value == 0 or low <= abs(value) < high:
        # Adding zero turns a negative zero into zero.
        plain = np.format_float_positional(value + 0.0, trim="-")
        whole, point, rest = plain.partition(".")
        return plain if abs(value) < _GROUPED else f"{int(whole):,}{point}{rest}"
    return np.format_float_scientific(value, trim="-", exp_digits=1)


def short_number(value: float) -> str:
    """Write a round number for an axis, without its zeros.

    >>> [short_number(value) for value in (0.25, 1500, 150_000, -2.5e6)]
    ['0.25', '1500', '150k', '-2.5M']
    """
    units = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
    fits = (unit for unit in units if abs(value) >= max(unit[0], _GROUPED))
    size, suffix = next(fits, (1.0, ""))
    return number(value / size, digits=6) + suffix


def percent(share: float) -> str:
    """Write a share to three digits, near 0 and 1 no nearer than a thousandth.

    >>> [percent(share) for share in (0.1234, 0.99996, 0.00001, 1.0)]
    ['12.3 %', '> 99.9 %', '< 0.1 %', '100 %']
    """
    if 0 < share < 0.001:
        return "< 0.1 %"
    if 0.999 < share < 1:
        return "> 99.9 %"
    return f"{number(100 * float(share), digits=3)} %"


def quoted(name: Any) -> str:
    """Write a column or category, in quotes unless it is plain words; None is missing.

    >>> [quoted(name) for name in ("tax (1000 $)", "a - b", 2.0, True, "2")]
    ['tax (1000 $)', "'a - b'", '2', 'True', "'2'"]
    """
    if name is None:
        return "missing"
    if isinstance(name, str):
        plain = _PLAIN_WORDS.fullmatch(name) and name != "missing"
        indicator = name.startswith("[") and name.endswith("]") and name.isprintable()
        return name if plain or indicator else repr(str(name))  # also of NumPy
    # Without commas between thousands: it may stand in a list.
    return number(float(name)).replace(",", "") if _is_number(name) else str(name)


def entry(value: Any) -> str:
    """Write a cell of a table: numbers to four digits, names as they are.

    >>> [entry(value) for value in (1 / 3, "a - b", True)]
    ['0.3333', "'a - b'", 'True']
    """
    return number(value, digits=4) if _is_number(value) else quoted(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def counted(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"


def counted_leaves(n: int) -> str:
    return counted(n, "leaf", "leaves")


def counted_rows(n: int) -> str:
    return counted(int(n), "row", "rows")


def listed(items: Sequence[object], n_max: int = 5) -> str:
    """List the first of several things, and how many more there are.

    >>> listed([2, 5, 9]), listed(list(range(9)), n_max=2)
    ('2, 5 and 9', '0, 1 and 7 more')
    """
    words = [str(item) for item in items]
    if len(words) > n_max:
        return f"{', '.join(words[:n_max])} and {len(words) - n_max} more"
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def in_lines(
    parts: Sequence[str], width: int, hanging: str = "    ", separator: str = " "
) -> list[str]:
    """Join parts to lines of limited width, all but the first with an indent.

    >>> in_lines(["one", "two", "three"], 8, separator=", ")
    ['one, two,', '    three']
    """
    lines = list(parts[:1])
    for part in parts[1:]:
        if len(lines[-1]) + len(separator) + len(part) <= width:
            lines[-1] += separator + part
        else:
            lines[-1] += separator.rstrip()
            lines.append(hanging + part)
    return lines


def ends_of(values: np.ndarray) -> tuple[float, float]:
    """Lowest and highest of the finite values; zeros if there are none."""
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)


def shades(values: np.ndarray) -> list[str]:
    """Colours from the lowest to the highest value; the middle one if all are equal."""
    low, high = ends_of(values)
    share = np.full(len(values), 0.5)
    if high > low:
        known = np.isfinite(values)
        share[known] = (values[known] - low) / (high - low)
    steps = np.linspace(0.0, 1.0, len(_SHADES))
    sides = [np.interp(share, steps, side) for side in channels(_SHADES).T]
    return list(map(_hex, np.transpose(sides)))


def class_colors(n_classes: int) -> list[str]:
    """Choose a colour for each class; of two the first one is a grey."""
    if n_classes == 2:
        return ["#c3c8d4", _SHADES[3]]
    if n_classes <= len(_CLASSES):
        return list(_CLASSES[:n_classes])
    hues = ((i / n_classes, (0.72, 0.45)[i % 2]) for i in range(n_classes))
    return [_hex(colorsys.hls_to_rgb(hue, light, 0.55)) for hue, light in hues]


def paler(color: str, strength: float) -> str:
    """Mix a colour with white; of strength 0 it is white."""
    return _hex(1.0 + strength * (channels([color])[0] - 1.0))


def ink_on(color: str) -> str:
    return "black" if channels([color])[0] @ _BRIGHTNESS > 0.5 else "white"


def channels(colors: Iterable[str]) -> np.ndarray:
    """Red, green and blue of "#rrggbb" from 0 to 1, shape (n_colors, 3)."""
    return np.array([[*bytes.fromhex(color[1:])] for color in colors]) / 255


def _hex(color: Iterable[float]) -> str:
    return "#" + "".join(f"{round(255 * float(part)):02x}" for part in color)
