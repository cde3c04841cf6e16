#include "sim/batch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace servorl::sim {
namespace {

// Learners read float32, and a finite float64 can overflow there.
bool finite_as_float32(double value) { return std::abs(value) <= std::numeric_limits<float>::max(); }

// One caller at a time: the interpreter lock is not held while a batch runs.
class Exclusive {
 public:
  explicit Exclusive(std::atomic<bool>& busy) : busy_(busy) {
    if (busy_.exchange(true, std::memory_order_acquire)) {
      throw std::runtime_error("the environments are in use by another thread");
    }
  }
  ~Exclusive() { busy_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool>& busy_;
};

}  // namespace

Batch::Batch(const BatchSettings& settings, Interface interface)
    : interface_(std::move(interface)),
      num_envs_(settings.num_envs),
      autoreset_mode_(settings.autoreset_mode),
      mask_repeated_divergence_(settings.mask_repeated_divergence),
      max_episode_steps_(settings.max_episode_steps ? settings.max_episode_steps : interface_.max_episode_steps),
      block_(settings.num_envs, static_cast<int>(interface_.observation.size()),
             static_cast<int>(interface_.info.size()), settings.float64_observations) {
  const auto n = static_cast<std::size_t>(num_envs_);
  for (auto* column : {&seed_, &elapsed_steps_, &diverged_, &repeated_divergences_}) column->assign(n, 0);
  episode_.assign(n, -1);  // no episode yet
  for (auto* column : {&needs_reset_, &masked_, &deferred_, &exhausted_}) column->assign(n, 0);
  last_observation_.assign(n * interface_.observation.size(), 0.0);
  observation_ = last_observation_;
  actions_.assign(n * interface_.action.size(), 0.0);
  info_.assign(n * interface_.info.size(), 0.0);
  errors_.resize(n);
  selected_.reserve(n);
}

StepSummary Batch::step() {
  Exclusive exclusive(busy_);
  if (autoreset_mode_ == AutoresetMode::next_step && model_fields()) {
    selected_.clear();
    for (int env = 0; env < num_envs_; ++env) {
      if (needs_reset_[env]) selected_.push_back(env);
    }
    restore_model_fields(selected_);
  }
  run_and_rethrow(Work::step, {});
  selected_.clear();
  for (int env = 0; env < num_envs_; ++env) {
    if (deferred_[env]) selected_.push_back(env);
    deferred_[env] = 0;
  }
  if (!selected_.empty()) {
    restore_model_fields(selected_);
    run_and_rethrow(Work::reset, selected_);
  }
  return summarise();
}

void Batch::reset(std::span<const int> envs, std::span<const std::int64_t> seeds) {
  if (envs.empty()) return;
  Exclusive exclusive(busy_);
  for (std::size_t i = 0; i < envs.size(); ++i) {
    const int env = envs[i];
    if (!seeds.empty() && seeds[i] >= 0) {
      seed_[env] = seeds[i];
      episode_[env] = -1;
      diverged_[env] = 0;
    }
    if (masked_[env]) masked_[env] = repeated_divergences_[env] = 0;  // given another chance
    block_.terminated[env] = block_.truncated[env] = 0;
  }
  restore_model_fields(envs);
  run_and_rethrow(Work::reset, envs);
}

void Batch::refresh(std::span<const int> envs) {
  if (envs.empty()) return;
  Exclusive exclusive(busy_);
  run_and_rethrow(Work::refresh, envs);
  show_last_observation(envs);
}

void Batch::show_last_observation(std::span<const int> envs) {
  for (const int env : envs) block_.write_observation(env, last_observation(env));
}

Batch::Row Batch::begin_step(int env) {
  if (block_.finished[env]) block_.clear_final(env);
  block_.finished[env] = block_.restarted[env] = exhausted_[env] = 0;
  block_.valid[env] = 1;
  std::ranges::fill(info(env), 0.0);
  if (!masked_[env] && !needs_reset_[env]) return Row::live;
  block_.valid[env] = block_.terminated[env] = block_.truncated[env] = 0;
  block_.reward[env] = 0.0;
  for (std::size_t key = 0; key < interface_.info.size(); ++key) block_.info(static_cast<int>(key))[env] = 0.0;
  return masked_[env] ? Row::masked : Row::restarting;  // restarting: NEXT_STEP's dummy step
}

bool Batch::finish_step(int env, const Outcome& outcome, bool diverged) {
  const bool first_step = ++elapsed_steps_[env] == 1;
  diverged = diverged || !finite_as_float32(outcome.reward) || !accept_observation(env);
  if (diverged) {
    ++diverged_[env];
    std::ranges::fill(info(env), 0.0);
  }
  repeated_divergences_[env] = diverged && first_step ? repeated_divergences_[env] + 1 : 0;
  exhausted_[env] = repeated_divergences_[env] >= kMaxRepeatedDivergences;
  if (exhausted_[env] && mask_repeated_divergence_) {
    masked_[env] = 1;
    block_.valid[env] = 0;
  }

  const bool terminated = outcome.terminated || diverged;
  const bool truncated = elapsed_steps_[env] >= max_episode_steps_;
  block_.reward[env] = diverged ? interface_.divergence_reward : outcome.reward;
  block_.terminated[env] = terminated;
  block_.truncated[env] = truncated;
  needs_reset_[env] = terminated || truncated;
  const bool finished = needs_reset_[env] && autoreset_mode_ == AutoresetMode::same_step;
  block_.finished[env] = finished;
  for (std::size_t key = 0; key < interface_.info.size(); ++key) {
    double* values = finished ? block_.final_info(static_cast<int>(key)) : block_.info(static_cast<int>(key));
    values[env] = info(env)[key];
  }
  if (!finished) {
    block_.write_observation(env, last_observation(env));
    return false;
  }
  block_.write_final_observation(env, last_observation(env));
  deferred_[env] = model_fields() && model_fields()->temporary(env);
  return !deferred_[env];
}

void Batch::begin_reset(int env) {
  ++episode_[env];
  elapsed_steps_[env] = 0;
  needs_reset_[env] = 0;
  std::ranges::fill(info(env), 0.0);
}

void Batch::finish_reset(int env) {
  accept_observation(env);
  block_.restarted[env] = 1;
  block_.write_observation(env, last_observation(env));
  for (std::size_t key = 0; key < interface_.info.size(); ++key) {
    block_.info(static_cast<int>(key))[env] = info(env)[key];
  }
}

// Keeps the observation if it is finite, and says so.
bool Batch::accept_observation(int env) {
  const std::span<const double> values = observation(env);
  if (!std::ranges::all_of(values, finite_as_float32)) return false;
  std::ranges::copy(values, last_observation(env).begin());
  return true;
}

void Batch::restore_model_fields(std::span<const int> envs) {
  if (ModelFields* fields = model_fields()) fields->restore(envs);
}

void Batch::run_and_rethrow(Work work, std::span<const int> envs) {
  run(work, envs);
  const auto failed = std::ranges::find_if(errors_, [](const auto& error) { return error != nullptr; });
  if (failed == errors_.end()) return;
  const std::exception_ptr error = *failed;
  const int env = static_cast<int>(failed - errors_.begin());
  std::ranges::fill(errors_, nullptr);
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    throw EnvironmentError(env, exception.what());
  }
}

