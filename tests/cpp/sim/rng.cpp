// Philox4x32-10 against its authors' known answers (Random123, kat_vectors), and what streams promise.
#include "core/rng.hpp"

#include <cmath>
#include <set>

#include "check.hpp"

using servorl::Philox4x32Block;
using servorl::RandomPurpose;
using servorl::RandomStream;
using servorl::tests::check;

namespace {
void expect_block(Philox4x32Block counter, std::uint64_t key, Philox4x32Block answer, const char* what) {
  const Philox4x32Block found = servorl::philox4x32(counter, key);
  for (int i = 0; i < 4; ++i) check(found.word[i] == answer.word[i], what);
}

void known_answers() {
  expect_block({{0, 0, 0, 0}}, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}, "zero vector");
  expect_block({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, 0xffffffffffffffff,
               {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}, "all ones");
  expect_block({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822,
               {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}, "digits of pi");
}

void streams_differ_in_every_part_of_their_key() {
  std::set<std::uint64_t> firsts;
  int streams = 0;
  for (std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 40}) {
    for (std::uint32_t environment : {0u, 1u, 70000u}) {
      for (std::uint32_t episode : {0u, 1u}) {
        for (RandomPurpose purpose : {RandomPurpose::reset, RandomPurpose::step}) {
          for (std::uint32_t step : {0u, 1u, 999u}) {
            RandomStream stream(seed, environment, episode, purpose, step);
            const std::uint64_t high = stream.bits();
            firsts.insert(high << 32 | stream.bits());
            ++streams;
          }
        }
      }
    }
  }
  check(firsts.size() == static_cast<std::size_t>(streams), "two streams start alike");
}

void streams_repeat_and_follow_the_counter() {
  RandomStream one(7, 3, 2, RandomPurpose::reset), same(7, 3, 2, RandomPurpose::reset);
  for (std::uint32_t block = 0; block < 3; ++block) {
    const Philox4x32Block expected = servorl::philox4x32({{block, 3, 2, 0}}, 7);
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t bits = one.bits();
      check(bits == expected.word[i], "a stream is its counter's blocks in order");
      check(bits == same.bits(), "a stream repeats");
    }
  }
}

void moments() {
  constexpr int kCount = 200000;
  RandomStream stream(1, 0, 0, RandomPurpose::reset);
  double sum = 0, squares = 0, fourth = 0, lowest = 1, highest = 0;
  for (int i = 0; i < kCount; ++i) {
    const double value = stream.uniform();
    lowest = std::fmin(lowest, value);
    highest = std::fmax(highest, value);
    sum += value;
    squares += value * value;
  }
  check(lowest >= 0 && highest < 1 && lowest < 1e-4 && highest > 1 - 1e-4, "uniform range");
  check(std::abs(sum / kCount - 0.5) < 5 * std::sqrt(1.0 / 12 / kCount), "uniform mean");
  check(std::abs(squares / kCount - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / kCount), "uniform square");
  sum = squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const double value = stream.normal();
    sum += value;
    squares += value * value;
    fourth += value * value * value * value;
  }
  check(std::abs(sum / kCount) < 5 / std::sqrt(kCount), "normal mean");
  check(std::abs(squares / kCount - 1) < 5 * std::sqrt(2.0 / kCount), "normal variance");
  check(std::abs(fourth / kCount - 3) < 5 * std::sqrt(96.0 / kCount), "normal fourth moment");
}
}  // namespace

int main() {
  known_answers();
  streams_differ_in_every_part_of_their_key();
  streams_repeat_and_follow_the_counter();
  moments();
  return 0;
}
