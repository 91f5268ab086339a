#include "framework/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "framework/error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace ropewalk {
namespace {

constexpr std::size_t kAlign = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kFirstChunk = std::size_t{1} << 20;

constexpr std::size_t round_up(std::size_t n, std::size_t to) {
  return (n + to - 1) / to * to;
}

}  // namespace

Arena::~Arena() {
  for (const Chunk& chunk : chunks_) release(chunk);
}

void Arena::release(const Chunk& chunk) {
  ASAN_UNPOISON_MEMORY_REGION(chunk.memory, chunk.size);
  munmap(chunk.memory, chunk.size);
}

void Arena::add_chunk(std::size_t size) {
  size = round_up(size, size >= kHugePage ? kHugePage : std::size_t{4096});
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("no memory for {} more bytes of activations", size);
  madvise(memory, size, MADV_HUGEPAGE);
  ASAN_POISON_MEMORY_REGION(memory, size);
  chunks_.push_back({static_cast<std::byte*>(memory), size});
}

void* Arena::allocate(std::size_t bytes) {
  // Kernels may read one whole vector at the last element, hence the slack.
  const std::size_t need = round_up(std::max<std::size_t>(bytes, 1), kAlign) + kAlign;
  if (chunks_.empty()) add_chunk(std::max(need, kFirstChunk));
  while (used_ + need > chunks_[current_].size) {
    if (current_ + 1 == chunks_.size()) add_chunk(std::max(need, 2 * chunks_.back().size));
    before_ += used_;
    used_ = 0;
    ++current_;
  }
  std::byte* block = chunks_[current_].memory + used_;
  used_ += need;
  peak_ = std::max(peak_, before_ + used_);
  ASAN_UNPOISON_MEMORY_REGION(block, round_up(std::max<std::size_t>(bytes, 1), kAlign));
  return block;
}

void Arena::rewind(Mark mark) {
  for (std::size_t i = mark.chunk; i < chunks_.size() && i <= current_; ++i) {
    const std::size_t from = i == mark.chunk ? mark.used : 0;
    ASAN_POISON_MEMORY_REGION(chunks_[i].memory + from, chunks_[i].size - from);
  }
  if (mark.chunk == 0 && mark.used == 0 && chunks_.size() > 1) {
    std::size_t total = 0;
    for (const Chunk& chunk : chunks_) {
      total += chunk.size;
      release(chunk);
    }
    chunks_.clear();
    current_ = used_ = before_ = 0;
    // What was needed, not the sum of the guesses on the way there.
    add_chunk(std::min(total, round_up(peak_ + peak_ / 16, kHugePage)));
    return;
  }
  current_ = mark.chunk;
  used_ = mark.used;
  before_ = mark.before;
}

void* Arena::rewind_keeping(Mark mark, const void* data, std::size_t bytes) {
  const std::size_t last = current_;
  current_ = mark.chunk;
  used_ = mark.used;
  before_ = mark.before;
  void* place = allocate(bytes);
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
  std::memmove(place, data, bytes);
  for (std::size_t i = current_; i <= last; ++i) {
    const std::size_t from = i == current_ ? used_ : 0;
    ASAN_POISON_MEMORY_REGION(chunks_[i].memory + from, chunks_[i].size - from);
  }
  return place;
}

std::size_t Arena::held_bytes() const {
  std::size_t total = 0;
  for (const Chunk& chunk : chunks_) total += chunk.size;
  return total;
}

}  // namespace ropewalk
