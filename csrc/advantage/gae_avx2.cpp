// GAE with AVX2; compiled with -mavx2 and called only where the processor has it.
#if defined(__x86_64__)
#include <immintrin.h>

#include "advantage/gae_rows.hpp"
#include "advantage/gae_variants.hpp"
#include "advantage/lanes.hpp"

namespace servorl::avx2 {
namespace {

struct Lanes {
  using Single = SingleLane<Lanes>;
  using Number = __m256d;
  using Flag = __m256i;  // four 64-bit lanes, all bits set where true
  static constexpr std::size_t width = 4;

  [[gnu::always_inline]] static void load(const float* from, Number& to) { to = _mm256_cvtps_pd(_mm_loadu_ps(from)); }
  [[gnu::always_inline]] static void load(const double* from, Number& to) { to = _mm256_loadu_pd(from); }
  [[gnu::always_inline]] static void load(const std::uint8_t* from, Flag& to) {
    int bytes;
    __builtin_memcpy(&bytes, from, sizeof bytes);
    to = _mm256_cmpgt_epi64(_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(bytes)), _mm256_setzero_si256());
  }
  [[gnu::always_inline]] static void fill(bool flag, Flag& to) { to = _mm256_set1_epi64x(-static_cast<long long>(flag)); }
  [[gnu::always_inline]] static void store(const Number& from, float* to) { _mm_storeu_ps(to, _mm256_cvtpd_ps(from)); }
  [[gnu::always_inline]] static void store(const Number& from, double* to) { _mm256_storeu_pd(to, from); }
};

}  // namespace

void gae_columns(const GaeBatch<float>& batch, const GaeSettings& settings, std::size_t begin, std::size_t end) {
  gae_columns_with<Lanes>(batch, settings, begin, end);
}
void gae_columns(const GaeBatch<double>& batch, const GaeSettings& settings, std::size_t begin, std::size_t end) {
  gae_columns_with<Lanes>(batch, settings, begin, end);
}

}  // namespace servorl::avx2
#endif
