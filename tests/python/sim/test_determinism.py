"""A trajectory depends on the seed and the environment's number, and on nothing else."""

import numpy as np
import pytest

from servorl.registry import env_names, make_vec

STEPS = 80


def actions_of(env_id: int, size: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The same for environment ``env_id`` in a batch of any size."""
    return np.random.default_rng(env_id).uniform(low, high, (STEPS, size))


def trajectory(name: str, num_envs: int, num_threads: int, steps: int = STEPS) -> list[np.ndarray]:
    """Everything that the steps return, of the first four environments."""
    env = make_vec(name, num_envs, num_threads=num_threads, seed=11, max_episode_steps=30)
    assert env.num_threads == min(num_threads, num_envs)
    space = env.single_action_space
    size = space.shape[0]
    actions = np.stack(
        [actions_of(i, size, space.low, space.high) for i in range(num_envs)], axis=1
    )
    observation, _ = env.reset()
    found = [observation[:4]]
    for action in actions[:steps]:
        *arrays, infos = env.step(action)
        found += [array[:4] for array in arrays]
        found.append(infos.get("final_obs", np.zeros_like(observation))[:4])
    env.close()
    return found


@pytest.mark.parametrize("name", env_names())
def test_trajectories_depend_on_neither_threads_nor_num_envs(name: str) -> None:
    reference = trajectory(name, num_envs=4, num_threads=1)
    assert any(array.any() for array in reference[5::5])  # episodes ended
    for num_envs, num_threads in ((4, 2), (4, 8), (64, 1), (64, 2), (64, 8)):
        found = trajectory(name, num_envs, num_threads)
        for mine, other in zip(found, reference, strict=True):
            where = f"{num_envs} environments, {num_threads} threads"
            np.testing.assert_array_equal(mine, other, err_msg=where)


def test_native_tasks_do_not_depend_on_threads_when_chunks_are_shared_out() -> None:
    found = [trajectory("pendulum", 3_000, threads, steps=35) for threads in (1, 2, 8)]
    for other in found[1:]:
        for mine, reference in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(mine, reference)


def test_a_seed_starts_the_streams_anew() -> None:
    env = make_vec("half_cheetah", 3, seed=1)
    first, _ = env.reset()
    second, _ = env.reset()
    again, _ = env.reset(seed=1)
    other, _ = env.reset(seed=2)
    assert not np.any(first == second)
    np.testing.assert_array_equal(first, again)
    assert not np.any(first == other)
    assert env.seed == 2
    assert len({row.tobytes() for row in first}) == 3  # environments differ
    following, _ = env.reset()
    env.reset(seed=2)
    listed, _ = env.reset(seed=[1, 2, None])
    np.testing.assert_array_equal(listed[2], following[2])  # its next episode
    np.testing.assert_array_equal(listed[0], first[0])
    np.testing.assert_array_equal(listed[1], other[1])


def test_without_a_seed_one_is_drawn_and_can_be_read() -> None:
    env, other = make_vec("pendulum"), make_vec("pendulum")
    assert env.seed != other.seed
    np.testing.assert_array_equal(env.reset()[0], make_vec("pendulum", seed=env.seed).reset()[0])


def test_reset_distributions() -> None:
    count = 4_000
    for scale in (0.01, 0.1):
        env = make_vec("inverted_pendulum", count, seed=0, reset_noise_scale=scale)
        env.reset()
        state = env.get_state()
        for values in (state["qpos"], state["qvel"]):
            assert_uniform(values.ravel(), -scale, scale)
    env = make_vec("half_cheetah", count, seed=0)
    env.reset()
    state = env.get_state()
    assert_uniform(state["qpos"].ravel(), -0.1, 0.1)
    velocity = state["qvel"].ravel() / 0.1
    assert abs(velocity.mean()) < 5 / np.sqrt(velocity.size)
    assert abs(velocity.std() - 1) < 5 / np.sqrt(2 * velocity.size)
    assert abs((velocity**4).mean() - 3) < 5 * np.sqrt(96 / velocity.size)
    env = make_vec("pendulum", count, seed=0)
    env.reset()
    state = env.get_state()
    assert_uniform(state["theta"], -np.pi, np.pi)
    assert_uniform(state["theta_dot"], -1, 1)


def assert_uniform(values: np.ndarray, low: float, high: float) -> None:
    """All within range, its ends nearly reached, and every tenth of it as full as the others."""
    assert np.all((values >= low) & (values <= high))
    share = np.histogram(values, bins=10, range=(low, high))[0] / values.size
    assert np.all(np.abs(share - 0.1) < 5 * np.sqrt(0.09 / values.size))
    width = high - low
    assert values.min() < low + 0.01 * width
    assert values.max() > high - 0.01 * width
