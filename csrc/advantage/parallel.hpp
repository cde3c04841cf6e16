// Splits a range of columns over threads that live for one call: nothing to keep alive across fork() or at exit.
#pragma once
#include <algorithm>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace servorl {

/// Calls body(begin, end) on disjoint parts of [0, count), each but the last a multiple of `grain` long, on at most
/// `num_threads` threads, the caller's among them. A thread that the system refuses is done without. `body` must not throw.
template <class Body>
void parallel_ranges(std::size_t count, std::size_t grain, std::size_t num_threads, const Body& body) {
  const std::size_t grains = (count + grain - 1) / grain;
  const std::size_t parts = std::max<std::size_t>(1, std::min(num_threads, grains));
  const auto edge = [&](std::size_t part) { return std::min(count, grains * part / parts * grain); };
  std::vector<std::thread> threads;
  threads.reserve(parts - 1);
  std::size_t started = 1;
  try {
    for (; started < parts; ++started) {
      threads.emplace_back([&body, begin = edge(started), end = edge(started + 1)] { body(begin, end); });
    }
  } catch (const std::system_error&) {
    body(edge(started), count);
  }
  body(edge(0), edge(1));
  for (std::thread& thread : threads) thread.join();
}

}  // namespace servorl
