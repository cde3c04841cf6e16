#include "cuda/advantage_twin.hpp"

#include "cuda/gae_kernel.hpp"

namespace servorl::cuda {
namespace {

template <class Real>
void run_grid(const GaeBatch<Real>& batch, const GaeSettings& settings) {
  for (std::size_t block = 0; block < gae_num_blocks(batch.num_envs); ++block) {
    for (std::size_t thread = 0; thread < gae_block_size; ++thread) {
      gae_kernel(batch, settings, {block, gae_block_size, thread});
    }
  }
}

}  // namespace

void gae_twin(const GaeBatch<float>& batch, const GaeSettings& settings) { run_grid(batch, settings); }
void gae_twin(const GaeBatch<double>& batch, const GaeSettings& settings) { run_grid(batch, settings); }

}  // namespace servorl::cuda
