#include "sim/thread_pool.hpp"

#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

namespace servorl::sim {
namespace {

// CPUs' worth of time that the cgroup grants, 0 where it sets no limit.
double cgroup_quota() {
  std::string quota;
  double period = 0.0;
  if (std::ifstream file("/sys/fs/cgroup/cpu.max"); file >> quota >> period) {  // cgroup v2
    return quota == "max" || period <= 0.0 ? 0.0 : std::stod(quota) / period;
  }
  double quota_us = 0.0;
  std::ifstream quota_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");  // cgroup v1
  std::ifstream period_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (!(quota_file >> quota_us) || !(period_file >> period) || quota_us <= 0.0 || period <= 0.0) return 0.0;
  return quota_us / period;
}

// CPUs in the affinity mask, which hardware_concurrency() does not heed on every C library.
int affine_cores() {
#ifdef __linux__
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) return std::max(1, CPU_COUNT(&mask));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

int available_cores() {
  const int cores = affine_cores();
  const double quota = cgroup_quota();
  return quota > 0.0 ? std::clamp(static_cast<int>(std::ceil(quota)), 1, cores) : cores;
}

ThreadPool::ThreadPool(int num_threads) {
  workers_.reserve(static_cast<std::size_t>(std::max(0, num_threads - 1)));
  for (int i = 1; i < num_threads; ++i) workers_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(int count, int chunk, Function function, void* context) {
  if (workers_.empty() || count <= chunk) return function(context, 0, count);
  count_ = count;
  chunk_ = chunk;
  function_ = function;
  context_ = context;
  next_.store(0, std::memory_order_relaxed);
  working_.store(static_cast<std::uint32_t>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  take_chunks();
  for (auto working = working_.load(std::memory_order_acquire); working != 0;
       working = working_.load(std::memory_order_acquire)) {
    working_.wait(working, std::memory_order_acquire);
  }
}

void ThreadPool::work() {
  std::uint32_t seen = 0;
  while (true) {
    generation_.wait(seen, std::memory_order_acquire);
    const std::uint32_t generation = generation_.load(std::memory_order_acquire);
    if (generation == seen) continue;
    seen = generation;
    if (stopping_.load(std::memory_order_relaxed)) return;
    take_chunks();
    if (working_.fetch_sub(1, std::memory_order_acq_rel) == 1) working_.notify_one();
  }
}

void ThreadPool::take_chunks() {
  for (int first = next_.fetch_add(chunk_, std::memory_order_relaxed); first < count_;
       first = next_.fetch_add(chunk_, std::memory_order_relaxed)) {
    function_(context_, first, std::min(first + chunk_, count_));
  }
}

}  // namespace servorl::sim
