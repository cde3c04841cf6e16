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
from typing import NamedTuple, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from servorl.errors import CheckpointError
from servorl.policies.inference_graph import DenseLayer, InferenceGraph
from servorl.policies.normalizer import ObservationNormalizer

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
        self.actor = _mlp((obs_dim, *hidden_sizes, action_dim), 0.01, generator)
        self.critic = _mlp((obs_dim, *hidden_sizes, 1), 1.0, generator)
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

    def to_environment(self, raw_action: Tensor) -> Tensor:
        """Scale, shift and clip raw actions ``[N, A]`` into the environment's units."""
        scaled = torch.addcmul(self.action_offset, self.action_scale, raw_action)
        return torch.clamp(scaled, self.action_low, self.action_high)

    def inference_graph(self) -> InferenceGraph:
        """The deterministic policy as float32 arrays, for the exporters."""

        def array(tensor: Tensor) -> NDArray[np.float32]:
            return tensor.detach().cpu().numpy().astype(np.float32, copy=True)

        dense = [layer for layer in self.actor if isinstance(layer, nn.Linear)]
        layers = tuple(
            DenseLayer(
                array(layer.weight),
                array(layer.bias),
                "identity" if layer is dense[-1] else "tanh",
            )
            for layer in dense
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

    def state(self) -> dict[str, Tensor]:
        """Every array of the policy, the normaliser's accumulators included, on the CPU."""
        tensors = {name: tensor.detach().cpu() for name, tensor in self.state_dict().items()}
        moments = self.normalizer.moments.state()
        return tensors | {f"normalizer.moments.{name}": moments[name] for name in moments}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Copy ``state()``'s arrays back; raises ValueError naming what is missing or misshapen."""
        prefix = "normalizer.moments."
        expected = self.state()
        if missing := sorted(expected.keys() ^ state.keys()):
            raise ValueError(f"policy arrays do not match: {', '.join(missing)}")
        for name, tensor in expected.items():
            if state[name].shape != tensor.shape or state[name].dtype != tensor.dtype:
                raise ValueError(
                    f"{name} must be {tensor.dtype} of shape {list(tensor.shape)}, "
                    f"not {state[name].dtype} {list(state[name].shape)}"
                )
        self.load_state_dict({n: t for n, t in state.items() if not n.startswith(prefix)})
        self.normalizer.moments.load_state(
            {n.removeprefix(prefix): t for n, t in state.items() if n.startswith(prefix)}
        )

    def save(self, path: Path) -> None:
        """Write the shape and every array to one safetensors file."""
        from safetensors.torch import save_file

        tensors = {name: tensor.contiguous().clone() for name, tensor in self.state().items()}
        save_file(tensors, path, metadata={"actor_critic": json.dumps(self.shape._asdict())})

    @classmethod
    def load(cls, path: Path, device: str | torch.device = "cpu") -> ActorCritic:
        """Rebuild a policy from ``save``'s file; raises CheckpointError where it is not one."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="pt") as file:
                shape = json.loads((file.metadata() or {})["actor_critic"])
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            policy = cls(
                shape["obs_dim"],
                state["action_low"].numpy(),
                state["action_high"].numpy(),
                hidden_sizes=shape["hidden_sizes"],
                obs_clip=shape["obs_clip"],
            )
            policy.load_state(state)
        except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
            raise CheckpointError(f"{path} does not hold a policy: {error}") from error
        return policy.to(device)


def _mlp(
    widths: Sequence[int], head_gain: float, generator: torch.Generator | None
) -> nn.Sequential:
    """Tanh MLP: orthogonal weights (gain sqrt(2), the last layer ``head_gain``), zero biases."""
    modules: list[nn.Module] = []
    last = len(widths) - 2
    for index in range(last + 1):
        layer = nn.Linear(widths[index], widths[index + 1], device="meta").to_empty(device="cpu")
        gain = head_gain if index == last else math.sqrt(2.0)
        nn.init.orthogonal_(layer.weight, gain, generator=generator)
        nn.init.zeros_(layer.bias)
        modules += [layer] if index == last else [layer, nn.Tanh()]
    return nn.Sequential(*modules)
