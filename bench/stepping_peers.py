"""Worker of the stepping suite in a peer's environment: JSON request in, seconds out.

It runs alone, without servorl: what a peer prints, logs or leaves behind stays with it.
"""

import json
import os
import sys
import tempfile
import time


def main() -> None:
    """Time one library on random actions."""
    request = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)  # MuJoCo logs the warnings of a model where it runs
        make = {"envpool": make_envpool, "gymnasium": make_gymnasium}[request["library"]]
        env, version = make(request)
        seconds = time_steps(env, request)
        env.close()
        os.chdir("/")
    print(json.dumps({"version": version, "seconds": seconds}))


def make_envpool(request):
    """EnvPool in its synchronous mode, which steps every environment at each call."""
    import envpool

    env = envpool.make(
        request["task"],
        env_type="gymnasium",
        num_envs=request["num_envs"],
        num_threads=request["num_threads"],
        seed=0,
    )
    env.reset()
    return env, envpool.__version__


def make_gymnasium(request):
    """Gymnasium's environments one by one ("sync") or in a process each ("async")."""
    import gymnasium

    env = gymnasium.make_vec(
        request["task"], request["num_envs"], vectorization_mode=request["mode"]
    )
    env.reset(seed=0)
    return env, gymnasium.__version__


def time_steps(env, request):
    """Seconds of each repetition, after one that does not count."""
    import numpy as np

    space = getattr(env, "single_action_space", env.action_space)
    shape = (request["steps"], request["num_envs"], *space.shape)
    actions = np.random.default_rng(0).uniform(space.low, space.high, shape).astype(space.dtype)
    seconds = []
    for _ in range(request["repeats"] + 1):
        began = time.perf_counter()
        for action in actions:
            env.step(action)
        seconds.append(time.perf_counter() - began)
    return seconds[1:]


if __name__ == "__main__":
    main()
