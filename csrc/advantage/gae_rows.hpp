// GAE over blocks of neighbouring columns, row by row from the last: contiguous reads and writes, and the running
// advantages of a block in the first-level cache. `Lanes` wraps the vector instructions of one instruction set; each
// file that names one is compiled for it. So that no such code is shared with a file compiled for less, everything
// here is inlined or a template on `Lanes`.
#pragma once
#include "core/advantage.hpp"

namespace servorl {

/// Columns of one block: 8 KiB of running advantages, and one page of each float32 array per row.
inline constexpr std::size_t gae_block_columns = 1024;

/// The elements [i, i + Lanes::width) of the arrays; `running` holds A_{t+1} of these columns and receives A_t.
template <class Lanes, bool has_valid, class Real>
[[gnu::always_inline]] inline void gae_lanes(const GaeBatch<Real>& batch, std::size_t i, double* running, double gamma,
                                   double gamma_lambda) {
  using Number = typename Lanes::Number;
  using Flag = typename Lanes::Flag;
  Number reward, value, next_value, advantage;
  Flag terminated, truncated, valid;
  Lanes::load(batch.rewards + i, reward);
  Lanes::load(batch.values + i, value);
  Lanes::load(batch.next_values + i, next_value);
  Lanes::load(batch.terminated + i, terminated);
  Lanes::load(batch.truncated + i, truncated);
  if constexpr (has_valid) {
    Lanes::load(batch.valid + i, valid);
  } else {
    Lanes::fill(true, valid);
  }
  Lanes::load(running, advantage);
  advantage = gae_step<Number, Flag>(reward, value, next_value, terminated, truncated, valid, advantage, gamma,
                                     gamma_lambda);
  Lanes::store(advantage, running);
  Lanes::store(advantage, batch.advantages + i);
  const Number zero{};
  const Number sum = advantage + value;
  Lanes::store(valid ? sum : zero, batch.returns + i);
}

/// The columns [begin, end), at most gae_block_columns. The batch is a copy, so that its pointers stay in registers:
/// behind a reference they might change with every store.
template <class Lanes, bool has_valid, class Real>
void gae_block(GaeBatch<Real> batch, const GaeSettings& settings, std::size_t begin, std::size_t end) {
  const double gamma = settings.gamma;
  const double gamma_lambda = settings.gamma * settings.gae_lambda;
  const std::size_t columns = end - begin;
  double running[gae_block_columns] = {};
  for (std::size_t step = batch.num_steps; step-- > 0;) {
    const std::size_t row = step * batch.num_envs + begin;
    std::size_t c = 0;
    for (; c + Lanes::width <= columns; c += Lanes::width) {
      gae_lanes<Lanes, has_valid>(batch, row + c, running + c, gamma, gamma_lambda);
    }
    for (; c < columns; ++c) {
      gae_lanes<typename Lanes::Single, has_valid>(batch, row + c, running + c, gamma, gamma_lambda);
    }
  }
}

/// The columns [begin, end) of a batch.
template <class Lanes, class Real>
void gae_columns_with(const GaeBatch<Real>& batch, const GaeSettings& settings, std::size_t begin, std::size_t end) {
  while (begin < end) {
    const std::size_t stop = end - begin < gae_block_columns ? end : begin + gae_block_columns;
    if (batch.valid != nullptr) {
      gae_block<Lanes, true>(batch, settings, begin, stop);
    } else {
      gae_block<Lanes, false>(batch, settings, begin, stop);
    }
    begin = stop;
  }
}

}  // namespace servorl
