#include "tests/optim/allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include <gtest/gtest.h>

namespace {

std::atomic<std::size_t> count{0};

void* counted(std::size_t size, std::size_t alignment) {
  ++count;
  const std::size_t whole = (size + alignment) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, whole);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The array and nothrow forms of the standard library call these. Never inline: the compiler would see free() meet the
// result of new and call it a mistake.
[[gnu::noinline]] void* operator new(std::size_t size) {
  return counted(size, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace ropewalk::testing {

std::size_t allocations() {
  return count;
}

namespace {

TEST(AllocationCounter, CountsEveryFormOfNew) {
  struct alignas(128) Wide {
    char bytes[128];
  };
  const std::size_t before = allocations();
  auto one = std::make_unique<int>(1);
  EXPECT_EQ(allocations(), before + 1);
  auto wide = std::make_unique<Wide>();
  EXPECT_EQ(allocations(), before + 2);
  std::vector<double> array(100);
  EXPECT_EQ(allocations(), before + 3);
}

}  // namespace
}  // namespace ropewalk::testing
