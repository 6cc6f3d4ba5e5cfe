"""Where the time of a fit goes, stage by stage; see `stages.py` and `README.md`.

A script in this folder that imports the standard library's module of this name (as
cProfile does) finds this file first: then it gets that module.
"""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from pathlib import Path

if __name__ == "__main__":
    from stages import main

    main()
else:
    path = Path(sysconfig.get_path("stdlib")) / "profile.py"
    spec = importlib.util.spec_from_file_location("profile", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[__name__] = module
    spec.loader.exec_module(module)
