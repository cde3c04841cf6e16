"""What is known about each environment, and Gymnasium's own way to make them."""

import subprocess
import sys

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from servorl.registry import card, env_names, make_vec, model_path, task_info
from servorl.vec_env import VecEnv


def test_environments_are_the_folders_under_envs() -> None:
    found = sorted(
        task.parent.name for task in model_path("pendulum").parents[1].glob("*/task.hpp")
    )
    assert env_names() == found
    assert {"half_cheetah", "inverted_pendulum", "pendulum"} <= set(found)


@pytest.mark.parametrize("name", env_names())
def test_task_info_describes_the_arrays(name: str) -> None:
    info = task_info(name)
    env = make_vec(name, 2)
    assert info == env.task_info
    assert (2, len(info.observation)) == env.reset()[0].shape
    assert env.action_space.shape == (2, len(info.action))
    assert len({channel.name for channel in info.observation}) == len(info.observation)
    assert all(channel.unit for channel in info.observation + info.action)
    assert all(np.isfinite([channel.low, channel.high]).all() for channel in info.action)
    assert info.control_period > 0


@pytest.mark.parametrize("name", env_names())
def test_the_card_names_every_number_and_option(name: str) -> None:
    text = card(name)
    info = task_info(name)
    assert text.startswith(f"# {name}\n")
    joints = {channel.name.removesuffix("_velocity") for channel in info.observation + info.action}
    for word in joints:
        assert f"`{word}" in text, word
    for section in ("## Observation", "## Action", "## Reward", "## Options", "## Source"):
        assert section in text


@pytest.mark.parametrize("name", env_names())
def test_qpos_is_the_picture_models(name: str) -> None:
    model = mujoco.MjModel.from_xml_path(str(model_path(name)))
    env = make_vec(name, 2, seed=0)
    env.reset()
    assert env.qpos(1).shape == (model.nq,)
    assert not np.array_equal(env.qpos(0), env.qpos(1))


def test_time_limit_can_be_set() -> None:
    env = make_vec("half_cheetah", 2, max_episode_steps=3)
    assert env.task_info.max_episode_steps == 3
    env.reset()
    truncated = [env.step(np.zeros((2, 6)))[3].tolist() for _ in range(6)]
    assert truncated == [[False] * 2, [False] * 2, [True] * 2] * 2


def test_options_reach_the_task() -> None:
    assert len(task_info("half_cheetah").observation) == 17
    with_position = task_info("half_cheetah", exclude_current_positions_from_observation=False)
    assert [channel.name for channel in with_position.observation[:2]] == ["rootx", "rootz"]
    assert task_info("half_cheetah", frame_skip=2).control_period == pytest.approx(0.02)


def test_gymnasium_makes_them() -> None:
    program = """
{imports}
env = gymnasium.make_vec("servorl/half_cheetah-v0", num_envs=3, ctrl_cost_weight=0.5)
assert type(env).__name__ == "VecEnv" and env.num_envs == 3, env
assert env.spec.id == "servorl/half_cheetah-v0"
env.reset(seed=0)
print(env.step(env.action_space.sample())[0].shape)
"""
    for imports in ("import gymnasium, servorl", "import servorl, gymnasium"):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program.format(imports=imports)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "(3, 17)\n"), done.stderr


def test_vector_wrappers_work_on_it() -> None:
    env = make_vec("pendulum", 3, max_episode_steps=4)
    wrapped = gymnasium.wrappers.vector.RecordEpisodeStatistics(env)
    wrapped.reset(seed=0)
    returns = []
    for _ in range(8):
        *_, infos = wrapped.step(np.zeros((3, 1), np.float32))
        if "episode" in infos:
            returns.append(infos["episode"]["r"])
            np.testing.assert_array_equal(infos["episode"]["l"], [4, 4, 4])
    assert len(returns) == 2
    assert isinstance(wrapped.unwrapped, VecEnv)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
