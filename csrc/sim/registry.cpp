#include "sim/registry.hpp"

namespace servorl::sim {

std::vector<RegisteredTask>& registered_tasks() {
  static std::vector<RegisteredTask> tasks;
  return tasks;
}

}  // namespace servorl::sim
