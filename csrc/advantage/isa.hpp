// Which instruction set the host's vector loops use: chosen at run time, so that one binary runs on every processor.
#pragma once
#include <string_view>
#include <vector>

namespace servorl {

enum class Isa { baseline, avx2, avx512 };

std::string_view isa_name(Isa isa);

/// What this processor and operating system can run, slowest first; `baseline` is always there
/// (SSE2 on x86-64; on arm64 the compiler's own vectorisation with NEON).
std::vector<Isa> supported_isas();

/// The fastest of supported_isas().
Isa best_isa();

/// Throws std::invalid_argument for a name that does not exist or that this processor cannot run. "auto" is best_isa().
Isa isa_from_name(std::string_view name);

}  // namespace servorl
