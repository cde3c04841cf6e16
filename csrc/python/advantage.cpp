// Bindings of csrc/advantage.
#include "python/rooms.hpp"

namespace servorl::python {
void bind_advantage(pybind11::module_& module) { (void)module; }
}  // namespace servorl::python
