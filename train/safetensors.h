#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace ropewalk {

/// A checkpoint or tensor file cannot be read or written; the message names the file and the reason.
class CheckpointError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A tensor to be written: row-major, in host memory.
struct TensorToSave {
  std::string name;
  std::string dtype;  ///< "F32", "F64" or "I64"
  std::vector<int64_t> shape;
  const void* data = nullptr;
};

/// A tensor that was read; `data` points into the SafetensorsFile and need not be aligned.
struct StoredTensor {
  std::string name;
  std::string dtype;  ///< also of the format's others: "F16", "BF16", "U8", ...
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
};

/// A file of tensors in the safetensors layout: u64 little-endian header length, JSON header with dtype, shape and
/// data_offsets of each tensor and the strings of `__metadata__`, data.
class SafetensorsFile {
 public:
  const std::string& path() const { return path_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// In the order of their data.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  /// @throws CheckpointError if there is none of that name.
  const StoredTensor& tensor(const std::string& name) const;

 private:
  friend SafetensorsFile read_safetensors(const std::string& path);
  std::string path_;
  std::vector<std::byte> bytes_;
  std::map<std::string, std::string> metadata_;
  std::vector<StoredTensor> tensors_;
};

/// Writes `path` whole or not at all (beside, synced, renamed). A checksum over header and data is added to the
/// metadata as `checksum`.
/// @throws CheckpointError if the file cannot be written, or a name occurs twice or a dtype is unknown.
void write_safetensors(const std::string& path, const std::vector<TensorToSave>& tensors,
                       const std::map<std::string, std::string>& metadata);

/// Reads and checks everything: sizes, header, dtypes, shapes, that the tensors fill the data without gap or overlap,
/// and the checksum where there is one (files of other programs have none).
/// @throws CheckpointError
SafetensorsFile read_safetensors(const std::string& path);

/// The `__metadata__` alone; of the file nothing but its header is read. @throws CheckpointError
std::map<std::string, std::string> read_safetensors_metadata(const std::string& path);

/// 64-bit checksum, continuing from `seed`. Any change within 8 bytes changes it; others do but for 1 in 2^64.
uint64_t checksum64(const void* data, std::size_t bytes, uint64_t seed);

}  // namespace ropewalk
