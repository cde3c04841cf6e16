// The physical limit of stepping: a bare loop that replays what a batch did (the same actions, initial
// states and resets) with mj_step, mj_resetData and mj_forward alone. No observation, reward, time limit
// or autoreset, and no thread waits for another between steps. A thread's simulations take turns in one
// mjData, which is faster than one each: it stays in the nearest cache. For benchmarks.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/mujoco_batch.hpp"

namespace servorl::sim {

struct Recording {
  int steps = 0;
  int num_envs = 0;
  int frame_skip = 1;
  std::vector<double> actions;       // [steps, num_envs, nu]
  std::vector<double> states;        // [any, nq + nv], initial states that the indices below name
  std::vector<std::int32_t> resets;  // [steps + 1, num_envs], state set before the step, or -1
};

class Replay {
 public:
  // Throws std::invalid_argument where sizes do not fit the model.
  Replay(const std::string& model_path, Recording recording);

  void run(int num_threads);
  // [num_envs, nq + nv] after the last run, to check that it did the same.
  std::vector<double> final_states() const;

 private:
  struct DataDeleter {
    void operator()(mjData* data) const { mj_deleteData(data); }
  };
  void run_share(int first, int last, mjData* data);

  ModelPointer model_;
  Recording recording_;
  std::vector<std::unique_ptr<mjData, DataDeleter>> data_;  // one per thread
  std::size_t state_size_ = 0;
  std::vector<double> states_;  // [num_envs, mjSTATE_INTEGRATION]
};

}  // namespace servorl::sim
