"""Running mean and variance of observations, kept apart from the statistics in use.

``update`` merges a batch into float64 accumulators (Chan, Golub & LeVeque 1979: the result over
any split of the data is that of all the data). The statistics that ``forward`` applies are a
float32 copy that changes only in ``publish``: a rollout and the update that learns from it see
one function.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

VARIANCE_FLOOR = 1e-8
"""Added to the variance: a channel that never moved is divided by 1e-4, not by zero."""


class Moments:
    """Count, mean and sum of squared deviations of float64 rows; shape ``[width]`` each."""

    def __init__(self, width: int) -> None:
        self.count = torch.zeros((), dtype=torch.float64)
        self.mean = torch.zeros(width, dtype=torch.float64)
        self.squares = torch.zeros(width, dtype=torch.float64)

    def update(self, rows: Tensor) -> None:
        """Merge ``rows`` ``[K, width]`` of any float dtype; K may be 0."""
        width = self.mean.shape[0]
        if rows.ndim != 2 or rows.shape[1] != width:
            raise ValueError(f"rows must be of shape [K, {width}], not {list(rows.shape)}")
        if rows.shape[0] == 0:
            return
        rows = rows.detach().to("cpu", torch.float64)
        other = Moments(width)
        other.count.fill_(rows.shape[0])
        other.mean.copy_(rows.mean(0))
        other.squares.copy_((rows - other.mean).square().sum(0))
        self.merge(other)

    def merge(self, other: Moments) -> None:
        """Take in another worker's moments, the difference between the two means included."""
        count = self.count + other.count
        if float(other.count) == 0.0:
            return
        delta = other.mean - self.mean
        self.squares += other.squares + delta.square() * (self.count * other.count / count)
        self.mean += delta * (other.count / count)
        self.count.copy_(count)

    @property
    def variance(self) -> Tensor:
        """Population variance ``[width]`` float64; ones before the first row."""
        if float(self.count) == 0.0:
            return torch.ones_like(self.mean)
        return self.squares / self.count

    def state(self) -> dict[str, Tensor]:
        """The accumulators as float64 tensors."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Copy ``state()``'s tensors back; a missing name or another shape raises."""
        for name, tensor in self.state().items():
            if state[name].shape != tensor.shape:
                raise ValueError(
                    f"{name} must be of shape {list(tensor.shape)}, not {list(state[name].shape)}"
                )
            tensor.copy_(state[name])


class ObservationNormalizer(nn.Module):
    """``clip((obs - mean) * inv_std, ±clip)`` with statistics that move only in ``publish``."""

    mean: Tensor
    inv_std: Tensor

    def __init__(self, width: int, clip: float = 10.0) -> None:
        super().__init__()
        self.clip = clip
        self.moments = Moments(width)
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("inv_std", torch.ones(width))

    def forward(self, obs: Tensor) -> Tensor:
        """Normalise float32 ``obs`` ``[..., width]``."""
        return ((obs - self.mean) * self.inv_std).clamp_(-self.clip, self.clip)

    def update(self, rows: Tensor) -> None:
        """Merge observations ``[K, width]`` into the accumulators; ``forward`` does not change."""
        self.moments.update(rows)

    def publish(self) -> None:
        """Let ``forward`` use what was accumulated."""
        if float(self.moments.count) == 0.0:
            return
        self.mean.copy_(self.moments.mean)
        self.inv_std.copy_((self.moments.variance + VARIANCE_FLOOR).rsqrt())
