#include "tests/support/allocation_counter.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace ropewalk::testing {
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
