// What the C++ tests need of a test framework: a check that names its place, and an exit code.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <source_location>
#include <string>

namespace servorl::tests {

/// Ends the program with the place and `what` where `holds` is false.
inline void check(bool holds, const std::string& what, std::source_location at = std::source_location::current()) {
  if (holds) return;
  std::fprintf(stderr, "%s:%u: %s\n", at.file_name(), static_cast<unsigned>(at.line()), what.c_str());
  std::exit(1);
}

/// Ends the program where `call` does not throw an `Error`.
template <class Error, class Call>
void check_throws(const Call& call, const std::string& what,
                  std::source_location at = std::source_location::current()) {
  try {
    call();
  } catch (const Error&) {
    return;
  }
  check(false, what + " does not throw", at);
}

}  // namespace servorl::tests
