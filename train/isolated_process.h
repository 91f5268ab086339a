#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ropewalk {

/// The child process of `in_child_process` died, hung, or sent less than was expected; the message says which.
class ChildError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a child may use before it is ended.
struct ChildLimits {
  uint64_t memory_bytes = uint64_t{1} << 30;  ///< beyond what the parent has mapped; not enforced under sanitizers
  unsigned cpu_seconds = 120;
  unsigned silence_seconds = 120;  ///< longest pause between two pieces of output
};

/// The child's end of the stream: a buffered writer of plain values.
class ByteWriter {
 public:
  explicit ByteWriter(int fd) : fd_(fd) { buffer_.reserve(kBuffer); }
  void bytes(const void* data, std::size_t count);
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void value(const T& v) { bytes(&v, sizeof v); }
  void text(std::string_view s) {
    value(uint64_t{s.size()});
    bytes(s.data(), s.size());
  }
  void flush();

 private:
  static constexpr std::size_t kBuffer = std::size_t{1} << 16;
  int fd_;
  std::vector<char> buffer_;
};

/// The parent's end of the stream. Members throw ChildError when the stream ends early or pauses too long; sizes that
/// the child claims are not believed: memory grows only with the bytes that arrive.
class ByteReader {
 public:
  ByteReader(int fd, unsigned silence_seconds) : fd_(fd), silence_seconds_(silence_seconds), buffer_(kStep) {}
  void bytes(void* data, std::size_t count);
  template <typename T>
  requires std::is_trivially_copyable_v<T> T value() {
    T v;
    bytes(&v, sizeof v);
    return v;
  }
  std::string text() {
    std::string s;
    fill(s, value<uint64_t>());
    return s;
  }
  template <typename T>
  std::vector<T> vector(uint64_t count) {
    std::vector<T> v;
    fill(v, count);
    return v;
  }

 private:
  static constexpr std::size_t kStep = std::size_t{1} << 20;
  template <typename Container>
  void fill(Container& c, uint64_t count) {
    using T = typename Container::value_type;
    while (c.size() < count) {
      const std::size_t begin = c.size();
      const std::size_t more =
          static_cast<std::size_t>(std::min<uint64_t>(count - begin, std::max<std::size_t>(begin, kStep / sizeof(T))));
      c.resize(begin + more);
      bytes(c.data() + begin, more * sizeof(T));
    }
  }

  int fd_;
  unsigned silence_seconds_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
};

/// Runs `produce` in a forked child and `consume` here, joined by a pipe, so that a crash, an endless loop or an absurd
/// allocation in `produce` is an exception here. The child's standard error is discarded, and it leaves without
/// destructors and exit handlers. Exceptions of `consume` pass through; those of `produce` end the child.
/// @throws ChildError if the child fails before `consume` has what it reads.
void in_child_process(const ChildLimits& limits, const std::function<void(ByteWriter&)>& produce,
                      const std::function<void(ByteReader&)>& consume);

}  // namespace ropewalk
