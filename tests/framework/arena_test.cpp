#include "framework/arena.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace ropewalk {
namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;

TEST(ArenaTest, BlocksAreAlignedAndApart) {
  Arena arena;
  std::byte* before = nullptr;
  for (std::size_t bytes : {0, 1, 63, 64, 65, 1000}) {
    auto* block = static_cast<std::byte*>(arena.allocate(bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0U);
    if (before != nullptr) {
      EXPECT_GE(block - before, 64);
    }
    std::memset(block, 1, bytes);
    before = block + bytes;
  }
}

TEST(ArenaTest, ARepeatedPassTakesNothingMoreFromTheSystem) {
  Arena arena;
  std::vector<std::size_t> held;
  std::vector<std::size_t> live;
  for (int pass = 0; pass < 5; ++pass) {
    const Arena::Mark start = arena.mark();
    for (int i = 0; i < 20; ++i) std::memset(arena.allocate(kMegabyte), i, kMegabyte);
    live.push_back(arena.live_bytes());
    arena.rewind(start);
    EXPECT_EQ(arena.live_bytes(), 0U);
    held.push_back(arena.held_bytes());
  }
  for (std::size_t pass = 2; pass < 5; ++pass) {
    EXPECT_EQ(held[pass], held[1]);
    EXPECT_EQ(live[pass], live[1]);
  }
  EXPECT_GE(held[1], arena.peak_bytes());
  EXPECT_LE(held[1], arena.peak_bytes() + arena.peak_bytes() / 16 + 2 * kMegabyte);
}

TEST(ArenaTest, RewindKeepingMovesTheBytesToTheMark) {
  for (std::size_t between : {std::size_t{100}, kMegabyte, 5 * kMegabyte}) {  // within a chunk and across chunks
    Arena arena;
    arena.allocate(64);
    const Arena::Mark mark = arena.mark();
    const std::size_t live = arena.live_bytes();
    arena.allocate(between);
    std::vector<unsigned char> expected(3000);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<unsigned char>(i * 7);
    void* data = arena.allocate(expected.size());
    std::memcpy(data, expected.data(), expected.size());
    arena.allocate(between);
    const void* kept = arena.rewind_keeping(mark, data, expected.size());
    EXPECT_EQ(std::memcmp(kept, expected.data(), expected.size()), 0);
    EXPECT_LT(arena.live_bytes(), live + expected.size() + 200);
  }
}

}  // namespace
}  // namespace ropewalk
