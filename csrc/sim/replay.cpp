#include "sim/replay.hpp"

#include <algorithm>
#include <stdexcept>
#include <thread>

namespace servorl::sim {

Replay::Replay(const std::string& model_path, Recording recording)
    : model_(load_model(model_path)), recording_(std::move(recording)) {
  const auto rows = static_cast<std::size_t>(recording_.steps) * static_cast<std::size_t>(recording_.num_envs);
  const auto state_size = static_cast<std::size_t>(model_->nq + model_->nv);
  const auto num_states = static_cast<std::int32_t>(recording_.states.size() / state_size);
  const bool indices_fit = std::ranges::all_of(recording_.resets, [&](std::int32_t i) { return i < num_states; });
  if (recording_.actions.size() != rows * static_cast<std::size_t>(model_->nu) || !indices_fit ||
      recording_.resets.size() != rows + static_cast<std::size_t>(recording_.num_envs)) {
    throw std::invalid_argument("the recording's sizes do not fit each other or the model");
  }
  for (int env = 0; env < recording_.num_envs; ++env) data_.emplace_back(mj_makeData(model_.get()));
}

void Replay::run(int num_threads) {
  std::vector<std::thread> workers;
  const auto edge = [&](int share) { return recording_.num_envs * share / num_threads; };
  for (int share = 1; share < num_threads; ++share) {
    workers.emplace_back([this, first = edge(share), last = edge(share + 1)] { run_share(first, last); });
  }
  run_share(0, edge(1));
  for (std::thread& worker : workers) worker.join();
}

void Replay::run_share(int first, int last) {
  const mjModel* model = model_.get();
  const auto num_envs = static_cast<std::size_t>(recording_.num_envs);
  for (int step = 0; step <= recording_.steps; ++step) {
    for (int env = first; env < last; ++env) {
      mjData* data = data_[static_cast<std::size_t>(env)].get();
      const std::size_t row = static_cast<std::size_t>(step) * num_envs + static_cast<std::size_t>(env);
      if (recording_.resets[row] >= 0) {
        const double* state = recording_.states.data() + recording_.resets[row] * (model->nq + model->nv);
        mj_resetData(model, data);
        mju_copy(data->qpos, state, model->nq);
        mju_copy(data->qvel, state + model->nq, model->nv);
        mj_forward(model, data);
      }
      if (step == recording_.steps) continue;  // the last row holds only the resets after the last step
      mju_copy(data->ctrl, recording_.actions.data() + row * static_cast<std::size_t>(model->nu), model->nu);
      for (int i = 0; i < recording_.frame_skip; ++i) mj_step(model, data);
    }
  }
}

std::vector<double> Replay::final_states() const {
  std::vector<double> states;
  for (const auto& data : data_) {
    states.insert(states.end(), data->qpos, data->qpos + model_->nq);
    states.insert(states.end(), data->qvel, data->qvel + model_->nv);
  }
  return states;
}

}  // namespace servorl::sim
