// Gymnasium's HalfCheetah-v5: make a planar cheetah run forward; see card.md.
#pragma once
#include <algorithm>

#include "sim/task.hpp"

namespace servorl::envs::half_cheetah {

class Task {
 public:
  static std::vector<sim::Option> options() {
    return {{"frame_skip", std::int64_t{5}, "physics steps per action", 1},
            {"forward_reward_weight", 1.0, "reward per m/s of forward velocity"},
            {"ctrl_cost_weight", 0.1, "cost per unit of the action's squared length"},
            {"reset_noise_scale", 0.1, "half width (positions) and deviation (velocities) of the initial noise", 0},
            {"exclude_current_positions_from_observation", true, "leave the forward position out"}};
  }

  Task(const sim::OptionValues& options, const mjModel& model)
      : frame_skip_(options.integer("frame_skip")),
        forward_reward_weight_(options.number("forward_reward_weight")),
        ctrl_cost_weight_(options.number("ctrl_cost_weight")),
        reset_noise_scale_(options.number("reset_noise_scale")),
        first_position_(options.flag("exclude_current_positions_from_observation") ? 1 : 0),
        control_period_(model.opt.timestep * frame_skip_) {}

  sim::Interface interface() const {
    std::vector<sim::Channel> observation = {
        {"rootx", "m"},       {"rootz", "m"},       {"rooty", "rad"},     {"bthigh", "rad"}, {"bshin", "rad"},
        {"bfoot", "rad"},     {"fthigh", "rad"},    {"fshin", "rad"},     {"ffoot", "rad"},  {"rootx_velocity", "m/s"},
        {"rootz_velocity", "m/s"}};
    for (const char* joint : {"rooty", "bthigh", "bshin", "bfoot", "fthigh", "fshin", "ffoot"}) {
      observation.push_back({std::string(joint) + "_velocity", "rad/s"});
    }
    observation.erase(observation.begin(), observation.begin() + first_position_);
    return {.observation = std::move(observation),
            .action = {{"bthigh", "120 N m", -1, 1}, {"bshin", "90 N m", -1, 1}, {"bfoot", "60 N m", -1, 1},
                       {"fthigh", "120 N m", -1, 1}, {"fshin", "60 N m", -1, 1}, {"ffoot", "30 N m", -1, 1}},
            .info = {{.name = "x_position", .in_reset = true},
                     {.name = "x_velocity"}, {.name = "reward_forward"}, {.name = "reward_ctrl"}},
            .carried = {},
            .control_period = control_period_,
            .max_episode_steps = 1000,
            .reward_threshold = 4800,
            .divergence_reward = 0};
  }

  void reset(sim::Simulation& simulation) const {
    mjData& data = *simulation.data;
    for (int i = 0; i < simulation.model->nq; ++i) {
      data.qpos[i] += simulation.random.uniform(-reset_noise_scale_, reset_noise_scale_);
    }
    for (int i = 0; i < simulation.model->nv; ++i) data.qvel[i] += reset_noise_scale_ * simulation.random.normal();
  }

  void reset_info(sim::Simulation& simulation) const { simulation.info[0] = simulation.data->qpos[0]; }

  sim::Outcome step(sim::Simulation& simulation, std::span<const double> action) const {
    const double x_before = simulation.data->qpos[0];
    sim::advance(simulation, action, frame_skip_);
    const double x_after = simulation.data->qpos[0];
    const double x_velocity = (x_after - x_before) / control_period_;

    double squared_action = 0.0;
    for (const double a : action) squared_action += a * a;
    const double forward_reward = forward_reward_weight_ * x_velocity;
    const double ctrl_cost = ctrl_cost_weight_ * squared_action;

    const double info[] = {x_after, x_velocity, forward_reward, -ctrl_cost};
    std::copy(std::begin(info), std::end(info), simulation.info.begin());
    return {forward_reward - ctrl_cost, false};
  }

  void observe(const sim::Simulation& simulation, std::span<double> observation) const {
    const mjModel& model = *simulation.model;
    const auto velocities =
        std::copy(simulation.data->qpos + first_position_, simulation.data->qpos + model.nq, observation.begin());
    std::copy_n(simulation.data->qvel, model.nv, velocities);
  }

 private:
  int frame_skip_;
  double forward_reward_weight_;
  double ctrl_cost_weight_;
  double reset_noise_scale_;
  int first_position_;
  double control_period_;
};

}  // namespace servorl::envs::half_cheetah
