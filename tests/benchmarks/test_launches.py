"""Kernels that programs start on an accelerator, counted and bounded without one."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from benchmarks.device import launches
from benchmarks.device.kernels import launches_of

ROOT = Path(__file__).parents[2]
PROGRAM = """HloModule jit_f

FunctionNames
1 "f"
2 "inner"

FileLocations
1 {file_name_id=1 function_name_id=1 line=1 end_line=1 column=1 end_column=2}
2 {file_name_id=1 function_name_id=2 line=2 end_line=2 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}

%known (a: (s32[], f32[4])) -> (s32[], f32[4]) {
  %a = (s32[], f32[4]{0}) parameter(0)
  %b = f32[4]{0} get-tuple-element(%a), index=1
  %c = f32[4]{0} fusion(%b), kind=kLoop, calls=%x, metadata={stack_frame_id=2}
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
  %q = (f32[4]{0}, f32[4]{0}) fusion(%p), calls=%x, metadata={stack_frame_id=1}
  %w = (s32[]) while(%t), condition=%going, body=%known, KNOWN
  %v = (s32[]) while(%w), condition=%going, body=%unknown
  %c = f32[4]{0} conditional(%i, %p, %p), branch_computations={%left, %right}
  ROOT %e = f32[4]{0} call(%c), to_apply=%left
}
""".replace("KNOWN", 'backend_config={"known_trip_count":{"n":"5"}}')


def test_kernels_are_counted_with_the_turns_of_their_loops():
    found = launches_of(PROGRAM, assumed_turns=3)
    # Before, five turns, three of two with four looks ahead, a branch, a call.
    assert found.kernels == 1 + 5 + (3 * 2 + 4) + 2 + 1
    assert (found.products, found.loops, found.turns) == (3, 2, 8)
    assert found.host_reads == 4 + 1
    assert (found.places["f"], found.places["inner"]) == (1, 5)


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
    ("name", "most"),
    [
        ("axis search", 60),
        pytest.param("oblique search", 620, marks=pytest.mark.device),
        pytest.param("SECRET search", 330, marks=pytest.mark.device),
    ],
)
def test_programs_for_accelerators_have_few_steps(name, most):
    case = launches.main_cases(32, 2048, 10)[name]()
    with launches.as_on_accelerator():
        traced = jax.make_jaxpr(launches.function_of(case))(*case.arguments)
    assert 20 < steps_of(traced.jaxpr) <= most


def test_without_the_compiler_the_command_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="pip install --no-deps jax-cuda12-plugin=="):
        launches.main(["--json"])


@pytest.mark.device
def test_the_search_starts_at_most_520_kernels_on_an_h200():
    if importlib.util.find_spec("jax_cuda12_plugin") is None:
        pytest.skip("the CUDA compiler is not installed: jax-cuda12-plugin")
    command = [sys.executable, "-m", "benchmarks.device.launches", "--json"]
    command += ["--programs", "oblique", "axis"]
    done = subprocess.run(
        command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = {
        line["program"]: line for line in map(json.loads, done.stdout.split("\n")[:2])
    }
    assert found["oblique search"]["kernels"] <= 520
    assert found["axis search"]["kernels"] <= 70
    assert found["oblique search"]["host_reads"] == 0
