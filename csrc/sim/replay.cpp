#include "sim/replay.hpp"

#include <algorithm>
#include <stdexcept>
#include <thread>

namespace servorl::sim {

Replay::Replay(const std::string& model_path, Recording recording)
    : model_(load_model(model_path)), recording_(std::move(recording)) {
  const auto rows = static_cast<std::size_t>(recording_.steps) * static_cast<std::size_t>(recording_.num_envs);
  const auto initial_size = static_cast<std::size_t>(model_->nq + model_->nv);
  const auto num_states = static_cast<std::int32_t>(recording_.states.size() / initial_size);
  const bool indices_fit = std::ranges::all_of(recording_.resets, [&](std::int32_t i) { return i < num_states; });
  if (recording_.actions.size() != rows * static_cast<std::size_t>(model_->nu) || !indices_fit ||
      recording_.resets.size() != rows + static_cast<std::size_t>(recording_.num_envs)) {
    throw std::invalid_argument("the recording's sizes do not fit each other or the model");
  }
  state_size_ = static_cast<std::size_t>(mj_stateSize(model_.get(), mjSTATE_INTEGRATION));
  states_.assign(static_cast<std::size_t>(recording_.num_envs) * state_size_, 0.0);
}

void Replay::run(int num_threads) {
  while (data_.size() < static_cast<std::size_t>(num_threads)) data_.emplace_back(mj_makeData(model_.get()));
  std::vector<std::thread> workers;
  const auto edge = [&](int share) { return recording_.num_envs * share / num_threads; };
  const auto data = [&](int share) { return data_[static_cast<std::size_t>(share)].get(); };
  for (int share = 1; share < num_threads; ++share) {
    workers.emplace_back([this, first = edge(share), last = edge(share + 1), data = data(share)] {
      run_share(first, last, data);
    });
  }
  run_share(0, edge(1), data(0));
  for (std::thread& worker : workers) worker.join();
}

void Replay::run_share(int first, int last, mjData* data) {
  const mjModel* model = model_.get();
  const auto num_envs = static_cast<std::size_t>(recording_.num_envs);
  for (int step = 0; step <= recording_.steps; ++step) {
    for (int env = first; env < last; ++env) {
      const std::size_t row = static_cast<std::size_t>(step) * num_envs + static_cast<std::size_t>(env);
      double* state = states_.data() + static_cast<std::size_t>(env) * state_size_;
      if (recording_.resets[row] >= 0) {
        const double* initial = recording_.states.data() + recording_.resets[row] * (model->nq + model->nv);
        mj_resetData(model, data);
        mju_copy(data->qpos, initial, model->nq);
        mju_copy(data->qvel, initial + model->nq, model->nv);
        mj_forward(model, data);
      } else {
        mj_setState(model, data, state, mjSTATE_INTEGRATION);
      }
      if (step < recording_.steps) {  // the last row holds only the resets after the last step
        mju_copy(data->ctrl, recording_.actions.data() + row * static_cast<std::size_t>(model->nu), model->nu);
        for (int i = 0; i < recording_.frame_skip; ++i) mj_step(model, data);
      }
      mj_getState(model, data, state, mjSTATE_INTEGRATION);
    }
  }
}

std::vector<double> Replay::final_states() const {
  std::vector<double> states;
  for (std::size_t first = 1; first < states_.size(); first += state_size_) {  // a row starts with the time
    states.insert(states.end(), &states_[first], &states_[first] + model_->nq + model_->nv);
  }
  return states;
}

}  // namespace servorl::sim
