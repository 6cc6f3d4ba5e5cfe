"""One tree from the rows of several processes: an example that runs as it stands.

    python -m benchmarks.scaling.launch FOLDER --target y --out MODEL --processes 4

starts four processes on this machine; each reads every fourth Parquet file of the
folder, and the first one writes the model. On a cluster every process runs the same
line with ``--join`` in place of ``--processes``: `jax.distributed.initialize` finds the
others by itself under SLURM, Open MPI and on TPU pods.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

# What a process that was lost costs the others, in seconds.
_PATIENCE = 20


def own_files(folder: Path, rank: int, n_processes: int) -> list[str]:
    """The Parquet files of one process: no file goes to two, and none is left."""
    return [str(path) for path in sorted(folder.rglob("*.parquet"))][rank::n_processes]


def fit_here(options: argparse.Namespace) -> None:
    """Be one of the processes."""
    import jax

    # Processors talk over TCP; accelerators have connections of their own.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    where = {}
    if options.coordinator:
        where = {
            "coordinator_address": options.coordinator,
            "num_processes": options.processes,
            "process_id": options.rank,
        }
    jax.distributed.initialize(
        **where,
        heartbeat_timeout_seconds=_PATIENCE,
        shutdown_timeout_seconds=_PATIENCE,
    )
    import pyarrow.dataset as ds

    from secret_jax import RssSplits, SecretRegressor

    rank, n_processes = jax.process_index(), jax.process_count()
    files = own_files(options.folder, rank, n_processes)
    source = ds.dataset(files, format="parquet") if files else []
    model = SecretRegressor(
        oblique={"yes": True, "no": False}.get(options.oblique, "auto"),
        max_leaf_nodes=options.max_leaf_nodes,
        splits=RssSplits(max_samples=options.max_samples),
        random_state=0,
        verbose=rank == 0,
    )
    model.fit_stream(source, target=options.target, processes=True)
    model.set_params(verbose=0)
    if rank == 0:
        model.save(options.out)
        print(model.export_text())
    elif options.out_of_all:
        model.save(f"{options.out}-{rank}")
    jax.distributed.shutdown()


def start(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Start the processes on this machine, and wait for them."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "benchmarks.scaling.launch", *arguments]
    running = [
        subprocess.Popen(
            [*command, "--join", "--coordinator", address, "--rank", str(rank)],
            env=dict(os.environ),
        )
        for rank in range(options.processes)
    ]
    return max(abs(process.wait()) for process in running)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, and start or join."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling.launch")
    add = parser.add_argument
    add("folder", type=Path)
    add("--target", default="y")
    add("--out", required=True, help="where the first process writes the model")
    add("--processes", type=int, default=2, help="how many to start here")
    add("--join", action="store_true", help="be one of processes that others start")
    add("--oblique", choices=("auto", "yes", "no"), default="auto")
    add("--max-leaf-nodes", type=int)
    add("--max-samples", type=int, default=2048)
    add("--out-of-all", action="store_true", help="the others write OUT-1 and so on")
    add("--coordinator", help=argparse.SUPPRESS)
    add("--rank", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not options.join:
        return start(options, arguments)
    try:
        fit_here(options)
    except Exception:  # of which the others were told, if it was the rows
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # the usual way out waits for the others
    return 0


if __name__ == "__main__":
    sys.exit(main())