StepSummary Batch::summarise() const {
  StepSummary summary;
  for (int env = 0; env < num_envs_; ++env) {
    summary.finished += block_.finished[env];
    summary.restarted += block_.restarted[env];
    if (exhausted_[env] && !masked_[env]) summary.repeatedly_diverged = env;
  }
  return summary;
}

std::int64_t Batch::first_bad_action() const {
  const auto bad = std::ranges::find_if_not(actions_, [](double value) { return std::isfinite(value); });
  return bad == actions_.end() ? -1 : bad - actions_.begin();
}

int Batch::first_needing_reset() const {
  for (int env = 0; env < num_envs_; ++env) {
    if (episode_[env] < 0 || (needs_reset_[env] && autoreset_mode_ == AutoresetMode::disabled)) return env;
  }
  return -1;
}

std::vector<StateField> Batch::state_fields() {
  using Type = StateField::Type;
  const int width = static_cast<int>(interface_.observation.size());
  std::vector<StateField> fields;
  const auto counter = [&](const char* name, std::vector<std::int64_t>& column) {
    fields.push_back({name, Type::int64, column.data(), sizeof(std::int64_t), 0});
  };
  counter("seed", seed_);
  counter("episode", episode_);
  counter("elapsed_steps", elapsed_steps_);
  counter("diverged", diverged_);
  counter("repeated_divergences", repeated_divergences_);
  fields.push_back({"needs_reset", Type::boolean, needs_reset_.data(), 1, 0});
  fields.push_back({"masked", Type::boolean, masked_.data(), 1, 0});
  fields.push_back({"last_observation", Type::float64, last_observation_.data(), sizeof(double) * width, width});
  return fields;
}

}  // namespace servorl::sim
