"""Look for broken laws: ``python -m tests.fuzz SEED SECONDS [KIND]``.

Cases of the seeds from SEED on are tried until the time is over, at least one; KIND is
one of `estimators.ALL`, or all of them in turn. Every failure ends with a line that
repeats it. An exit code of 1 says that there was one.
"""

from __future__ import annotations

import sys
import time
import traceback

import jax

from secret_jax.runtime.programs import forget_programs

sys.path.insert(0, "tests/helpers")  # as pytest does

from tests.fuzz.estimators import ALL
from tests.fuzz.laws import broken


def main(seed: int, seconds: float, *only: str) -> int:
    end, kinds, n_cases, n_failures = time.monotonic() + seconds, only or [*ALL], 0, 0
    while n_cases == 0 or time.monotonic() < end:
        kind = kinds[seed % len(kinds)]
        for law, error in broken(kind, seed):
            n_failures += 1
            where = "".join(traceback.format_tb(error.__traceback__)[-2:])
            message = str(error).strip()[:600]
            print(f"{law}: {type(error).__name__}: {message}\n{where}", end="")
            print(f"    python -m tests.fuzz {seed} 0 {kind!r}\n", flush=True)
        seed, n_cases = seed + 1, n_cases + 1
        if n_cases % 200 == 0:  # programs use up the memory maps of a process
            forget_programs()
            jax.clear_caches()
    print(f"{n_cases} cases, {n_failures} broken laws")
    return min(n_failures, 1)


sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:]))
