"""What PPO learns from, against transitions known beforehand and a scalar GAE, in every mode."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from scripted_env import Transition, make_scripted, transitions

from servorl.algorithms.ppo import PPO, PPOConfig
from servorl.errors import NonFiniteError
from servorl.registry import make_vec

NUM_ENVS, NUM_STEPS = 4, 23
PLAIN = PPOConfig(rollout_steps=NUM_STEPS, normalize_obs=False, normalize_rewards=False)
MODES = [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED]


def scripted_ppo(mode: AutoresetMode, config: PPOConfig = PLAIN) -> PPO:
    return PPO(config, make_scripted(NUM_ENVS, mode), seed=1, total_steps=10_000)


def scalar_gae(
    rows: list[Transition], value: dict[tuple[int, ...], float], gamma: float, gae_lambda: float
) -> list[float]:
    """Schulman et al. 2016, equation 16, one row at a time from the end."""
    advantages, following = [], 0.0
    for row in reversed(rows):
        next_value = 0.0 if row.terminated else value[row.next_obs]
        delta = row.reward + gamma * next_value - value[row.obs]
        cut = row.terminated or row.truncated
        following = delta + (0.0 if cut else gamma * gae_lambda * following)
        advantages.append(following)
    return advantages[::-1]


def values_of(ppo: PPO, rows: list[Transition]) -> dict[tuple[int, ...], float]:
    keys = sorted({row.obs for row in rows} | {row.next_obs for row in rows})
    with torch.no_grad():
        values = ppo.policy.value(torch.tensor(keys, dtype=torch.float32))
    return dict(zip(keys, values.tolist(), strict=True))


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("gae_lambda", [0.0, 0.95, 1.0])
def test_truncation_bootstraps_from_the_final_observation_and_both_ends_cut_the_trace(
    mode: AutoresetMode, gae_lambda: float
) -> None:
    config = PPOConfig(
        rollout_steps=NUM_STEPS, normalize_obs=False, normalize_rewards=False,
        gae_lambda=gae_lambda,
    )  # fmt: skip
    ppo = scripted_ppo(mode, config)
    taken = [0] * NUM_ENVS
    for _ in range(3):  # rollouts that begin in the middle of episodes, and on dummy steps
        ppo.collect()
        valid = ppo.buffer.valid.numpy()
        batch = ppo.batch()
        advantages = np.full(valid.shape, np.nan)
        advantages[valid] = batch.advantages.numpy()
        for index in range(NUM_ENVS):
            count = int(valid[:, index].sum())
            rows = list(islice(transitions(index), taken[index], taken[index] + count))
            taken[index] += count
            obs = ppo.buffer.obs[:-1, index][ppo.buffer.valid[:, index]]
            assert [tuple(row) for row in obs.int().tolist()] == [row.obs for row in rows]
            expected = scalar_gae(rows, values_of(ppo, rows), 0.99, gae_lambda)
            np.testing.assert_allclose(
                advantages[valid[:, index], index], expected, rtol=1e-5, atol=1e-5
            )
    assert ppo.steps == sum(taken)


def test_dummy_reset_steps_are_stored_nowhere_that_counts() -> None:
    ppo = scripted_ppo(AutoresetMode.NEXT_STEP, PPOConfig(rollout_steps=NUM_STEPS))
    report = ppo.collect()
    dummies = int((~ppo.buffer.valid).sum())
    assert dummies > 0
    assert report.steps == NUM_STEPS * NUM_ENVS - dummies
    assert len(ppo.batch()) == report.steps
    ppo.learn()
    assert int(ppo.policy.normalizer.moments.count) == report.steps
    assert int(ppo.rewards.moments.count) == 2 * report.steps  # batch() ran twice
    seen = ppo.buffer.obs[:-1][ppo.buffer.valid].numpy().astype(np.float64)
    np.testing.assert_allclose(ppo.policy.normalizer.moments.mean, seen.mean(0), rtol=1e-12)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_episode_returns_and_lengths_are_those_of_whole_episodes(mode: AutoresetMode) -> None:
    ppo = scripted_ppo(mode)
    reports = [ppo.collect() for _ in range(4)]
    found = sorted(
        pair for report in reports for pair in zip(report.returns, report.lengths, strict=True)
    )
    expected: list[tuple[float, int]] = []
    counts = np.zeros(NUM_ENVS, int)
    for _ in range(4):
        counts += NUM_STEPS
    for index in range(NUM_ENVS):
        total, length = 0.0, 0
        for row in islice(transitions(index), int(counts[index])):
            total, length = total + row.reward, length + 1
            if row.terminated or row.truncated:
                expected.append((total, length))
                total, length = 0.0, 0
    if mode == AutoresetMode.NEXT_STEP:  # its dummy steps leave room for fewer episodes
        assert 0 < len(found) < len(expected)
        for pair in set(found):
            assert found.count(pair) <= expected.count(pair)
    else:
        assert found == sorted(expected)


def test_reward_scale_is_the_deviation_of_discounted_returns_zeroed_per_environment() -> None:
    ppo = scripted_ppo(AutoresetMode.SAME_STEP, PPOConfig(rollout_steps=NUM_STEPS, gamma=0.9))
    running, seen = [0.0] * NUM_ENVS, []
    for _ in range(2):
        ppo.collect()
        buffer = ppo.buffer
        done = (buffer.terminated | buffer.truncated).tolist()
        for rewards, ends in zip(buffer.rewards.tolist(), done, strict=True):
            for index in range(NUM_ENVS):
                running[index] = 0.9 * running[index] + rewards[index]
                seen.append(running[index])
                running[index] = 0.0 if ends[index] else running[index]
        scaled = ppo.rewards.scale(buffer.rewards.numpy(), np.array(done), buffer.valid.numpy())
        expected = np.clip(buffer.rewards.numpy() / np.sqrt(np.var(seen) + 1e-8), -10, 10)
        np.testing.assert_allclose(scaled, expected, rtol=1e-5)


def test_the_ratio_of_the_first_minibatch_is_one() -> None:
    env = make_vec("inverted_pendulum", 8, seed=1)
    ppo = PPO(PPOConfig(rollout_steps=64), env, seed=1, total_steps=10_000)
    for _ in range(2):  # the second rollout has a moved normaliser
        ppo.collect()
        batch = ppo.batch()
        first = next(batch.minibatches(4, torch.Generator().manual_seed(0)))
        with torch.no_grad():
            mean = ppo.policy.actor(first.obs)
            ratio = (ppo.policy.log_prob(mean, first.raw_actions) - first.log_probs).exp()
        torch.testing.assert_close(ratio, torch.ones(len(first)), rtol=0.0, atol=1e-6)
        statistics = ppo.gradient(first)
        assert statistics[5] == 0.0  # nothing is clipped
        ppo.learn()
    env.close()


def test_the_stored_action_is_the_raw_one_and_the_environment_gets_the_clipped_one() -> None:
    env = make_vec("inverted_pendulum", 4, seed=1)
    taken: list[np.ndarray] = []
    step = env.step
    env.step = lambda actions: taken.append(actions) or step(actions)  # type: ignore[method-assign]
    ppo = PPO(PPOConfig(rollout_steps=64, initial_log_std=1.0), env, seed=1, total_steps=10_000)
    ppo.collect()
    raw = ppo.buffer.raw_actions.numpy()
    scaled = 3.0 * raw
    assert (np.abs(scaled) > 3.0).any()
    np.testing.assert_allclose(np.stack(taken), np.clip(scaled, -3.0, 3.0), rtol=1e-6)
    env.close()


def test_the_normaliser_moves_only_after_the_update() -> None:
    env = make_vec("inverted_pendulum", 4, seed=1)
    ppo = PPO(PPOConfig(rollout_steps=32), env, seed=1, total_steps=10_000)
    mean = ppo.policy.normalizer.mean.clone()
    ppo.collect()
    assert torch.equal(ppo.policy.normalizer.mean, mean)
    ppo.batch()
    assert torch.equal(ppo.policy.normalizer.mean, mean)
    ppo.learn()
    assert not torch.equal(ppo.policy.normalizer.mean, mean)
    env.close()


@pytest.mark.parametrize(
    ("poison", "named"),
    [("rewards", "advantages, returns"), ("obs", "obs"), ("raw_actions", "raw_actions")],
)
def test_a_non_finite_sample_stops_before_any_optimiser_step_and_is_named(
    poison: str, named: str
) -> None:
    ppo = scripted_ppo(AutoresetMode.SAME_STEP)
    ppo.collect()
    before = ppo.optimizer.values.clone()
    getattr(ppo.buffer, poison)[5, 1] = torch.nan
    with pytest.raises(NonFiniteError, match=f"{named}.* not finite in update 1"):
        ppo.learn()
    assert torch.equal(ppo.optimizer.values, before)


def test_a_non_finite_gradient_alone_is_named() -> None:
    ppo = scripted_ppo(AutoresetMode.SAME_STEP)
    ppo.collect()
    gradient = ppo.gradient

    def poisoned(batch: object) -> torch.Tensor:
        statistics = gradient(batch)  # type: ignore[arg-type]
        ppo.policy.critic.biases[0].grad[3] = torch.inf  # type: ignore[index]
        return statistics

    ppo.gradient = poisoned  # type: ignore[method-assign, assignment]
    before = ppo.optimizer.values.clone()
    with pytest.raises(NonFiniteError, match=r"gradient of critic\.biases\.0 is not finite"):
        ppo.learn()
    assert torch.equal(ppo.optimizer.values, before)


def test_a_non_finite_loss_is_named() -> None:
    ppo = scripted_ppo(AutoresetMode.SAME_STEP)
    ppo.collect()
    batch = ppo.batch()
    batch.returns[0] = torch.inf
    statistics = ppo.gradient(batch)
    before = ppo.optimizer.values.clone()
    with pytest.raises(NonFiniteError, match="value_loss is not finite"):
        ppo._descend(statistics, 1e-3)
    assert torch.equal(ppo.optimizer.values, before)


@pytest.mark.parametrize(("what", "message"), [(0, "observation 2 of"), (1, "reward of")])
def test_a_non_finite_observation_or_reward_names_its_environment(what: int, message: str) -> None:
    ppo = scripted_ppo(AutoresetMode.SAME_STEP)
    step, count = ppo.collector.env.step, [0]

    def poisoned(actions: np.ndarray) -> list:
        results = list(step(actions))
        count[0] += 1
        if count[0] == 3:
            results[what] = results[what].copy()
            results[what][(3, 2) if what == 0 else 3] = np.inf
        return results

    ppo.collector.env.step = poisoned
    with pytest.raises(NonFiniteError, match=f"{message} environment 3 is not finite at step 2"):
        ppo.collect()


def test_the_learning_rate_falls_linearly_to_zero_over_the_run() -> None:
    ppo = PPO(PLAIN, make_scripted(NUM_ENVS, AutoresetMode.SAME_STEP), seed=1, total_steps=3 * 92)
    rates = []
    for _ in range(3):
        ppo.collect()
        rates.append(ppo.learn()["learning_rate"])
    np.testing.assert_allclose(rates, [3e-4, 2e-4, 1e-4])
