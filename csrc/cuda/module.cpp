// servorl._cuda: device pointers and a stream handle as integers, so that it links neither torch nor a driver.
// servorl.advantages checks the tensors that they come from.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>

#include "cuda/advantage.hpp"

namespace py = pybind11;

namespace servorl::cuda {
namespace {

/// rewards, values, next_values, terminated, truncated, valid (or 0), advantages, returns
using Pointers = std::array<std::uintptr_t, 8>;

template <class Element>
Element* as(std::uintptr_t pointer) {
  return reinterpret_cast<Element*>(pointer);
}

template <class Real>
GaeBatch<Real> gae_batch(const Pointers& at, std::size_t num_steps, std::size_t num_envs) {
  return {as<const Real>(at[0]),         as<const Real>(at[1]),
          as<const Real>(at[2]),         as<const std::uint8_t>(at[3]),
          as<const std::uint8_t>(at[4]), as<const std::uint8_t>(at[5]),
          as<Real>(at[6]),               as<Real>(at[7]),
          num_steps,                     num_envs};
}

}  // namespace

PYBIND11_MODULE(_cuda, module) {
  module.doc() = "servorl's CUDA kernels";
  module.attr("architectures") = SERVORL_CUDA_ARCHITECTURES;
  module.def(
      "gae",
      [](const Pointers& pointers, std::size_t num_steps, std::size_t num_envs, double gamma, double gae_lambda,
         bool is_float64, int device, std::uintptr_t stream) {
        const GaeSettings settings{gamma, gae_lambda};
        const py::gil_scoped_release released;
        if (is_float64) {
          gae(gae_batch<double>(pointers, num_steps, num_envs), settings, device, stream);
        } else {
          gae(gae_batch<float>(pointers, num_steps, num_envs), settings, device, stream);
        }
      },
      py::arg("pointers"), py::arg("num_steps"), py::arg("num_envs"), py::arg("gamma"), py::arg("gae_lambda"),
      py::arg("is_float64"), py::arg("device"), py::arg("stream"),
      "Queues one kernel. Pointers to [T, N] device arrays: rewards, values, next_values, terminated, truncated, "
      "valid (or 0), advantages, returns. See servorl.advantages.gae.");
}

}  // namespace servorl::cuda
