"""``python -m secret_jax.cli``."""

import sys

from secret_jax.cli.main import main

sys.exit(main())
