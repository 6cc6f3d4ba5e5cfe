"""The examples of CONTRIBUTING.md run, and one function and one entry suffice."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from secret_jax import SecretRegressor
from secret_jax.models.leaves import LEAF_MODELS
from secret_jax.prune.rules import PRUNING_RULES
from secret_jax.splits import directions
from secret_jax.splits.directions import PROPOSALS
from secret_jax.splits.scoring import node_rows

ROOT = Path(__file__).parent.parent
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def example(heading):
    """The Python block below a heading."""
    section = CONTRIBUTING.split(f"### {heading}\n")[1].split("\n### ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return code


@pytest.fixture(autouse=True)
def registries():
    """What an example registers is gone after its test."""
    kept = [(known, dict(known)) for known in (PROPOSALS, LEAF_MODELS, PRUNING_RULES)]
    yield
    for registry, before in kept:
        registry.clear()
        registry.update(before)


def test_a_proposal_is_asked_for_directions(rng, monkeypatch):
    calls = []

    def counted(rows, first, second, *, n_model):
        calls.append(first.shape)
        return discriminants(rows, first, second, n_model=n_model)

    discriminants = directions.discriminants
    monkeypatch.setattr(directions, "discriminants", counted)
    scope = {}
    exec(example("A split finder"), scope)
    X = rng.normal(size=(500, 2)).astype(np.float32)
    above = X @ [3.0, 1.0] > 0
    y = np.where(above, 1.0, -1.0).astype(np.float32)
    rows, whitener = node_rows(X, y, np.ones(500, np.float32), n_model=2, ridge=1e-6)

    found = scope["residual_signs"](rows, n_model=2) @ np.asarray(whitener)

    within = np.cov(X[above].T) * above.mean() + np.cov(X[~above].T) * (~above).mean()
    fisher = np.linalg.solve(within, X[above].mean(axis=0) - X[~above].mean(axis=0))
    cosine = (found[0] @ fisher) / np.linalg.norm(found[0]) / np.linalg.norm(fisher)
    assert abs(cosine) > 0.999
    calls.clear()
    model = SecretRegressor(oblique=True, prune=None, max_depth=1, random_state=0)
    model.fit(X, np.abs(X @ [1.0, 1.0]))
    assert calls, "the search never asked the registered proposal"


def test_a_leaf_model_is_fitted_in_every_leaf(rng):
    scope = {}
    exec(example("A leaf model"), scope)
    X = rng.normal(size=(400, 3)) * [1.0, 10.0, 0.1]
    y = np.where(X[:, 0] > 0, X[:, 1], 20 * X[:, 2]) + rng.normal(size=400)
    model = scope["lines"].set_params(clip_margin=None, random_state=0)
    # Grown again it would not be fitted to the outputs alone.
    model.set_params(born_again=False).fit(X, y)
    leaf = model.apply(X)
    assert len(np.unique(leaf)) > 1
    for node in np.unique(leaf):
        inside = leaf == node
        lines = [np.polyfit(x, y[inside], 1) for x in X[inside].T]
        fits = [np.polyval(line, x) for line, x in zip(lines, X[inside].T, strict=True)]
        errors = [np.sum((y[inside] - fit) ** 2) for fit in fits]
        expected = fits[int(np.argmin(errors))]
        np.testing.assert_allclose(model.predict(X[inside]), expected, atol=2e-4)


def test_a_pruning_rule_chooses_the_subtree(rng):
    scope = {}
    exec(example("A pruning rule"), scope)
    X = rng.uniform(size=(400, 3))
    y = np.abs(X[:, 0] - 0.5) * 4 + np.abs(X[:, 1] - 0.5) + 0.1 * rng.normal(size=400)
    model = scope["small"].set_params(random_state=0).fit(X, y)
    path = SecretRegressor(oblique=False, random_state=0).cost_complexity_pruning_path(
        X, y
    )
    allowed = path.impurities <= 1.1 * path.impurities.min()
    assert 1 < model.n_leaves_ < model.n_leaves_grown_
    error = np.mean((y - model.predict(X)) ** 2)
    np.testing.assert_allclose(error, path.impurities[allowed][-1], rtol=1e-5)


def test_an_unknown_name_is_answered_with_those_that_are_registered():
    PRUNING_RULES["mine"] = PRUNING_RULES["aic"]
    with pytest.raises(ValueError, match="'icomp', 'mine', None"):
        SecretRegressor().set_params(prune="yours").fit(np.ones((9, 1)), np.arange(9.0))


def test_every_file_is_in_the_architecture():
    table = CONTRIBUTING.split("## Architecture")[1].split("\n## ")[0]
    named = set(re.findall(r"`[a-z/_]*?(\w+\.py)`", table))
    files = {path.name for path in (ROOT / "secret_jax").rglob("*.py")}
    assert files - named == set()
    assert named - files == set()


def test_hooks_have_the_versions_of_the_tests():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pinned = dict(
        requirement.split("==")
        for requirement in project["project"]["optional-dependencies"]["test"]
        if "==" in requirement
    )
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert f"ruff-pre-commit\n    rev: v{pinned['ruff']}\n" in hooks
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {project['project']['version']}\n" in citation


def test_the_readme_of_the_benchmarks_names_every_file():
    folder = ROOT / "benchmarks"
    named = set(
        re.findall(r"`(\w+\.py)`", (folder / "README.md").read_text(encoding="utf-8"))
    )
    assert {path.name for path in folder.glob("*.py")} <= named
