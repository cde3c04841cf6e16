#include "advantage/gae.hpp"

#include <algorithm>
#include <thread>

#include "advantage/gae_variants.hpp"
#include "advantage/parallel.hpp"

namespace servorl {
namespace {

/// A thread costs some 15 microseconds to start, in which another one has done this many elements.
constexpr std::size_t min_elements_per_thread = std::size_t{1} << 16;
/// Columns that one thread keeps together: a cache line of flags, four of each float32 array.
constexpr std::size_t column_grain = 64;

template <class Real>
void columns(const GaeBatch<Real>& batch, const GaeSettings& settings, std::size_t begin, std::size_t end, Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return avx512::gae_columns(batch, settings, begin, end);
  if (isa == Isa::avx2) return avx2::gae_columns(batch, settings, begin, end);
#endif
  static_cast<void>(isa);
  baseline::gae_columns(batch, settings, begin, end);
}

std::size_t processors() {
  static const std::size_t count = std::max(1u, std::thread::hardware_concurrency());  // asking takes microseconds
  return count;
}

template <class Real>
void run(const GaeBatch<Real>& batch, const GaeSettings& settings, int num_threads, Isa isa) {
  const std::size_t paying = batch.num_steps * batch.num_envs / min_elements_per_thread;
  const std::size_t allowed = num_threads > 0 ? static_cast<std::size_t>(num_threads) : processors();
  parallel_ranges(batch.num_envs, column_grain, std::min(paying, allowed),
                  [&](std::size_t begin, std::size_t end) { columns(batch, settings, begin, end, isa); });
}

}  // namespace

void gae(const GaeBatch<float>& batch, const GaeSettings& settings, int num_threads, Isa isa) {
  run(batch, settings, num_threads, isa);
}

void gae(const GaeBatch<double>& batch, const GaeSettings& settings, int num_threads, Isa isa) {
  run(batch, settings, num_threads, isa);
}

}  // namespace servorl
