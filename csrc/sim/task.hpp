// What an environment's task.hpp declares and what it is handed. A task is a class in
// servorl::envs::<folder> that knows the meaning of one environment: its observation, reward,
// end of episode and initial state. Batching, time limits, autoreset, divergence and threads are not
// its business: see batch.hpp. Its methods are const and run on many threads at once.
#pragma once
#include <mujoco/mujoco.h>

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/rng.hpp"

namespace servorl::sim {

// One scalar of an observation or action vector.
struct Channel {
  std::string name;
  std::string unit;
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

// One scalar that a task reports in `info`, after a step, after a reset, or both.
struct InfoKey {
  std::string name;
  bool in_step = true;
  bool in_reset = false;
  bool integer = false;  // int64 in Python, as where Gymnasium reports a Python int
};

// A constructor option: its default fixes its type; numbers must lie in [low, high].
struct Option {
  std::string name;
  std::variant<bool, std::int64_t, double> value;
  std::string help;
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

// The options of one task with the values that the user chose, types already checked.
class OptionValues {
 public:
  explicit OptionValues(std::vector<Option> options) : options_(std::move(options)) {}
  double number(std::string_view name) const { return get<double>(name); }
  int integer(std::string_view name) const { return static_cast<int>(get<std::int64_t>(name)); }
  bool flag(std::string_view name) const { return get<bool>(name); }

 private:
  template <class Value>
  Value get(std::string_view name) const {
    for (const Option& option : options_) {
      if (option.name == name && std::holds_alternative<Value>(option.value)) return std::get<Value>(option.value);
    }
    throw std::logic_error("the task declares no option " + std::string(name) + " of this type");
  }
  std::vector<Option> options_;
};

// Everything that is fixed about a task once its options are known.
struct Interface {
  std::vector<Channel> observation;
  std::vector<Channel> action;
  std::vector<InfoKey> info;
  std::vector<std::string> carried;  // values kept per environment from step to step; zero before reset()
  double control_period;             // seconds between two actions
  int max_episode_steps;
  std::optional<double> reward_threshold;  // return at which Gymnasium calls the task solved
  double divergence_reward;                // reward of the step in which the simulation diverged
};

struct Outcome {
  double reward;
  bool terminated;
};

// What a MuJoCo task is handed. Only the integration state (qpos, qvel, act, …) and `carried` survive
// from one step to the next; everything else in `data` is valid only after an mj_step or mj_forward
// within the same call.
struct Simulation {
  const mjModel* model;
  mjData* data;
  std::span<double> carried;  // in the order of Interface::carried
  std::span<double> info;     // in the order of Interface::info
  RandomStream& random;       // of this environment, episode and, in step(), this step
};

// What a task on native dynamics is handed; `state` holds Interface::carried and is its whole state.
template <class Real>
struct NativeSimulation {
  std::span<Real> state;
  std::span<double> info;
  RandomStream& random;
};

// A task on MuJoCo:
//   static std::vector<Option> options();
//   Task(const OptionValues&, const mjModel&);
//   Interface interface() const;
//   void reset(Simulation&) const;             after mj_resetData: writes the initial qpos, qvel, carried
//   Outcome step(Simulation&, std::span<const double> action) const;
//   void observe(const Simulation&, std::span<double> observation) const;
//   void reset_info(Simulation&) const;        optional: InfoKeys with in_reset, after mj_forward
template <class Task>
concept MujocoTask = requires(const Task& task, Simulation& simulation, std::span<const double> action,
                              std::span<double> observation) {
  Task::options();
  task.interface();
  task.reset(simulation);
  { task.step(simulation, action) } -> std::same_as<Outcome>;
  task.observe(simulation, observation);
};

// A task on native dynamics: the same on NativeSimulation<Real> for Real = float and double, plus
//   Task(const OptionValues&);
//   std::vector<double> picture(const std::vector<double>& state) const;   qpos of model.xml
template <class Task>
concept NativeTask = requires(const Task& task, NativeSimulation<float>& simulation, std::span<const float> action,
                              std::span<float> observation, const std::vector<double>& state) {
  Task::options();
  task.interface();
  task.reset(simulation);
  { task.step(simulation, action) } -> std::same_as<Outcome>;
  task.observe(simulation, observation);
  { task.picture(state) } -> std::same_as<std::vector<double>>;
};

// Applies one action, a number per actuator, for `frame_skip` physics steps.
inline void advance(Simulation& simulation, std::span<const double> action, int frame_skip) {
  if (std::cmp_not_equal(action.size(), simulation.model->nu)) {
    throw std::invalid_argument("the task declares " + std::to_string(action.size()) + " action channels, its model has " +
                                std::to_string(simulation.model->nu) + " actuators");
  }
  mju_copy(simulation.data->ctrl, action.data(), static_cast<int>(action.size()));
  for (int i = 0; i < frame_skip; ++i) mj_step(simulation.model, simulation.data);
}

}  // namespace servorl::sim
