#include "train/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "train/durable_file.h"
#include "train/text.h"

namespace ropewalk {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "tensor files are little-endian");

constexpr const char* kMetadata = "__metadata__";
constexpr const char* kChecksum = "checksum";
constexpr uint64_t kMostHeaderBytes = 100'000'000;  // the limit of the format
constexpr int kMostDepth = 4;

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw CheckpointError("'" + path + "': " + reason);
}

/// The types of the format that whole bytes hold.
constexpr std::array<std::pair<std::string_view, uint64_t>, 14> kElementBytes = {{{"BOOL", 1},
                                                                                  {"U8", 1},
                                                                                  {"I8", 1},
                                                                                  {"F8_E5M2", 1},
                                                                                  {"F8_E4M3", 1},
                                                                                  {"I16", 2},
                                                                                  {"U16", 2},
                                                                                  {"F16", 2},
                                                                                  {"BF16", 2},
                                                                                  {"I32", 4},
                                                                                  {"U32", 4},
                                                                                  {"F32", 4},
                                                                                  {"I64", 8},
                                                                                  {"F64", 8}}};

std::optional<uint64_t> element_bytes(std::string_view dtype) {
  for (const auto& [name, bytes] : kElementBytes) {
    if (name == dtype) return bytes;
  }
  return std::nullopt;
}

/// What this program writes.
bool is_written(std::string_view dtype) {
  return dtype == "F32" || dtype == "F64" || dtype == "I64";
}

/// Bytes of a tensor; nullopt on a negative extent or overflow.
std::optional<uint64_t> tensor_bytes(uint64_t element, const std::vector<int64_t>& shape) {
  uint64_t bytes = element;
  for (const int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    const auto e = static_cast<uint64_t>(extent);
    if (e != 0 && bytes > std::numeric_limits<uint64_t>::max() / e) return std::nullopt;
    bytes *= e;
  }
  return bytes;
}

uint64_t mix(uint64_t h, uint64_t word) {
  return std::rotl((h ^ word) * 0x9E3779B97F4A7C15ULL, 31);
}

std::string hexadecimal(uint64_t value) {
  std::array<char, 20> text = {};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

/// The checksum of a header without its own entry; the data continues from it.
uint64_t header_checksum(json header) {
  if (header.contains(kMetadata)) header[kMetadata].erase(kChecksum);
  const std::string text = header.dump();
  return checksum64(text.data(), text.size(), 0);
}

/// A file of which the first bytes are read, or all.
class Input {
 public:
  explicit Input(const std::string& path) : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) fail(path, std::strerror(errno));
    try {
      check();
    } catch (...) {
      ::close(fd_);
      throw;
    }
  }
  ~Input() { ::close(fd_); }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  uint64_t size() const { return size_; }

  /// Reads on until `bytes` holds so many.
  void read(std::vector<std::byte>& bytes, uint64_t size) {
    std::size_t done = bytes.size();
    bytes.resize(size);
    while (done < bytes.size()) {
      const ssize_t got = ::read(fd_, bytes.data() + done, std::min(bytes.size() - done, std::size_t{1} << 30));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(path_, std::strerror(errno));
      if (got == 0) fail(path_, "became shorter while it was read");
      done += static_cast<std::size_t>(got);
    }
  }

 private:
  void check() {
    struct stat info = {};
    if (fstat(fd_, &info) != 0) fail(path_, std::strerror(errno));
    if (!S_ISREG(info.st_mode)) fail(path_, "is not a regular file");
    if (info.st_size < 8) fail(path_, info.st_size == 0 ? "is empty" : "is truncated: shorter than its header length");
    size_ = static_cast<uint64_t>(info.st_size);
  }

  std::string path_;
  int fd_;
  uint64_t size_ = 0;
};

/// Bytes of the header, as the first of the file say. Throws where the file has not so many.
uint64_t header_length(const Input& input, const std::string& path, std::span<const std::byte> bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kMostHeaderBytes || length > input.size() - sizeof length) {
    fail(path, "its header claims " + std::to_string(length) + " bytes of " + std::to_string(input.size()) +
                   "; the file is truncated or no safetensors file");
  }
  return length;
}

