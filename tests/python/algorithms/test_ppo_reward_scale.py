"""The discounted return behind the reward's scale ends with its episode, at either kind of end."""

from __future__ import annotations

import numpy as np

from servorl.algorithms.ppo import PPO, PPOConfig
from servorl.registry import make_vec


def test_return_accumulators_are_zeroed_where_an_episode_is_truncated() -> None:
    env = make_vec("pendulum", 2, seed=1, max_episode_steps=5)
    config = PPOConfig(rollout_steps=12, gamma=0.9)
    ppo = PPO(config, env, seed=1, total_steps=1000)
    ppo.collect()
    buffer = ppo.buffer
    rewards = buffer.rewards.numpy().astype(np.float64).copy()
    assert buffer.truncated.any()
    assert not buffer.terminated.any()
    returns, accumulator = [], np.zeros(2)
    for step in range(12):
        accumulator = accumulator * 0.9 + rewards[step]
        returns.append(accumulator.copy())
        if (step + 1) % 5 == 0:
            accumulator[:] = 0
    scaled = []
    original = ppo.rewards.scale
    ppo.rewards.scale = lambda *a: scaled.append(original(*a)) or scaled[-1]  # type: ignore[method-assign]
    ppo.batch()
    env.close()
    expected = np.clip(rewards / np.std(returns), -10, 10)
    np.testing.assert_allclose(scaled[0], expected, rtol=1e-3)
