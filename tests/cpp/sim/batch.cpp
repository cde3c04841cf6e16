// Batches of tasks made for the test: values carried from step to step, exceptions on worker threads,
// errors that MuJoCo raises, randomness within a step, and native tasks in chunks on many threads.
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>

#include "check.hpp"
#include "sim/mujoco_batch.hpp"
#include "sim/native_batch.hpp"

using namespace servorl::sim;
using servorl::tests::check;
using servorl::tests::check_throws;

namespace {

constexpr const char* kModel =
    "<mujoco><worldbody><body><joint name='slide' type='slide' axis='1 0 0'/><geom size='1'/></body></worldbody>"
    "<actuator><motor joint='slide'/></actuator></mujoco>";

// Observes the previous action, which lives per environment though the mjData is shared.
class Remembering {
 public:
  static std::vector<Option> options() { return {}; }
  Remembering(const OptionValues&, const mjModel&) {}
  Interface interface() const {
    return {.observation = {{.name = "previous", .unit = "1"}, {.name = "noise", .unit = "1"}},
            .action = {{.name = "force", .unit = "N"}},
            .info = {{.name = "before"}, {.name = "started", .in_step = false, .in_reset = true}},
            .carried = {"previous_action", "noise"},
            .control_period = 0.002,
            .max_episode_steps = 5,
            .reward_threshold = std::nullopt,
            .divergence_reward = 0};
  }
  void reset(Simulation& simulation) const { simulation.carried[0] = -1; }
  void reset_info(Simulation& simulation) const { simulation.info[1] = 1; }
  Outcome step(Simulation& simulation, std::span<const double> action) const {
    if (action[0] == -13) throw std::runtime_error("thirteen");
    if (action[0] == -14) mju_error("fourteen");
    check_throws<std::invalid_argument>([&] { advance(simulation, action.first(0), 1); }, "an action per actuator");
    simulation.info[0] = simulation.carried[0];
    simulation.carried[0] = action[0];
    simulation.carried[1] = simulation.random.uniform();
    advance(simulation, action, 1);
    return {action[0], false};
  }
  void observe(const Simulation& simulation, std::span<double> observation) const {
    observation[0] = simulation.carried[0];
    observation[1] = simulation.carried[1];
  }
};

// Counts its own steps.
struct Counting {
  static std::vector<Option> options() { return {}; }
  explicit Counting(const OptionValues&) {}
  Interface interface() const {
    return {.observation = {{.name = "count", .unit = "1"}},
            .action = {{.name = "increment", .unit = "1"}},
            .info = {},
            .carried = {"count"},
            .control_period = 1,
            .max_episode_steps = 1000,
            .reward_threshold = std::nullopt,
            .divergence_reward = 0};
  }
  template <class Real>
  void reset(NativeSimulation<Real>& simulation) const { simulation.state[0] = 0; }
  template <class Real>
  Outcome step(NativeSimulation<Real>& simulation, std::span<const Real> action) const {
    simulation.state[0] += action[0];
    return {1, false};
  }
  template <class Real>
  void observe(const NativeSimulation<Real>& simulation, std::span<Real> observation) const {
    observation[0] = simulation.state[0];
  }
  std::vector<double> picture(const std::vector<double>& state) const { return {state[0]}; }
};

std::vector<int> all(int count) {
  std::vector<int> envs(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) envs[static_cast<std::size_t>(i)] = i;
  return envs;
}

double observed(Batch& batch, int env, int channel) {
  const auto width = static_cast<int>(batch.interface().observation.size());
  return reinterpret_cast<const double*>(batch.block().observation())[env * width + channel];
}

void values_are_carried_per_environment(const BatchSettings& settings) {
  MujocoBatch<Remembering> batch(settings, OptionValues({}));
  batch.reset(all(settings.num_envs), {});
  double noise = -1;
  for (int step = 0; step < 12; ++step) {
    for (int env = 0; env < settings.num_envs; ++env) batch.actions()[static_cast<std::size_t>(env)] = 100 * step + env;
    const StepSummary summary = batch.step();
    const bool ended = step % 5 == 4;
    check(summary.finished == (ended ? settings.num_envs : 0), "the time limit ends all");
    for (int env = 0; env < settings.num_envs; ++env) {
      const double before = step % 5 == 0 ? -1 : 100 * (step - 1) + env;
      check((ended ? batch.block().final_info(0) : batch.block().info(0))[env] == before, "the value carried into the step");
      check(observed(batch, env, 0) == (ended ? -1 : 100 * step + env), "the value carried out of the step");
      check(batch.block().info(1)[env] == (ended ? 1 : 0), "the info of the reset");
    }
    if (!ended) {
      check(observed(batch, 0, 1) != noise, "each step has random numbers of its own");
      check(observed(batch, 0, 1) != observed(batch, 1, 1), "so has each environment");
      noise = observed(batch, 0, 1);
    }
  }
}

void errors_name_their_environment(const BatchSettings& settings) {
  MujocoBatch<Remembering> batch(settings, OptionValues({}));
  batch.reset(all(settings.num_envs), {});
  for (const auto& [action, message] : {std::pair{-13.0, "environment 5: thirteen"}, {-14.0, "environment 5: fourteen"}}) {
    std::string caught;
    batch.actions()[5] = action;
    try {
      batch.step();
    } catch (const EnvironmentError& error) {
      caught = error.what();
    }
    check(caught.starts_with(message), "the error names its environment: " + caught);
    batch.actions()[5] = 1;
    batch.reset(std::vector<int>{5}, {});
    batch.step();
  }
}

template <class Real>
void native_tasks_on_many_threads() {
  BatchSettings settings;
  settings.num_envs = 5000;
  settings.num_threads = 8;
  settings.float64_observations = true;
  NativeBatch<Counting, Real> batch(settings, OptionValues({}));
  batch.reset(all(settings.num_envs), {});
  for (int step = 1; step <= 50; ++step) {
    for (int env = 0; env < settings.num_envs; ++env) batch.actions()[static_cast<std::size_t>(env)] = env % 7;
    batch.step();
    for (int env = 0; env < settings.num_envs; ++env) check(observed(batch, env, 0) == step * (env % 7), "every environment steps once");
  }
}

}  // namespace

int main() {
  const std::string path = "batch_test_model.xml";
  std::ofstream(path) << kModel;
  for (const int num_threads : {1, 2, 8}) {
    BatchSettings settings;
    settings.num_envs = 24;
    settings.num_threads = num_threads;
    settings.float64_observations = true;
    settings.model_path = path;
    values_are_carried_per_environment(settings);
    errors_name_their_environment(settings);
  }
  std::remove(path.c_str());
  native_tasks_on_many_threads<float>();
  native_tasks_on_many_threads<double>();
  return 0;
}
