"""Parameters of values within the estimator, and values of one's own."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, fields, replace
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from configurations import crease, refusal, regressor
from sklearn.base import clone

from secret_jax import (
    Constant,
    CostComplexity,
    Distillation,
    KernelTreeRegressor,
    Ridge,
    RssSplits,
    SecretRegressor,
    SecretSplits,
)
from secret_jax.estimators.parameters import NAMED
from secret_jax.fit.interface import Fitted, Pruned, PruningRule, Refined, Refinement
from secret_jax.runtime.values import at_least, constraints_of, real
from secret_jax.tree.reshape import compact

VALUES = [value for values in NAMED.values() for value in filter(None, values.values())]
VALUES += [CostComplexity()]


def test_the_constructor_is_short():
    parameters = inspect.signature(SecretRegressor).parameters
    assert len(parameters) <= 20
    assert set(parameters) == set(constraints_of(SecretRegressor))
    # What is not about one of its parts is left to their fields.
    assert set(NAMED) <= set(parameters)
    public = {name for name in dir(SecretRegressor()) if not name.startswith("_")}
    assert len(public - set(parameters)) <= 36


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_every_value_is_frozen_and_as_it_prints(value):
    kind = type(value)
    kinds = {type(other).__name__: type(other) for other in VALUES}
    assert eval(repr(value), kinds) == value
    for copied in (clone(value), pickle.loads(pickle.dumps(value))):
        assert type(copied) is kind
        assert copied == value
        assert hash(copied) == hash(value)
    with pytest.raises(FrozenInstanceError):
        setattr(value, next(iter([f.name for f in fields(value)]), "any"), 1)
    # Every field has a constraint, and every constraint a field.
    assert constraints_of(kind).keys() == {f.name for f in fields(value)}
    value.check()


@pytest.mark.parametrize(
    ("parameter", "name"),
    [(parameter, name) for parameter, names in NAMED.items() for name in names],
)
def test_a_name_stands_for_a_value_with_its_fields(parameter, name):
    model = SecretRegressor(**{parameter: name})
    found = model.get_params()
    assert found[parameter] == name
    value = NAMED[parameter][name]
    nested = {
        field.removeprefix(f"{parameter}__"): its
        for field, its in found.items()
        if field.startswith(f"{parameter}__")
    }
    assert nested == (value.get_params() if value else {})
    # Given back, the fields leave the name in place.
    assert model.set_params(**found).get_params(deep=False)[parameter] == name
    assert not any("__" in name for name in model.get_params(deep=False))


def test_fields_are_set_behind_two_underscores():
    model = SecretRegressor()
    assert model.set_params(splits__n_thresholds=8) is model
    assert model.splits == RssSplits(n_thresholds=8)
    assert model.leaf == "ridge"
    model.set_params(splits__n_hessian=3, leaf__clip_margin=None, distill__reach=0.0)
    assert model.splits == RssSplits(n_thresholds=8, n_hessian=3)
    assert model.leaf == Ridge(clip_margin=None)
    assert model.distill == Distillation(reach=0.0)
    # Of a value that is set with them, in whichever order.
    model.set_params(splits__n_starts=2, splits="secret")
    assert model.splits == SecretSplits(n_starts=2)
    model.set_params(prune=CostComplexity(), prune__alpha=0.5)
    assert model.prune == CostComplexity(alpha=0.5)
    copied = clone(model)
    assert copied.get_params() == model.get_params()
    copied.set_params(prune__alpha=0.25)
    assert model.prune == CostComplexity(alpha=0.5)
    assert "alpha=0.5" in repr(model)


@pytest.mark.parametrize(
    "unknown",
    [
        {"splits__n_treshold": 3},
        {"max_deep": 3},
        {"prune__alpha": 0.1},  # "auto" has no fields
        {"refine__tol": 0.1},  # nor has None
        {"oblique__tol": 0.1},
        {"estimator__max_depth": 3},
        {"splits__": 3},
        {"__": 3},
        {"splits__proposals__tol": 3},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_an_unknown_name_is_refused_and_nothing_is_set(unknown):
    model = SecretRegressor(splits=RssSplits(n_hessian=3))
    before = dict(vars(model))
    changes = {"max_depth": 3, "leaf": "constant", "splits__n_hessian": 1}
    (name,) = unknown
    for given in (changes | unknown, unknown | changes):
        with refusal(f"Invalid parameter {name!r}", "SecretRegressor", "'splits"):
            model.set_params(**given)
        assert vars(model) == before


# Values of one's own: what their fits must come to is worked out here.


@dataclass(frozen=True, kw_only=True)
class Stump(PruningRule):
    """Nothing below a depth."""

    depth: int = 1

    def __call__(self, tree, evidence):
        return Pruned(compact(tree, tree.depth < self.depth), 0.0)


class Shifted(Refinement):
    """Every model a little higher; a class without fields need be no dataclass."""

    def __call__(self, fitted: Fitted, recipe) -> Refined:
        higher = fitted.tree.coefficient.copy()
        higher[:, :, 0] += 0.5
        return Refined(replace(fitted.tree, coefficient=higher), n_steps=3)


def test_a_refinement_of_ones_own():
    X, y = crease()
    leaf = Ridge(clip_margin=None)
    model = regressor("default", leaf=leaf, refine=Shifted()).fit(X, y)
    plain = regressor("default", leaf=leaf).fit(X, y)
    rise = 0.5 * plain.tree_.schema.target_scale
    np.testing.assert_allclose(model.predict(X), plain.predict(X) + rise, atol=1e-5)
    assert model.n_refine_steps_ == 3


def test_a_value_of_ones_own_is_checked_by_its_own_constraints():
    @dataclass(frozen=True, kw_only=True)
    class Picky(Stump):
        _parameter_constraints = {"depth": [at_least(0), None]}  # noqa: RUF012

    with refusal("'depth' parameter of Picky", "[0, inf) or None", "Got -1 instead"):
        SecretRegressor(prune=Picky(depth=-1)).fit(*crease())

    @dataclass(frozen=True, kw_only=True)
    class Typed(Stump):
        share: Annotated[float, real(0.0, 1.0)] | None = None
        kind: Literal["short", "long"] = "short"
        whole: bool = True
        table: Any = None
        more: Any | None = None
        told: Annotated[int, "a note"] = 1
        size: Literal[1, 2] = 1
        mode: Literal[True, "auto"] = True

    good = Typed(share=0, kind="long", whole=False, table="anything")
    assert SecretRegressor(prune=good).fit(*crease()).n_leaves_ <= 2
    for bad, allowed in (
        (Typed(share=2.0), "[0.0, 1.0) or None"),
        (Typed(kind="both"), "a str among {"),
        (Typed(whole="no"), "'bool'"),
        (Typed(told="no"), "an instance of 'int'"),  # pyright: ignore
        (Typed(size=3), "among {"),  # pyright: ignore
        (Typed(size=True), "among {"),  # pyright: ignore
        (Typed(mode="no"), "among {"),  # pyright: ignore
    ):
        with refusal("parameter of Typed", allowed):
            SecretRegressor(prune=bad).fit(*crease())

    @dataclass(frozen=True, kw_only=True)
    class Shorter(Typed):
        share: float | None = 0.5  # the range is that of the base

    with refusal("'share' parameter of Shorter", "[0.0, 1.0) or None"):
        SecretRegressor(prune=Shorter(share=2.0)).fit(*crease())
    wrong = {"leaf": Stump(), "prune": Constant(), "refine": RssSplits()}
    for name, other in wrong.items():
        with refusal(f"'{name}' parameter", repr(other)):
            SecretRegressor(**{name: other}).fit(*crease())


def test_constraints_are_where_scikit_learn_looks_for_them():
    for kind in (SecretRegressor, KernelTreeRegressor):
        assert kind._parameter_constraints == dict(constraints_of(kind))

    class Own(SecretRegressor):
        _parameter_constraints = {  # noqa: RUF012
            **SecretRegressor._parameter_constraints,
            "max_depth": [at_least(2)],
        }

    with refusal("'max_depth' parameter of Own", "[2, inf)"):
        Own(max_depth=1).fit(*crease())


def test_a_split_needs_its_least_gain(rng):
    X = rng.uniform(-1, 1, size=(500, 2))
    y = np.abs(X[:, 0]) + 0.1 * rng.normal(size=500)
    model = SecretRegressor(prune=None, oblique=False, distill=False)
    grown = [
        clone(model).set_params(splits__min_gain=gain).fit(X, y).n_leaves_
        for gain in (0.0, "auto", 5.0, 1e6)
    ]
    assert grown[0] > grown[1] >= grown[2] > grown[3] == 1
