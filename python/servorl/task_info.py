"""What a task's numbers mean: names, order, units, bounds. Travels to ``policy.json``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Channel:
    """One scalar of an observation or action vector, in the vector's order."""

    name: str
    unit: str
    low: float
    high: float


@dataclass(frozen=True)
class TaskInfo:
    """The interface of one task: its channels, its control period and its time limit."""

    name: str
    observation: tuple[Channel, ...]
    action: tuple[Channel, ...]
    control_period: float
    """Seconds between two actions."""
    max_episode_steps: int
    reward_threshold: float | None
    """Return at which Gymnasium calls the task solved; None where it names none."""
