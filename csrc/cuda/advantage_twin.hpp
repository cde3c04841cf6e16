// The GAE kernel's body run on the host, block by block and thread by thread: for tests, and compiled without nvcc.
#pragma once
#include "core/advantage.hpp"

namespace servorl::cuda {

void gae_twin(const GaeBatch<float>& batch, const GaeSettings& settings);
void gae_twin(const GaeBatch<double>& batch, const GaeSettings& settings);

}  // namespace servorl::cuda
