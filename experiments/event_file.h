#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ropewalk {

/// CRC-32C (polynomial 1EDC6F41 reflected; RFC 3720, B.4).
uint32_t crc32c(std::string_view bytes);

/// The checksum as TFRecord files store it: rotated and shifted, so that a checksum over data that holds checksums
/// stays a good one.
uint32_t masked_crc32c(std::string_view bytes);

/// A record of a TFRecord file: u64 length, masked CRC-32C of the length, data, masked CRC-32C of the data.
std::string record_of(std::string_view data);

/// A point of a curve of TensorBoard.
struct TaggedScalar {
  std::string_view tag;
  float value = 0;
};

// Messages `Event` (tensorboard/compat/proto/event.proto) in the wire format of Protocol Buffers. Times are seconds
// since 1970.

/// The first of a file, which names the version of what follows: "brain.Event:2".
std::string version_event(double wall_time);

/// A summary of scalars at one step.
std::string scalar_event(double wall_time, int64_t step, std::span<const TaggedScalar> scalars);

}  // namespace ropewalk
