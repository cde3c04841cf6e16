"""The three autoreset modes against Gymnasium's SyncVectorEnv over Gymnasium's own tasks.

Gymnasium's environments start each episode from the initial state that ours has for the same
environment and episode, which depends on the seed alone.
"""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from servorl.registry import make_vec

NUM_ENVS = 5
SEED = 17
TASKS = [
    ("inverted_pendulum", "InvertedPendulum-v5", 13),
    ("half_cheetah", "HalfCheetah-v5", 4),
]


class StartingFrom(gymnasium.Wrapper):
    """Takes its initial states from a list."""

    def __init__(self, env: gymnasium.Env, states: list[tuple[np.ndarray, np.ndarray]]) -> None:
        super().__init__(env)
        self.states = iter(states)

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict[str, Any]]:
        self.env.reset(**kwargs)
        task: Any = self.env.unwrapped
        task.set_state(*next(self.states))
        return task._get_obs(), task._get_reset_info()


def initial_states(name: str, episodes: int) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """For each environment, the (qpos, qvel) of its first episodes."""
    env = make_vec(name, NUM_ENVS, seed=SEED)
    states: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in range(NUM_ENVS)]
    for _ in range(episodes):
        env.reset()
        state = env.get_state()
        for i in range(NUM_ENVS):
            states[i].append((state["qpos"][i], state["qvel"][i]))
    return states


def make_both(name: str, gymnasium_id: str, limit: int, mode: AutoresetMode) -> tuple[Any, Any]:
    states = initial_states(name, 60)

    def maker(i: int) -> Callable[[], gymnasium.Env]:
        return lambda: StartingFrom(
            gymnasium.make(gymnasium_id, max_episode_steps=limit), states[i]
        )

    theirs = SyncVectorEnv([maker(i) for i in range(NUM_ENVS)], autoreset_mode=mode)
    ours = make_vec(
        name,
        NUM_ENVS,
        seed=SEED,
        autoreset_mode=mode,
        obs_dtype=np.float64,
        max_episode_steps=limit,
    )
    return ours, theirs


def assert_same(ours: Any, theirs: Any, what: str) -> None:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.dtype == theirs.dtype, what
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9, err_msg=what)


def assert_same_infos(ours: dict[str, Any], theirs: dict[str, Any], where: str) -> None:
    own = {"diverged", "_diverged"}
    assert ours.keys() - own == theirs.keys(), where
    for key, value in theirs.items():
        if key == "final_obs":
            present = theirs["_final_obs"]
            assert ours[key].dtype == np.float64
            assert_same(ours[key][present], np.stack(list(value[present])), f"{where} {key}")
            assert not ours[key][~present].any()
        elif isinstance(value, dict):
            assert_same_infos(ours[key], value, f"{where} {key}")
        else:
            assert_same(ours[key], value, f"{where} {key}")


def assert_same_step(ours: Any, theirs: Any, where: str) -> None:
    for name, mine, other in zip(
        ("observation", "reward", "terminated", "truncated"), ours, theirs, strict=False
    ):
        assert_same(mine, other, f"{where} {name}")
    assert_same_infos(ours[4], theirs[4], where)


def random_actions(env: Any, rng: np.random.Generator) -> np.ndarray:
    space = env.single_action_space
    return rng.uniform(space.low, space.high, (NUM_ENVS, *space.shape))


@pytest.mark.parametrize(("name", "gymnasium_id", "limit"), TASKS)
@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_automatic_reset(name: str, gymnasium_id: str, limit: int, mode: AutoresetMode) -> None:
    ours, theirs = make_both(name, gymnasium_id, limit, mode)
    assert ours.metadata["autoreset_mode"] is mode
    rng = np.random.default_rng(3)
    obs, infos = ours.reset(seed=SEED)
    other_obs, other_infos = theirs.reset(seed=SEED)
    assert_same(obs, other_obs, "initial observation")
    assert_same_infos(infos, other_infos, "initial")
    ends = set()
    for step in range(60):
        actions = random_actions(ours, rng)
        mine, other = ours.step(actions), theirs.step(actions)
        assert_same_step(mine, other, f"step {step}")
        ends |= {("terminated", bool(e)) for e in mine[2]} | {
            ("truncated", bool(e)) for e in mine[3]
        }
    assert ("truncated", True) in ends
    if name == "inverted_pendulum":
        assert ("terminated", True) in ends


@pytest.mark.parametrize(("name", "gymnasium_id", "limit"), TASKS)
def test_disabled_with_reset_mask(name: str, gymnasium_id: str, limit: int) -> None:
    ours, theirs = make_both(name, gymnasium_id, limit, AutoresetMode.DISABLED)
    rng = np.random.default_rng(4)
    ours.reset(seed=SEED)
    theirs.reset()
    # One environment out of step with the rest, so that masks are partial.
    mask = np.arange(NUM_ENVS) == 2
    for step in range(40):
        actions = random_actions(ours, rng)
        mine, other = ours.step(actions), theirs.step(actions)
        assert_same_step(mine, other, f"step {step}")
        done = mine[2] | mine[3]
        if step == 1:
            done = done | mask
        if done.any():
            obs, infos = ours.reset(options={"reset_mask": done})
            other_obs, other_infos = theirs.reset(options={"reset_mask": done})
            assert_same(obs, other_obs, f"reset after step {step}")
            assert_same_infos(infos, other_infos, f"reset after step {step}")


def test_disabled_refuses_to_step_what_has_ended() -> None:
    env = make_vec("pendulum", 3, autoreset_mode="disabled", max_episode_steps=2)
    env.reset()
    actions = np.zeros((3, 1))
    env.reset(options={"reset_mask": np.array([True, True, False])})
    env.step(actions)
    env.step(actions)
    with pytest.raises(gymnasium.error.ResetNeeded, match="environment 0"):
        env.step(actions)
    env.reset(options={"reset_mask": np.ones(3, np.bool_)})
    env.step(actions)


def test_a_reset_is_needed_first() -> None:
    env = make_vec("half_cheetah", 2)
    with pytest.raises(gymnasium.error.ResetNeeded, match="half_cheetah: environment 0"):
        env.step(np.zeros((2, 6)))


@pytest.mark.parametrize(
    ("mask", "error"),
    [
        ([True, False], TypeError),
        (np.array([1, 0]), TypeError),
        (np.array([True]), ValueError),
        (np.array([False, False]), ValueError),
    ],
)
def test_bad_reset_masks(mask: Any, error: type[Exception]) -> None:
    env = make_vec("pendulum", 2)
    with pytest.raises(error, match="reset_mask"):
        env.reset(options={"reset_mask": mask})


def test_reset_mask_leaves_the_others_alone() -> None:
    env, untouched = (make_vec("half_cheetah", 4, seed=5, obs_dtype=np.float64) for _ in range(2))
    rng = np.random.default_rng(0)
    for one in (env, untouched):
        one.reset()
    for _ in range(3):
        actions = random_actions_for(env, rng)
        before = env.step(actions)[0]
        untouched.step(actions)
    mask = np.array([False, True, False, True])
    obs, infos = env.reset(options={"reset_mask": mask})
    np.testing.assert_array_equal(obs[~mask], before[~mask])
    assert not np.any(obs[mask] == before[mask])
    np.testing.assert_array_equal(infos["_x_position"], mask)
    assert not infos["x_position"][~mask].any()
    actions = random_actions_for(env, rng)
    np.testing.assert_array_equal(env.step(actions)[0][~mask], untouched.step(actions)[0][~mask])


def random_actions_for(env: Any, rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(-1, 1, env.action_space.shape)
