"""What a fit asks of an accelerator, counted without one: bounds that hold a design."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

import jax
import numpy as np
import pytest

from benchmarks.device import measuring
from benchmarks.device.__main__ import main
from benchmarks.device.counting import (
    as_on_accelerator,
    counted,
    demands_of,
    kernels_of,
    remembered,
)
from secret_jax import SecretRegressor
from secret_jax.datasets import make_fried
from secret_jax.runtime.devices import in_32_bits
from secret_jax.runtime.parallel import side_by_side
from secret_jax.runtime.programs import program

ROOT = Path(__file__).parents[2]


@pytest.mark.device
@pytest.mark.parametrize(
    ("model", "rows", "starts", "programs"),
    [
        # Two of them serve a rival without the regressors that harm.
        ("tree", 1000, 100, 6),
        ("tree", 4000, 80, 6),
        ("tree", 200_000, 80, 4),
        ("paper", 2000, 30, 4),
        ("booster", 2000, 120, 8),
    ],
)
def test_few_programs_serve_a_fit(model, rows, starts, programs):
    found = demands_of(rows, 10, model)
    assert found.starts_of("divided") > 1
    assert found.starts_of("searched") > 1
    assert sum(found.starts.values()) <= starts
    assert len(found.starts) <= programs
    assert 4 * 10 * min(rows, 1 << 16) < found.bytes_to_device < 1e8


@pytest.mark.device
def test_a_fit_of_a_sample_sends_the_sample_only():
    found = demands_of(200_000, 5)
    # Tables and rows of roots are padded to powers of two.
    assert found.bytes_to_device < 4 * 65_536 * 4 * (5 + 4)


def test_the_tree_is_the_one_without():
    X, y = make_fried(300, n_features=5, random_state=0)
    parameters = {"oblique": False, "prune": None, "max_depth": 2}
    model = SecretRegressor(random_state=0, **parameters)
    expected = model.fit(X, y).predict(X)
    with counted() as demands:
        found = model.fit(X, y)
    assert demands.starts_of("searched") > 0
    np.testing.assert_allclose(found.predict(X), expected, atol=1e-4)


def test_answers_that_are_remembered_make_the_same_tree_and_run_nothing():
    X, y = make_fried(300, n_features=5, random_state=0, device="cpu")
    model = SecretRegressor(random_state=0, oblique=False, prune=None, max_depth=2)
    with remembered() as answers:
        first, n_run = model.fit(X, y).tree_, len(answers.known)
        answers.again()
        again = model.fit(X, y).tree_
        assert n_run == len(answers.known) > 4
        assert model.fit(X, y).tree_ is not again
    assert len(answers.known) == 2 * n_run  # without `again` programs run
    for name in ("left", "direction", "threshold", "coefficient"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))


def test_threads_get_the_answers_to_their_own_numbers():
    turned = program()(lambda x, n: x * n)
    x, found = np.ones(3, np.float32), {}
    with remembered() as answers:
        for numbers in (range(20), range(19, -1, -1)):
            answers.again()
            side_by_side(lambda n: found.update({n: turned(x, n)[0]}), numbers)
            assert found == {n: n for n in range(20)}
            assert len(answers.known) == 20
            found.clear()


# What no compiler makes one kernel of: each needs all of what is before it.
_APART = "dot_general reduce argmax argmin sort top_k cumsum optimization_barrier while"


def steps_of(jaxpr) -> int:
    """Steps of a traced program that stay steps, those of loops at every turn."""
    total = 0
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if any(name.startswith(apart) for apart in _APART.split()):
            total += 1
        inner = [
            steps_of(part.jaxpr if hasattr(part, "jaxpr") else part)
            for value in equation.params.values()
            for part in (value if isinstance(value, tuple | list) else [value])
            if hasattr(part, "eqns") or hasattr(part, "jaxpr")
        ]
        # Every turn of a loop adds one to a counter, on the device.
        turns = equation.params["length"] if name == "scan" else 1
        total += turns * (sum(inner) + (name == "scan"))
    return total


@pytest.mark.parametrize(
    ("parameters", "most"),
    [
        ({"oblique": False}, 100),
        pytest.param({"oblique": True}, 300, marks=pytest.mark.device),
        pytest.param({"splits": "secret"}, 330, marks=pytest.mark.device),
    ],
    ids=str,
)
def test_searches_for_accelerators_have_few_steps(parameters, most):
    X, y = make_fried(300, n_features=5, random_state=0)
    model = SecretRegressor(random_state=0, prune=None, max_depth=1, **parameters)
    with counted() as demands:
        model.fit(X, y)
    (case, *_) = [
        c for kind, c in demands.cases.items() if kind.startswith("searched ")
    ]
    with in_32_bits(), as_on_accelerator():
        traced = jax.make_jaxpr(case.function)(*case.arguments)
    assert 20 < steps_of(traced.jaxpr) <= most


PROGRAM = """HloModule jit_f

