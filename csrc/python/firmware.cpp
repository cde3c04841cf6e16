// Bindings of csrc/firmware: the kernels that exported C is made of, compiled for the host.
#include "python/rooms.hpp"

#include <pybind11/numpy.h>

#include <span>

#include "firmware/dense.h"
#include "firmware/elu.h"
#include "firmware/relu.h"
#include "firmware/tanh.h"
#include "firmware/vector.h"

namespace servorl::python {
namespace {

namespace py = pybind11;
using FloatArray = py::array_t<float, py::array::c_style | py::array::forcecast>;

using LayerKernel = void (*)(float*, uint32_t);

// Applies an in-place kernel to a copy of the array.
FloatArray apply(LayerKernel kernel, const FloatArray& x) {
  FloatArray result(std::vector<py::ssize_t>(x.shape(), x.shape() + x.ndim()), x.data());
  kernel(result.mutable_data(), static_cast<uint32_t>(result.size()));
  return result;
}

FloatArray dense(const FloatArray& packed, const FloatArray& input, uint32_t rows) {
  const auto columns = static_cast<uint32_t>(input.size());
  if (packed.size() != static_cast<py::ssize_t>(rows) * (static_cast<py::ssize_t>(columns) + 1)) {
    throw py::value_error("packed must hold rows * (columns + 1) values");
  }
  FloatArray output(static_cast<py::ssize_t>(rows));
  servorl_dense(packed.data(), input.data(), columns, rows, output.mutable_data());
  return output;
}

}  // namespace

void bind_firmware(py::module_& module) {
  module.def("tanh", [](const FloatArray& x) { return apply(servorl_tanh_layer, x); }, py::arg("x"),
             "tanh of every value, float32, as the exported C computes it");
  module.def("elu", [](const FloatArray& x) { return apply(servorl_elu_layer, x); }, py::arg("x"),
             "ELU (alpha = 1) of every value, float32, as the exported C computes it");
  module.def("relu", [](const FloatArray& x) { return apply(servorl_relu_layer, x); }, py::arg("x"),
             "ReLU of every value, float32, as the exported C computes it");
  module.def("all_finite", [](const FloatArray& x) {
    return servorl_all_finite(x.data(), static_cast<uint32_t>(x.size())) != 0;
  }, py::arg("x"), "Whether every value is finite");
  module.def("dense", &dense, py::arg("packed"), py::arg("input"), py::arg("rows"),
             "One dense layer over packed weights (servorl.export.packing), float32; ValueError on a wrong size");
}

}  // namespace servorl::python
