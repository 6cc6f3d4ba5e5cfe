"""``python -m secret_jax``: the command line."""

import sys

from secret_jax.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
