"""Types of the CUDA module, which exists where nvcc was found."""

from collections.abc import Sequence

def gae(
    pointers: Sequence[int],
    num_steps: int,
    num_envs: int,
    gamma: float,
    gae_lambda: float,
    is_float64: bool,
    device: int,
    stream: int,
) -> None: ...
