"""Worker of the stepping suite in EnvPool's own environment: JSON request in, seconds out."""

import json
import sys
import time


def main() -> None:
    """Time EnvPool on random actions in synchronous mode."""
    import envpool
    import numpy as np

    request = json.load(sys.stdin)
    env = envpool.make(
        request["task"],
        env_type="gymnasium",
        num_envs=request["num_envs"],
        num_threads=request["num_threads"],
        seed=0,
    )
    env.reset()
    space = env.action_space
    shape = (request["steps"], request["num_envs"], *space.shape)
    actions = np.random.default_rng(0).uniform(space.low, space.high, shape).astype(space.dtype)
    seconds = []
    for _ in range(request["repeats"] + 1):
        began = time.perf_counter()
        for action in actions:
            env.step(action)
        seconds.append(time.perf_counter() - began)
    print(json.dumps({"version": envpool.__version__, "seconds": seconds[1:]}))


if __name__ == "__main__":
    main()
