// Bindings of csrc/firmware.
#include "python/rooms.hpp"

namespace servorl::python {
void bind_firmware(pybind11::module_& module) { (void)module; }
}  // namespace servorl::python
