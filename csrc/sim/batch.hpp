// A batch of environments of one task: what MuJoCo and native tasks have in common. It owns the results
// block and each environment's bookkeeping (random streams, time limit, autoreset, divergence), and
// drives a task through one environment's step with no allocation and no lock.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sim/block.hpp"
#include "sim/model_fields.hpp"
#include "sim/task.hpp"

namespace servorl::sim {

enum class AutoresetMode { same_step, next_step, disabled };

struct BatchSettings {
  int num_envs = 1;
  int num_threads = 1;
  AutoresetMode autoreset_mode = AutoresetMode::same_step;
  bool float64_observations = false;
  bool mask_repeated_divergence = false;
  int max_episode_steps = 0;  // 0: the task's own
  std::string model_path;
};

// One named column of the environments' state: environment i's values start at base + i * stride.
struct StateField {
  enum class Type { float32, float64, int64, boolean };
  std::string name;
  Type type;
  void* base;
  std::size_t stride;  // bytes
  int width;           // 0: one scalar per environment
};

// What a caller needs to know about a step before it looks at the block.
struct StepSummary {
  int finished = 0;              // rows with a final observation and info (SAME_STEP)
  int restarted = 0;             // rows whose observation and info are those of a reset
  int repeatedly_diverged = -1;  // an environment that has just diverged right after its third reset in a row
};

// A task or MuJoCo failed in one environment, whose state is then undefined until it is reset.
struct EnvironmentError : std::runtime_error {
  EnvironmentError(int env, const std::string& what)
      : std::runtime_error("environment " + std::to_string(env) + ": " + what) {}
};

class Batch {
 public:
  static constexpr int kMaxRepeatedDivergences = 3;

  virtual ~Batch() = default;
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // Steps every environment with actions(); throws EnvironmentError.
  StepSummary step();
  // Resets environments (ascending). Seeds, one for each of them or none, start their streams anew; one
  // below 0 leaves the environment's own.
  void reset(std::span<const int> envs, std::span<const std::int64_t> seeds);
  // Recomputes the observations of environments (ascending) whose physics were written from outside.
  void refresh(std::span<const int> envs);
  // Copies last_observation into the block for environments where it was written from outside.
  void show_last_observation(std::span<const int> envs);

  // The first action that is not finite as a flat index into actions(), or -1.
  std::int64_t first_bad_action() const;
  // The first environment that must be reset before it can step, or -1.
  int first_needing_reset() const;

  const Interface& interface() const { return interface_; }
  int num_envs() const { return num_envs_; }
  std::span<double> actions() { return actions_; }
  Block& block() { return block_; }
  std::span<std::int64_t> diverged() { return diverged_; }

  virtual int num_threads() const = 0;
  // Everything that determines the future, apart from model fields.
  virtual std::vector<StateField> state_fields();
  // Environment env's position in the picture model, model.xml.
  virtual std::vector<double> qpos(int env) = 0;
  // Model fields with a value per environment; nullptr where the task has no MuJoCo model.
  virtual ModelFields* model_fields() { return nullptr; }
  // Counts of each kind of MuJoCo warning since construction.
  virtual std::vector<std::pair<std::string, std::int64_t>> warnings() const { return {}; }

 protected:
  enum class Work { step, reset, refresh };

  Batch(const BatchSettings& settings, Interface interface);

  // Does `work` on the given environments, all when empty, in parallel, through run_one.
  virtual void run(Work work, std::span<const int> envs) = 0;

  // `Body` is a task in one environment: reset(env), step(env) -> Outcome, observe(env, span<double>),
  // and diverged(env) -> bool, whether the physics of that step broke down.
  template <class Body>
  void run_one(Work work, int env, Body& body) noexcept;
  void fail(int env, std::exception_ptr error) { errors_[env] = std::move(error); }

  RandomStream random(int env, RandomPurpose purpose) const {
    const auto step = purpose == RandomPurpose::step ? static_cast<std::uint32_t>(elapsed_steps_[env]) : 0u;
    return {static_cast<std::uint64_t>(seed_[env]), static_cast<std::uint32_t>(env),
            static_cast<std::uint32_t>(episode_[env]), purpose, step};
  }
  std::span<const double> action(int env) { return row_of(actions_, env, interface_.action.size()); }
  std::span<double> info(int env) { return row_of(info_, env, interface_.info.size()); }

 private:
  enum class Row { live, restarting, masked };
  Row begin_step(int env);
  bool finish_step(int env, const Outcome& outcome, bool diverged);  // whether to reset at once
  void begin_reset(int env);
  void finish_reset(int env);
  template <class Body>
  void reset_one(int env, Body& body);

  static std::span<double> row_of(std::vector<double>& values, int env, std::size_t width) {
    return {values.data() + static_cast<std::size_t>(env) * width, width};
  }
  std::span<double> observation(int env) { return row_of(observation_, env, interface_.observation.size()); }
  std::span<double> last_observation(int env) {
    return row_of(last_observation_, env, interface_.observation.size());
  }
  bool accept_observation(int env);
  void restore_model_fields(std::span<const int> envs);
  void run_and_rethrow(Work work, std::span<const int> envs);
  StepSummary summarise() const;

  const Interface interface_;
  const int num_envs_;
  const AutoresetMode autoreset_mode_;
  const bool mask_repeated_divergence_;
  const std::int64_t max_episode_steps_;
  Block block_;
  std::atomic<bool> busy_ = false;

  // Per environment; saved by get_state.
  std::vector<std::int64_t> seed_, episode_, elapsed_steps_, diverged_, repeated_divergences_;
  std::vector<std::uint8_t> needs_reset_, masked_;
  std::vector<double> last_observation_;  // the last finite one

  // Scratch, a row per environment so that no two threads share one.
  std::vector<double> actions_, observation_, info_;
  std::vector<std::uint8_t> deferred_;   // ended, to be reset once its model fields are restored
  std::vector<std::uint8_t> exhausted_;  // diverged in this step, for the third reset in a row
  std::vector<std::exception_ptr> errors_;
  std::vector<int> selected_;
};

template <class Body>
void Batch::run_one(Work work, int env, Body& body) noexcept {
  try {
    if (work == Work::reset) return reset_one(env, body);
    if (work == Work::refresh) {
      body.observe(env, observation(env));
      accept_observation(env);
      return;
    }
    const Row row = begin_step(env);
    if (row == Row::restarting) reset_one(env, body);
    if (row != Row::live) return;
    const Outcome outcome = body.step(env);
    body.observe(env, observation(env));
    if (finish_step(env, outcome, body.diverged(env))) reset_one(env, body);
  } catch (...) {
    fail(env, std::current_exception());
  }
}

template <class Body>
void Batch::reset_one(int env, Body& body) {
  begin_reset(env);
  body.reset(env);
  body.observe(env, observation(env));
  finish_reset(env);
}

}  // namespace servorl::sim
