"""PPO solves inverted_pendulum: 20 deterministic episodes of the final checkpoint, each seed."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from servorl.training import train

SEEDS = (1, 2, 3)


def final_return(seed: int, out: Path) -> float:
    run = train(
        "ppo",
        env="inverted_pendulum",
        steps=100_000,
        seed=seed,
        out=out / str(seed),
        num_threads=1,
        evaluation_interval=0,
        tensorboard=False,
        device="cpu",
        progress="none",
    )
    return run.evaluate(episodes=20, seed=0).mean_return


def test_ppo_balances_the_pole_with_each_of_three_seeds(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        returns = list(pool.map(final_return, SEEDS, [tmp_path] * len(SEEDS)))
    for seed, mean_return in zip(SEEDS, returns, strict=True):
        assert mean_return >= 950, f"seed {seed}: {returns}"
