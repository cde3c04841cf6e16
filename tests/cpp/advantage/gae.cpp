// The host's driver against the scalar form of core/advantage.hpp: every instruction set, thread count and edge, with
// the arrays in exactly sized allocations so that AddressSanitizer sees a read or write past an end, and with several
// callers at once so that ThreadSanitizer sees whatever they might share.
#include "advantage/gae.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "check.hpp"
#include "cuda/advantage_twin.hpp"

namespace {

using servorl::GaeBatch;
using servorl::GaeSettings;
using servorl::Isa;
using servorl::tests::check;

template <class Real>
struct Arrays {
  Arrays(std::size_t num_steps, std::size_t num_envs, unsigned seed)
      : steps(num_steps), envs(num_envs), random(seed), valid(flags(0.9)) {}

  GaeBatch<Real> batch(std::vector<Real>& advantages, std::vector<Real>& returns, bool with_valid) {
    advantages.assign(steps * envs, Real{77});
    returns.assign(steps * envs, Real{77});
    return {rewards.data(),    values.data(),     next_values.data(),
            terminated.get(),  truncated.get(),   with_valid ? valid.get() : nullptr,
            advantages.data(), returns.data(),    steps,
            envs};
  }

  std::vector<Real> reals() {
    std::normal_distribution<double> normal;
    std::vector<Real> array(steps * envs);
    for (Real& number : array) number = static_cast<Real>(normal(random));
    return array;
  }

  std::unique_ptr<std::uint8_t[]> flags(double rate) {
    std::bernoulli_distribution flag(rate);
    std::unique_ptr<std::uint8_t[]> array(new std::uint8_t[steps * envs]);
    for (std::size_t i = 0; i < steps * envs; ++i) array[i] = flag(random) ? 1 + i % 255 : 0;
    return array;
  }

  std::size_t steps, envs;
  std::mt19937 random;
  std::vector<Real> rewards = reals(), values = reals(), next_values = reals();
  std::unique_ptr<std::uint8_t[]> terminated = flags(0.1), truncated = flags(0.1), valid;
};

template <class Real>
bool same_bits(const std::vector<Real>& a, const std::vector<Real>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Real)) == 0);
}

constexpr GaeSettings settings{0.99, 0.95};

template <class Real>
void compare_with_scalar_form(std::size_t steps, std::size_t envs, bool with_valid) {
  Arrays<Real> arrays(steps, envs, static_cast<unsigned>(steps * 1000 + envs));
  std::vector<Real> advantages, returns, expected_advantages, expected_returns;
  const GaeBatch<Real> scalar = arrays.batch(expected_advantages, expected_returns, with_valid);
  for (std::size_t column = 0; column < envs; ++column) servorl::gae_column(scalar, settings, column);
  const std::string shape = std::to_string(steps) + " x " + std::to_string(envs);
  for (const Isa isa : servorl::supported_isas()) {
    for (const int threads : {1, 3, 0}) {
      servorl::gae(arrays.batch(advantages, returns, with_valid), settings, threads, isa);
      check(same_bits(advantages, expected_advantages) && same_bits(returns, expected_returns),
            shape + " differs from the scalar form with " + std::string(servorl::isa_name(isa)));
    }
  }
  servorl::cuda::gae_twin(arrays.batch(advantages, returns, with_valid), settings);
  check(same_bits(advantages, expected_advantages) && same_bits(returns, expected_returns),
        shape + " differs from the scalar form in the CUDA kernel's twin");
}

/// Three steps worked out by hand: an end in the middle, and a NaN behind it.
void compare_with_hand_computation() {
  const std::vector<float> rewards{1, 2, 3}, values{10, 20, 30};
  const std::vector<float> next_values{20, std::numeric_limits<float>::quiet_NaN(), 40};
  const std::vector<std::uint8_t> terminated{0, 1, 0}, truncated{0, 0, 1};
  std::vector<float> advantages(3), returns(3);
  servorl::gae({rewards.data(), values.data(), next_values.data(), terminated.data(), truncated.data(), nullptr,
                advantages.data(), returns.data(), 3, 1},
               {0.5, 0.5});
  check(advantages == std::vector<float>{1 + 10 - 10 + 0.25f * -18, -18, 3 + 20 - 30}, "advantages by hand");
  check(returns == std::vector<float>{-3.5f + 10, 2, 23}, "returns by hand");
}

void call_from_many_threads() {
  Arrays<float> arrays(40, 6000, 7);
  std::vector<float> expected_advantages, expected_returns;
  servorl::gae(arrays.batch(expected_advantages, expected_returns, true), settings, 1);
  std::vector<std::vector<float>> advantages(4), returns(4);
  std::vector<GaeBatch<float>> batches;
  for (std::size_t i = 0; i < 4; ++i) batches.push_back(arrays.batch(advantages[i], returns[i], true));
  std::vector<std::thread> callers;
  for (const GaeBatch<float>& batch : batches) {
    callers.emplace_back([&batch] { servorl::gae(batch, settings, 3); });
  }
  for (std::thread& caller : callers) caller.join();
  for (std::size_t i = 0; i < 4; ++i) {
    check(same_bits(advantages[i], expected_advantages) && same_bits(returns[i], expected_returns), "concurrent calls");
  }
}

void reject_unknown_instruction_sets() {
  servorl::tests::check_throws<std::invalid_argument>([] { servorl::isa_from_name("sse9"); }, "an unknown name");
  servorl::tests::check_throws<std::invalid_argument>([] { servorl::isa_from_name(""); }, "an empty name");
  check(servorl::isa_from_name("auto") == servorl::best_isa(), "auto is the best");
  for (const Isa isa : servorl::supported_isas()) {
    check(servorl::isa_from_name(servorl::isa_name(isa)) == isa, "a name leads back to its instruction set");
  }
}

}  // namespace

int main() {
  compare_with_hand_computation();
  const std::size_t shapes[][2] = {{0, 0}, {0, 3}, {3, 0}, {1, 1}, {5, 2}, {4, 7}, {3, 8}, {9, 9}, {2, 15}, {2, 17},
                                   {2, 1023}, {2, 1024}, {2, 1025}, {40, 6011}};
  for (const auto& [steps, envs] : shapes) {
    for (const bool with_valid : {false, true}) {
      compare_with_scalar_form<float>(steps, envs, with_valid);
      compare_with_scalar_form<double>(steps, envs, with_valid);
    }
  }
  call_from_many_threads();
  reject_unknown_instruction_sets();
}