%known (a: (s32[], f32[4])) -> (s32[], f32[4]) {
  %a = (s32[], f32[4]{0}) parameter(0)
  %b = f32[4]{0} get-tuple-element(%a), index=1
  %c = f32[4]{0} fusion(%b), kind=kLoop, calls=%x
  ROOT %d = (s32[], f32[4]{0}) tuple(%i, %c)
}

%unknown (a: (s32[], f32[4])) -> (s32[], f32[4]) {
  %gemm_fusion_dot.1 = f32[4]{0} fusion(%b), kind=kCustom, calls=%y
  %k = f32[4]{0} copy(%gemm_fusion_dot.1)
}

%going (a: (s32[], f32[4])) -> pred[] {
  ROOT %lt = pred[] fusion(%a), kind=kLoop, calls=%z
}

%left (a: f32[4]) -> f32[4] {
  ROOT %l = f32[4]{0} fusion(%a), kind=kLoop, calls=%x
}

%right (a: f32[4]) -> f32[4] {
  %r = f32[4]{0} fusion(%a), kind=kLoop, calls=%x
  ROOT %s = f32[4]{0} fusion(%r), kind=kLoop, calls=%x
}

ENTRY %main (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  %q = (f32[4]{0}, f32[4]{0}) fusion(%p), calls=%x
  %w = (s32[]) while(%t), condition=%going, body=%known, KNOWN
  %v = (s32[]) while(%w), condition=%going, body=%unknown
  %c = f32[4]{0} conditional(%i, %p, %p), branch_computations={%left, %right}
  ROOT %e = f32[4]{0} call(%c), to_apply=%left
}
""".replace("KNOWN", 'backend_config={"known_trip_count":{"n":"5"}}')


def test_kernels_are_counted_with_the_turns_of_their_loops():
    # Before, five turns, three of two with four looks ahead, a branch, a call.
    assert kernels_of(PROGRAM, assumed_turns=3) == 1 + 5 + (3 * 2 + 4) + 2 + 1


def test_loops_in_loops_of_unknown_turns_are_counted_once():
    """Three turns of the outer one have an inner one of one turn, of two kernels."""
    inner = "  %w = (s32[]) while(%t), condition=%going, body=%unknown\n}"
    outer = "%attempts (a: f32[4]) -> f32[4] {\n" + inner + "\n\n"
    text = outer + PROGRAM.replace("condition=%going, body=%unknown", "LOOP")
    text = text.replace("LOOP", "condition=%going, body=%attempts")
    per_turn = 1 * 2 + 2 * 1
    assert kernels_of(text, assumed_turns=3) == 1 + 5 + (3 * per_turn + 4) + 2 + 1


def test_without_the_compiler_the_command_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="pip install --no-deps jax-cuda12-plugin=="):
        main(["--count", "--kernels"])


@pytest.mark.parametrize(
    "option", ["--rows 9", "--columns 2", "--model tree", "--kernels", "--card T4"]
)
def test_what_counts_alone_know_is_refused_without(option, capsys):
    with pytest.raises(SystemExit):
        main(option.split())
    assert f"{option.split()[0]} goes with --count" in capsys.readouterr().err


def test_without_an_accelerator_it_says_so(capsys):
    if jax.default_backend() != "cpu":
        pytest.skip("there is one")
    main([])
    assert "There is no accelerator here" in capsys.readouterr().err


def broken(machine):
    yield measuring.Line("before", "1 x 1", None, 0.5)
    raise ValueError("no memory")


def wordless(machine):
    raise MemoryError
    yield


def test_stages_stand_in_one_table_and_do_not_stop_each_other(capsys, monkeypatch):
    monkeypatch.setitem(measuring.STAGES, "peers", broken)
    monkeypatch.setitem(measuring.STAGES, "busy", wordless)
    small = functools.partial(SecretRegressor, prune=None, max_depth=2)
    monkeypatch.setattr(measuring, "SecretRegressor", small)
    stages = ["busy", "peers", "ceilings", "em", "crossing", "predictions"]
    main(["--device", "cpu", "--small", "--stages", *stages])
    lines = capsys.readouterr().out.splitlines()[2:]
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines]
    found = [line[0] for line in cells]
    expected = {
        "busy": 1,
        "peers": 2,
        "ceilings": 4,
        "em": 1,
        "crossing": 3,
        "predictions": 1,
    }
    assert found == [name for name, n in expected.items() for _ in range(n)]
    assert cells[0][1::4] == ["failed", "MemoryError:"]
    assert cells[2][1::4] == ["failed", "ValueError: no memory"]
    for name, *_, first, later, note in cells[3:]:
        if name != "crossing":  # a processor beside itself
            assert float(first) > float(later) > 0
        elif not later:
            assert "; device=None: from 131,073 (FEW_ROWS of" in note
