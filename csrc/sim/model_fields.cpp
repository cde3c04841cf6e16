#include "sim/model_fields.hpp"

#include <mujoco/mjxmacro.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace servorl::sim {
namespace {

struct NamedField {
  std::string_view name;
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

// Every array of mjModel and every field of mjOption. Plain structs in one list: some 500 of anything
// with a constructor take the compiler half a minute.
std::vector<NamedField> every_field(const mjModel* model) {
  MJMODEL_POINTERS_PREAMBLE(model)
  (void)nuser_body, (void)nuser_jnt, (void)nuser_geom, (void)nuser_site, (void)nuser_cam, (void)nuser_tendon;
  (void)nuser_actuator, (void)nuser_sensor, (void)nq, (void)nv, (void)na, (void)nu, (void)nmocap, (void)nplastic;
  const NamedField fields[] = {
#define X(element, name, rows, columns) \
  {#name, type_of<element>(), static_cast<int>(model->rows), static_cast<int>(columns)},
      MJMODEL_POINTERS
#undef X
#define X(element, name, size) {"opt." #name, type_of<element>(), 0, 1},
#define XVEC(element, name, size) {"opt." #name, type_of<element>(), size, 1},
          MJOPTION_FIELDS
#undef XVEC
#undef X
  };
  return {std::begin(fields), std::end(fields)};
}

}  // namespace

std::vector<std::string> ModelFields::names() const {
  std::vector<std::string> names;
  for (const NamedField& field : every_field(mjb_model(batch_))) names.emplace_back(field.name);
  return names;
}

ModelFields::Field* ModelFields::expand(const std::string& name) {
  if (const auto found = fields_.find(name); found != fields_.end()) return &found->second;
  const std::vector<NamedField> known = every_field(mjb_model(batch_));
  const auto shape = std::ranges::find(known, std::string_view(name), &NamedField::name);
  if (shape == known.end()) return nullptr;
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
