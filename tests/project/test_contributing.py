"""The examples of CONTRIBUTING.md run: one file each, passed as a value."""

from __future__ import annotations

import re
import sys
import tomllib
import types
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone

from secret_jax import RssSplits, SecretRegressor
from secret_jax.tree.totals import model_degrees

ROOT = Path(__file__).parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def example(heading):
    """What the Python block below a heading defines."""
    section = CONTRIBUTING.split(f"### {heading}\n")[1].split("\n### ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    module = types.ModuleType("example")
    sys.modules["example"] = module  # where dataclasses look annotations up
    exec(code, module.__dict__)
    return module.__dict__


def test_a_split_finder_finds_its_splits(rng):
    scope = example("A split finder")
    X = rng.uniform(-1, 1, size=(600, 3))
    # Linear but for a step at .3 of the second column.
    y = X @ [1.0, 0.0, -1.0] + 3.0 * (X[:, 1] > 0.3) + 0.1 * rng.normal(size=600)
    model = clone(scope["signs"]).set_params(prune=None, max_depth=1)
    tree = model.fit(X, y).tree_
    assert tree.attribute[0] == 1
    # The finder once more in NumPy: residual signs, means above and below, the middle.
    design = np.column_stack([np.ones(600), X])
    above = y > design @ np.linalg.lstsq(design, y, rcond=None)[0]
    middle = 0.5 * (X[above, 1].mean() + X[~above, 1].mean())
    threshold = tree.threshold[0] * X[:, 1].std() + X[:, 1].mean()
    assert np.mean(X[:, 1] <= threshold) == pytest.approx(np.mean(X[:, 1] <= middle))
    assert SecretRegressor().splits == "rss"  # nothing was registered


def test_a_proposal_is_asked_for_directions(rng):
    asked = []

    def first_coordinate(rows, coordinates, residual, weight):
        asked.append(coordinates.shape)
        first = np.eye(1, coordinates.shape[-2], dtype=np.float32)
        return rows.xp.broadcast_to(first, (rows.n_nodes, *first.shape))

    X = rng.normal(size=(500, 2))
    model = SecretRegressor(
        oblique=True,
        splits=RssSplits(proposals=(first_coordinate,)),
        prune=None,
        max_depth=1,
    )
    model.fit(X, np.abs(X @ [1.0, 1.0]))
    assert asked, "the search never asked the proposal"


def test_a_leaf_model_is_fitted_in_every_leaf(rng):
    lines = example("A leaf model")["lines"]
    X = rng.normal(size=(400, 3)) * [1.0, 10.0, 0.1]
    y = np.where(X[:, 0] > 0, X[:, 1], 20 * X[:, 2]) + rng.normal(size=400)
    # Distilled it would not be fitted to the outputs alone.
    model = clone(lines).set_params(leaf__clip_margin=None, distill=False)
    model.set_params(random_state=0).fit(X, y)
    leaf = model.apply(X)
    assert len(np.unique(leaf)) > 1
    for node in np.unique(leaf):
        inside = leaf == node
        fitted = [np.polyfit(x, y[inside], 1) for x in X[inside].T]
        pairs = zip(fitted, X[inside].T, strict=True)
        fits = [np.polyval(line, x) for line, x in pairs]
        errors = [np.sum((y[inside] - fit) ** 2) for fit in fits]
        expected = fits[int(np.argmin(errors))]
        np.testing.assert_allclose(model.predict(X[inside]), expected, atol=2e-4)
    assert model_degrees(model.tree_).max() == 2.0  # nothing of the parents' models


def test_a_loss_is_minimised(rng):
    robust = example("A loss")["robust"]
    X = rng.normal(size=(500, 2))
    y = X @ [1.0, -2.0] + rng.standard_t(2, size=500)
    model = clone(robust).set_params(leaf="linear", max_depth=0, equation_tolerance=0.0)
    model.set_params(leaf__clip_margin=None).fit(X, y)

    def cost(coefficient):
        error = (y - coefficient[0] - X @ coefficient[1:]) / (0.3 * y.std())
        return np.log(np.cosh(error)).sum()

    best = minimize(cost, np.zeros(3)).x
    np.testing.assert_allclose(model.predict(X), best[0] + X @ best[1:], atol=0.01)
    assert "def predict" in model.export_code()
    assert clone(robust).fit(X, np.abs(X[:, 0]) + 0.1 * y).n_leaves_ > 1


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (tuple, "Worse returned tuple. Return a Split"),
        (lambda split: split._replace(gain=split.gain[0]), "gain of shape ()"),
        (
            lambda split: split._replace(direction=split.direction[:, :2]),
            "direction of",
        ),
        (lambda split: split._replace(direction=0.0 * split.direction), "is zero at"),
        (lambda split: split._replace(attribute=split.attribute + 3), "3 columns"),
    ],
)
def test_what_is_no_split_is_refused(rng, changed, said):
    scope = example("A split finder")

    class Worse(scope["ResidualSigns"]):
        def find(self, level):
            return changed(super().find(level))

    X = rng.uniform(-1, 1, size=(200, 3))
    with pytest.raises((TypeError, ValueError), match=re.escape(said)):
        clone(scope["signs"]).set_params(splits=Worse()).fit(X, np.abs(X[:, 0]))


