"""What tests of wrong input share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from jaxtyping import config


@pytest.fixture
def as_users_run_it() -> Iterator[None]:
    """Without the types that only the tests check: the package itself must refuse."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", before)
