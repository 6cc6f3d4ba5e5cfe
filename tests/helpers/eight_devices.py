"""Eight devices that processors stand for: they need a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import secret_jax

ROOT = Path(secret_jax.__file__).parents[1]


def on_eight_devices(script: str, **environment: str) -> dict:
    """Run a script; what it prints last is JSON."""
    flags = os.environ.get("XLA_FLAGS", "")
    flags += " --xla_force_host_platform_device_count=8"
    counted = "import jax; assert jax.device_count() == 8\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", counted + script],
        env=os.environ | {"PYTHONPATH": str(ROOT), "XLA_FLAGS": flags} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])
