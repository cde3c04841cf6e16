// Every compiled-in environment by name. The build generates register_environments() from the folders
// under envs/ (cmake/EnvironmentRegistry.cmake), one source file per environment.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/mujoco_batch.hpp"
#include "sim/native_batch.hpp"

namespace servorl {
namespace sim {

struct RegisteredTask {
  std::string name;
  bool native;
  std::vector<Option> options;
  std::function<std::unique_ptr<Batch>(const BatchSettings&, const OptionValues&)> make_batch;
  std::function<Interface(const std::string& model_path, const OptionValues&)> describe;
};

std::vector<RegisteredTask>& registered_tasks();

}  // namespace sim

template <class Task>
void register_task(const std::string& name) {
  static_assert(sim::MujocoTask<Task> || sim::NativeTask<Task>, "see csrc/sim/task.hpp for what a Task must have");
  sim::RegisteredTask entry;
  entry.name = name;
  entry.native = sim::NativeTask<Task>;
  entry.options = Task::options();
  if constexpr (sim::NativeTask<Task>) {
    entry.make_batch = [](const sim::BatchSettings& settings,
                          const sim::OptionValues& options) -> std::unique_ptr<sim::Batch> {
      if (settings.float64_observations) return std::make_unique<sim::NativeBatch<Task, double>>(settings, options);
      return std::make_unique<sim::NativeBatch<Task, float>>(settings, options);
    };
    entry.describe = [](const std::string&, const sim::OptionValues& options) { return Task(options).interface(); };
  } else {
    entry.make_batch = [](const sim::BatchSettings& settings,
                          const sim::OptionValues& options) -> std::unique_ptr<sim::Batch> {
      return std::make_unique<sim::MujocoBatch<Task>>(settings, options);
    };
    entry.describe = [](const std::string& model_path, const sim::OptionValues& options) {
      const sim::ModelPointer model = sim::load_model(model_path);
      return Task(options, *model).interface();
    };
  }
  sim::registered_tasks().push_back(std::move(entry));
}

void register_environments();

}  // namespace servorl
