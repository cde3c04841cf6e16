// Bindings of csrc/sim: arrays over the batch's memory, and its calls without the interpreter lock.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <unistd.h>

#include <memory>
#include <span>

#include "python/rooms.hpp"
#include "sim/registry.hpp"
#include "sim/replay.hpp"

namespace py = pybind11;

namespace servorl::python {
namespace {

template <class Value>
using Array = py::array_t<Value, py::array::c_style>;

template <class Value>
std::span<const Value> span_of(const Array<Value>& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}

// Owns a batch for Python. In a forked child its threads do not exist, so there it is leaked, not joined.
struct Handle {
  std::unique_ptr<sim::Batch> batch;
  pid_t owner = getpid();
  explicit Handle(std::unique_ptr<sim::Batch> made) : batch(std::move(made)) {}
  Handle(Handle&&) = default;
  ~Handle() {
    if (batch && getpid() != owner) (void)batch.release();
  }
};

py::dtype dtype_of(sim::StateField::Type type) {
  switch (type) {
    case sim::StateField::Type::float32: return py::dtype::of<float>();
    case sim::StateField::Type::float64: return py::dtype::of<double>();
    case sim::StateField::Type::int64: return py::dtype::of<std::int64_t>();
    case sim::StateField::Type::boolean: return py::dtype::of<bool>();
  }
  throw std::logic_error("unreachable");
}

py::dtype dtype_of(sim::ModelFields::Type type) {
  switch (type) {
    case sim::ModelFields::Type::float64: return py::dtype::of<double>();
    case sim::ModelFields::Type::float32: return py::dtype::of<float>();
    case sim::ModelFields::Type::int32: return py::dtype::of<std::int32_t>();
    case sim::ModelFields::Type::byte: return py::dtype::of<std::uint8_t>();
    case sim::ModelFields::Type::boolean: return py::dtype::of<bool>();
  }
  throw std::logic_error("unreachable");
}

// The sections of the block by name, as arrays that keep the handle alive.
py::dict block_views(py::object self) {
  sim::Batch& batch = *self.cast<Handle&>().batch;
  sim::Block& block = batch.block();
  const py::ssize_t n = batch.num_envs();
  const auto observation_size = static_cast<py::ssize_t>(batch.interface().observation.size());
  const auto infos = static_cast<py::ssize_t>(batch.interface().info.size());
  const py::dtype observation_type = block.float64() ? py::dtype::of<double>() : py::dtype::of<float>();
  const auto flag = [&](std::uint8_t* values) { return py::array(py::dtype::of<bool>(), {n}, values, self); };
  py::dict views;
  views["observation"] = py::array(observation_type, {n, observation_size}, block.observation(), self);
  views["final_observation"] = py::array(observation_type, {n, observation_size}, block.final_observation(), self);
  views["info"] = py::array_t<double>({infos, n}, block.info(0), self);
  views["final_info"] = py::array_t<double>({infos, n}, block.final_info(0), self);
  views["reward"] = py::array_t<double>({n}, block.reward, self);
  views["terminated"] = flag(block.terminated);
  views["truncated"] = flag(block.truncated);
  views["finished"] = flag(block.finished);
  views["restarted"] = flag(block.restarted);
  views["valid"] = flag(block.valid);
  views["diverged"] = py::array_t<std::int64_t>({n}, batch.diverged().data(), self);
  views["action"] =
      py::array_t<double>({n, static_cast<py::ssize_t>(batch.interface().action.size())}, batch.actions().data(), self);
  return views;
}

py::dict state_views(py::object self) {
  sim::Batch& batch = *self.cast<Handle&>().batch;
  py::dict views;
  for (const sim::StateField& field : batch.state_fields()) {
    const py::dtype dtype = dtype_of(field.type);
    std::vector<py::ssize_t> shape = {batch.num_envs()}, strides = {static_cast<py::ssize_t>(field.stride)};
    if (field.width > 0) {
      shape.push_back(field.width);
      strides.push_back(dtype.itemsize());
    }
    views[py::str(field.name)] = py::array(dtype, shape, strides, field.base, self);
  }
  return views;
}

// (values, values after a reset, flags "until reset") of a model field per environment; None for an unknown name.
py::object expand(py::object self, const std::string& name) {
  sim::Batch& batch = *self.cast<Handle&>().batch;
  sim::ModelFields* fields = batch.model_fields();
  sim::ModelFields::Field* field = fields ? fields->expand(name) : nullptr;
  if (!field) return py::none();
  std::vector<py::ssize_t> shape = {batch.num_envs()};
  if (field->rows > 0) shape.push_back(field->rows);
  if (field->columns > 1) shape.push_back(field->columns);
  return py::make_tuple(py::array(dtype_of(field->type), shape, field->values, self),
                        py::array(dtype_of(field->type), shape, field->lasting.data(), self),
                        py::array(py::dtype::of<bool>(), {batch.num_envs()}, field->until_reset.data(), self));
}

void mark_field(Handle& self, const std::string& name, const std::vector<int>& envs, bool until_reset) {
  sim::ModelFields::Field* field = self.batch->model_fields()->expand(name);
  for (const int env : envs) self.batch->model_fields()->mark(*field, env, until_reset);
}

const sim::RegisteredTask& find_task(const std::string& name) {
  for (const sim::RegisteredTask& task : sim::registered_tasks()) {
    if (task.name == name) return task;
  }
  throw py::key_error(name);
}

// The task's options with the given values, of the declared types, in the declared order.
sim::OptionValues option_values(const sim::RegisteredTask& task,
                                const std::vector<std::variant<bool, std::int64_t, double>>& values) {
  std::vector<sim::Option> options = task.options;
  for (std::size_t i = 0; i < options.size(); ++i) options[i].value = values.at(i);
  return sim::OptionValues(std::move(options));
}

py::list channels(const std::vector<sim::Channel>& declared) {
  py::list list;
  for (const sim::Channel& channel : declared) {
    list.append(py::make_tuple(channel.name, channel.unit, channel.low, channel.high));
  }
  return list;
}

py::dict describe(const std::string& name, const std::string& model_path,
                  const std::vector<std::variant<bool, std::int64_t, double>>& values) {
  const sim::RegisteredTask& task = find_task(name);
  const sim::Interface interface = task.describe(model_path, option_values(task, values));
  py::list info;
  for (const sim::InfoKey& key : interface.info) {
    info.append(py::make_tuple(key.name, key.in_step, key.in_reset, key.integer));
  }
  py::dict description;
  description["observation"] = channels(interface.observation);
  description["action"] = channels(interface.action);
  description["info"] = info;
  description["control_period"] = interface.control_period;
  description["max_episode_steps"] = interface.max_episode_steps;
  description["reward_threshold"] = interface.reward_threshold;
  return description;
}

py::list options(const std::string& name) {
  py::list list;
  for (const sim::Option& option : find_task(name).options) {
    list.append(py::make_tuple(option.name, option.value, option.low, option.high, option.help));
  }
  return list;
}

Handle make_batch(const std::string& name, const std::string& model_path,
                  const std::vector<std::variant<bool, std::int64_t, double>>& values, int num_envs, int num_threads,
                  const std::string& autoreset_mode, bool float64_observations, int max_episode_steps,
                  bool mask_repeated_divergence) {
  sim::BatchSettings settings;
  settings.num_envs = num_envs;
  settings.num_threads = num_threads;
  settings.autoreset_mode = autoreset_mode == "same_step"   ? sim::AutoresetMode::same_step
                            : autoreset_mode == "next_step" ? sim::AutoresetMode::next_step
                                                            : sim::AutoresetMode::disabled;
  settings.float64_observations = float64_observations;
  settings.max_episode_steps = max_episode_steps;
  settings.mask_repeated_divergence = mask_repeated_divergence;
  settings.model_path = model_path;
  const sim::RegisteredTask& task = find_task(name);
  return Handle(task.make_batch(settings, option_values(task, values)));
}

// (finished, restarted, environment that diverged after three resets in a row or -1)
py::tuple step(Handle& self) {
  sim::StepSummary summary;
  {
    py::gil_scoped_release release;
    summary = self.batch->step();
  }
  return py::make_tuple(summary.finished, summary.restarted, summary.repeatedly_diverged);
}

void reset(Handle& self, const Array<int>& envs, const Array<std::int64_t>& seeds) {
  py::gil_scoped_release release;
  self.batch->reset(span_of(envs), span_of(seeds));
}

void refresh(Handle& self, const Array<int>& envs) {
  py::gil_scoped_release release;
  self.batch->refresh(span_of(envs));
}

template <class Value>
std::vector<Value> vector_of(const Array<Value>& array) {
  return {array.data(), array.data() + array.size()};
}

sim::Replay make_replay(const std::string& model_path, int frame_skip, const Array<double>& actions,
                        const Array<double>& states, const Array<std::int32_t>& resets) {
  if (actions.ndim() != 3 || states.ndim() != 2 || resets.ndim() != 2) {
    throw std::invalid_argument("actions are [steps, num_envs, nu], states [any, nq + nv], resets [steps + 1, num_envs]");
  }
  return sim::Replay(model_path, {.steps = static_cast<int>(actions.shape(0)),
                                  .num_envs = static_cast<int>(actions.shape(1)),
                                  .frame_skip = frame_skip,
                                  .actions = vector_of(actions),
                                  .states = vector_of(states),
                                  .resets = vector_of(resets)});
}

}  // namespace

void bind_sim(py::module_& module) {
  if (sim::registered_tasks().empty()) register_environments();

  py::class_<Handle>(module, "Batch")
      .def("step", step)
      .def("reset", reset)
      .def("refresh", refresh)
      .def("show_last_observation",
           [](Handle& self, const Array<int>& envs) { self.batch->show_last_observation(span_of(envs)); })
      .def("first_bad_action", [](Handle& self) { return self.batch->first_bad_action(); })
      .def("first_needing_reset", [](Handle& self) { return self.batch->first_needing_reset(); })
      .def("qpos", [](Handle& self, int env) { return py::array_t<double>(py::cast(self.batch->qpos(env))); })
      .def("warnings", [](Handle& self) { return self.batch->warnings(); })
      .def("model_field_names",
           [](Handle& self) {
             sim::ModelFields* fields = self.batch->model_fields();
             return fields ? fields->names() : std::vector<std::string>{};
           })
      .def("mark_field", mark_field)
      .def_property_readonly("num_threads", [](Handle& self) { return self.batch->num_threads(); });
  module.def("block_views", block_views);
  module.def("state_views", state_views);
  module.def("expand", expand);

  py::class_<sim::Replay>(module, "Replay")
      .def(py::init(&make_replay))
      .def("run", &sim::Replay::run, py::call_guard<py::gil_scoped_release>())
      .def("final_states", [](const sim::Replay& self) { return py::array_t<double>(py::cast(self.final_states())); });

  module.def("names", [] {
    std::vector<std::string> names;
    for (const sim::RegisteredTask& task : sim::registered_tasks()) names.push_back(task.name);
    return names;
  });
  module.def("options", options);
  module.def("is_native", [](const std::string& name) { return find_task(name).native; });
  module.def("describe", describe);
  module.def("make_batch", make_batch);
  module.def("timestep", [](const std::string& model_path) { return sim::load_model(model_path)->opt.timestep; });
  module.def("available_cores", sim::available_cores);
}

}  // namespace servorl::python
