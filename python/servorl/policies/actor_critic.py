"""A Gaussian actor and a critic, with the observation normaliser and the action transform inside.

The actor's raw output r ~ N(mean(obs), std) becomes ``clip(offset + scale * r, low, high)`` in the
environment's units. The log-probability is that of r, before the clip. Everything between an
observation and an action is in this one module, so that exporting it cannot lose a part.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from servorl.errors import CheckpointError
from servorl.policies.inference_graph import DenseLayer, InferenceGraph
from servorl.policies.mlp import MLP
from servorl.policies.normalizer import ObservationNormalizer

METADATA_KEY = "actor_critic"
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class ActorCriticShape(NamedTuple):
    """What must be known to rebuild the module before its arrays are loaded."""

    obs_dim: int
    action_dim: int
    hidden_sizes: tuple[int, ...]
    obs_clip: float


class ActorCritic(nn.Module):
    """Tanh MLPs for the action's mean and the value; a log-std that no observation changes.

    Args:
        obs_dim: length of the observation vector.
        action_low, action_high: finite bounds ``[A]`` of the action, in the environment's units.
        hidden_sizes: widths of the hidden layers, the same for the actor and the critic.
        initial_log_std: log of the raw action's standard deviation before training.
        obs_clip: bound on each normalised observation.
        generator: source of the initial weights (orthogonal: sqrt(2), actor head 0.01, critic 1).
    """

    log_std: nn.Parameter
    action_scale: Tensor
    action_offset: Tensor
    action_low: Tensor
    action_high: Tensor

    def __init__(
        self,
        obs_dim: int,
        action_low: Sequence[float] | NDArray[np.floating],
        action_high: Sequence[float] | NDArray[np.floating],
        *,
        hidden_sizes: Sequence[int] = (64, 64),
        initial_log_std: float = 0.0,
        obs_clip: float = 10.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        low = torch.as_tensor(np.asarray(action_low, np.float32))
        high = torch.as_tensor(np.asarray(action_high, np.float32))
        if low.ndim != 1 or low.shape != high.shape:
            raise ValueError(
                f"action bounds must be two vectors of one length, not shapes "
                f"{list(low.shape)} and {list(high.shape)}"
            )
        if not bool(torch.isfinite(low).all() & torch.isfinite(high).all() & (low < high).all()):
            raise ValueError(f"action bounds must be finite with low < high: {low}, {high}")
        action_dim = low.shape[0]
        self.shape = ActorCriticShape(obs_dim, action_dim, tuple(hidden_sizes), float(obs_clip))
        self.normalizer = ObservationNormalizer(obs_dim, obs_clip)
        self.actor = MLP((obs_dim, *hidden_sizes, action_dim), 0.01, generator)
        self.critic = MLP((obs_dim, *hidden_sizes, 1), 1.0, generator)
        self.log_std = nn.Parameter(torch.full((action_dim,), float(initial_log_std)))
        self.register_buffer("action_low", low)
        self.register_buffer("action_high", high)
        self.register_buffer("action_scale", (high - low) / 2)
        self.register_buffer("action_offset", (high + low) / 2)

    @property
    def obs_dim(self) -> int:
        """Length of the observation vector."""
        return self.shape.obs_dim

    @property
    def action_dim(self) -> int:
        """Length of the action vector."""
        return self.shape.action_dim

    @overload
    def act(
        self,
        obs: NDArray[np.floating],
        deterministic: bool = False,
        generator: torch.Generator | None = None,
    ) -> tuple[NDArray[np.float32], dict[str, NDArray[np.float32]]]: ...

    @overload
    def act(
        self, obs: Tensor, deterministic: bool = False, generator: torch.Generator | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]: ...

    @torch.no_grad()
    def act(
        self,
        obs: NDArray[np.floating] | Tensor,
        deterministic: bool = False,
        generator: torch.Generator | None = None,
    ) -> object:
        """Choose actions for ``obs`` ``[N, O]``; NumPy gives NumPy, torch gives torch.

        Returns the actions ``[N, A]`` float32 in the environment's units, and extras:
        ``raw_action`` ``[N, A]``, before scale and clip, and its ``log_prob`` ``[N]``.
        Noise is drawn on the CPU from ``generator`` so that every device explores alike.
        Raises ValueError for another shape than ``[N, O]``.
        """
        tensor = torch.as_tensor(obs).to(self.log_std.device, torch.float32)
        mean = self.actor(self.normalize(tensor))
        raw = mean
        if not deterministic:
            noise = torch.randn(mean.shape, generator=generator).to(mean.device)
            raw = mean + self.log_std.exp() * noise
        extras = {"raw_action": raw, "log_prob": self.log_prob(mean, raw)}
        action = self.to_environment(raw)
        if isinstance(obs, Tensor):
            return action, extras
        return action.cpu().numpy(), {name: value.cpu().numpy() for name, value in extras.items()}

    def normalize(self, obs: Tensor) -> Tensor:
        """Check and normalise ``obs`` ``[N, O]``: the input of ``actor`` and ``critic``."""
        if obs.ndim != 2 or obs.shape[1] != self.obs_dim:
            raise ValueError(
                f"observations must be of shape [N, {self.obs_dim}], not {list(obs.shape)}"
            )
        return cast(Tensor, self.normalizer(obs))

    def value(self, obs: Tensor) -> Tensor:
        """The critic's value ``[N]`` of ``obs`` ``[N, O]``."""
        return cast(Tensor, self.critic(self.normalize(obs)).squeeze(-1))

    def log_prob(self, mean: Tensor, raw_action: Tensor) -> Tensor:
        """Log-density ``[N]`` of raw actions ``[N, A]`` under means of the same shape."""
        if mean.shape != raw_action.shape or mean.ndim != 2:
            raise ValueError(
                f"mean and raw_action must share one shape [N, {self.action_dim}], not "
                f"{list(mean.shape)} and {list(raw_action.shape)}"
            )
        z = (raw_action - mean) * torch.exp(-self.log_std)
        return -0.5 * (z * z).sum(-1) - (self.log_std + HALF_LOG_2PI).sum()

    def entropy(self) -> Tensor:
        """Entropy (scalar, nats) of the raw action: the same at every observation."""
        return (self.log_std + (0.5 + HALF_LOG_2PI)).sum()

    @torch.no_grad()
    def explore(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions in the environment's units and raw ones, both ``[N, A]``, for given noise.

        ``obs`` ``[N, O]`` float32 and standard normal ``noise`` ``[N, A]`` on the policy's device.
        """
        mean = self.actor(self.normalize(obs))
        if noise.shape != mean.shape:
            raise ValueError(f"noise must be of shape {list(mean.shape)}, not {list(noise.shape)}")
        raw = torch.addcmul(mean, self.log_std.exp(), noise)
        return self.to_environment(raw), raw

    def to_environment(self, raw_action: Tensor) -> Tensor:
        """Scale, shift and clip raw actions ``[N, A]`` into the environment's units."""
        scaled = torch.addcmul(self.action_offset, self.action_scale, raw_action)
        return torch.clamp(scaled, self.action_low, self.action_high)

    def inference_graph(self) -> InferenceGraph:
        """The deterministic policy as float32 arrays, for the exporters."""

        def array(tensor: Tensor) -> NDArray[np.float32]:
            return tensor.detach().cpu().numpy().astype(np.float32, copy=True)

        last = len(self.actor.weights) - 1
        layers = tuple(
            DenseLayer(array(weight), array(bias), "identity" if index == last else "tanh")
            for index, (weight, bias) in enumerate(
                zip(self.actor.weights, self.actor.biases, strict=True)
            )
        )
        return InferenceGraph(
            mean=array(self.normalizer.mean),
            inv_std=array(self.normalizer.inv_std),
            obs_clip=self.normalizer.clip,
            layers=layers,
            action_scale=array(self.action_scale),
            action_offset=array(self.action_offset),
            action_low=array(self.action_low),
            action_high=array(self.action_high),
        )

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
        """Every array, the normaliser's accumulators included, and the text to rebuild it from."""
        tensors = {**self.state_dict(), **self._moments()}
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
        return arrays, {METADATA_KEY: json.dumps(self.shape._asdict())}

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Copy ``state()``'s arrays back; raises ValueError naming what is missing or misshapen."""
        expected = {**self.state_dict(), **self._moments()}
        if unmatched := sorted(expected.keys() ^ arrays.keys()):
            raise ValueError(f"policy arrays do not match: {', '.join(unmatched)}")
        for name, tensor in expected.items():
            new = torch.from_numpy(arrays[name])
            if new.shape != tensor.shape or new.dtype != tensor.dtype:
                raise ValueError(
                    f"{name} must be {tensor.dtype} of shape {list(tensor.shape)}, "
                    f"not {new.dtype} {list(new.shape)}"
                )
            tensor.copy_(new)

    @classmethod
    def from_state(
        cls, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]
    ) -> ActorCritic:
        """A policy from what ``state`` returned; raises ValueError where it is something else."""
        try:
            shape = ActorCriticShape(**json.loads(metadata[METADATA_KEY]))
            low, high = arrays["action_low"], arrays["action_high"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"these are not an ActorCritic's arrays: {error}") from error
        policy = cls(
            shape.obs_dim, low, high, hidden_sizes=shape.hidden_sizes, obs_clip=shape.obs_clip
        )
        policy.load_state(arrays)
        return policy

    def save(self, path: Path) -> None:
        """Write the policy to one safetensors file."""
        from safetensors.numpy import save_file

        arrays, metadata = self.state()
        save_file(arrays, path, metadata)

    @classmethod
    def load(cls, path: Path) -> ActorCritic:
        """Read ``save``'s file; raises CheckpointError where it does not hold a policy."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="np") as file:
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                return cls.from_state(arrays, file.metadata() or {})
        except (SafetensorError, OSError, ValueError) as error:
            raise CheckpointError(f"{path} does not hold a policy: {error}") from error

    def _moments(self) -> dict[str, Tensor]:
        moments = self.normalizer.moments.state()
        return {f"normalizer.moments.{name}": tensor for name, tensor in moments.items()}
