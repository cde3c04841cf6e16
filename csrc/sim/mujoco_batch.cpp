#include "sim/mujoco_batch.hpp"

#include <stdexcept>

namespace servorl::sim {
namespace {

struct Component {
  const char* name;
  int bit;
};
// The integration state by the names of mjData.
constexpr Component kComponents[] = {
    {"time", mjSTATE_TIME}, {"qpos", mjSTATE_QPOS}, {"qvel", mjSTATE_QVEL}, {"act", mjSTATE_ACT},
    {"history", mjSTATE_HISTORY}, {"qacc_warmstart", mjSTATE_WARMSTART}, {"ctrl", mjSTATE_CTRL},
    {"qfrc_applied", mjSTATE_QFRC_APPLIED}, {"xfrc_applied", mjSTATE_XFRC_APPLIED},
    {"eq_active", mjSTATE_EQ_ACTIVE}, {"mocap_pos", mjSTATE_MOCAP_POS}, {"mocap_quat", mjSTATE_MOCAP_QUAT},
    {"userdata", mjSTATE_USERDATA}, {"plugin_state", mjSTATE_PLUGIN}, {"plastic", mjSTATE_PLASTIC}};

constexpr std::pair<const char*, int> kWarnings[] = {
    {"inertia", mjWARN_INERTIA}, {"contact_full", mjWARN_CONTACTFULL}, {"constraint_full", mjWARN_CNSTRFULL},
    {"bad_qpos", mjWARN_BADQPOS}, {"bad_qvel", mjWARN_BADQVEL}, {"bad_qacc", mjWARN_BADQACC},
    {"bad_ctrl", mjWARN_BADCTRL}};

mjBatch* make_batch(const mjModel& model, const BatchSettings& settings) {
  mjBatchConfig config;
  mjb_defaultConfig(&config);
  config.nthread = settings.num_threads;
  char error[1024] = "";
  mjBatch* batch = mjb_makeBatch(&model, settings.num_envs, &config, error, sizeof error);
  if (!batch) throw std::runtime_error(std::string("MuJoCo cannot make a batch: ") + error);
  return batch;
}

}  // namespace

ModelPointer load_model(const std::string& path) {
  install_warning_handler();
  QuietWarnings quiet;
  char error[1024] = "";
  ModelPointer model(mj_loadXML(path.c_str(), nullptr, error, sizeof error));
  if (!model) throw std::runtime_error("cannot load " + path + ": " + error);
  return model;
}

MujocoBatchBase::MujocoBatchBase(const BatchSettings& settings, Interface interface, const mjModel& model)
    : Batch(settings, std::move(interface)), batch_(make_batch(model, settings)), fields_(batch_) {
  const auto n = static_cast<std::size_t>(num_envs());
  carried_.assign(n * this->interface().carried.size(), 0.0);
  warnings_.assign(n * mjNWARNING, 0);
}

MujocoBatchBase::~MujocoBatchBase() { mjb_deleteBatch(batch_); }

std::span<double> MujocoBatchBase::carried(int env) {
  const std::size_t width = interface().carried.size();
  return {carried_.data() + static_cast<std::size_t>(env) * width, width};
}

void MujocoBatchBase::apply(mjfBatchFunc function, void* argument, std::span<const int> envs, bool save) {
  install_warning_handler();
  int failed = 0;
  leave();
  {
    QuietWarnings quiet;  // also undoes quiet_worker_thread on the caller's thread, which works too
    failed = mjb_apply(batch_, envs.empty() ? nullptr : envs.data(), static_cast<int>(envs.size()), function, argument,
                       save);
  }
  enter();
  if (failed == 0) return;
  const int* status = mjb_status(batch_);
  const auto check = [&](int env) {
    if (status[env]) fail(env, std::make_exception_ptr(std::runtime_error(mjb_error(batch_, env))));
  };
  for (const int env : envs) check(env);
  for (int env = 0; envs.empty() && env < num_envs(); ++env) check(env);
}

void MujocoBatchBase::clear_warnings(mjData* data) {
  for (mjWarningStat& warning : data->warning) warning.number = 0;
}

bool MujocoBatchBase::collect_warnings(int env, const mjData* data) {
  std::int64_t* counts = warnings_.data() + static_cast<std::size_t>(env) * mjNWARNING;
  for (int kind = 0; kind < mjNWARNING; ++kind) counts[kind] += data->warning[kind].number;
  const auto rose = [&](int kind) { return data->warning[kind].number > 0; };
  return rose(mjWARN_BADQPOS) || rose(mjWARN_BADQVEL) || rose(mjWARN_BADQACC) || rose(mjWARN_BADCTRL);
}

std::vector<std::pair<std::string, std::int64_t>> MujocoBatchBase::warnings() const {
  std::vector<std::pair<std::string, std::int64_t>> totals;
  for (const auto& [name, kind] : kWarnings) {
    std::int64_t total = 0;
    for (std::size_t i = static_cast<std::size_t>(kind); i < warnings_.size(); i += mjNWARNING) total += warnings_[i];
    totals.emplace_back(name, total);
  }
  return totals;
}

std::vector<StateField> MujocoBatchBase::state_fields() {
  std::vector<StateField> fields = Batch::state_fields();
  const std::size_t stride = sizeof(mjtNum) * static_cast<std::size_t>(mjb_nstate(batch_));
  for (const Component& component : kComponents) {
    int size = 0;
    mjtNum* base = mjb_stateComponent(batch_, component.bit, &size);
    const bool scalar = component.bit == mjSTATE_TIME;
    if (size > 0) fields.push_back({component.name, StateField::Type::float64, base, stride, scalar ? 0 : size});
  }
  const std::size_t carried = interface().carried.size();
  for (std::size_t i = 0; i < carried; ++i) {
    fields.push_back(
        {interface().carried[i], StateField::Type::float64, carried_.data() + i, sizeof(double) * carried, 0});
  }
  return fields;
}

std::vector<double> MujocoBatchBase::qpos(int env) {
  int size = 0;
  const mjtNum* first = mjb_stateComponent(batch_, mjSTATE_QPOS, &size);
  const mjtNum* row = first + static_cast<std::ptrdiff_t>(env) * mjb_nstate(batch_);
  return {row, row + size};
}

}  // namespace servorl::sim
