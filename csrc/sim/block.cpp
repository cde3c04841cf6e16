#include "sim/block.hpp"

#include <cstring>

namespace servorl::sim {
namespace {
constexpr std::size_t kAlignment = 64;  // one cache line, so that two sections never share one

// Hands out aligned sections; with no base yet, only adds up their sizes.
class Layout {
 public:
  explicit Layout(std::byte* base) : base_(base) {}
  template <class Value>
  Value* section(std::size_t count) {
    auto* address = base_ ? reinterpret_cast<Value*>(base_ + offset_) : nullptr;
    offset_ += (count * sizeof(Value) + kAlignment - 1) / kAlignment * kAlignment;
    return address;
  }
  std::size_t size() const { return offset_; }

 private:
  std::byte* base_;
  std::size_t offset_ = 0;
};
}  // namespace

Block::Block(int num_envs, int observation_size, int info_size, bool float64_observations)
    : num_envs_(static_cast<std::size_t>(num_envs)),
      observation_bytes_(static_cast<std::size_t>(observation_size) *
                         (float64_observations ? sizeof(double) : sizeof(float))),
      info_size_(info_size),
      float64_(float64_observations) {
  const auto rows = num_envs_;
  const std::size_t info_values = rows * static_cast<std::size_t>(info_size);
  const auto place = [&](std::byte* base) {
    Layout layout(base);
    observation_ = layout.section<std::byte>(rows * observation_bytes_);
    final_observation_ = layout.section<std::byte>(rows * observation_bytes_);
    info_ = layout.section<double>(info_values);
    final_info_ = layout.section<double>(info_values);
    reward = layout.section<double>(rows);
    terminated = layout.section<std::uint8_t>(rows);
    truncated = layout.section<std::uint8_t>(rows);
    finished = layout.section<std::uint8_t>(rows);
    restarted = layout.section<std::uint8_t>(rows);
    valid = layout.section<std::uint8_t>(rows);
    return layout.size();
  };
  memory_.resize(place(nullptr) + kAlignment);
  const auto misalignment = reinterpret_cast<std::uintptr_t>(memory_.data()) % kAlignment;
  place(memory_.data() + (kAlignment - misalignment) % kAlignment);
}

void Block::clear_final(int env) {
  std::memset(final_observation_ + static_cast<std::size_t>(env) * observation_bytes_, 0, observation_bytes_);
  for (int key = 0; key < info_size_; ++key) final_info(key)[env] = 0.0;
}

void Block::write_row(std::byte* section, int env, std::span<const double> values) {
  const std::size_t first = static_cast<std::size_t>(env) * values.size();
  if (float64_) {
    std::memcpy(reinterpret_cast<double*>(section) + first, values.data(), values.size_bytes());
    return;
  }
  float* row = reinterpret_cast<float*>(section) + first;
  for (std::size_t i = 0; i < values.size(); ++i) row[i] = static_cast<float>(values[i]);
}

}  // namespace servorl::sim
