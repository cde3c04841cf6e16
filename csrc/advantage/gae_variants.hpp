// The columns [begin, end) of a batch, once per instruction set. The results are equal bit for bit:
// the same operations in the same order, none of them fused (-ffp-contract=off).
#pragma once
#include "core/advantage.hpp"

namespace servorl::baseline {
void gae_columns(const GaeBatch<float>& batch, const GaeSettings& settings, std::size_t begin, std::size_t end);
void gae_columns(const GaeBatch<double>& batch, const GaeSettings& settings, std::size_t begin, std::size_t end);
}  // namespace servorl::baseline

#if defined(__x86_64__)
namespace servorl::avx2 {
void gae_columns(const GaeBatch<float>& batch, const GaeSettings& settings, std::size_t begin, std::size_t end);
void gae_columns(const GaeBatch<double>& batch, const GaeSettings& settings, std::size_t begin, std::size_t end);
}  // namespace servorl::avx2

namespace servorl::avx512 {
void gae_columns(const GaeBatch<float>& batch, const GaeSettings& settings, std::size_t begin, std::size_t end);
void gae_columns(const GaeBatch<double>& batch, const GaeSettings& settings, std::size_t begin, std::size_t end);
}  // namespace servorl::avx512
#endif
