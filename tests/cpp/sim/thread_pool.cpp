// Every index is visited exactly once, whatever the number of threads, chunks and runs.
#include "sim/thread_pool.hpp"

#include <atomic>
#include <string>
#include <vector>

#include "check.hpp"

namespace {
using servorl::tests::check;

struct Work {
  std::vector<int> visits;  // written by whichever thread takes the index
  std::vector<std::atomic<bool>> taken;
};

void visit(void* context, int first, int last) {
  Work& work = *static_cast<Work*>(context);
  for (int i = first; i < last; ++i) {
    check(!work.taken[static_cast<std::size_t>(i)].exchange(true), "two threads are at one index");
    ++work.visits[static_cast<std::size_t>(i)];
    work.taken[static_cast<std::size_t>(i)].store(false);
  }
}

void visit_all(int num_threads, int count, int chunk, int runs) {
  servorl::sim::ThreadPool pool(num_threads);
  const auto size = static_cast<std::size_t>(count);
  Work work{std::vector<int>(size, 0), std::vector<std::atomic<bool>>(size)};
  for (int run = 1; run <= runs; ++run) {
    pool.run(count, chunk, visit, &work);
    for (const int visits : work.visits) {  // everything is done when run returns
      check(visits == run, std::to_string(num_threads) + " threads, " + std::to_string(count) + " indices, chunks of " +
                               std::to_string(chunk));
    }
  }
}
}  // namespace

int main() {
  for (const int num_threads : {1, 2, 3, 8, 16}) {
    for (const int count : {0, 1, 2, 7, 64, 1000}) {
      for (const int chunk : {1, 3, 64}) visit_all(num_threads, count, chunk, 20);
    }
  }
  for (int i = 0; i < 50; ++i) servorl::sim::ThreadPool idle(8);  // made and ended without a run
  check(servorl::sim::available_cores() >= 1, "available_cores");
  return 0;
}
