#include "sim/warnings.hpp"

#include <mujoco/mujoco.h>

#include <atomic>
#include <cstdio>

namespace servorl::sim {
namespace {

using Handler = void (*)(const char*);
std::atomic<Handler> previous_handler = nullptr;
thread_local bool quiet = false;

void handle_warning(const char* message) {
  if (quiet) return;
  if (const Handler previous = previous_handler.load(std::memory_order_relaxed)) return previous(message);
  // As MuJoCo does when no handler is installed, without its log file in the working directory.
  std::fprintf(stderr, "WARNING: %s\n\n", message);
}

}  // namespace

void install_warning_handler() {
  std::atomic_ref<Handler> current(mju_user_warning);
  const Handler found = current.load(std::memory_order_relaxed);
  if (found == handle_warning) return;
  previous_handler.store(found, std::memory_order_relaxed);
  current.store(handle_warning, std::memory_order_relaxed);
}

void quiet_worker_thread() { quiet = true; }

QuietWarnings::QuietWarnings() : outer_(quiet) { quiet = true; }
QuietWarnings::~QuietWarnings() { quiet = outer_; }

}  // namespace servorl::sim
