// One lane of plain C++: the right edge of every variant, and on processors other than x86-64 all of the baseline.
// `Isa` is the type of the variant that uses it: instantiations for two instruction sets must not be one function.
#pragma once
#include <cstddef>
#include <cstdint>

namespace servorl {

template <class Isa>
struct SingleLane {
  using Single = SingleLane;
  using Number = double;
  using Flag = bool;
  static constexpr std::size_t width = 1;

  [[gnu::always_inline]] static void load(const float* from, Number& to) { to = static_cast<double>(*from); }
  [[gnu::always_inline]] static void load(const double* from, Number& to) { to = *from; }
  [[gnu::always_inline]] static void load(const std::uint8_t* from, Flag& to) { to = *from != 0; }
  [[gnu::always_inline]] static void fill(bool flag, Flag& to) { to = flag; }
  [[gnu::always_inline]] static void store(const Number& from, float* to) { *to = static_cast<float>(from); }
  [[gnu::always_inline]] static void store(const Number& from, double* to) { *to = from; }
};

}  // namespace servorl