json parse_header(const std::string& path, const char* text, uint64_t length) {
  std::set<std::string> keys;
  std::string twice;
  bool deep = false;  // copying and printing nested values recurses
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::key && depth == 1 && !keys.insert(parsed.get<std::string>()).second) {
      twice = parsed.get<std::string>();
    }
    deep |= depth > kMostDepth;
    return depth <= kMostDepth;
  };
  json header;
  try {
    header = json::parse(text, text + length, watch);
  } catch (const json::exception& error) {
    fail(path, std::string("its header is not JSON: ") + error.what());
  }
  if (deep || !header.is_object()) fail(path, "its header is no JSON object of tensors");
  if (!twice.empty()) fail(path, "its header names '" + twice + "' twice");
  return header;
}

std::map<std::string, std::string> parse_metadata(const std::string& path, const json& header) {
  std::map<std::string, std::string> metadata;
  if (!header.contains(kMetadata)) return metadata;
  if (!header[kMetadata].is_object()) fail(path, "its __metadata__ is no JSON object");
  for (const auto& [key, value] : header[kMetadata].items()) {
    if (!value.is_string()) fail(path, "metadata '" + key + "' is no string");
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

StoredTensor parse_tensor(const std::string& path, const std::string& name, const json& entry,
                          std::span<const std::byte> data) {
  const auto bad = [&](const std::string& reason) { fail(path, "tensor '" + name + "' " + reason); };
  const auto is_count = [](const json& v) {
    return v.is_number_unsigned() && v.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
  };
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets")) {
    bad("lacks dtype, shape or data_offsets");
  }
  const json &dtype = entry["dtype"], &shape = entry["shape"], &offsets = entry["data_offsets"];
  if (!dtype.is_string() || !element_bytes(dtype.get<std::string>())) {
    std::vector<std::string> known;
    for (const auto& [known_name, bytes] : kElementBytes) known.emplace_back(known_name);
    bad("has dtype " + dtype.dump(-1, ' ', false, json::error_handler_t::replace) + "; known are " + joined(known));
  }
  if (!shape.is_array() || !std::all_of(shape.begin(), shape.end(), is_count)) bad("has a malformed shape");
  if (!offsets.is_array() || offsets.size() != 2 || !is_count(offsets[0]) || !is_count(offsets[1])) {
    bad("has malformed data_offsets");
  }
  StoredTensor tensor;
  tensor.name = name;
  tensor.dtype = dtype.get<std::string>();
  tensor.shape = shape.get<std::vector<int64_t>>();
  const auto begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
  if (begin > end || end > data.size()) {
    bad("lies at bytes " + std::to_string(begin) + " to " + std::to_string(end) + " of " + std::to_string(data.size()) +
        "; the file is truncated or damaged");
  }
  if (tensor_bytes(*element_bytes(tensor.dtype), tensor.shape) != end - begin) {
    bad("has " + std::to_string(end - begin) + " bytes of data, which is not what its shape asks for");
  }
  tensor.data = data.subspan(begin, end - begin);
  return tensor;
}

}  // namespace

uint64_t checksum64(const void* data, std::size_t bytes, uint64_t seed) {
  const auto* p = static_cast<const unsigned char*>(data);
  std::array<uint64_t, 4> lanes = {seed, ~seed, seed + 1, seed + 2};
  std::size_t left = bytes;
  for (; left >= 32; left -= 32, p += 32) {
    std::array<uint64_t, 4> words;
    std::memcpy(words.data(), p, 32);
    for (int i = 0; i < 4; ++i) lanes[i] = mix(lanes[i], words[i]);
  }
  for (; left > 0; p += std::min<std::size_t>(left, 8), left -= std::min<std::size_t>(left, 8)) {
    uint64_t word = 0;
    std::memcpy(&word, p, std::min<std::size_t>(left, 8));
    lanes[0] = mix(lanes[0], word);
  }
  uint64_t h = mix(bytes, seed);
  for (const uint64_t lane : lanes) h = mix(h, lane);
  return h ^ (h >> 29);
}

