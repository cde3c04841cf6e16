#include "advantage/isa.hpp"

#include <stdexcept>
#include <string>

namespace servorl {

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return "avx512";
    case Isa::avx2:
      return "avx2";
    case Isa::baseline:
      break;
  }
  return "baseline";
}

std::vector<Isa> supported_isas() {
  std::vector<Isa> isas{Isa::baseline};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    isas.push_back(Isa::avx2);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      isas.push_back(Isa::avx512);
    }
  }
#endif
  return isas;
}

Isa best_isa() {
  static const Isa best = supported_isas().back();
  return best;
}

Isa isa_from_name(std::string_view name) {
  if (name == "auto") return best_isa();
  std::string known = "auto";
  for (const Isa isa : supported_isas()) {
    if (name == isa_name(isa)) return isa;
    known.append(", ").append(isa_name(isa));
  }
  throw std::invalid_argument("isa must be one of " + known + " on this processor, not '" + std::string(name) + "'");
}

}  // namespace servorl
