// servorl._core: one Python submodule per room of csrc/.
#include "python/rooms.hpp"

namespace py = pybind11;

PYBIND11_MODULE(_core, module) {
  module.doc() = "servorl's C++ core";
  module.attr("version") = SERVORL_VERSION;
  module.attr("mujoco_version") = SERVORL_MUJOCO_VERSION;
  auto advantage = module.def_submodule("advantage", "Advantage estimation on the host");
  servorl::python::bind_advantage(advantage);
  auto firmware = module.def_submodule("firmware", "The inference kernels that exported C is made of");
  servorl::python::bind_firmware(firmware);
  auto sim = module.def_submodule("sim", "Batched environment stepping");
  servorl::python::bind_sim(sim);
}
