"""The stepping suite measures the same work for everyone, under the names that others read."""

import math

import numpy as np
import pytest

from servorl._native import core
from servorl.bench import harness, stepping
from servorl.registry import env_names, make_vec, model_path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepping, "NUM_ENVS", 4)
    monkeypatch.setattr(stepping, "REPEATS", 2)
    monkeypatch.setattr(stepping.Case, "steps", 30)


@pytest.mark.usefixtures("small")
def test_rows_and_ratios() -> None:
    result = stepping.run(peers=False)
    threads = harness.usable_cores()
    for task in env_names():
        for case in {f"{task} 4 envs 1 thread", f"{task} 4 envs {threads} threads"}:
            if case.endswith(" 1 threads"):
                continue
            ratios = [ratio for ratio in result.ratios if ratio.case == case]
            assert result.row(case, "servorl").repeats == 2
            if core.sim.is_native(task):
                assert ratios == []
                continue
            assert result.row(case, "limit").repeats == 2
            assert [ratio.of for ratio in ratios] == ["limit"]
            assert math.isfinite(ratios[0].value)
            assert (ratios[0].goal is None) == case.endswith("threads")
    assert result.to_json()["suite"] == "stepping"


@pytest.mark.usefixtures("small")
def test_gymnasium_is_timed_and_a_missing_peer_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object) -> None:
        raise stepping.PeerUnavailable("cannot be installed: no network")

    monkeypatch.setattr(stepping, "prepare", offline)
    monkeypatch.setattr(stepping, "env_names", lambda: ["half_cheetah"])
    monkeypatch.setattr(stepping, "usable_cores", lambda: 1)
    result = stepping.run(peers=True)
    case = "half_cheetah 4 envs 1 thread"
    assert result.row(case, "gymnasium-sync").repeats == 5
    assert result.row(case, "envpool").note == "cannot be installed: no network"
    assert [ratio.of for ratio in result.ratios] == ["limit", "gymnasium-sync"]


def test_the_replayed_loop_notices_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resets that are left out end in other states, so the suite's comparison can fail."""
    monkeypatch.setattr(stepping, "NUM_ENVS", 3)
    env = make_vec("inverted_pendulum", 3, seed=0)
    env.reset()
    start = env.get_state()
    actions = np.full((60, 3, 1), 3.0)
    recorded = stepping._replay(env, actions, start)
    recorded.run(2)
    final = stepping._mechanical_state(env).ravel()
    np.testing.assert_array_equal(recorded.final_states(), final)

    only_the_first = np.full((61, 3), -1, np.int32)
    only_the_first[0] = np.arange(3)
    states = np.concatenate([start["qpos"], start["qvel"]], axis=1)
    path = str(model_path("inverted_pendulum"))
    bare = core.sim.Replay(path, 2, actions, states, only_the_first)
    bare.run(1)
    assert not np.array_equal(bare.final_states(), final)
    with pytest.raises(ValueError, match="sizes"):
        core.sim.Replay(path, 2, actions, states, only_the_first[1:])