const StoredTensor& SafetensorsFile::tensor(const std::string& name) const {
  const auto at = std::find_if(tensors_.begin(), tensors_.end(), [&](const StoredTensor& t) { return t.name == name; });
  if (at == tensors_.end()) fail(path_, "has no tensor '" + name + "'");
  return *at;
}

void write_safetensors(const std::string& path, const std::vector<TensorToSave>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  header[kMetadata] = metadata;
  uint64_t offset = 0;
  std::vector<uint64_t> sizes;
  for (const TensorToSave& tensor : tensors) {
    const auto element = is_written(tensor.dtype) ? element_bytes(tensor.dtype) : std::nullopt;
    if (!element) fail(path, "tensor '" + tensor.name + "' has dtype '" + tensor.dtype + "'; use F32, F64 or I64");
    const auto bytes = tensor_bytes(*element, tensor.shape);
    if (!bytes) fail(path, "tensor '" + tensor.name + "' has an impossible shape");
    if (header.contains(tensor.name)) fail(path, "tensor name '" + tensor.name + "' occurs twice or is reserved");
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + *bytes}}};
    sizes.push_back(*bytes);
    offset += *bytes;
  }
  std::string text;
  try {
    uint64_t sum = header_checksum(header);
    for (std::size_t i = 0; i < tensors.size(); ++i) sum = checksum64(tensors[i].data, sizes[i], sum);
    header[kMetadata][kChecksum] = hexadecimal(sum);
    text = header.dump();
  } catch (const json::exception& error) {
    fail(path, std::string("a name or the metadata is not UTF-8: ") + error.what());
  }
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the data is aligned
  try {
    DurableFile file(path);
    const uint64_t length = text.size();
    file.write(&length, sizeof length);
    file.write(text.data(), text.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) file.write(tensors[i].data, sizes[i]);
    file.commit();
  } catch (const std::system_error& error) {
    throw CheckpointError(error.what());
  }
}

SafetensorsFile read_safetensors(const std::string& path) {
  SafetensorsFile file;
  file.path_ = path;
  Input input(path);
  input.read(file.bytes_, input.size());
  const std::span<const std::byte> bytes = file.bytes_;
  const uint64_t length = header_length(input, path, bytes);
  const json header = parse_header(path, reinterpret_cast<const char*>(bytes.data()) + sizeof length, length);
  file.metadata_ = parse_metadata(path, header);
  const std::span<const std::byte> data = bytes.subspan(sizeof length + length);
  for (const auto& [name, entry] : header.items()) {
    if (name != kMetadata) file.tensors_.push_back(parse_tensor(path, name, entry, data));
  }
  std::stable_sort(file.tensors_.begin(), file.tensors_.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(a.data.data(), a.data.size()) < std::pair(b.data.data(), b.data.size());
  });
  const std::byte* next = data.data();
  for (const StoredTensor& tensor : file.tensors_) {
    if (tensor.data.data() != next) fail(path, "tensor '" + tensor.name + "' overlaps another or leaves a gap");
    next += tensor.data.size();
  }
  if (next != data.data() + data.size()) {
    fail(path, "has " + std::to_string(data.data() + data.size() - next) + " bytes after the last tensor");
  }
  if (const auto at = file.metadata_.find(kChecksum); at != file.metadata_.end()) {
    uint64_t sum = header_checksum(header);
    for (const StoredTensor& tensor : file.tensors_) sum = checksum64(tensor.data.data(), tensor.data.size(), sum);
    if (hexadecimal(sum) != at->second) fail(path, "its checksum is wrong; the file is damaged");
  }
  return file;
}

std::map<std::string, std::string> read_safetensors_metadata(const std::string& path) {
  Input input(path);
  std::vector<std::byte> bytes;
  input.read(bytes, sizeof(uint64_t));
  const uint64_t length = header_length(input, path, bytes);
  input.read(bytes, sizeof length + length);
  return parse_metadata(path, parse_header(path, reinterpret_cast<const char*>(bytes.data()) + sizeof length, length));
}

}  // namespace ropewalk
