#include "sim/model_fields.hpp"

#include <mujoco/mjxmacro.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <type_traits>

namespace servorl::sim {
namespace {

struct NamedField {
  std::string_view name;
  ModelFields::Type type;
  mjtSize mjModel::*rows;  // of an array; null for a field of mjOption
};

template <class Element>
constexpr ModelFields::Type type_of() {
  if (std::is_same_v<Element, mjtNum>) return ModelFields::Type::float64;
  if (std::is_same_v<Element, float>) return ModelFields::Type::float32;
  if (std::is_same_v<Element, mjtByte>) return ModelFields::Type::byte;
  if (std::is_same_v<Element, mjtBool>) return ModelFields::Type::boolean;
  return ModelFields::Type::int32;
}

// The integers of a model are addresses, sizes and kinds, which MuJoCo follows unchecked.
constexpr bool is_quantity(ModelFields::Type type) {
  return type == ModelFields::Type::float64 || type == ModelFields::Type::float32;
}

// Every array of mjModel and every field of mjOption. The table is constant data: some 500 initialisations
// at run time take the compiler minutes under a sanitizer.
constexpr NamedField kFields[] = {
#define X(element, name, rows, columns) {#name, type_of<element>(), &mjModel::rows},
    MJMODEL_POINTERS
#undef X
#define X(element, name, size) {"opt." #name, type_of<element>(), nullptr},
#define XVEC(element, name, size) X(element, name, size)
        MJOPTION_FIELDS
#undef XVEC
#undef X
};

}  // namespace

std::vector<std::string> ModelFields::names() const {
  std::vector<std::string> names;
  for (const NamedField& field : kFields) {
    if (is_quantity(field.type)) names.emplace_back(field.name);
  }
  return names;
}

ModelFields::Field* ModelFields::expand(const std::string& name) {
  if (const auto found = fields_.find(name); found != fields_.end()) return &found->second;
  const auto known = std::ranges::find(kFields, std::string_view(name), &NamedField::name);
  if (known == std::end(kFields) || !is_quantity(known->type)) return nullptr;
  int size = 0, element_bytes = 0;
  auto* values = static_cast<std::byte*>(mjb_expand(batch_, name.c_str(), &size, &element_bytes));
  if (!values) return nullptr;
  const mjModel* model = mjb_model(batch_);
  const int rows = known->rows ? static_cast<int>(model->*(known->rows)) : 0;
  const int columns = rows ? size / rows : size;
  if (size == 0 || (rows && size % rows != 0)) return nullptr;
  const auto num_envs = static_cast<std::size_t>(mjb_nsim(batch_));
  const std::size_t row_bytes = static_cast<std::size_t>(size) * static_cast<std::size_t>(element_bytes);
  Field field{known->type, rows, columns, row_bytes, values, {values, values + num_envs * row_bytes},
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
