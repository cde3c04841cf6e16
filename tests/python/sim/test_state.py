"""get_state and set_state: complete, exact, for any part of the state and any environments."""

from typing import Any

import numpy as np
import pytest

from servorl.errors import UnknownNameError
from servorl.registry import env_names, make_vec

NUM_ENVS = 6


def play(env: Any, steps: int, rng: np.random.Generator) -> list[np.ndarray]:
    space = env.single_action_space
    found = []
    for _ in range(steps):
        *arrays, infos = env.step(rng.uniform(space.low, space.high, env.action_space.shape))
        found += [*arrays, infos["diverged"]]
        if "final_obs" in infos:
            found += [infos["final_obs"], *infos["final_info"].values()]
    return found


def assert_equal(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(found) == len(expected)
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("name", env_names())
@pytest.mark.parametrize("mode", ["same_step", "next_step"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_restored_environments_go_on_bit_for_bit(name: str, mode: str, dtype: Any) -> None:
    settings: dict[str, Any] = {
        "autoreset_mode": mode,
        "obs_dtype": dtype,
        "max_episode_steps": 25,
    }
    env = make_vec(name, NUM_ENVS, seed=3, **settings)
    env.reset()
    # Out of step with each other, and in the middle of an episode.
    play(env, 9, np.random.default_rng(0))
    env.reset(options={"reset_mask": np.arange(NUM_ENVS) < 2})
    play(env, 8, np.random.default_rng(1))
    saved, shown = env.get_state(), env.observe()
    expected = play(env, 60, np.random.default_rng(2))

    restored = make_vec(name, NUM_ENVS, seed=99, num_threads=1, **settings)
    restored.set_state(saved)  # an environment that was never reset
    np.testing.assert_array_equal(restored.observe(), shown)
    assert_equal(play(restored, 60, np.random.default_rng(2)), expected)
    env.set_state(saved)  # and one that has gone on
    assert_equal(play(env, 60, np.random.default_rng(2)), expected)


@pytest.mark.parametrize("name", env_names())
def test_restoring_a_step_that_ended(name: str) -> None:
    """The pending reset of NEXT_STEP and DISABLED modes is part of the state."""
    env = make_vec(name, NUM_ENVS, seed=3, autoreset_mode="next_step", max_episode_steps=4)
    env.reset()
    play(env, 4, np.random.default_rng(0))
    saved = env.get_state()
    pending = saved["needs_reset"]
    assert pending.any()
    expected = play(env, 3, np.random.default_rng(1))
    assert not expected[1][pending].any()  # no reward: the dummy step
    env.set_state(saved)
    assert_equal(play(env, 3, np.random.default_rng(1)), expected)


def test_any_subset_in_any_order() -> None:
    env = make_vec("half_cheetah", NUM_ENVS, seed=3)
    env.reset()
    play(env, 5, np.random.default_rng(0))
    before = env.get_state()
    play(env, 5, np.random.default_rng(1))
    later = env.get_state()
    env.set_state({name: values[[4, 1]] for name, values in before.items()}, [4, 1])
    now = env.get_state()
    for name in now:
        np.testing.assert_array_equal(now[name][[1, 4]], before[name][[1, 4]])
        np.testing.assert_array_equal(now[name][[0, 2, 3, 5]], later[name][[0, 2, 3, 5]])
    mask = np.arange(NUM_ENVS) >= 4
    np.testing.assert_array_equal(env.get_state(mask)["qpos"], now["qpos"][4:])
    np.testing.assert_array_equal(env.get_state(3)["qpos"], now["qpos"][3:4])
    assert len(env.get_state([])["qpos"]) == 0


def test_positions_alone_change_what_is_observed() -> None:
    env = make_vec("inverted_pendulum", 3, obs_dtype=np.float64)
    env.reset()
    before = env.observe()
    env.set_state({"qpos": [[0.3, -0.1]]}, [1])
    after = env.observe()
    np.testing.assert_array_equal(after[1], [0.3, -0.1, *before[1, 2:]])
    np.testing.assert_array_equal(after[[0, 2]], before[[0, 2]])
    np.testing.assert_array_equal(env.qpos(1), [0.3, -0.1])


def test_native_state_by_name() -> None:
    env = make_vec("pendulum", 2)
    env.reset()
    env.set_state({"theta": [0.5, 0.0], "theta_dot": [0.0, 2.0]})
    expected = np.array([[np.cos(0.5), np.sin(0.5), 0], [1, 0, 2]])
    np.testing.assert_allclose(env.observe(), expected, rtol=1e-6)
    assert env.qpos(0) == pytest.approx([0.5])


def test_the_state_is_a_copy_of_plain_arrays() -> None:
    env = make_vec("half_cheetah", 2)
    env.reset()
    state = env.get_state()
    kept = {name: values.copy() for name, values in state.items()}
    play(env, 2, np.random.default_rng(0))
    for name, values in state.items():
        np.testing.assert_array_equal(values, kept[name])
        assert values.shape[0] == 2
        assert values.flags.c_contiguous
        assert values.dtype in (np.float32, np.float64, np.int64, np.bool_)
    assert {"qpos", "qvel", "time", "qacc_warmstart", "elapsed_steps", "episode"} <= state.keys()


@pytest.mark.parametrize(
    ("state", "env_ids", "error", "message"),
    [
        ({"qpo": [[0.0] * 9]}, [0], UnknownNameError, "qpos"),
        ({"model.body_mas": [[0.0] * 8]}, [0], UnknownNameError, "body_mass"),
        ({"qpos": [[0.0] * 8]}, [0], ValueError, r"'qpos' must have shape \(1, 9\)"),
        ({"qpos": np.zeros((3, 9))}, None, ValueError, "shape"),
        ({"qpos": [["a"] * 9]}, [0], TypeError, "float64"),
        ({"elapsed_steps": [0.5]}, [0], TypeError, "int64"),
        ({"qpos": [[0.0] * 9]}, [2], ValueError, "env_ids"),
        ({"qpos": [[0.0] * 9]}, [-1], ValueError, "env_ids"),
        ({"qpos": np.zeros((2, 9))}, [1, 1], ValueError, "twice"),
        ({"qpos": [[0.0] * 9]}, [0.0], TypeError, "integers"),
        ({"qpos": [[0.0] * 9]}, np.array([True]), ValueError, "shape"),
    ],
)
def test_bad_states_change_nothing(
    state: dict[str, Any], env_ids: Any, error: type[Exception], message: str
) -> None:
    env = make_vec("half_cheetah", 2)
    env.reset()
    before = env.get_state()
    with pytest.raises(error, match=message):
        env.set_state({"time": np.ones(2 if env_ids is None else len(env_ids)), **state}, env_ids)
    for name, values in env.get_state().items():
        np.testing.assert_array_equal(values, before[name])
