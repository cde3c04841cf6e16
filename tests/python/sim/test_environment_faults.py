"""Wrong requests are refused with one clear, typed message before anything happens."""

from typing import Any

import numpy as np
import pytest

from servorl.errors import SettingError, UnknownNameError
from servorl.registry import card, make_vec, model_path, task_info


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_envs": 0}, r"num_envs must be in \[1, "),
        ({"num_envs": -3}, "num_envs"),
        ({"num_envs": 2.0}, "num_envs must be an integer, not 2.0"),
        ({"num_envs": True}, "num_envs"),
        ({"num_threads": -1}, "num_threads"),
        ({"num_threads": "2"}, "num_threads must be an integer, not '2'"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"max_episode_steps": 0}, "max_episode_steps"),
        ({"obs_dtype": np.int32}, "obs_dtype must be float32 or float64"),
        ({"obs_dtype": "nonsense"}, "obs_dtype"),
        ({"on_repeated_divergence": "ignore"}, "'raise' or 'mask'"),
        ({"ctrl_cost_weight": "much"}, "half_cheetah's ctrl_cost_weight must be a number"),
        ({"ctrl_cost_weight": True}, "a number"),
        ({"ctrl_cost_weight": float("nan")}, "ctrl_cost_weight"),
        ({"reset_noise_scale": -0.1}, r"reset_noise_scale must be in \[0, inf\]"),
        ({"frame_skip": 0}, "frame_skip"),
        ({"frame_skip": 2.5}, "frame_skip must be an integer"),
        ({"exclude_current_positions_from_observation": 1}, "true or false"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        make_vec("half_cheetah", **settings)


def test_unknown_names_offer_the_nearest() -> None:
    for call in (make_vec, task_info, card, model_path):
        with pytest.raises(
            UnknownNameError, match=r"unknown environment 'half_cheeta'.*half_cheetah"
        ):
            call("half_cheeta")
    with pytest.raises(UnknownNameError, match=r"option of half_cheetah.*ctrl_cost_weight"):
        make_vec("half_cheetah", control_cost_weight=0.1)
    with pytest.raises(UnknownNameError, match="reset_mask"):
        make_vec("pendulum").reset(options={"reset_maks": np.ones(1, np.bool_)})
    with pytest.raises(UnknownNameError, match="same_step"):
        make_vec("pendulum", autoreset_mode="samestep ")


def with_value(value: float) -> np.ndarray:
    actions = np.zeros((3, 6))
    actions[1, 4] = value
    return actions


@pytest.mark.parametrize(
    ("actions", "error", "message"),
    [
        (np.zeros((3, 5)), ValueError, r"half_cheetah: actions must have shape \(3, 6\)"),
        (np.zeros((6, 3)), ValueError, r"not \(6, 3\)"),
        (np.zeros(6), ValueError, "shape"),
        (0.0, ValueError, "shape"),
        (np.zeros((3, 6), np.int64), TypeError, "float32 or float64, not int64"),
        (np.zeros((3, 6), np.complex64), TypeError, "complex64"),
        (np.zeros((3, 6), np.bool_), TypeError, "bool"),
        ([[None] * 6] * 3, TypeError, "object"),
        (with_value(np.nan), ValueError, r"action 4 \(fshin\) of environment 1 is nan"),
        (with_value(-np.inf), ValueError, r"action 4 \(fshin\) of environment 1 is -inf"),
        (with_value(np.nan).astype(np.float32), ValueError, "environment 1 is nan"),
    ],
)
def test_bad_actions_step_nothing(actions: Any, error: type[Exception], message: str) -> None:
    env = make_vec("half_cheetah", 3)
    env.reset()
    before = env.get_state()
    with pytest.raises(error, match=message):
        env.step(actions)
    for name, values in env.get_state().items():
        np.testing.assert_array_equal(values, before[name])


@pytest.mark.parametrize("actions", [np.zeros((2, 1), np.float16), [[0.5], [-0.5]]])
def test_other_floating_point_actions_are_taken(actions: Any) -> None:
    env = make_vec("pendulum", 2)
    env.reset()
    env.step(actions)


def test_strided_actions_are_taken_as_they_read() -> None:
    env, other = (make_vec("half_cheetah", 3, seed=0) for _ in range(2))
    env.reset()
    other.reset()
    actions = np.random.default_rng(0).uniform(-1, 1, (6, 3)).T
    np.testing.assert_array_equal(env.step(actions)[0], other.step(actions.copy())[0])


@pytest.mark.parametrize(
    ("seed", "error"), [(-1, ValueError), (2**63, ValueError), (True, TypeError), ([1], ValueError)]
)
def test_bad_seeds(seed: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="seed"):
        make_vec("pendulum", 2).reset(seed=seed)


def test_bad_environment_number() -> None:
    with pytest.raises(ValueError, match=r"env_id must be in \[0, 2\)"):
        make_vec("pendulum", 2).qpos(2)


@pytest.mark.parametrize(
    "name", ["jnt_qposadr", "dof_bodyid", "jnt_type", "opt.iterations", "names"]
)
def test_the_structure_of_a_model_cannot_be_set(name: str) -> None:
    """MuJoCo follows these integers unchecked, out of its memory where they are wrong."""
    env = make_vec("inverted_pendulum", 2, seed=1)
    with pytest.raises(UnknownNameError, match=name.replace(".", r"\.")):
        env.set_model_field(name, 0)
    env.reset(seed=1)
    env.step(np.zeros((2, 1)))
    env.close()


def test_more_environments_than_memory_holds_are_refused() -> None:
    with pytest.raises(SettingError, match="num_envs"):
        make_vec("half_cheetah", 2**31 - 1)
