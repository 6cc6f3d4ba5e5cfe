"""A fit of Parquet files that need not fit into memory: rates and memory.

    python -m benchmarks.scaling.streamed --folder /tmp/parquet --rows 50000000

writes Fried rows of float32 as Parquet files, fits them in a process of its own, and
prints rows a second beside one bare read of the same files and beside a fit in memory
of a tenth; and how much memory a fit takes over what its process held before.
``--remove`` deletes the rows in the end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scaling.memory import peak_bytes, resident_bytes
from benchmarks.shared import say, whole_number

_ROOT = Path(__file__).parents[2]
_FILE_ROWS = 2_500_000
_GROUP_ROWS = 1 << 18
_N_COLUMNS = 10


def write(folder: Path, n_rows: int) -> None:
    """Fried rows in Parquet files of pyarrow's own settings, whole files or none."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    folder.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, n_rows, _FILE_ROWS)):
        path = folder / f"part-{number:04}.parquet"
        if path.exists():
            continue
        size = min(_FILE_ROWS, n_rows - start)
        random = np.random.default_rng([20020723, number])
        x = random.random((_N_COLUMNS, size), dtype=np.float32)
        y = 10 * np.sin(np.pi * x[0] * x[1]) + 20 * (x[2] - 0.5) ** 2
        y += 10 * x[3] + 5 * x[4] + random.standard_normal(size, dtype=np.float32)
        columns = {f"x{i}": column for i, column in enumerate(x)}
        temporary = path.with_suffix(".tmp")
        table = pa.table(columns | {"y": y})
        parquet.write_table(table, temporary, row_group_size=_GROUP_ROWS)
        os.replace(temporary, path)


def read(folder: Path) -> int:
    """One bare read: every row group becomes Arrow columns, and is dropped."""
    import pyarrow.parquet as parquet

    n_rows = 0
    for path in sorted(folder.glob("*.parquet")):
        file = parquet.ParquetFile(path)
        for group in range(file.num_row_groups):
            n_rows += file.read_row_group(group).num_rows
    return n_rows


def in_memory(folder: Path, share: float) -> tuple[np.ndarray, np.ndarray]:
    """The first files, as arrays."""
    import pyarrow.parquet as parquet

    paths = sorted(folder.glob("*.parquet"))
    paths = paths[: max(1, round(share * len(paths)))]
    table = [parquet.read_table(path) for path in paths]
    columns = [
        np.concatenate([part[name].to_numpy() for part in table])
        for name in table[0].column_names
    ]
    return np.stack(columns[:-1], axis=1), columns[-1]


def child(task: dict[str, Any]) -> dict[str, Any]:
    """Be a process that measures one thing."""
    folder, what = Path(task["folder"]), task["what"]
    if what == "read":
        begun, processor = time.perf_counter(), time.process_time()
        n_rows = read(folder)
        return {"rows": n_rows} | _spent(begun, processor)
    from secret_jax import SecretRegressor
    from secret_jax.datasets import make_fried

    model = SecretRegressor(random_state=0)
    X, y = make_fried(200_000, random_state=0)
    warm = X.astype(np.float32), y
    model.fit_stream(warm)  # programs are compiled, and threads have their stacks
    if what == "tenth":
        X, y = in_memory(folder, 0.1)
        model.fit(X[:200_000], y[:200_000])
    before = resident_bytes()
    begun, processor = time.perf_counter(), time.process_time()
    if what == "tenth":
        model.fit(X, y)
    else:
        model.fit_stream(folder)
    spent = _spent(begun, processor)
    return spent | {
        "rows": int(model.tree_.weight[0]),
        "before_bytes": before,
        "peak_bytes": peak_bytes(),
        "leaves": model.n_leaves_,
    }


def _spent(begun: float, processor: float) -> dict[str, Any]:
    """Seconds since then, on the clock and of all processors."""
    return {
        "seconds": time.perf_counter() - begun,
        "processor_seconds": time.process_time() - processor,
    }


def in_child(**task: Any) -> dict[str, Any]:
    """Run a task in a process of its own."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "benchmarks.scaling.streamed"),
            *("--child", json.dumps(task)),
        ],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"The process of {task} failed with {process.returncode}.")
    return json.loads(out.strip().splitlines()[-1])


def rate(found: dict[str, Any]) -> float:
    """Millions of rows a second."""
    return found["rows"] / found["seconds"] / 1e6


def text(found: dict[str, Any]) -> str:
    """How fast, on the clock and in time of processors, which others cannot disturb."""
    each = 1e9 * found["processor_seconds"] / found["rows"]
    return f"{rate(found):.2f} million rows a second, {each:.0f} ns of processors a row"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the rows, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling.streamed")
    add = parser.add_argument
    add("--folder", type=Path, default=Path("/tmp/secret_jax_parquet"))
    add("--rows", type=whole_number, default=50_000_000)
    add("--remove", action="store_true", help="delete the rows in the end")
    add("--out", type=Path, default=Path("results/streamed.json"))
    add("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        print(json.dumps(child(json.loads(options.child))))
        return
    parts = options.folder / "parts"
    write(parts, options.rows)
    size = sum(path.stat().st_size for path in parts.iterdir())
    say(f"{options.rows:,} rows, {size / 1e9:.2f} GB in {parts}")
    folder = str(parts)
    found = {"bare read": in_child(what="read", folder=folder)}
    say(f"one bare read: {text(found['bare read'])}")
    found["streamed"] = in_child(what="fit", folder=folder)
    added = found["streamed"]["peak_bytes"] - found["streamed"]["before_bytes"]
    say(
        f"streamed: {text(found['streamed'])}, "
        f"{rate(found['streamed']) / rate(found['bare read']):.0%} of a bare read's "
        f"({2 * rate(found['streamed']) / rate(found['bare read']):.0%} of it in each "
        f"of two passes), {added / 1e6:.0f} MB over the process before it"
    )
    found["tenth in memory"] = in_child(what="tenth", folder=folder)
    say(f"a tenth in memory: {text(found['tenth in memory'])}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    if options.remove:
        shutil.rmtree(options.folder)


if __name__ == "__main__":
    main()
