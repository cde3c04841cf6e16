#include "sim/model_fields.hpp"

#include <mujoco/mjxmacro.h>

#include <cstring>
#include <type_traits>

namespace servorl::sim {
namespace {

struct Shape {
  ModelFields::Type type;
  int rows, columns;
};

template <class Element>
constexpr ModelFields::Type type_of() {
  if (std::is_same_v<Element, mjtNum>) return ModelFields::Type::float64;
  if (std::is_same_v<Element, float>) return ModelFields::Type::float32;
  if (std::is_same_v<Element, mjtByte>) return ModelFields::Type::byte;
  if (std::is_same_v<Element, mjtBool>) return ModelFields::Type::boolean;
  return ModelFields::Type::int32;
}

// Calls visit(name, Shape) for every array of mjModel and every field of mjOption.
template <class Visit>
void each_field(const mjModel* model, Visit visit) {
  MJMODEL_POINTERS_PREAMBLE(model)
  (void)nuser_body, (void)nuser_jnt, (void)nuser_geom, (void)nuser_site, (void)nuser_cam, (void)nuser_tendon;
  (void)nuser_actuator, (void)nuser_sensor, (void)nq, (void)nv, (void)na, (void)nu, (void)nmocap, (void)nplastic;
#define X(element, name, rows, columns) \
  visit(std::string(#name), Shape{type_of<element>(), static_cast<int>(model->rows), static_cast<int>(columns)});
  MJMODEL_POINTERS
#undef X
#define X(element, name, size) visit(std::string("opt." #name), Shape{type_of<element>(), 0, 1});
#define XVEC(element, name, size) visit(std::string("opt." #name), Shape{type_of<element>(), size, 1});
  MJOPTION_FIELDS
#undef XVEC
#undef X
}

}  // namespace

std::vector<std::string> ModelFields::names() const {
  std::vector<std::string> names;
  each_field(mjb_model(batch_), [&](const std::string& name, Shape) { names.push_back(name); });
  return names;
}

ModelFields::Field* ModelFields::expand(const std::string& name) {
  if (const auto found = fields_.find(name); found != fields_.end()) return &found->second;
  std::optional<Shape> shape;
  each_field(mjb_model(batch_), [&](const std::string& candidate, Shape candidate_shape) {
    if (candidate == name) shape = candidate_shape;
  });
  if (!shape) return nullptr;
  int size = 0, element_bytes = 0;
  auto* values = static_cast<std::byte*>(mjb_expand(batch_, name.c_str(), &size, &element_bytes));
  if (!values || size != (shape->rows ? shape->rows : 1) * shape->columns) return nullptr;
  const auto num_envs = static_cast<std::size_t>(mjb_nsim(batch_));
  const std::size_t row_bytes = static_cast<std::size_t>(size) * static_cast<std::size_t>(element_bytes);
  Field field{shape->type, shape->rows, shape->columns, row_bytes, values, {values, values + num_envs * row_bytes},
              std::vector<std::uint8_t>(num_envs, 0)};
  return &fields_.emplace(name, std::move(field)).first->second;
}

void ModelFields::mark(Field& field, int env, bool until_reset) {
  const std::size_t offset = static_cast<std::size_t>(env) * field.row_bytes;
  field.until_reset[env] = until_reset;
  if (!until_reset) std::memcpy(field.lasting.data() + offset, field.values + offset, field.row_bytes);
}

bool ModelFields::temporary(int env) const {
  for (const auto& [name, field] : fields_) {
    if (field.until_reset[env]) return true;
  }
  return false;
}

void ModelFields::restore(std::span<const int> envs) {
  for (auto& [name, field] : fields_) {
    for (const int env : envs) {
      if (!field.until_reset[env]) continue;
      const std::size_t offset = static_cast<std::size_t>(env) * field.row_bytes;
      std::memcpy(field.values + offset, field.lasting.data() + offset, field.row_bytes);
      field.until_reset[env] = 0;
    }
  }
}

}  // namespace servorl::sim
