"""Look for broken laws: ``python -m tests.fuzz SEED SECONDS [KIND]``.

Cases of the seeds from SEED on are tried until the time is over, at least one; KIND is
one of `estimators.ALL`, or all of them in turn. A failure ends with what repeats it.
"""

import sys
import time
import traceback

import jax

sys.path.insert(0, "tests/helpers")  # as pytest does

from secret_jax.runtime.programs import forget_programs
from tests.fuzz.estimators import ALL
from tests.fuzz.laws import broken

seed, seconds, kinds = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:] or [*ALL]
end, n_cases, n_failures = time.monotonic() + seconds, 0, 0
while n_cases == 0 or time.monotonic() < end:
    kind = kinds[seed % len(kinds)]
    for law, error in broken(kind, seed):
        n_failures += 1
        where = "".join(traceback.format_tb(error.__traceback__)[-3:])
        print(f"{law}: {type(error).__name__}: {str(error).strip()[:600]}\n{where}")
        print(f"    python -m tests.fuzz {seed} 0 {kind!r}\n", flush=True)
    seed, n_cases = seed + 1, n_cases + 1
    if n_cases % 200 == 0:  # programs use up the memory maps of a process
        forget_programs()
        jax.clear_caches()
print(f"{n_cases} cases, {n_failures} broken laws")
sys.exit(min(n_failures, 1))
