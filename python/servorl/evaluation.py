"""What a policy earns: a fixed number of whole episodes, on seeds that training never uses.

Each environment plays a number of episodes fixed beforehand. Taking whichever episodes end first
would favour short ones, and so change the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from servorl.errors import NonFiniteError, RunFolderError, SettingError

EVALUATION_SEED_OFFSET = 1 << 30
"""Added to every evaluation seed, so that evaluation seed 1 is not training seed 1."""
MAX_PARALLEL_EPISODES = 64

Act = Callable[[NDArray[np.float32]], NDArray[Any]]


@dataclass(frozen=True)
class Evaluation:
    """Undiscounted returns and lengths (control steps), one per episode."""

    env_name: str
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    qpos: NDArray[np.float64] | None = None
    """``[length, nq]``: environment 0 in its first episode, where ``record_qpos`` asked for it."""

    @property
    def mean_return(self) -> float:
        """Mean over the episodes."""
        return float(np.mean(self.returns))

    @property
    def std_return(self) -> float:
        """Population standard deviation over the episodes."""
        return float(np.std(self.returns))

    def to_dict(self) -> dict[str, Any]:
        """What ``servorl eval --json`` prints."""
        return {
            "mean_return": self.mean_return,
            "std_return": self.std_return,
            "returns": list(self.returns),
            "lengths": list(self.lengths),
        }


def evaluate(
    act: Act,
    env_name: str,
    episodes: int = 20,
    seed: int = 0,
    num_envs: int | None = None,
    *,
    num_threads: int = 0,
    record_qpos: bool = False,
) -> Evaluation:
    """Play whole episodes with ``act``: observations ``[N, O]`` float32 to actions ``[N, A]``.

    Args:
        act: the policy; deterministic, if the result is to be repeatable.
        env_name: an environment of ``servorl envs``.
        episodes: how many episodes to play; environment i plays the same ones whoever else runs.
        seed: fixes the initial states; never those of a training run with the same seed.
        num_envs: how many run in parallel; all of them up to 64 by default.
        num_threads: simulator threads; 0 takes all cores.
        record_qpos: keep environment 0's positions, for a picture.

    Raises ValueError for ``episodes`` or ``num_envs`` below 1 and for actions of another shape,
    NonFiniteError for an action that is not finite.
    """
    from servorl.registry import make_vec

    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, not {episodes}")
    if num_envs is not None and num_envs < 1:
        raise ValueError(f"num_envs must be at least 1, not {num_envs}")
    num_envs = min(episodes, num_envs or MAX_PARALLEL_EPISODES)
    env = make_vec(env_name, num_envs, num_threads=num_threads)
    try:
        return _play(act, env, episodes, seed + EVALUATION_SEED_OFFSET, record_qpos)
    finally:
        env.close()


def _play(act: Act, env: Any, episodes: int, seed: int, record_qpos: bool) -> Evaluation:
    num_envs = env.num_envs
    action_shape = env.action_space.shape
    quota = np.full(num_envs, episodes // num_envs)
    quota[: episodes % num_envs] += 1
    played = np.zeros(num_envs, np.int64)
    total = np.zeros(num_envs)
    length = np.zeros(num_envs, np.int64)
    finished: list[tuple[int, int, float, int]] = []
    positions: list[NDArray[np.float64]] = []

    obs, _ = env.reset(seed=seed)
    if record_qpos:
        positions.append(env.qpos(0))
    while np.any(played < quota):
        actions = np.asarray(act(obs))
        if actions.shape != action_shape:
            raise ValueError(f"actions must be of shape {action_shape}, not {actions.shape}")
        if not np.isfinite(actions).all():
            bad = np.flatnonzero(~np.isfinite(actions).all(axis=1))[0]
            raise NonFiniteError(f"the policy's action is not finite in environment {bad}")
        obs, rewards, terminated, truncated, _ = env.step(actions)
        total += rewards
        length += 1
        done = terminated | truncated
        if record_qpos and played[0] == 0 and not done[0]:
            positions.append(env.qpos(0))
        for index in np.flatnonzero(done):
            if played[index] < quota[index]:
                episode = (int(played[index]), int(index), float(total[index]), int(length[index]))
                finished.append(episode)
            played[index] += 1
        total[done] = 0.0
        length[done] = 0

    finished.sort()
    return Evaluation(
        env_name=env.task_info.name,
        returns=tuple(episode[2] for episode in finished),
        lengths=tuple(episode[3] for episode in finished),
        qpos=np.stack(positions) if record_qpos else None,
    )


def evaluate_policy(policy: Any, env_name: str, **settings: Any) -> Evaluation:
    """``evaluate`` a torch policy deterministically; its training mode is left as it was found.

    ``settings`` are those of ``evaluate``. One torch thread: on a small network, more only wait.
    """
    from servorl.platform import torch_thread_count

    training = policy.training
    policy.eval()
    try:
        with torch_thread_count(1):
            return evaluate(
                lambda obs: policy.act(obs, deterministic=True)[0], env_name, **settings
            )
    finally:
        policy.train(training)


def evaluate_onnx(
    path: Path, env_name: str | None = None, episodes: int = 20, seed: int = 0, **settings: Any
) -> Evaluation:
    """``evaluate`` an ONNX policy in the environment that its metadata names, or in ``env_name``.

    Raises RunFolderError where the file is not an ONNX policy, SettingError where neither the
    metadata nor the caller names an environment, ValueError where the spaces do not fit.
    """
    act, named = load_onnx(path)
    if env_name is None and named is None:
        raise SettingError(f"{path} does not name its environment; name one with env (--env)")
    return evaluate(act, str(env_name or named), episodes, seed, **settings)


def load_onnx(path: Path) -> tuple[Act, str | None]:
    """An ONNX policy as a function of observations, and the environment that it names.

    Raises RunFolderError where the file is not an ONNX model.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4  # what is wrong with a file is said once, by the error
    try:
        session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common base below Exception
        raise RunFolderError(f"{path} is not an ONNX model that can be read: {error}") from error
    inputs, outputs = session.get_inputs(), [output.name for output in session.get_outputs()]
    if len(inputs) != 1 or not outputs:
        raise RunFolderError(
            f"{path} has {len(inputs)} inputs and {len(outputs)} outputs; a policy has one input "
            "and an action"
        )
    obs_input = inputs[0]
    action = "action" if "action" in outputs else outputs[0]

    def act(obs: NDArray[np.float32]) -> NDArray[Any]:
        if list(obs.shape[1:]) != list(obs_input.shape[1:]):
            raise ValueError(
                f"{path} takes observations {obs_input.shape}, the environment gives "
                f"{list(obs.shape)}"
            )
        feed = {obs_input.name: obs.astype(np.float32, copy=False)}
        try:
            actions: NDArray[Any] = session.run([action], feed)[0]
        except Exception as error:  # as above
            raise RunFolderError(
                f"{path} does not run on float32 observations of shape {list(obs.shape)}; a policy "
                f"takes any number of them: {error}"
            ) from error
        return actions

    return act, session.get_modelmeta().custom_metadata_map.get("environment")
