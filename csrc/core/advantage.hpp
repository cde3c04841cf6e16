// Generalised advantage estimation, one element at a time: the single place where the recursion is written.
// Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage Estimation" (2015), eq. 11-16:
//   delta_t = r_t + gamma V(s_{t+1}) - V(s_t),   A_t = sum_k (gamma lambda)^k delta_{t+k} = delta_t + gamma lambda A_{t+1}
// The host's vector loops, the CUDA kernel and plain C++ callers include it. Nothing here allocates, throws or calls libc.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/host_device.hpp"

namespace servorl {

/// Time-major [num_steps, num_envs] arrays, C-contiguous. A flag is false where 0 and true elsewhere.
/// The outputs overlap neither the inputs nor each other.
template <class Real>
struct GaeBatch {
  const Real* rewards;
  const Real* values;       ///< V(s_t)
  const Real* next_values;  ///< V of the true successor: of `final_obs` where the episode was truncated
  const std::uint8_t* terminated;
  const std::uint8_t* truncated;
  const std::uint8_t* valid;  ///< null: every row is valid
  Real* advantages;
  Real* returns;  ///< advantages + values
  std::size_t num_steps;
  std::size_t num_envs;
};

struct GaeSettings {
  double gamma;
  double gae_lambda;
};

/// A_t from A_{t+1}. `Number` is double or a vector of doubles, `Flag` bool or a mask of as many lanes.
/// What a flag cuts off is selected away rather than multiplied by zero, so that a NaN there has no effect:
/// the successor's value where `terminated`, A_{t+1} where `terminated` or `truncated`, all of it where not `valid`.
/// Always inlined: a caller compiled for AVX2 must not leave a copy behind that a plain caller could be linked with.
template <class Number, class Flag>
[[gnu::always_inline]] SERVORL_HOST_DEVICE inline Number gae_step(
    const Number& reward, const Number& value, const Number& next_value, const Flag& terminated, const Flag& truncated,
    const Flag& valid, const Number& next_advantage, double gamma, double gamma_lambda) {
  const Number zero{};
  const Number successor = terminated ? zero : next_value;
  const Number tail = (terminated | truncated) ? zero : next_advantage;
  const Number delta = reward + gamma * successor - value;
  const Number advantage = delta + gamma_lambda * tail;
  return valid ? advantage : zero;
}

/// One environment, last step first: the scalar form, which a GPU thread or a microcontroller runs as it stands.
template <class Real>
SERVORL_HOST_DEVICE inline void gae_column(const GaeBatch<Real>& batch, const GaeSettings& settings,
                                           std::size_t column) {
  const double gamma_lambda = settings.gamma * settings.gae_lambda;
  double advantage = 0.0;
  for (std::size_t step = batch.num_steps; step-- > 0;) {
    const std::size_t i = step * batch.num_envs + column;
    const double value = static_cast<double>(batch.values[i]);
    const bool valid = batch.valid == nullptr || batch.valid[i] != 0;
    advantage = gae_step<double, bool>(static_cast<double>(batch.rewards[i]), value,
                                       static_cast<double>(batch.next_values[i]), batch.terminated[i] != 0,
                                       batch.truncated[i] != 0, valid, advantage, settings.gamma, gamma_lambda);
    batch.advantages[i] = static_cast<Real>(advantage);
    batch.returns[i] = static_cast<Real>(valid ? advantage + value : 0.0);
  }
}

}  // namespace servorl
