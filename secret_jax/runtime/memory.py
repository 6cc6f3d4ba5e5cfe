"""Keeping the memory of arrays that come and go."""

from __future__ import annotations

import ctypes
import functools

# Parameters of glibc's mallopt, and the largest values that make sense: arrays up to
# the first come from memory that stays with the process, up to the second.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_ARRAY, _MOST_KEPT = 1 << 25, 1 << 28


@functools.cache
def keep_freed_memory() -> bool:
    """Let the C library reuse freed memory instead of returning it to the system.

    A page that is mapped anew is zeroed first: for the arrays of a search, of a few
    megabytes each, that takes up to half of the time. Other C libraries than glibc are
    left as they are.

    Returns
    -------
    bool
        Whether it was set.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    settings = {_MMAP_THRESHOLD: _LARGEST_ARRAY, _TRIM_THRESHOLD: _MOST_KEPT}
    return all(mallopt(name, value) == 1 for name, value in settings.items())
