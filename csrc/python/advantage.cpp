// Bindings of csrc/advantage.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>

#include "advantage/gae.hpp"
#include "cuda/advantage_twin.hpp"
#include "python/rooms.hpp"

namespace py = pybind11;

namespace servorl::python {
namespace {

using Flags = py::array_t<std::uint8_t, py::array::c_style>;
template <class Real>
using Reals = py::array_t<Real, py::array::c_style>;

/// servorl.advantages checks its caller's arrays and names the one that is wrong;
/// this check only keeps a direct call from reading or writing past an array's end.
void require_shape(const py::array& array, const py::array& like) {
  if (like.ndim() != 2 || array.ndim() != 2 || array.shape(0) != like.shape(0) || array.shape(1) != like.shape(1)) {
    throw py::value_error("every array must have the shape [T, N] of rewards");
  }
}

template <class Real>
GaeBatch<Real> gae_batch(const Reals<Real>& rewards, const Reals<Real>& values, const Reals<Real>& next_values,
                         const Flags& terminated, const Flags& truncated, const std::optional<Flags>& valid,
                         Reals<Real>& advantages, Reals<Real>& returns) {
  for (const py::array& array : {py::array(values), py::array(next_values), py::array(terminated),
                                 py::array(truncated), py::array(advantages), py::array(returns)}) {
    require_shape(array, rewards);
  }
  if (valid) require_shape(*valid, rewards);
  return {rewards.data(),
          values.data(),
          next_values.data(),
          terminated.data(),
          truncated.data(),
          valid ? valid->data() : nullptr,
          advantages.mutable_data(),
          returns.mutable_data(),
          static_cast<std::size_t>(rewards.shape(0)),
          static_cast<std::size_t>(rewards.shape(1))};
}

template <class Real>
void bind_gae(py::module_& module) {
  const auto define = [&](const char* name, auto run, auto... more) {
    module.def(name, run, py::arg("rewards").noconvert(), py::arg("values").noconvert(),
               py::arg("next_values").noconvert(), py::arg("terminated").noconvert(), py::arg("truncated").noconvert(),
               py::arg("valid").noconvert(), py::arg("advantages").noconvert(), py::arg("returns").noconvert(),
               py::arg("gamma"), py::arg("gae_lambda"), more...);
  };
  define(
      "gae",
      [](const Reals<Real>& rewards, const Reals<Real>& values, const Reals<Real>& next_values, const Flags& terminated,
         const Flags& truncated, const std::optional<Flags>& valid, Reals<Real>& advantages, Reals<Real>& returns,
         double gamma, double gae_lambda, int num_threads, std::string_view isa) {
        const GaeBatch<Real> batch =
            gae_batch(rewards, values, next_values, terminated, truncated, valid, advantages, returns);
        const Isa chosen = isa_from_name(isa);
        const py::gil_scoped_release released;
        gae(batch, {gamma, gae_lambda}, num_threads, chosen);
      },
      py::arg("num_threads"), py::arg("isa"),
      "Writes advantages and returns, all arrays [T, N] C-contiguous, flags uint8. See servorl.advantages.gae.");
  define(
      "gae_twin",
      [](const Reals<Real>& rewards, const Reals<Real>& values, const Reals<Real>& next_values, const Flags& terminated,
         const Flags& truncated, const std::optional<Flags>& valid, Reals<Real>& advantages, Reals<Real>& returns,
         double gamma, double gae_lambda) {
        cuda::gae_twin(gae_batch(rewards, values, next_values, terminated, truncated, valid, advantages, returns),
                       {gamma, gae_lambda});
      },
      "gae by the CUDA kernel's body run on the host, for tests.");
}

}  // namespace

void bind_advantage(py::module_& module) {
  bind_gae<float>(module);
  bind_gae<double>(module);
  module.def(
      "supported_isas",
      [] {
        std::vector<std::string> names;
        for (const Isa isa : supported_isas()) names.emplace_back(isa_name(isa));
        return names;
      },
      "Names of the instruction sets that this processor runs, slowest first.");
}

}  // namespace servorl::python
