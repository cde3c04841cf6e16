// MuJoCo's process-wide warning handler, for our calls alone: a warning raised on a quiet thread is
// neither printed nor logged (the simulation's own counters keep it). Everyone else's warnings go to
// the handler that was there before, or else to standard error.
#pragma once

namespace servorl::sim {

// Installs the handler; cheap when it is in place. Called before each batch runs, since a user may
// install a handler of their own at any time.
void install_warning_handler();

// Silences this thread for good: for worker threads, which run nothing but ours.
void quiet_worker_thread();

// Silences this thread for a scope that may be left by a C++ exception, but not by MuJoCo's longjmp.
class QuietWarnings {
 public:
  QuietWarnings();
  ~QuietWarnings();
  QuietWarnings(const QuietWarnings&) = delete;
  QuietWarnings& operator=(const QuietWarnings&) = delete;

 private:
  bool outer_;
};

}  // namespace servorl::sim
