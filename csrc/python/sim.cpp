// Bindings of csrc/sim.
#include "python/rooms.hpp"

namespace servorl::python {
void bind_sim(pybind11::module_& module) { (void)module; }
}  // namespace servorl::python
