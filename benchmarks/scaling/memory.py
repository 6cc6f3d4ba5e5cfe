"""Peak memory of a fit, in a process of its own.

A child's ``ru_maxrss`` starts at what its parent had when it was made, so on Linux the
kernel's own high-water mark of the new process is read instead.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_STATUS = Path("/proc/self/status")
_ROOT = Path(__file__).parents[2]  # where `benchmarks` is found


def available_bytes() -> int:
    """Memory that can still be had; very much where the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 1 << 60


def peak_bytes() -> int:
    """Most memory that this process has held."""
    if _STATUS.exists():
        return _status("VmHWM")
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def resident_bytes() -> int:
    """Memory that this process holds now; its peak where the system does not say."""
    return _status("VmRSS") if _STATUS.exists() else peak_bytes()


def _status(name: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(name):
            return 1024 * int(line.split()[1])
    raise KeyError(name)


def peak_of_child(name: str, n_rows: int, model: str) -> dict[str, Any]:
    """What a process says that makes the data and fits the model twice.

    Returns
    -------
    dict
        ``rows``, ``model``, ``data_bytes``, ``before_bytes`` (held before the fits)
        and ``peak_bytes``.
    """
    task = json.dumps({"set": name, "rows": n_rows, "model": model})
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scaling", "--child", task],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        env=dict(os.environ),
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        raise SystemExit(f"The fit of {model} to {n_rows} rows failed: {last[0]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def child(task: dict[str, Any], make_data: Callable[..., Any]) -> None:
    """Be that process: fit, and print one line."""
    from benchmarks.scaling.models import contestants

    (model,) = contestants([task["model"]])
    data = make_data(task["set"], task["rows"], 1)
    before = resident_bytes()
    for _ in range(2):  # the second fit finds its programs compiled
        model.fit(data.X, data.y, float("inf"))
    found = {
        "rows": task["rows"],
        "model": task["model"],
        "data_bytes": data.X.nbytes + data.y.nbytes,
        "before_bytes": before,
        "peak_bytes": peak_bytes(),
    }
    print(json.dumps(found))
