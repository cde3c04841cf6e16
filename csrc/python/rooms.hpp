// The binding functions of each room; module.cpp calls them in turn. No logic lives in this folder.
#pragma once
#include <pybind11/pybind11.h>

namespace servorl::python {
void bind_advantage(pybind11::module_& module);
void bind_firmware(pybind11::module_& module);
void bind_sim(pybind11::module_& module);
}  // namespace servorl::python
