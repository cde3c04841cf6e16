// GAE with AVX-512; compiled with -mavx512f, -mavx512dq and -mavx512vl, and called only where the processor has it.
#if defined(__x86_64__)
#include <immintrin.h>

#include "advantage/gae_rows.hpp"
#include "advantage/gae_variants.hpp"
#include "advantage/lanes.hpp"

namespace servorl::avx512 {
namespace {

struct Lanes {
  using Single = SingleLane<Lanes>;
  using Number = __m512d;
  using Flag = __m512i;  // eight 64-bit lanes, all bits set where true
  static constexpr std::size_t width = 8;

  [[gnu::always_inline]] static void load(const float* from, Number& to) { to = _mm512_cvtps_pd(_mm256_loadu_ps(from)); }
  [[gnu::always_inline]] static void load(const double* from, Number& to) { to = _mm512_loadu_pd(from); }
  [[gnu::always_inline]] static void load(const std::uint8_t* from, Flag& to) {
    const __m512i bytes = _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
    to = _mm512_movm_epi64(_mm512_test_epi64_mask(bytes, bytes));
  }
  [[gnu::always_inline]] static void fill(bool flag, Flag& to) { to = _mm512_set1_epi64(-static_cast<long long>(flag)); }
  [[gnu::always_inline]] static void store(const Number& from, float* to) { _mm256_storeu_ps(to, _mm512_cvtpd_ps(from)); }
  [[gnu::always_inline]] static void store(const Number& from, double* to) { _mm512_storeu_pd(to, from); }
};

}  // namespace

void gae_columns(const GaeBatch<float>& batch, const GaeSettings& settings, std::size_t begin, std::size_t end) {
  gae_columns_with<Lanes>(batch, settings, begin, end);
}
void gae_columns(const GaeBatch<double>& batch, const GaeSettings& settings, std::size_t begin, std::size_t end) {
  gae_columns_with<Lanes>(batch, settings, begin, end);
}

}  // namespace servorl::avx512
#endif
