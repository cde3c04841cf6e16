// Every compiled-in environment by name. The build writes register_environments() from the folders under envs/.
#pragma once
#include <string>

namespace servorl {
template <class Task>
void register_task(const std::string& name);
void register_environments();
}  // namespace servorl
