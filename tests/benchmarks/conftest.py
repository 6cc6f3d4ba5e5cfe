"""What the tests of benchmarks share."""

from __future__ import annotations

import pytest

from benchmarks import timing


@pytest.fixture(autouse=True)
def _quiet_machine(monkeypatch):
    """Tests run side by side; what is timed in them is not looked at."""
    monkeypatch.setattr(timing, "busy_share", lambda: 0.0)
