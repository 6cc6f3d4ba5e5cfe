"""Eight devices, two and four processes beside one: the same tree, how many bytes.

    python -m benchmarks.scaling.shards --rows 1000003

fits Fried rows in the memory of one process, in shards over eight devices that the host
pretends to have, and in two and four processes that read parts of them as Parquet, and
prints by how much trees and predictions differ. On one machine nothing gets faster by
it: devices and processes share its processors.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shared import say, whole_number

_ROOT = Path(__file__).parents[2]
_SAME = ("kind", "attribute", "left", "right", "direction", "weight")
_NEAR = ("threshold", "coefficient", "upper")


def rows(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Fried, float32."""
    from secret_jax.datasets import make_fried

    X, y = make_fried(n_rows, random_state=0)
    return X.astype(np.float32), y


def in_shards(n_rows: int, out: str) -> None:
    """Be a process of eight devices."""
    from secret_jax import SecretRegressor, shard_rows

    X, y = rows(n_rows)
    shards = shard_rows(X)
    begun = time.perf_counter()
    model = SecretRegressor(random_state=0).fit(shards, y)
    print(json.dumps({"seconds": time.perf_counter() - begun}))
    model.save(out)


def differences(found: Any, expected: Any) -> dict[str, Any]:
    """How far two trees are apart, in standardised units."""
    tree, other = found.tree_, expected.tree_
    if tree.n_nodes != other.n_nodes:
        return {"same_splits": False}
    same = all(np.array_equal(getattr(tree, f), getattr(other, f)) for f in _SAME)
    return {"same_splits": same} | {
        name: float(np.abs(getattr(tree, name) - getattr(other, name)).max())
        for name in _NEAR
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit everywhere, and compare."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling.shards")
    parser.add_argument("--rows", type=whole_number, default=1_000_003)
    parser.add_argument("--devices", type=whole_number, default=8)
    parser.add_argument("--processes", type=whole_number, nargs="*", default=[2, 4])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        in_shards(options.rows, options.child)
        return
    import pyarrow as pa
    import pyarrow.parquet as parquet

    from secret_jax import SecretRegressor

    X, y = rows(options.rows)
    expected = SecretRegressor(random_state=0).fit(X, y)
    say(f"{options.rows:,} rows, {expected.n_leaves_} leaves in one process")
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "shards")
        flags = os.environ.get("XLA_FLAGS", "")
        flags += f" --xla_force_host_platform_device_count={options.devices}"
        command = [sys.executable, "-m", "benchmarks.scaling.shards"]
        command += ["--rows", str(options.rows), "--child", out]
        environment = os.environ | {"XLA_FLAGS": flags}
        subprocess.run(command, cwd=_ROOT, env=environment, check=True)
        found = differences(SecretRegressor.load(out), expected)
        print(f"{options.devices} devices: {json.dumps(found)}")
        # Parts of uneven sizes.
        cuts = np.linspace(0, 1, 6) ** 1.5 * options.rows
        names = [f"x{i}" for i in range(X.shape[1])]
        parts = Path(folder) / "parts"
        parts.mkdir()
        for number, (start, stop) in enumerate(
            zip(cuts[:-1].astype(int), cuts[1:].astype(int), strict=True)
        ):
            columns = dict(zip(names, X[start:stop].T, strict=True))
            table = pa.table(columns | {"y": y[start:stop]})
            parquet.write_table(table, parts / f"part-{number}.parquet")
        for n_processes in options.processes:
            out = str(Path(folder) / f"processes-{n_processes}")
            command = [sys.executable, "-m", "benchmarks.scaling.launch", str(parts)]
            command += ["--out", out, "--processes", str(n_processes)]
            subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.DEVNULL)
            found = differences(SecretRegressor.load(out), expected)
            print(f"{n_processes} processes: {json.dumps(found)}")


if __name__ == "__main__":
    main()
