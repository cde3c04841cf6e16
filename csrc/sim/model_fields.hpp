// Model fields with a value per environment (domain randomisation), over mjb_expand. A value lasts, or
// holds until the environment's next reset, when the last lasting value comes back.
#pragma once
#include <mujoco/mjbatch.h>
#include <mujoco/mujoco.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace servorl::sim {

class ModelFields {
 public:
  enum class Type { float64, float32, int32, byte, boolean };

  struct Field {
    Type type;
    int rows, columns;               // of one environment's values; no rows for a field of mjOption
    std::size_t row_bytes;           // bytes of one environment's values
    std::byte* values;               // [num_envs], what the next step uses
    std::vector<std::byte> lasting;  // [num_envs], what a reset restores
    std::vector<std::uint8_t> until_reset;  // [num_envs]
  };

  explicit ModelFields(mjBatch* batch) : batch_(batch) {}

  // The names that expand() takes: mjModel's arrays, and mjOption's fields as "opt.<name>".
  std::vector<std::string> names() const;
  // Makes a field per environment (once) and returns it; nullptr where there is no such field.
  Field* expand(const std::string& name);

  // To be called after an environment's values were written.
  void mark(Field& field, int env, bool until_reset);
  bool temporary(int env) const;
  void restore(std::span<const int> envs);

 private:
  mjBatch* batch_;
  std::map<std::string, Field> fields_;
};

}  // namespace servorl::sim
