// The one preallocated block that a batched step writes its results into. Python sees each section as
// an array; a row belongs to one environment and is written by the thread that steps it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace servorl::sim {

class Block {
 public:
  Block(int num_envs, int observation_size, int info_size, bool float64_observations);

  bool float64() const { return float64_; }
  std::byte* observation() { return observation_; }
  std::byte* final_observation() { return final_observation_; }
  void write_observation(int env, std::span<const double> values) { write_row(observation_, env, values); }
  void write_final_observation(int env, std::span<const double> values) { write_row(final_observation_, env, values); }
  // Zeroes an environment's final observation and info.
  void clear_final(int env);

  // Key-major [info_size, num_envs], so that each key is one contiguous array.
  double* info(int key) { return info_ + static_cast<std::size_t>(key) * num_envs_; }
  double* final_info(int key) { return final_info_ + static_cast<std::size_t>(key) * num_envs_; }

  // [num_envs] each.
  double* reward;
  std::uint8_t* terminated;
  std::uint8_t* truncated;
  std::uint8_t* finished;  // final_obs and final_info hold this environment's ended episode (SAME_STEP)
  std::uint8_t* restarted;  // the observation and info are those of a reset
  std::uint8_t* valid;      // the row is a transition: neither NEXT_STEP's dummy step nor a masked environment

 private:
  void write_row(std::byte* section, int env, std::span<const double> values);

  std::size_t num_envs_;
  std::size_t observation_bytes_;  // of one row
  int info_size_;
  bool float64_;
  std::byte* observation_;
  std::byte* final_observation_;
  double* info_;
  double* final_info_;
  std::vector<std::byte> memory_;
};

}  // namespace servorl::sim
