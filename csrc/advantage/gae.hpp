// Generalised advantage estimation on the host: the contract of core/advantage.hpp, vectorised across environments
// and split over threads by columns where that pays. It does not check its arrays: its callers do.
#pragma once
#include "advantage/isa.hpp"
#include "core/advantage.hpp"

namespace servorl {

/// `num_threads` is the most threads to use, 0 meaning as many as there are processors. Neither it nor `isa`
/// changes a bit of the result. Inputs may be read-only; the outputs are written in full.
void gae(const GaeBatch<float>& batch, const GaeSettings& settings, int num_threads = 0, Isa isa = best_isa());
void gae(const GaeBatch<double>& batch, const GaeSettings& settings, int num_threads = 0, Isa isa = best_isa());

}  // namespace servorl
