"""What the exported C does beside its sums: status, NaN policy, instances, two policies at once."""

from __future__ import annotations

import ctypes
import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from c_builds import STRICT, compile_c, run_program
from example_policies import make_graph, make_task, observations

from servorl.export import export, reference
from servorl.policies.inference_graph import DenseLayer, InferenceGraph

OK, NOT_FINITE, NULL_POINTER = 0, 1, 2


class Library:
    """An export compiled for this machine, called through ctypes."""

    def __init__(self, graph: InferenceGraph, folder: Path, **settings: object) -> None:
        export(graph, make_task(graph), folder, **settings)
        compile_c(["gcc", "-O2", "-shared", "-fPIC", "-o", folder / "p.so", folder / "policy.c"])
        self.library = ctypes.CDLL(str(folder / "p.so"))
        self.library.policy_unclipped_action.restype = ctypes.POINTER(ctypes.c_float)
        self.document = json.loads((folder / "policy.json").read_text())
        self.action_dim = graph.action_dim

    def new_state(self) -> ctypes.Array:
        state = ctypes.create_string_buffer(self.document["memory"]["state"])
        assert self.library.policy_init(state) == OK
        return state

    def infer(self, state: ctypes.Array, observation: np.ndarray) -> tuple[int, np.ndarray]:
        action = np.full(self.action_dim, 77, np.float32)
        pointers = (array.ctypes.data_as(ctypes.c_void_p) for array in (observation, action))
        return self.library.policy_infer(state, *pointers), action

    def unclipped(self, state: ctypes.Array) -> np.ndarray:
        pointer = self.library.policy_unclipped_action(state)
        return np.ctypeslib.as_array(pointer, (self.action_dim,)).copy()


@pytest.fixture(scope="module")
def graph() -> InferenceGraph:
    return make_graph((6, 9, 5), seed=3)


@pytest.fixture(scope="module")
def library(graph: InferenceGraph, tmp_path_factory: pytest.TempPathFactory) -> Library:
    safe = np.linspace(-0.5, 0.5, 5, dtype=np.float32)
    return Library(graph, tmp_path_factory.mktemp("behaviour") / "export", safe_action=safe)


def test_actions_before_and_after_the_clip(graph: InferenceGraph, library: Library):
    state = library.new_state()
    data = observations(graph, 200)
    unclipped, clipped = reference.evaluate(graph, data)
    assert np.any(unclipped != clipped)
    for row, observation in enumerate(data):
        status, action = library.infer(state, observation)
        assert status == OK
        scale = graph.action_scale
        assert np.all(np.abs(library.unclipped(state) - unclipped[row]) <= 1e-5 * scale)
        assert np.all(np.abs(action - clipped[row]) <= 1e-5 * scale)
        assert np.all((action >= graph.action_low) & (action <= graph.action_high))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite_gives_the_safe_action(graph: InferenceGraph, library: Library, bad: float):
    state = library.new_state()
    for place in range(graph.obs_dim):
        observation = graph.mean.copy()
        observation[place] = bad
        status, action = library.infer(state, observation)
        assert status == NOT_FINITE
        np.testing.assert_array_equal(action, np.linspace(-0.5, 0.5, 5, dtype=np.float32))
        np.testing.assert_array_equal(library.unclipped(state), action)
    status, _ = library.infer(state, graph.mean)
    assert status == OK


def test_a_result_that_overflows_gives_the_safe_action(tmp_path: Path):
    graph = make_graph((1, 1), obs_clip=float("inf"))
    layer = DenseLayer(np.float32([[2]]), np.float32([0]), "identity")
    library = Library(dataclasses.replace(graph, layers=(layer,)), tmp_path / "export")
    largest = np.float32([np.finfo(np.float32).max])
    status, action = library.infer(library.new_state(), largest)
    assert (status, action[0]) == (NOT_FINITE, 0)


def test_safe_action_is_nearest_to_zero_by_default(tmp_path: Path):
    graph = make_graph((2, 3), bounds=(np.array([-1, 0.25, -2]), np.array([1, 1, -0.5])))
    library = Library(graph, tmp_path / "export")
    _, action = library.infer(library.new_state(), np.float32([np.nan, 0]))
    np.testing.assert_array_equal(action, np.float32([0, 0.25, -0.5]))


def test_null_pointers_are_reported(library: Library):
    functions = library.library
    state, numbers = library.new_state(), (ctypes.c_float * 6)()
    assert functions.policy_init(None) == NULL_POINTER
    assert functions.policy_reset(None) == NULL_POINTER
    assert functions.policy_selftest(None) == NULL_POINTER
    for arguments in ((None, numbers, numbers), (state, None, numbers), (state, numbers, None)):
        assert functions.policy_infer(*arguments) == NULL_POINTER


def test_instances_do_not_disturb_each_other(graph: InferenceGraph, library: Library):
    one, other = library.new_state(), library.new_state()
    data = observations(graph, 20)
    alone = [library.infer(one, observation)[1] for observation in data]
    for row, observation in enumerate(data):
        _, action = library.infer(one, observation)
        kept = library.unclipped(one)
        library.infer(other, data[-1 - row])
        np.testing.assert_array_equal(action, alone[row])
        np.testing.assert_array_equal(library.unclipped(one), kept)
        assert library.library.policy_reset(one) == OK


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_two_policies_in_one_image(tmp_path: Path, compiler: str):
    """Linked together, and even included into one file."""
    for prefix, sizes in (("walk", (6, 8, 2)), ("balance", (4, 5, 1))):
        graph = make_graph(sizes)
        export(graph, make_task(graph), tmp_path / prefix, prefix=prefix)
    body = """
#include "walk/policy.h"
#include "balance/policy.h"
int main(void)
{
  static walk_state walk;
  static balance_state balance;
  return walk_init(&walk) || balance_init(&balance) || walk_selftest(&walk) ||
         balance_selftest(&balance) || walk_hash()[0] == 0 || WALK_ACTION_SIZE != 2 ||
         BALANCE_ACTION_SIZE != 1;
}
"""
    (tmp_path / "main.c").write_text(body)
    together = '#include "walk/policy.c"\n#include "balance/policy.c"\n'
    (tmp_path / "together.c").write_text(together + body)
    files = [tmp_path / name for name in ("main.c", "walk/policy.c", "balance/policy.c")]
    for sources in (files, [tmp_path / "together.c"]):
        flags = ["-std=c99", *STRICT, f"-I{tmp_path}", "-o", tmp_path / "program"]
        compile_c([compiler, *flags, *sources])
        assert run_program(tmp_path / "program") == (0, "")
