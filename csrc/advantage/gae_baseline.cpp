// GAE for any processor: SSE2 where x86-64 guarantees it, plain C++ elsewhere (which the compiler may vectorise).
#include "advantage/gae_rows.hpp"
#include "advantage/gae_variants.hpp"
#include "advantage/lanes.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace servorl::baseline {
namespace {

#if defined(__SSE2__)
struct Lanes {
  using Single = SingleLane<Lanes>;
  using Number = __m128d;
  using Flag = __m128i;  // two 64-bit lanes, all bits set where true
  static constexpr std::size_t width = 2;

  [[gnu::always_inline]] static void load(const float* from, Number& to) {
    to = _mm_cvtps_pd(_mm_castsi128_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
  }
  [[gnu::always_inline]] static void load(const double* from, Number& to) { to = _mm_loadu_pd(from); }
  [[gnu::always_inline]] static void load(const std::uint8_t* from, Flag& to) {
    fill(from[0] != 0, from[1] != 0, to);
  }
  [[gnu::always_inline]] static void fill(bool flag, Flag& to) { fill(flag, flag, to); }
  [[gnu::always_inline]] static void fill(bool first, bool second, Flag& to) {
    to = _mm_set_epi64x(-static_cast<long long>(second), -static_cast<long long>(first));
  }
  [[gnu::always_inline]] static void store(const Number& from, float* to) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_castps_si128(_mm_cvtpd_ps(from)));
  }
  [[gnu::always_inline]] static void store(const Number& from, double* to) { _mm_storeu_pd(to, from); }
};
#else
struct Lanes : SingleLane<Lanes> {};
#endif

}  // namespace

void gae_columns(const GaeBatch<float>& batch, const GaeSettings& settings, std::size_t begin, std::size_t end) {
  gae_columns_with<Lanes>(batch, settings, begin, end);
}
void gae_columns(const GaeBatch<double>& batch, const GaeSettings& settings, std::size_t begin, std::size_t end) {
  gae_columns_with<Lanes>(batch, settings, begin, end);
}

}  // namespace servorl::baseline
