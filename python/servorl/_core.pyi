"""Types of the compiled module. Its submodules stand here as classes of static methods."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

_Array: TypeAlias = np.ndarray[Any, Any]
_OptionValue: TypeAlias = bool | int | float

version: str
mujoco_version: str

class advantage:
    """Advantage estimation on the host; called through ``servorl.advantages``."""

    @staticmethod
    def gae(*arguments: Any) -> None:
        """Write advantages and returns.

        Arguments: rewards, values, next_values, terminated, truncated, valid or None, advantages,
        returns, gamma, gae_lambda, num_threads, isa. The arrays are ``[T, N]`` C-contiguous, all
        float32 or all float64, the flags uint8.
        """

    @staticmethod
    def gae_twin(*arguments: Any) -> None:
        """``gae`` by the CUDA kernel's body on the host, without num_threads and isa."""

    @staticmethod
    def supported_isas() -> list[str]:
        """Instruction sets that this processor runs, slowest first; the last one is used."""

class firmware:
    """The inference kernels that exported C is made of, compiled for the host."""

    @staticmethod
    def tanh(x: NDArray[np.float32]) -> NDArray[np.float32]: ...
    @staticmethod
    def elu(x: NDArray[np.float32]) -> NDArray[np.float32]: ...
    @staticmethod
    def relu(x: NDArray[np.float32]) -> NDArray[np.float32]: ...
    @staticmethod
    def all_finite(x: NDArray[np.float32]) -> bool: ...
    @staticmethod
    def dense(
        packed: NDArray[np.float32], input: NDArray[np.float32], rows: int
    ) -> NDArray[np.float32]:
        """One dense layer over packed weights (``servorl.export.packing``)."""

class sim:
    """Batched stepping; called through ``servorl.registry`` and ``servorl.vec_env``."""

    class Batch:
        """A batch of environments and its memory."""

        @property
        def num_threads(self) -> int: ...
        def step(self) -> tuple[int, int, int]:
            """(rows finished, rows restarted, environment that diverged repeatedly or -1)."""

        def reset(self, envs: NDArray[np.int32], seeds: NDArray[np.int64]) -> None: ...
        def refresh(self, envs: NDArray[np.int32]) -> None: ...
        def show_last_observation(self, envs: NDArray[np.int32]) -> None: ...
        def first_bad_action(self) -> int: ...
        def first_needing_reset(self) -> int: ...
        def qpos(self, env: int) -> NDArray[np.float64]: ...
        def warnings(self) -> list[tuple[str, int]]: ...
        def model_field_names(self) -> list[str]: ...
        def mark_field(self, name: str, envs: Sequence[int], until_reset: bool) -> None: ...

    class Replay:
        """The bare ``mj_step`` loop over recorded actions, initial states and resets."""

        def __init__(
            self,
            model_path: str,
            frame_skip: int,
            actions: NDArray[np.float64],
            states: NDArray[np.float64],
            resets: NDArray[np.int32],
        ) -> None: ...
        def run(self, num_threads: int) -> None: ...
        def final_states(self) -> NDArray[np.float64]: ...

    @staticmethod
    def block_views(batch: Batch) -> dict[str, _Array]: ...
    @staticmethod
    def state_views(batch: Batch) -> dict[str, _Array]: ...
    @staticmethod
    def expand(batch: Batch, name: str) -> tuple[_Array, _Array, NDArray[np.bool_]] | None: ...
    @staticmethod
    def names() -> list[str]: ...
    @staticmethod
    def options(name: str) -> list[tuple[str, _OptionValue, float, float, str]]: ...
    @staticmethod
    def is_native(name: str) -> bool: ...
    @staticmethod
    def describe(name: str, model_path: str, values: Sequence[_OptionValue]) -> dict[str, Any]: ...
    @staticmethod
    def make_batch(
        name: str,
        model_path: str,
        values: Sequence[_OptionValue],
        num_envs: int,
        num_threads: int,
        autoreset_mode: str,
        float64_observations: bool,
        max_episode_steps: int,
        mask_repeated_divergence: bool,
    ) -> Batch: ...
    @staticmethod
    def timestep(model_path: str) -> float: ...
    @staticmethod
    def available_cores() -> int: ...
