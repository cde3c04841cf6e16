"""Proximal policy optimisation (Schulman et al. 2017), in the details of CleanRL's continuous PPO.

    repeat: collect a rollout with pi_old
            advantages, returns <- GAE(rewards, V_old)
            for each epoch, for each minibatch of a new shuffle:
                one Adam step on  L_clip + c_v L_value - c_e H
            let the observation normaliser move

The loss and its gradient with respect to the networks' outputs are in ``ppo_loss.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from servorl.advantages import gae
from servorl.algorithms.flat_adam import FlatAdam
from servorl.algorithms.ppo_loss import STATISTICS, ppo_loss
from servorl.algorithms.reward_scale import RewardScale
from servorl.buffers import Batch, RolloutBuffer
from servorl.errors import NonFiniteError
from servorl.policies.actor_critic import ActorCritic
from servorl.rollout import Collector, RolloutReport
from servorl.settings import Range, check_settings

SAMPLES_PER_ROLLOUT = 2048


@dataclass(frozen=True)
class PPOConfig:
    """Settings of PPO; the defaults are CleanRL's for continuous control."""

    rollout_steps: Annotated[int, Range(0, 2**20)] = 0
    """Steps of each environment between updates; 0: 2048 / num_envs, but at least 16."""
    learning_rate: Annotated[float, Range(0.0, open_low=True)] = 3e-4
    """Adam's step size at the start; it falls linearly to 0 over the run."""
    anneal_steps: Annotated[int, Range(0)] = 0
    """Environment steps over which the learning rate falls to 0; 0: those of the run."""
    num_minibatches: Annotated[int, Range(1)] = 32
    """Minibatches per epoch; their sizes differ by at most one sample."""
    num_epochs: Annotated[int, Range(1)] = 10
    """Passes over a rollout; each shuffles anew and uses every sample once."""
    gamma: Annotated[float, Range(0.0, 1.0)] = 0.99
    """Discount per control step."""
    gae_lambda: Annotated[float, Range(0.0, 1.0)] = 0.95
    """Decay of the advantage's trace: 0 is the TD error, 1 the Monte-Carlo return."""
    clip_range: Annotated[float, Range(0.0, open_low=True)] = 0.2
    """How far the probability ratio may move from 1 with a gradient."""
    value_clip_range: Annotated[float, Range(0.0)] = 0.2
    """How far a value may move from its old one with a gradient; 0: as far as it will."""
    value_coefficient: Annotated[float, Range(0.0)] = 0.5
    """Weight of the value loss."""
    entropy_coefficient: Annotated[float, Range(0.0)] = 0.0
    """Weight of the entropy bonus."""
    max_grad_norm: Annotated[float, Range(0.0, open_low=True)] = 0.5
    """Euclidean norm to which the whole gradient is cut."""
    adam_epsilon: Annotated[float, Range(0.0, open_low=True)] = 1e-5
    """Adam's epsilon."""
    hidden_sizes: Annotated[tuple[int, ...], Range(1, 2**16)] = (64, 64)
    """Widths of the tanh layers, of the actor and of the critic."""
    initial_log_std: Annotated[float, Range(-20.0, 2.0)] = 0.0
    """Log of the raw action's standard deviation at the start."""
    obs_clip: Annotated[float, Range(0.0, 1e30, open_low=True)] = 10.0
    """Bound on each normalised observation."""
    reward_clip: Annotated[float, Range(0.0, open_low=True)] = 10.0
    """Bound on each normalised reward."""
    normalize_obs: bool = True
    """Whether to subtract the observations' running mean and divide by their deviation."""
    normalize_rewards: bool = True
    """Whether to divide rewards by the running deviation of the discounted return."""

    def steps_per_environment(self, num_envs: int) -> int:
        """Length of a rollout."""
        return self.rollout_steps or max(16, SAMPLES_PER_ROLLOUT // num_envs)


class PPO:
    """A policy, its optimiser and its rollout over one vector environment.

    Args:
        config: the settings; checked here.
        env: a ``gymnasium.vector.VectorEnv`` with Box spaces of vectors.
        seed: fixes the initial weights, the exploration, the shuffles and the first reset.
        total_steps: environment steps of the whole run, for the learning rate's schedule.
        device: where the networks live. Noise and shuffles are drawn on the CPU on every device.
    """

    def __init__(
        self, config: PPOConfig, env: Any, *, seed: int, total_steps: int, device: str = "cpu"
    ) -> None:
        check_settings(config)
        self.config = config
        self.device = torch.device(device)
        self.total_steps = total_steps
        self.steps = 0
        self.updates = 0
        seeds = np.random.SeedSequence(seed).generate_state(3, np.uint64) >> 1
        weights, self._noise, self._shuffle = (
            torch.Generator().manual_seed(int(value)) for value in seeds
        )
        space = env.single_action_space
        self.policy = ActorCritic(
            env.single_observation_space.shape[0],
            space.low,
            space.high,
            hidden_sizes=config.hidden_sizes,
            initial_log_std=config.initial_log_std,
            obs_clip=config.obs_clip,
            generator=weights,
        ).to(self.device)
        self.optimizer = FlatAdam(self.policy, config.adam_epsilon)
        self.rewards = RewardScale(env.num_envs, config.gamma, config.reward_clip)
        self.collector = Collector(env, seed)
        self.buffer = RolloutBuffer(
            config.steps_per_environment(env.num_envs),
            env.num_envs,
            self.policy.obs_dim,
            self.policy.action_dim,
        )

    def collect(self) -> RolloutReport:
        """Fill the buffer with one rollout of the current policy."""
        buffer = self.buffer
        shape = buffer.raw_actions.shape
        noise = torch.randn(shape, generator=self._noise).to(self.device)

        def choose(step: int, obs: NDArray[np.float32]) -> NDArray[np.float32]:
            tensor = torch.from_numpy(obs).to(self.device)
            action, buffer.raw_actions[step] = self.policy.explore(tensor, noise[step])
            result: NDArray[np.float32] = action.cpu().numpy()
            return result

        report = self.collector.collect(buffer, choose)
        self.steps += report.steps
        return report

    def learn(self) -> dict[str, float]:
        """Improve the policy on the rollout collected last; returns what is worth logging.

        Raises NonFiniteError, before the optimiser's step, for samples, a loss or a gradient that
        are not finite.
        """
        config = self.config
        batch = self.batch()
        if bad := batch.non_finite():
            raise NonFiniteError(f"{', '.join(bad)} not finite in update {self.updates + 1}")
        learning_rate = self.learning_rate()
        statistics = torch.zeros(len(STATISTICS), device=self.device)
        gradient_norm, minibatches = 0.0, 0
        for _ in range(config.num_epochs):
            for minibatch in batch.minibatches(config.num_minibatches, self._shuffle):
                terms = self.gradient(minibatch)
                gradient_norm += self._descend(terms, learning_rate)
                statistics += terms
                minibatches += 1
        if config.normalize_obs:
            buffer = self.buffer
            self.policy.normalizer.update(buffer.obs[:-1][buffer.valid])
            self.policy.normalizer.publish()
        self.updates += 1
        means = dict(zip(STATISTICS, (statistics / minibatches).tolist(), strict=True))
        return means | {
            "gradient_norm": gradient_norm / minibatches,
            "explained_variance": _explained_variance(batch.values, batch.returns),
            "action_std": float(self.policy.log_std.detach().exp().mean()),
            "learning_rate": learning_rate,
        }

    def learning_rate(self) -> float:
        """Step size of the update after the rollout just collected."""
        total = self.config.anneal_steps or self.total_steps
        before = self.steps - self.buffer.valid.count_nonzero().item()
        return self.config.learning_rate * max(0.0, 1.0 - before / total)

    @torch.no_grad()
    def batch(self) -> Batch:
        """The rollout's valid samples with normalised observations, advantages and returns."""
        buffer, policy, config = self.buffer, self.policy, self.config
        done = buffer.terminated | buffer.truncated
        rewards = buffer.rewards
        if config.normalize_rewards:
            scaled = self.rewards.scale(rewards.numpy(), done.numpy(), buffer.valid.numpy())
            rewards = torch.from_numpy(scaled)

        obs = policy.normalize(buffer.obs.flatten(0, 1).to(self.device))
        values = policy.critic(obs).view(buffer.num_steps + 1, buffer.num_envs).cpu()
        next_values = values[1:].clone()
        steps, env_ids, final_obs = buffer.final()
        if len(steps) > 0:
            next_values[steps, env_ids] = policy.value(final_obs.to(self.device)).cpu()
        values = values[:-1].contiguous()
        advantages, returns = gae(
            rewards,
            values,
            next_values,
            buffer.terminated,
            buffer.truncated,
            gamma=config.gamma,
            gae_lambda=config.gae_lambda,
            valid=buffer.valid,
        )

        valid = buffer.valid.flatten().nonzero().squeeze(-1)

        def rows(tensor: Tensor) -> Tensor:
            return tensor.flatten(0, 1)[valid].to(self.device)

        obs = obs[valid.to(self.device)]
        raw_actions = rows(buffer.raw_actions)
        log_probs = policy.log_prob(policy.actor(obs), raw_actions)
        batch = Batch(obs, raw_actions, log_probs, rows(values), rows(advantages), rows(returns))
        batch.check_shapes()
        return batch

    def gradient(self, batch: Batch) -> Tensor:
        """Set every parameter's ``.grad`` for one minibatch; returns its ``STATISTICS``."""
        policy, config = self.policy, self.config
        actor = policy.actor.trace(batch.obs)
        critic = policy.critic.trace(batch.obs)
        loss = ppo_loss(
            actor[-1],
            policy.log_std,
            critic[-1].squeeze(-1),
            batch,
            clip_range=config.clip_range,
            value_clip_range=config.value_clip_range or math.inf,
            value_coefficient=config.value_coefficient,
            entropy_coefficient=config.entropy_coefficient,
        )
        policy.actor.backward(actor, loss.mean_grad)
        policy.critic.backward(critic, loss.value_grad.unsqueeze(-1))
        assert policy.log_std.grad is not None  # FlatAdam's view
        policy.log_std.grad.copy_(loss.log_std_grad)
        return loss.statistics

    def _descend(self, statistics: Tensor, learning_rate: float) -> float:
        """One step of Adam along the clipped gradient; returns the norm that it had."""
        norm = self.optimizer.clip_grad_norm(self.config.max_grad_norm)
        if not (math.isfinite(norm) and math.isfinite(statistics[0].item())):
            named = dict(zip(STATISTICS[1:], statistics.tolist()[1:], strict=True))
            bad = [name for name, value in named.items() if not math.isfinite(value)]
            bad += [f"gradient of {name}" for name in self.optimizer.non_finite_grads()]
            raise NonFiniteError(
                f"{(bad or ['loss'])[0]} is not finite in update {self.updates + 1}; "
                "its optimiser step was not taken"
            )
        self.optimizer.step(learning_rate)
        return norm

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything but the policy and the environment that the next iteration depends on."""
        return {
            **{
                f"{name}.{key}": array
                for name, part in self._parts().items()
                for key, array in part.state().items()
            },
            "generator.noise": self._noise.get_state().numpy(),
            "generator.shuffle": self._shuffle.get_state().numpy(),
            "steps": np.array(self.steps),
            "updates": np.array(self.updates),
        }

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from ``state()``; raises ValueError naming an array that does not fit."""
        expected = self.state()
        if unmatched := sorted(expected.keys() ^ state.keys()):
            raise ValueError(f"the algorithm's arrays do not match: {', '.join(unmatched)}")
        for name, array in expected.items():
            if state[name].shape != array.shape:
                raise ValueError(f"{name} must be of shape {array.shape}, not {state[name].shape}")
        for name, part in self._parts().items():
            prefix = f"{name}."
            part.load_state(
                {n.removeprefix(prefix): a for n, a in state.items() if n.startswith(prefix)}
            )
        self._noise.set_state(torch.from_numpy(state["generator.noise"]))
        self._shuffle.set_state(torch.from_numpy(state["generator.shuffle"]))
        self.steps, self.updates = int(state["steps"]), int(state["updates"])

    def _parts(self) -> dict[str, Collector | RewardScale | FlatAdam]:
        return {"collector": self.collector, "rewards": self.rewards, "adam": self.optimizer}


def _explained_variance(values: Tensor, returns: Tensor) -> float:
    """1 - Var(R - V) / Var(R): 1 for a perfect critic, 0 for one no better than a constant."""
    variance = float(returns.var(correction=0))
    return 1.0 - float((returns - values).var(correction=0)) / variance if variance > 0 else 0.0