@pytest.mark.parametrize(
    ("method", "changed", "said"),
    [
        ("losses", lambda each: each[:, 0], "losses returned an array of shape (64,)"),
        ("losses", lambda each: each * np.nan, "losses returned NaN or infinity"),
        ("working", lambda found: found[0], "working should return two arrays"),
        ("working", lambda found: (found[0], -found[1]), "a negative curvature"),
        ("constant", lambda value: value[0], "constant returned an array of shape ()"),
        ("noise", lambda noise: None, "noise returned an array of shape ()"),
    ],
)
def test_what_is_no_loss_is_refused(rng, method, changed, said):
    scope = example("A loss")
    base = scope["LogCosh"]

    class Worse(base):
        def constant(self, targets, weight):
            return base().constant(targets, weight)

    plain = getattr(base(), method)
    setattr(Worse, method, lambda self, *given: changed(plain(*given)))
    X = rng.uniform(-1, 1, size=(200, 3))
    with pytest.raises((TypeError, ValueError), match=re.escape(said)):
        clone(scope["robust"]).set_params(loss=Worse()).fit(X, np.abs(X[:, 0]))


def test_a_loss_of_unknown_units_or_link_is_refused(rng):
    scope = example("A loss")
    X = rng.uniform(-1, 1, size=(200, 3))
    for name in ("units", "link"):
        worse = type("Worse", (scope["LogCosh"],), {name: "logit"})()
        with pytest.raises(ValueError, match=f"Worse.{name} is 'logit'. Allowed"):
            clone(scope["robust"]).set_params(loss=worse).fit(X, np.abs(X[:, 0]))


def test_a_pruning_rule_chooses_the_subtree(rng):
    small = example("A pruning rule")["small"]
    X = rng.uniform(size=(400, 3))
    y = np.abs(X[:, 0] - 0.5) * 4 + np.abs(X[:, 1] - 0.5) + 0.1 * rng.normal(size=400)
    full = clone(small).set_params(
        random_state=0, equation_tolerance=0.0
    )  # the path is of full models
    model = clone(full).fit(X, y)
    path = SecretRegressor(oblique=False, random_state=0).cost_complexity_pruning_path(
        X, y
    )
    allowed = path.impurities <= 1.1 * path.impurities.min()
    assert 1 < model.n_leaves_ < model.n_leaves_grown_
    error = np.mean((y - model.predict(X)) ** 2)
    np.testing.assert_allclose(error, path.impurities[allowed][-1], rtol=1e-5)
    larger = clone(full).set_params(prune__share=0.0).fit(X, y)
    assert larger.n_leaves_ > model.n_leaves_


def test_every_room_is_in_the_architecture():
    rooms = CONTRIBUTING.split("## Architecture")[1].split("\n## ")[0]
    named = set(re.findall(r"^- `(\w+)(?:/|\.py)`: ", rooms, re.MULTILINE))
    package = ROOT / "secret_jax"
    rooms = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    rooms |= {path.parent.name for path in package.glob("*/__init__.py")}
    assert named == rooms


def test_every_folder_says_what_it_is_for():
    for face in (ROOT / "secret_jax").rglob("__init__.py"):
        first = face.read_text(encoding="utf-8").split("\n")[0]
        assert re.match(r'"""\w.{20,}\.', first), face


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
