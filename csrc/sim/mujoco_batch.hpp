// MuJoCo tasks on MuJoCo's own batch: mjb_apply runs one environment's whole step on one of its threads.
#pragma once
#include <mujoco/mjbatch.h>
#include <mujoco/mujoco.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/batch.hpp"
#include "sim/warnings.hpp"

namespace servorl::sim {

struct ModelDeleter {
  void operator()(mjModel* model) const { mj_deleteModel(model); }
};
using ModelPointer = std::unique_ptr<mjModel, ModelDeleter>;

// Throws std::runtime_error with MuJoCo's message.
ModelPointer load_model(const std::string& path);

// The part that does not depend on the task.
class MujocoBatchBase : public Batch {
 public:
  ~MujocoBatchBase() override;
  int num_threads() const override { return mjb_nthread(batch_); }
  std::vector<StateField> state_fields() override;
  std::vector<double> qpos(int env) override;
  ModelFields* model_fields() override { return &fields_; }
  std::vector<std::pair<std::string, std::int64_t>> warnings() const override;

 protected:
  // The batch keeps a copy of the model.
  MujocoBatchBase(const BatchSettings& settings, Interface interface, const mjModel& model);

  void apply(mjfBatchFunc function, void* argument, std::span<const int> envs, bool save);
  // To be called around a step, in the environment's thread: clears and then collects the counters
  // of mjData, which MuJoCo also clears where it resets a simulation that broke down.
  static void clear_warnings(mjData* data);
  bool collect_warnings(int env, const mjData* data);  // whether the physics broke down
  std::span<double> carried(int env);
  // Order each environment's memory between the caller and the thread that runs it. MuJoCo's pool does so
  // too, but a thread sanitizer cannot see into its library and would report every callback.
  void enter() { (void)handovers_.load(std::memory_order_acquire); }
  void leave() { handovers_.fetch_add(1, std::memory_order_release); }

 private:
  std::atomic<std::uint64_t> handovers_ = 0;
  mjBatch* batch_;
  ModelFields fields_;
  std::vector<double> carried_;
  std::vector<std::int64_t> warnings_;  // [num_envs, mjNWARNING]
};

template <MujocoTask Task>
class MujocoBatch final : public MujocoBatchBase {
 public:
  MujocoBatch(const BatchSettings& settings, const OptionValues& options)
      : MujocoBatch(settings, options, *load_model(settings.model_path)) {}

 private:
  MujocoBatch(const BatchSettings& settings, const OptionValues& options, const mjModel& model)
      : MujocoBatch(settings, Task(options, model), model) {}
  MujocoBatch(const BatchSettings& settings, Task task, const mjModel& model)
      : MujocoBatchBase(settings, task.interface(), model), task_(std::move(task)) {}

  // One environment in the mjData of the thread that runs it.
  struct Body {
    MujocoBatch& batch;
    const mjModel* model;
    mjData* data;
    bool broke_down = false;

    template <class Call>
    auto with_simulation(int env, RandomPurpose purpose, Call call) {
      RandomStream random = batch.random(env, purpose);
      Simulation simulation{model, data, batch.carried(env), batch.info(env), random};
      return call(simulation);
    }
    void reset(int env) {
      mj_resetData(model, data);
      with_simulation(env, RandomPurpose::reset, [&](Simulation& simulation) {
        batch.task_.reset(simulation);
        mj_forward(model, data);
        if constexpr (requires { batch.task_.reset_info(simulation); }) batch.task_.reset_info(simulation);
      });
    }
    Outcome step(int env) {
      clear_warnings(data);
      const Outcome outcome = with_simulation(env, RandomPurpose::step, [&](Simulation& simulation) {
        return batch.task_.step(simulation, batch.action(env));
      });
      broke_down = batch.collect_warnings(env, data);
      return outcome;
    }
    void observe(int env, std::span<double> observation) {
      with_simulation(env, RandomPurpose::step, [&](const Simulation& simulation) {
        batch.task_.observe(simulation, observation);
      });
    }
    bool diverged(int) const { return broke_down; }
  };

  template <Work kWork>
  static void call(const mjModel* model, mjData* data, int env, void* self) {
    quiet_worker_thread();
    Body body{*static_cast<MujocoBatch*>(self), model, data};
    body.batch.enter();
    if constexpr (kWork == Work::refresh) mj_forward(model, data);
    body.batch.run_one(kWork, env, body);
    body.batch.leave();
  }

  void run(Work work, std::span<const int> envs) override {
    switch (work) {
      case Work::step: return apply(call<Work::step>, this, envs, true);
      case Work::reset: return apply(call<Work::reset>, this, envs, true);
      case Work::refresh: return apply(call<Work::refresh>, this, envs, false);
    }
  }

  const Task task_;
};

}  // namespace servorl::sim
