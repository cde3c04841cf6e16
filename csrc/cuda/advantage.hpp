// Launchers of the advantage kernels: device pointers in, work queued on the caller's stream, nothing allocated.
#pragma once
#include <cstdint>

#include "core/advantage.hpp"

namespace servorl::cuda {

/// Queues one kernel on `stream` (a cudaStream_t) of `device`; the arrays are that device's. Does not wait for it.
/// Throws std::runtime_error with CUDA's own message where the launch fails.
void gae(const GaeBatch<float>& batch, const GaeSettings& settings, int device, std::uintptr_t stream);
void gae(const GaeBatch<double>& batch, const GaeSettings& settings, int device, std::uintptr_t stream);

}  // namespace servorl::cuda
