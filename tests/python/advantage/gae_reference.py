"""Generalised advantage estimation as the paper writes it, in scalar float64 arithmetic.

Schulman, Moritz, Levine, Jordan, Abbeel: "High-Dimensional Continuous Control Using Generalized
Advantage Estimation", arXiv:1506.02438 (2015). The temporal-difference error is ``delta_t = r_t +
gamma V(s_{t+1}) - V(s_t)``, and eq. 16 the estimator ``A_t = sum_k (gamma lambda)^k delta_{t+k}``.
The sum of a step ends with its episode, with the batch, and before a row that is not valid.

Shares nothing with the code under test: the sum is taken forwards, term by term, with ``fsum``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Reference:
    """The exact results, and the sum of absolute terms that the permitted error is relative to."""

    advantages: Reals
    returns: Reals
    absolute_sums: Reals

    def advantage_bound(self) -> Reals:
        return 1e-6 * (1.0 + self.absolute_sums)

    def return_bound(self) -> Reals:
        return self.advantage_bound() + 2.0**-23 * np.abs(self.returns)


def gae_reference(rewards, values, next_values, terminated, truncated, gamma, gae_lambda, valid):
    """The Reference of a time-major batch of NumPy arrays; ``valid`` may be None."""
    advantages, returns, absolute_sums = (np.zeros(rewards.shape) for _ in range(3))
    for column in range(rewards.shape[1]):
        usable = [True] * len(rewards) if valid is None else [bool(v) for v in valid[:, column]]
        deltas = [
            _delta(rewards[t, column], values[t, column], next_values[t, column],
                   bool(terminated[t, column]), gamma) if usable[t] else 0.0
            for t in range(len(rewards))
        ]  # fmt: skip
        ends = [
            bool(a) or bool(b)
            for a, b in zip(terminated[:, column], truncated[:, column], strict=True)
        ]
        for t in range(len(rewards)):
            if usable[t]:
                terms = _terms(t, deltas, ends, usable, gamma * gae_lambda)
                advantages[t, column] = math.fsum(terms)
                returns[t, column] = advantages[t, column] + float(values[t, column])
                absolute_sums[t, column] = math.fsum(map(abs, terms))
    return Reference(advantages, returns, absolute_sums)


def _delta(reward, value, next_value, terminated: bool, gamma: float) -> float:
    successor = 0.0 if terminated else gamma * float(next_value)
    return float(reward) + successor - float(value)


def _terms(
    start: int, deltas: list[float], ends: list[bool], usable: list[bool], decay: float
) -> list[float]:
    """The terms of one step's sum; those too small to matter in float64 are left out."""
    terms, weight, t = [deltas[start]], decay, start
    while not ends[t] and t + 1 < len(deltas) and usable[t + 1] and weight > 1e-40:
        t += 1
        terms.append(weight * deltas[t])
        weight *= decay
    return terms
