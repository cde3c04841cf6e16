"""Simulations that break down end alone, quietly, and training data stays finite."""

import os
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from servorl.errors import DivergenceError, UnknownNameError
from servorl.registry import make_vec

NUM_ENVS = 6
BAD_SPEED, BAD_MASS = 1, 4
STEPS = 30


def actions_for(env: Any, rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(-1, 1, env.action_space.shape)


def break_two(env: Any) -> None:
    speed = np.zeros((1, 9))
    speed[0, 2] = 1e12
    env.set_state({"qvel": speed}, [BAD_SPEED])
    env.set_model_field("body_mass", np.full((1, 8), -5.0), [BAD_MASS], until_reset=True)


def everything(step: tuple[Any, ...]) -> list[np.ndarray]:
    obs, rewards, terminated, truncated, infos = step
    return [obs, rewards, terminated, truncated, infos["x_velocity"], infos["reward_ctrl"]]


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_two_diverge_and_their_neighbours_do_not_notice(mode: str, num_threads: int) -> None:
    env, healthy = (
        make_vec("half_cheetah", NUM_ENVS, seed=8, num_threads=num_threads, autoreset_mode=mode)
        for _ in range(2)
    )
    rng = np.random.default_rng(0)
    env.reset()
    healthy.reset()
    for _ in range(5):
        actions = actions_for(env, rng)
        env.step(actions)
        healthy.step(actions)
    before = env.observe()
    break_two(env)
    neighbours = [i for i in range(NUM_ENVS) if i not in (BAD_SPEED, BAD_MASS)]
    ended: dict[int, int] = {}
    for step in range(STEPS):
        actions = actions_for(env, rng)
        found, expected = env.step(actions), healthy.step(actions)
        for mine, other in zip(everything(found), everything(expected), strict=True):
            assert np.all(np.isfinite(mine))
            np.testing.assert_array_equal(mine[neighbours], other[neighbours])
        infos = found[4]
        assert not infos["diverged"][neighbours].any()
        for i in np.flatnonzero(found[2]):
            assert i not in ended, "the reset state is sound"
            ended[int(i)] = step
            assert infos["diverged"][i] == 1
            assert found[1][i] == 0.0  # the task's divergence reward
            if mode == "same_step":
                assert np.all(np.isfinite(infos["final_obs"][i]))
                assert infos["_final_obs"][i]
        if step == 0 and mode == "next_step":
            assert np.abs(before[BAD_MASS]).max() < 1e3
    assert ended.keys() == {BAD_SPEED, BAD_MASS}
    assert ended[BAD_SPEED] == 0
    assert env.warnings["bad_qvel"] >= 1
    assert healthy.warnings == dict.fromkeys(healthy.warnings, 0)


def test_final_observation_is_the_last_finite_one() -> None:
    env = make_vec("half_cheetah", 2, seed=0, obs_dtype=np.float64)
    env.reset()
    shown = env.step(np.zeros((2, 6)))[0]
    env.set_model_field("body_mass", -1.0, [1], until_reset=True)
    for _ in range(STEPS):
        obs, _, terminated, _, infos = env.step(np.zeros((2, 6)))
        if terminated[1]:
            np.testing.assert_array_equal(infos["final_obs"][1], shown[1])
            break
        shown = obs
    else:
        pytest.fail("a negative mass did not diverge")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_finite_in_float64_but_not_in_float32(dtype: Any) -> None:
    """MuJoCo clips the control, but the cost of 1e25 would reach a float32 learner as infinity."""
    env = make_vec("half_cheetah", 3, obs_dtype=dtype)
    env.reset()
    shown = env.observe()
    actions = np.zeros((3, 6))
    actions[1, 4] = 1e25
    _, rewards, terminated, _, infos = env.step(actions)
    np.testing.assert_array_equal(terminated, [False, True, False])
    np.testing.assert_array_equal(infos["diverged"], [0, 1, 0])
    np.testing.assert_array_equal(infos["final_obs"][1], shown[1])
    assert rewards[1] == 0.0
    assert all(np.all(np.isfinite(v)) for v in infos["final_info"].values())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_native_task_diverges_alike(dtype: Any) -> None:
    env = make_vec("pendulum", 3, obs_dtype=dtype)
    env.reset()
    shown = env.observe()
    env.set_state({"theta": np.array([np.nan], dtype)}, [1])
    obs, rewards, terminated, _, infos = env.step(np.zeros((3, 1)))
    np.testing.assert_array_equal(terminated, [False, True, False])
    np.testing.assert_array_equal(infos["final_obs"][1], shown[1])
    assert rewards[1] == -20.0
    assert np.all(np.isfinite(obs))


def test_three_in_a_row_raise_and_name_the_environment() -> None:
    env = make_vec("half_cheetah", 4, seed=0)
    env.reset()
    env.set_model_field("body_mass", -100.0, [2])  # lasting: every episode is doomed

    def play() -> None:
        for _ in range(3 * STEPS):
            env.step(np.zeros((4, 6)))

    with pytest.raises(DivergenceError, match="half_cheetah: environment 2 "):
        play()
    assert env.get_state()["repeated_divergences"].tolist() == [0, 0, 3, 0]


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_or_are_masked_until_they_are_reset(mode: str) -> None:
    env = make_vec("half_cheetah", 4, seed=0, on_repeated_divergence="mask", autoreset_mode=mode)
    env.reset()
    env.set_model_field("body_mass", -100.0, [2])
    valid = np.ones(4, np.bool_)
    for _ in range(3 * STEPS):
        obs, rewards, terminated, _, infos = env.step(np.zeros((4, 6)))
        assert np.all(np.isfinite(obs))
        valid = infos["valid"]
        if not valid[2] and env.get_state()["masked"][2]:
            break
    else:
        pytest.fail("never masked")
    np.testing.assert_array_equal(valid, [True, True, False, True])
    count = infos["diverged"][2]
    for _ in range(3):  # it stands still
        obs, rewards, terminated, _, infos = env.step(np.zeros((4, 6)))
        np.testing.assert_array_equal(infos["valid"], [True, True, False, True])
        assert (rewards[2], terminated[2], infos["diverged"][2]) == (0, False, count)
    env.set_model_field("body_mass", env.get_state([0])["model.body_mass"], [2])
    env.reset(options={"reset_mask": np.arange(4) == 2})
    infos = env.step(np.zeros((4, 6)))[4]
    assert infos["valid"].all()
    assert infos["diverged"][2] == count


def test_a_field_until_reset_comes_back_to_its_lasting_value() -> None:
    env = make_vec("half_cheetah", 3, seed=0, max_episode_steps=5)
    env.reset()
    masses = env.get_state()  # no field was set yet
    assert not any(name.startswith("model") for name in masses)
    env.set_model_field("body_mass", 3.0, [0, 1])
    env.set_model_field("body_mass", 7.0, [1], until_reset=True)
    env.set_model_field("opt.gravity", [0, 0, -1.62], [2], until_reset=True)

    def masses_and_gravity() -> tuple[list[float], list[float]]:
        state = env.get_state()
        return state["model.body_mass"][:, 1].tolist(), state["model.opt.gravity"][:, 2].tolist()

    whole = make_vec("half_cheetah")
    whole.reset()
    whole.set_model_field("body_mass", np.ones(8))
    torso = masses_and_gravity()[0][2]
    assert masses_and_gravity() == ([3.0, 7.0, torso], [-9.81, -9.81, -1.62])
    for _ in range(4):
        env.step(np.zeros((3, 6)))
    assert masses_and_gravity() == ([3.0, 7.0, torso], [-9.81, -9.81, -1.62])
    env.step(np.zeros((3, 6)))  # the time limit: all are reset
    assert masses_and_gravity() == ([3.0, 3.0, torso], [-9.81, -9.81, -9.81])


def test_a_heavier_robot_moves_differently_and_its_state_restores() -> None:
    env, plain = (make_vec("half_cheetah", 2, seed=0, max_episode_steps=7) for _ in range(2))
    env.reset()
    plain.reset()
    env.set_model_field("body_mass", 30.0, [1])
    env.set_model_field("geom_friction", [2.0, 0.1, 0.1], [1], until_reset=True)
    rng = np.random.default_rng(0)
    for _ in range(3):
        actions = actions_for(env, rng)
        found, expected = env.step(actions)[0], plain.step(actions)[0]
    np.testing.assert_array_equal(found[0], expected[0])
    assert not np.any(found[1] == expected[1])
    saved = env.get_state()
    later = [env.step(actions_for(env, np.random.default_rng(i)))[0] for i in range(20)]
    restored = make_vec("half_cheetah", 2, max_episode_steps=7)
    restored.set_state(saved)
    for i, expected in enumerate(later):
        found = restored.step(actions_for(env, np.random.default_rng(i)))[0]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("name", "values", "error", "message"),
    [
        ("body_mas", 1.0, UnknownNameError, "body_mass"),
        ("opt.gravitty", 1.0, UnknownNameError, "opt.gravity"),
        ("body_mass", np.ones(7), ValueError, r"\(2, 8\)"),
        ("body_mass", "heavy", TypeError, "float64"),
        ("geom_contype", 1, UnknownNameError, "geom_contype"),
    ],
)
def test_bad_model_fields(name: str, values: Any, error: type[Exception], message: str) -> None:
    env = make_vec("half_cheetah", 2)
    with pytest.raises(error, match=message):
        env.set_model_field(name, values)


def test_a_native_task_has_no_model_fields() -> None:
    with pytest.raises(UnknownNameError, match="model field of pendulum"):
        make_vec("pendulum").set_model_field("body_mass", 1.0)


def test_nothing_is_printed_and_no_log_is_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert Path.cwd() == tmp_path
    env = make_vec("half_cheetah", NUM_ENVS, num_threads=2)
    env.reset()
    break_two(env)
    for _ in range(STEPS):
        env.step(np.zeros((NUM_ENVS, 6)))
    assert env.warnings["bad_qvel"] >= 1
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")
    assert os.listdir(tmp_path) == []


def test_other_peoples_warnings_still_arrive(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Our handler is for our batches: a user's own simulation still warns."""
    env = make_vec("half_cheetah", 2, num_threads=2)
    env.reset()
    break_speed = np.full((2, 9), 1e12)
    env.set_state({"qvel": break_speed})
    env.step(np.zeros((2, 6)))
    assert capfd.readouterr().err == ""
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><joint/><geom size='1'/></body></worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    data.qvel[0] = 1e12
    mujoco.mj_step(model, data)
    assert "QVEL" in capfd.readouterr().err
    assert os.listdir(tmp_path) == []
