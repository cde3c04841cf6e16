// The body of the GAE kernel, with the thread's place in the grid passed in: advantage.cu runs it on the GPU, and
// advantage_twin.cpp the very same body over a grid of plain loops, so that tests without a GPU exercise it.
#pragma once
#include "core/advantage.hpp"

namespace servorl::cuda {

struct GridIndex {
  std::size_t block;
  std::size_t block_size;
  std::size_t thread;
};

/// Threads of one block: neighbouring threads read neighbouring columns, so each row of a warp is one transaction.
inline constexpr unsigned gae_block_size = 128;

constexpr std::size_t gae_num_blocks(std::size_t num_envs) { return (num_envs + gae_block_size - 1) / gae_block_size; }

/// One thread per column.
template <class Real>
SERVORL_HOST_DEVICE inline void gae_kernel(const GaeBatch<Real>& batch, const GaeSettings& settings,
                                           const GridIndex& at) {
  const std::size_t column = at.block * at.block_size + at.thread;
  if (column < batch.num_envs) gae_column(batch, settings, column);
}

}  // namespace servorl::cuda
