// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). A number is a pure function of where it is used, so streams need no state that
// is shared, saved or seeded in order, and results depend on neither threads nor batch size.
// C++17, no dependency, callable from CUDA kernels.
#pragma once
#include <cmath>
#include <cstdint>

#include "core/host_device.hpp"

namespace servorl {

struct Philox4x32Block {
  std::uint32_t word[4];
};

// Ten rounds of Philox4x32 on one counter.
SERVORL_HOST_DEVICE inline Philox4x32Block philox4x32(Philox4x32Block counter, std::uint64_t key) {
  std::uint32_t key0 = static_cast<std::uint32_t>(key);
  std::uint32_t key1 = static_cast<std::uint32_t>(key >> 32);
  std::uint32_t* c = counter.word;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * c[2];
    const Philox4x32Block next = {{static_cast<std::uint32_t>(product1 >> 32) ^ c[1] ^ key0,
                                   static_cast<std::uint32_t>(product1),
                                   static_cast<std::uint32_t>(product0 >> 32) ^ c[3] ^ key1,
                                   static_cast<std::uint32_t>(product0)}};
    counter = next;
    key0 += 0x9E3779B9u;  // golden ratio
    key1 += 0xBB67AE85u;  // sqrt(3) - 1
  }
  return counter;
}

// What a stream is used for: two purposes of one episode never share a number.
enum class RandomPurpose : std::uint32_t { reset = 0, step = 1 };

// The random numbers of one purpose in one episode (and, within an episode, one step) of one environment.
class RandomStream {
 public:
  // `step` < 2^24; 2^34 words are available before a stream repeats.
  SERVORL_HOST_DEVICE RandomStream(std::uint64_t seed, std::uint32_t environment, std::uint32_t episode,
                                   RandomPurpose purpose, std::uint32_t step = 0)
      : key_(seed),
        counter_{{0, environment, episode, (static_cast<std::uint32_t>(purpose) << 24) | (step & 0xFFFFFFu)}} {}

  // 32 random bits.
  SERVORL_HOST_DEVICE std::uint32_t bits() {
    if (used_ == 4) {
      block_ = philox4x32(counter_, key_);
      ++counter_.word[0];
      used_ = 0;
    }
    return block_.word[used_++];
  }

  // Uniform on [0, 1), 53 random bits.
  SERVORL_HOST_DEVICE double uniform() {
    const std::uint64_t high = bits() >> 5;  // 27 bits
    const std::uint64_t low = bits() >> 6;   // 26 bits
    return static_cast<double>((high << 26) | low) * (1.0 / 9007199254740992.0);
  }

  // Uniform on [low, high).
  SERVORL_HOST_DEVICE double uniform(double low, double high) { return low + (high - low) * uniform(); }

  // Standard normal (Box-Muller; the second of each pair is dropped, so that a call uses a fixed number of bits).
  SERVORL_HOST_DEVICE double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(6.283185307179586476925 * uniform());
  }

 private:
  std::uint64_t key_;
  Philox4x32Block counter_;
  Philox4x32Block block_{};
  int used_ = 4;
};

}  // namespace servorl
