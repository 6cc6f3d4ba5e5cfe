"""Compiling ahead: what is kept then is what a fit needs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from secret_jax import SecretRegressor, keep_programs
from secret_jax.cli.main import main
from secret_jax.runtime import programs


@pytest.fixture
def folder(tmp_path, monkeypatch):
    before = list(programs._FOLDER)
    monkeypatch.setenv("SECRET_JAX_CACHE", str(tmp_path / "programs"))
    yield tmp_path / "programs"
    programs._FOLDER[:] = before


def test_a_fit_of_these_columns_finds_its_programs(folder: Path, capsys):
    programs.forget_programs()  # those of other tests
    assert main(["warmup", "--columns", "3", "--rows", "200"]) == 0
    assert f"Programs are kept in {folder}" in capsys.readouterr().out
    kept = sorted(folder.iterdir())
    assert kept
    keep_programs(folder)
    programs.forget_programs()
    rng = np.random.default_rng(1)
    X = rng.normal(size=(210, 3))
    SecretRegressor().fit(X, np.sin(X[:, 0]))
    assert sorted(folder.iterdir()) == kept


def test_keeping_nothing_is_no_warmup(folder, monkeypatch, capsys):
    assert main(["--no-cache", "warmup", "--columns", "3"]) == 2
    assert "leave --no-cache out" in capsys.readouterr().err
    monkeypatch.setenv("SECRET_JAX_CACHE", "off")
    assert main(["warmup", "--columns", "3"]) == 2
    assert "no programs are kept" in capsys.readouterr().err
    assert not folder.exists()
