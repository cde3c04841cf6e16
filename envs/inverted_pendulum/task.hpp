// Gymnasium's InvertedPendulum-v5: balance a pole on a cart; see card.md.
#pragma once
#include <algorithm>
#include <cmath>

#include "sim/task.hpp"

namespace servorl::envs::inverted_pendulum {

class Task {
 public:
  static std::vector<sim::Option> options() {
    return {{"frame_skip", std::int64_t{2}, "physics steps per action", 1},
            {"reset_noise_scale", 0.01, "half width of the uniform noise on the initial position and velocity", 0}};
  }

  Task(const sim::OptionValues& options, const mjModel& model)
      : frame_skip_(options.integer("frame_skip")),
        reset_noise_scale_(options.number("reset_noise_scale")),
        timestep_(model.opt.timestep) {}

  sim::Interface interface() const {
    return {.observation = {{"slider", "m"}, {"hinge", "rad"}, {"slider_velocity", "m/s"}, {"hinge_velocity", "rad/s"}},
            .action = {{"slide", "100 N", -3, 3}},
            .info = {{.name = "reward_survive", .integer = true}},
            .carried = {},
            .control_period = timestep_ * frame_skip_,
            .max_episode_steps = 1000,
            .reward_threshold = 950,
            .divergence_reward = 0};
  }

  void reset(sim::Simulation& simulation) const {
    const auto noise = [&] { return simulation.random.uniform(-reset_noise_scale_, reset_noise_scale_); };
    for (int i = 0; i < simulation.model->nq; ++i) simulation.data->qpos[i] += noise();
    for (int i = 0; i < simulation.model->nv; ++i) simulation.data->qvel[i] += noise();
  }

  sim::Outcome step(sim::Simulation& simulation, std::span<const double> action) const {
    sim::advance(simulation, action, frame_skip_);
    const bool terminated = std::abs(simulation.data->qpos[1]) > 0.2;
    const double reward = terminated ? 0.0 : 1.0;
    simulation.info[0] = reward;
    return {reward, terminated};
  }

  void observe(const sim::Simulation& simulation, std::span<double> observation) const {
    std::copy_n(simulation.data->qpos, 2, observation.begin());
    std::copy_n(simulation.data->qvel, 2, observation.begin() + 2);
  }

 private:
  int frame_skip_;
  double reset_noise_scale_;
  double timestep_;
};

}  // namespace servorl::envs::inverted_pendulum
