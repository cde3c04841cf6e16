// A small pool for native tasks: the caller and num_threads - 1 workers share out a range of indices in
// chunks. Chunk boundaries never change a result, since every index is independent.
#pragma once
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace servorl::sim {

// Cores that this process may use: its affinity mask, cut to the cgroup's CPU quota; at least 1.
int available_cores();

class ThreadPool {
 public:
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls function(context, first, last) for chunks that cover [0, count), and returns when all are done.
  // The function must not throw. One caller at a time.
  using Function = void (*)(void* context, int first, int last);
  void run(int count, int chunk, Function function, void* context);

 private:
  void work();
  void take_chunks();

  std::vector<std::thread> workers_;
  std::atomic<std::uint32_t> generation_ = 0;  // rises with each run; workers wait on it
  std::atomic<std::uint32_t> working_ = 0;     // workers that have not finished this run
  std::atomic<int> next_ = 0;                  // first index that nobody has taken
  std::atomic<bool> stopping_ = false;
  // Of the current run; written before generation_ rises.
  int count_ = 0;
  int chunk_ = 1;
  Function function_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace servorl::sim
