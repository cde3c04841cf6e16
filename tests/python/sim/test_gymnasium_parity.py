"""Each environment against Gymnasium's own, step by step, in float64."""

import gymnasium
import numpy as np
import pytest

from servorl.registry import make_vec

STEPS = 1_000


def assert_close(ours: np.ndarray, theirs: np.ndarray, what: str) -> None:
    difference = np.abs(np.asarray(ours) - theirs)
    allowed = 1e-9 + 1e-9 * np.abs(theirs)
    assert np.all(difference <= allowed), f"{what}: off by {difference.max():.3g}"


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(
    ("name", "gymnasium_id"),
    [("inverted_pendulum", "InvertedPendulum-v5"), ("half_cheetah", "HalfCheetah-v5")],
)
def test_mujoco_task_is_gymnasiums(name: str, gymnasium_id: str, seed: int) -> None:
    theirs = gymnasium.make(gymnasium_id)
    ours = make_vec(name, obs_dtype=np.float64, num_threads=1)
    rng = np.random.default_rng(seed)

    def copy_initial_state(observation: np.ndarray) -> None:
        data = theirs.unwrapped.data
        ours.set_state({"qpos": data.qpos[None], "qvel": data.qvel[None]})
        assert_close(ours.observe()[0], observation, "initial observation")

    observation, _ = theirs.reset(seed=seed)
    ours.reset()
    copy_initial_state(observation)
    ended = 0
    for step in range(STEPS):
        action = rng.uniform(ours.single_action_space.low, ours.single_action_space.high)
        observation, reward, terminated, truncated, info = theirs.step(action)
        obs, rewards, terminations, truncations, infos = ours.step(action[None])
        done = terminated or truncated
        found = infos["final_obs"][0] if done else obs[0]
        found_info = infos["final_info"] if done else infos
        assert_close(found, observation, f"observation of step {step}")
        assert_close(rewards[0], reward, f"reward of step {step}")
        assert (terminations[0], truncations[0]) == (terminated, truncated), f"step {step}"
        for key, value in info.items():
            assert_close(found_info[key][0], value, f"info {key!r} of step {step}")
        if done:
            ended += 1
            observation, _ = theirs.reset()
            copy_initial_state(observation)
    assert ended >= 1
    ours.close()
    theirs.close()


def test_options_change_both_alike() -> None:
    options = {
        "forward_reward_weight": 2.5,
        "ctrl_cost_weight": 0.7,
        "frame_skip": 3,
        "exclude_current_positions_from_observation": False,
    }
    theirs = gymnasium.make("HalfCheetah-v5", **options)
    ours = make_vec("half_cheetah", obs_dtype=np.float64, **options)
    theirs.reset(seed=0)
    ours.reset()
    data = theirs.unwrapped.data
    ours.set_state({"qpos": data.qpos[None], "qvel": data.qvel[None]})
    rng = np.random.default_rng(0)
    for _ in range(50):
        action = rng.uniform(-1.5, 1.5, 6)  # beyond the bounds: clipped by the physics alone
        observation, reward, *_ = theirs.step(action)
        obs, rewards, *_ = ours.step(action[None])
        assert obs.shape == (1, 18)
        assert_close(obs[0], observation, "observation")
        assert_close(rewards[0], reward, "reward")


def random_pendulum_states(count: int, rng: np.random.Generator) -> np.ndarray:
    """Angles over several turns, and speeds over the whole range, its ends included."""
    states = np.stack([rng.uniform(-20, 20, count), rng.uniform(-8, 8, count)], axis=1)
    states[: count // 50, 1] = rng.choice([-8.0, 8.0], count // 50)
    return states


def step_gymnasium_pendulum(env, state: np.ndarray, action: np.ndarray):
    env.state = state.copy()
    _, reward, terminated, truncated, _ = env.step(action)
    return env.state.copy(), float(reward), terminated, truncated


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pendulum_is_gymnasiums_from_random_states(seed: int) -> None:
    count = 10_000
    rng = np.random.default_rng(seed)
    states = random_pendulum_states(count, rng)
    actions = rng.uniform(-3, 3, (count, 1))
    ours = make_vec("pendulum", count, obs_dtype=np.float64)
    ours.reset()
    ours.set_state({"theta": states[:, 0], "theta_dot": states[:, 1]})
    obs, rewards, terminations, truncations, _ = ours.step(actions)
    after = ours.get_state()

    theirs = gymnasium.make("Pendulum-v1").unwrapped
    theirs.reset(seed=seed)
    expected = [step_gymnasium_pendulum(theirs, s, a) for s, a in zip(states, actions, strict=True)]
    expected_states = np.array([state for state, *_ in expected])
    assert_close(np.stack([after["theta"], after["theta_dot"]], 1), expected_states, "state")
    assert_close(rewards, np.array([reward for _, reward, *_ in expected]), "reward")
    assert not terminations.any()
    assert not truncations.any()
    expected_obs = np.stack([np.cos(after["theta"]), np.sin(after["theta"]), after["theta_dot"]], 1)
    assert_close(obs, expected_obs, "observation")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pendulum_is_gymnasiums_over_trajectories(seed: int) -> None:
    count, steps = 20, 100
    rng = np.random.default_rng(seed)
    theirs = [gymnasium.make("Pendulum-v1").unwrapped for _ in range(count)]
    for i, env in enumerate(theirs):
        env.reset(seed=1000 * seed + i)
    ours = make_vec("pendulum", count, obs_dtype=np.float64)
    ours.reset()
    states = np.array([env.state for env in theirs])
    ours.set_state({"theta": states[:, 0], "theta_dot": states[:, 1]})
    for step in range(steps):
        actions = rng.uniform(-2, 2, (count, 1))
        _, rewards, *_ = ours.step(actions)
        expected = [env.step(a)[1] for env, a in zip(theirs, actions, strict=True)]
        found = ours.get_state()
        states = np.array([env.state for env in theirs])
        found_states = np.stack([found["theta"], found["theta_dot"]], 1)
        assert_close(found_states, states, f"state after step {step}")
        assert_close(rewards, np.array(expected), f"reward of step {step}")


def test_pendulum_ends_when_gymnasiums_does() -> None:
    theirs = gymnasium.make("Pendulum-v1")
    ours = make_vec("pendulum")
    theirs.reset(seed=0)
    ours.reset()
    action = np.zeros(1, np.float32)
    for _ in range(201):
        *_, terminated, truncated, _ = theirs.step(action)
        _, _, terminations, truncations, _ = ours.step(action[None])
        assert (terminations[0], truncations[0]) == (terminated, truncated)
        if truncated:
            break
    else:
        pytest.fail("no time limit")


@pytest.mark.parametrize(
    ("name", "gymnasium_id"),
    [
        ("inverted_pendulum", "InvertedPendulum-v5"),
        ("half_cheetah", "HalfCheetah-v5"),
        ("pendulum", "Pendulum-v1"),
    ],
)
def test_spaces_are_gymnasiums(name: str, gymnasium_id: str) -> None:
    theirs = gymnasium.make(gymnasium_id)
    ours = make_vec(name, 3, obs_dtype=theirs.observation_space.dtype)
    assert ours.single_observation_space == theirs.observation_space
    assert ours.single_action_space == theirs.action_space
    assert ours.observation_space.shape == (3, *theirs.observation_space.shape)
    assert ours.action_space.shape == (3, *theirs.action_space.shape)
    assert ours.task_info.max_episode_steps == theirs.spec.max_episode_steps
    assert ours.task_info.reward_threshold == theirs.spec.reward_threshold
