#pragma once

#include <cstddef>
#include <vector>

namespace ropewalk {

/// Memory that is handed out by moving a pointer and taken back all at once.
///
/// Blocks are 64-byte aligned and not cleared. A first pass may need several chunks; when the arena is rewound to its
/// start they are merged into one, so a repeated pass allocates nothing.
class Arena {
 public:
  struct Mark {
    std::size_t chunk = 0;
    std::size_t used = 0;
    std::size_t before = 0;
  };

  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// At least `bytes` bytes plus 64 that may be read beyond them. Throws Error when the system has no memory.
  void* allocate(std::size_t bytes);
  template <class T>
  T* allocate(std::size_t count) {
    return static_cast<T*>(allocate(count * sizeof(T)));
  }

  Mark mark() const { return {current_, used_, before_}; }
  /// Takes back everything handed out since `mark`.
  void rewind(Mark mark);
  /// Takes back everything since `mark` but `bytes` bytes at `data`, which move down to the mark; returns their place.
  void* rewind_keeping(Mark mark, const void* data, std::size_t bytes);

  /// Bytes handed out now, the most there have ever been, and the bytes held from the system.
  std::size_t live_bytes() const { return before_ + used_; }
  std::size_t peak_bytes() const { return peak_; }
  std::size_t held_bytes() const;

 private:
  struct Chunk {
    std::byte* memory;
    std::size_t size;
  };
  void add_chunk(std::size_t size);
  static void release(const Chunk& chunk);

  std::vector<Chunk> chunks_;
  std::size_t current_ = 0;  ///< chunk in use
  std::size_t used_ = 0;     ///< bytes of it handed out
  std::size_t before_ = 0;   ///< bytes of the chunks before it
  std::size_t peak_ = 0;
};

}  // namespace ropewalk
