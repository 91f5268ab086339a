#include "tests/support/allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
// Of the sanitizers' allocator interface; GCC 12 has the function but not the header.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, std::size_t),
                                                         void (*on_free)(const volatile void*));
#endif

namespace {

std::atomic<std::size_t> g_count{0};

}  // namespace

#if defined(__SANITIZE_ADDRESS__)

namespace {

void count_allocation(const volatile void*, std::size_t) {
  ++g_count;
}
void count_nothing(const volatile void*) {}

const int g_installed = __sanitizer_install_malloc_and_free_hooks(count_allocation, count_nothing);

}  // namespace

#else

namespace {

void* counted(std::size_t size, std::size_t alignment) {
  ++g_count;
  void* memory = std::aligned_alloc(alignment, (size + alignment) / alignment * alignment);
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

#endif

namespace ropewalk::testing {

std::size_t allocations() {
#if defined(__SANITIZE_ADDRESS__)
  if (g_installed == 0) std::abort();  // a counter that counts nothing must not pass for one
#endif
  return g_count;
}

}  // namespace ropewalk::testing
