#include "cuda/advantage.hpp"

#include <stdexcept>
#include <string>

#include "cuda/gae_kernel.hpp"

namespace servorl::cuda {
namespace {

template <class Real>
__global__ void __launch_bounds__(gae_block_size) gae_on_device(GaeBatch<Real> batch, GaeSettings settings) {
  gae_kernel(batch, settings, {blockIdx.x, blockDim.x, threadIdx.x});
}

void require(cudaError_t status, const char* doing) {
  if (status != cudaSuccess) {
    throw std::runtime_error(std::string(doing) + ": " + cudaGetErrorString(status));
  }
}

template <class Real>
void launch(const GaeBatch<Real>& batch, const GaeSettings& settings, int device, std::uintptr_t stream) {
  if (batch.num_steps == 0 || batch.num_envs == 0) return;
  require(cudaSetDevice(device), "selecting the CUDA device");
  gae_on_device<<<static_cast<unsigned>(gae_num_blocks(batch.num_envs)), gae_block_size, 0,
                  reinterpret_cast<cudaStream_t>(stream)>>>(batch, settings);
  require(cudaGetLastError(), "launching the GAE kernel");
}

}  // namespace

void gae(const GaeBatch<float>& batch, const GaeSettings& settings, int device, std::uintptr_t stream) {
  launch(batch, settings, device, stream);
}

void gae(const GaeBatch<double>& batch, const GaeSettings& settings, int device, std::uintptr_t stream) {
  launch(batch, settings, device, stream);
}

}  // namespace servorl::cuda
