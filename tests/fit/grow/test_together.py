"""Fits whose trees grow at the same time are those of one after the other."""

import functools
import gc
import threading
import warnings
import weakref
from dataclasses import replace

import numpy as np
import pytest
from configurations import crease, shop

from secret_jax import SecretClassifier, SecretRegressor
from secret_jax.fit.alternatives import fit_tree
from secret_jax.fit.grow import together
from secret_jax.fit.grow.together import fit_together

MODELS = {
    "default": SecretRegressor,
    "paper": SecretRegressor.paper,
    # With smaller leaves there are ties.
    "cart": functools.partial(SecretRegressor.literature, "cart", min_samples_leaf=20),
    "best first": functools.partial(SecretRegressor, max_leaf_nodes=5),
    "held out": functools.partial(SecretRegressor, prune="holdout", max_depth=3),
    "classes": SecretClassifier,
}


def fit_of(name, seed, table=crease):
    X, y = table(200 + 8 * seed, seed)
    y = y > np.median(y) if name == "classes" else y
    model = MODELS[name]()
    if "random_state" in model.get_params():
        model.set_params(random_state=seed)
    return model.fit(X, y)


def said(model, X):
    classes = isinstance(model, SecretClassifier)
    return model.predict_proba(X)[:, 1] if classes else model.predict(X)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("table", [crease, shop])
def test_trees_are_those_of_one_fit_after_the_other(name, table, monkeypatch):
    sizes: list[int] = []
    growing = together.grown

    def counted(rows, schema, options, roots, *more):
        sizes.append(len(roots))
        return growing(rows, schema, options, roots, *more)

    monkeypatch.setattr(together, "grown", counted)
    fits = [functools.partial(fit_of, name, seed, table) for seed in range(3)]
    alone = [fit() for fit in fits]
    n_alone, most_alone = len(sizes), max(sizes)
    sizes.clear()
    done = [future.result() for future in fit_together(fits)]
    assert len(sizes) < n_alone
    assert max(sizes) > most_alone
    X, _ = table(300, 9)
    for one, other in zip(alone, done, strict=True):
        assert other.tree_.schema.names == one.tree_.schema.names
        np.testing.assert_array_equal(other.tree_.kind, one.tree_.kind)
        np.testing.assert_allclose(said(other, X), said(one, X), rtol=1e-9, atol=1e-9)


def test_joined_rows_end_with_their_growth(monkeypatch):
    growing, seen = together.grown, []

    def noted(rows, *more):
        seen.append((len(rows.weight), weakref.ref(rows.weight)))
        return growing(rows, *more)

    monkeypatch.setattr(together, "grown", noted)
    gc.disable()
    try:
        fit_together([functools.partial(fit_of, "default", seed) for seed in (0, 1)])
        joint = [reference() for n, reference in seen if n > 208]
    finally:
        gc.enable()
    assert joint
    assert all(weight is None for weight in joint)


def test_tables_of_other_forms_and_errors_of_one_leave_the_others_alone():
    def wrong():
        X, y = crease(100)
        return SecretRegressor(leaf="none").fit(X, y)

    fits = [functools.partial(fit_of, "default", seed) for seed in (0, 1)]
    fits += [wrong, functools.partial(fit_of, "default", 0, shop)]
    expected = [fit().n_leaves_ for fit in (*fits[:2], fits[3])]
    before = warnings.filters[:]
    for at_once in (2, 64):
        one, two, failed, other = fit_together(fits, at_once=at_once)
        assert [each.result().n_leaves_ for each in (one, two, other)] == expected
        with pytest.raises(ValueError, match="'leaf' parameter"):
            failed.result()
    assert warnings.filters == before
    assert fit_together([]) == []


def test_a_growth_that_fails_tells_every_fit_that_was_in_it(monkeypatch):
    def broken(*given):
        raise MemoryError("full")

    monkeypatch.setattr(together, "grown", broken)
    fits = [functools.partial(fit_of, "paper", seed) for seed in range(3)]
    for each in fit_together(fits):
        with pytest.raises(MemoryError, match="full"):
            each.result()


def test_an_interruption_ends_all_fits(monkeypatch):
    def interrupted(futures):
        raise KeyboardInterrupt

    monkeypatch.setattr(together, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit_together([functools.partial(fit_of, "default", seed) for seed in range(3)])


@pytest.mark.parametrize("interrupted", [False, True])
def test_nobody_waits_on_for_a_fit_that_fails(interrupted, monkeypatch):
    """One that raises, or is interrupted, when all others wait for it to grow."""
    come, all_wait = [], threading.Event()
    grow, wait = together._Meeting.grow, together.wait

    def noted(meeting, growth):
        come.append(1)
        if len(come) == 3:
            all_wait.set()
        return grow(meeting, growth)

    def waited(futures):
        if not interrupted:
            return wait(futures)
        all_wait.wait()
        raise KeyboardInterrupt

    def last():
        all_wait.wait()
        raise KeyError("own")

    monkeypatch.setattr(together._Meeting, "grow", noted)
    monkeypatch.setattr(together, "wait", waited)
    monkeypatch.setattr(together, "N_WORKERS", 2)  # the last one and another
    fits = [functools.partial(fit_of, "default", seed) for seed in range(3)]
    if interrupted:
        with pytest.raises(KeyboardInterrupt):
            fit_together([*fits, last])
    else:
        *others, failed = fit_together([*fits, last])
        assert all(each.result().n_leaves_ > 1 for each in others)
        assert isinstance(failed.exception(), KeyError)


def test_fits_that_cannot_all_begin_do_not_wait_for_each_other(monkeypatch):
    submit, n_begun = together.ThreadPoolExecutor.submit, []

    def twice(pool, *given):
        n_begun.append(1)
        if len(n_begun) > 2:
            raise RuntimeError("can't start new thread")
        return submit(pool, *given)

    monkeypatch.setattr(together.ThreadPoolExecutor, "submit", twice)
    with pytest.raises(RuntimeError, match="new thread"):
        fit_together([functools.partial(fit_of, "default", seed) for seed in range(4)])


def test_every_fit_hears_of_its_progress_and_errs_alone():
    def loud(seed, error=None):
        X, y = crease(200, seed)
        model = SecretRegressor()
        plan = replace(model._plan(), progress=functools.partial(hear, seed, error))
        return fit_tree(plan, model._given(X, y, None), None).tree.n_leaves

    def hear(seed, error, step):
        heard[seed].add(step.stage)
        if error and step.stage.startswith("growing"):
            raise error

    heard: list[set[str]] = [set(), set(), set()]
    fits = [functools.partial(loud, 0), functools.partial(loud, 1, KeyError("own"))]
    one, two, three = fit_together([*fits, functools.partial(loud, 2)])
    assert one.result() > 0
    assert three.result() > 0
    with pytest.raises(KeyError, match="own"):
        two.result()
    assert all(any(stage.startswith("growing") for stage in own) for own in heard)
