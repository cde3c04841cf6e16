"""A run folder, read back: the policy of one of its checkpoints and what it was trained on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from servorl import checkpoint
from servorl.errors import CheckpointError
from servorl.task_info import TaskInfo

if TYPE_CHECKING:
    from servorl.policies.actor_critic import ActorCritic


@dataclass(frozen=True)
class LoadedPolicy:
    """A trained policy and where it came from."""

    policy: ActorCritic
    task_info: TaskInfo
    environment: str
    algorithm: str
    run: Path
    checkpoint: Path
    steps: int
    """Environment steps that the policy was trained for."""
    seed: int


def load_policy(path: Path, pointer: str = checkpoint.LATEST) -> LoadedPolicy:
    """Load the policy of a run's latest checkpoint (``pointer="best"``: its best), on the CPU.

    ``path`` may also be one checkpoint directory inside a run. Raises RunFolderError where ``path``
    is not a run and CheckpointError where the checkpoint is damaged.
    """
    from servorl.policies.actor_critic import ActorCritic
    from servorl.registry import task_info

    run, directory = checkpoint.find(Path(path), pointer)
    saved = checkpoint.load(directory)
    try:
        config, arrays = saved.documents["config"], saved.arrays["policy"]
        policy = ActorCritic.from_state(arrays.arrays, arrays.metadata)
        return LoadedPolicy(
            policy=policy,
            task_info=task_info(config["run"]["env"]),
            environment=config["run"]["env"],
            algorithm=config["algorithm"],
            run=run,
            checkpoint=directory,
            steps=saved.steps,
            seed=config["run"]["seed"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{directory} does not hold a policy: {error}") from error
