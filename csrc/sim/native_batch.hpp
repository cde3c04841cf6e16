// Tasks on native dynamics: their state is the declared values of one scalar type, and a pool of ours
// steps them. One step is some tens of nanoseconds, so a thread takes hundreds of environments at once.
#pragma once
#include <algorithm>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/batch.hpp"
#include "sim/thread_pool.hpp"

namespace servorl::sim {

template <NativeTask Task, class Real>
class NativeBatch final : public Batch {
 public:
  NativeBatch(const BatchSettings& settings, const OptionValues& options) : NativeBatch(settings, Task(options)) {}

  int num_threads() const override { return pool_.num_threads(); }

  std::vector<StateField> state_fields() override {
    std::vector<StateField> fields = Batch::state_fields();
    const auto type = std::is_same_v<Real, float> ? StateField::Type::float32 : StateField::Type::float64;
    for (std::size_t i = 0; i < state_width_; ++i) {
      fields.push_back({interface().carried[i], type, state_.data() + i, sizeof(Real) * state_width_, 0});
    }
    return fields;
  }

  std::vector<double> qpos(int env) override {
    const std::span<const Real> values = state(env);
    return task_.picture(std::vector<double>(values.begin(), values.end()));
  }

 private:
  // Environments in a chunk: enough work to be worth waking a thread for.
  static constexpr int kChunk = 512;

  NativeBatch(const BatchSettings& settings, Task task)
      : Batch(settings, task.interface()), task_(std::move(task)), pool_(settings.num_threads) {
    const auto n = static_cast<std::size_t>(num_envs());
    state_width_ = interface().carried.size();
    state_.assign(n * state_width_, Real{0});
    action_.assign(n * interface().action.size(), Real{0});
    observation_.assign(n * interface().observation.size(), Real{0});
  }

  std::span<Real> state(int env) { return {state_.data() + static_cast<std::size_t>(env) * state_width_, state_width_}; }

  // The task's view of one environment; values cross between Real and double here.
  struct Body {
    NativeBatch& batch;

    void reset(int env) {
      std::ranges::fill(batch.state(env), Real{0});
      RandomStream random = batch.random(env, RandomPurpose::reset);
      NativeSimulation<Real> simulation{batch.state(env), batch.info(env), random};
      batch.task_.reset(simulation);
    }
    Outcome step(int env) {
      const std::span<const double> action = batch.action(env);
      Real* converted = batch.action_.data() + static_cast<std::size_t>(env) * action.size();
      for (std::size_t i = 0; i < action.size(); ++i) converted[i] = static_cast<Real>(action[i]);
      RandomStream random = batch.random(env, RandomPurpose::step);
      NativeSimulation<Real> simulation{batch.state(env), batch.info(env), random};
      return batch.task_.step(simulation, std::span<const Real>(converted, action.size()));
    }
    void observe(int env, std::span<double> observation) {
      const std::span<Real> values(batch.observation_.data() + static_cast<std::size_t>(env) * observation.size(),
                                   observation.size());
      RandomStream random = batch.random(env, RandomPurpose::step);
      const NativeSimulation<Real> simulation{batch.state(env), batch.info(env), random};
      batch.task_.observe(simulation, values);
      std::ranges::copy(values, observation.begin());
    }
    bool diverged(int) const { return false; }  // the batch checks that results are finite
  };

  void run(Work work, std::span<const int> envs) override {
    struct Run {
      NativeBatch& batch;
      Work work;
      std::span<const int> envs;
    } run{*this, work, envs};
    const int count = envs.empty() ? num_envs() : static_cast<int>(envs.size());
    const auto function = [](void* context, int first, int last) {
      const Run& run = *static_cast<Run*>(context);
      Body body{run.batch};
      for (int i = first; i < last; ++i) run.batch.run_one(run.work, run.envs.empty() ? i : run.envs[i], body);
    };
    pool_.run(count, kChunk, function, &run);
  }

  const Task task_;
  std::size_t state_width_ = 0;
  std::vector<Real> state_, action_, observation_;
  ThreadPool pool_;
};

}  // namespace servorl::sim
