#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace taxon::report {

/// One point of a TensorBoard chart.
struct Scalar {
  std::string tag;   // "loss/train": the part before the slash groups charts
  double value = 0;  // stored as float32
};

/// Records of a TensorBoard event file: TFRecord framing (length, masked CRC32C, data, masked CRC32C) around
/// Event messages (tensorflow/core/util/event.proto). Concatenate them into a file called event_file_name().
std::string encode_file_version(double wall_time);
std::string encode_scalars(double wall_time, std::int64_t step, const std::vector<Scalar>& scalars);

/// "events.out.tfevents.1700000000.host": TensorBoard recognises the first part, the rest keeps runs apart.
std::string event_file_name(double wall_time, std::string_view host);

/// CRC-32C (Castagnoli) of `data`, as TFRecord masks it.
std::uint32_t masked_crc32c(std::string_view data);

}  // namespace taxon::report
