// Gymnasium's Pendulum-v1 on native dynamics: swing a pendulum up and hold it; see card.md.
// The order of every formula is Gymnasium's, so that float64 results can be compared with it.
#pragma once
#include <algorithm>
#include <cmath>

#include "sim/task.hpp"

namespace servorl::envs::pendulum {

class Task {
 public:
  static std::vector<sim::Option> options() { return {{"g", 10.0, "gravity in m/s^2"}}; }

  explicit Task(const sim::OptionValues& options) : gravity_(options.number("g")) {}

  sim::Interface interface() const {
    return {.observation = {{"cos_theta", "1", -1, 1}, {"sin_theta", "1", -1, 1},
                            {"theta_dot", "rad/s", -kMaxSpeed, kMaxSpeed}},
            .action = {{"torque", "N m", -kMaxTorque, kMaxTorque}},
            .info = {},
            .carried = {"theta", "theta_dot"},  // rad from upright, rad/s
            .control_period = kTimestep,
            .max_episode_steps = 200,
            .reward_threshold = std::nullopt,
            .divergence_reward = -20};  // below the worst reward of a step, -(pi^2 + 0.1*8^2 + 0.001*2^2)
  }

  template <class Real>
  void reset(sim::NativeSimulation<Real>& simulation) const {
    simulation.state[0] = static_cast<Real>(simulation.random.uniform(-kPi, kPi));
    simulation.state[1] = static_cast<Real>(simulation.random.uniform(-1.0, 1.0));
  }

  template <class Real>
  sim::Outcome step(sim::NativeSimulation<Real>& simulation, std::span<const Real> action) const {
    constexpr Real mass = 1, length = 1, dt = static_cast<Real>(kTimestep);
    const Real theta = simulation.state[0], theta_dot = simulation.state[1];
    const Real torque = std::clamp(action[0], static_cast<Real>(-kMaxTorque), static_cast<Real>(kMaxTorque));
    const Real angle = normalised(theta);
    const Real cost = angle * angle + Real(0.1) * (theta_dot * theta_dot) + Real(0.001) * (torque * torque);

    const Real acceleration = 3 * static_cast<Real>(gravity_) / (2 * length) * std::sin(theta) +
                              Real(3) / (mass * (length * length)) * torque;
    const Real new_theta_dot = std::clamp(theta_dot + acceleration * dt, static_cast<Real>(-kMaxSpeed),
                                          static_cast<Real>(kMaxSpeed));
    simulation.state[0] = theta + new_theta_dot * dt;
    simulation.state[1] = new_theta_dot;
    return {-static_cast<double>(cost), false};
  }

  template <class Real>
  void observe(const sim::NativeSimulation<Real>& simulation, std::span<Real> observation) const {
    observation[0] = std::cos(simulation.state[0]);
    observation[1] = std::sin(simulation.state[0]);
    observation[2] = simulation.state[1];
  }

  std::vector<double> picture(const std::vector<double>& state) const { return {state[0]}; }

 private:
  static constexpr double kPi = 3.14159265358979323846;
  static constexpr double kMaxSpeed = 8.0;   // rad/s
  static constexpr double kMaxTorque = 2.0;  // N m
  static constexpr double kTimestep = 0.05;  // s

  // The angle in [-pi, pi), as Python's ((x + pi) % (2 * pi)) - pi.
  template <class Real>
  static Real normalised(Real angle) {
    constexpr Real pi = static_cast<Real>(kPi);
    const Real remainder = std::fmod(angle + pi, 2 * pi);
    return (remainder < 0 ? remainder + 2 * pi : remainder) - pi;
  }

  double gravity_;
};

}  // namespace servorl::envs::pendulum
