#include "framework/gemm_scratch.h"

#include "framework/arena.h"

namespace ropewalk {

const GemmScratch& gemm_scratch() {
  // The last panel is filled up to a whole tile; row tiles lie apart.
  constexpr int64_t kDepth = GemmScratch::kMostDepth;
  constexpr int64_t kColumns = GemmScratch::kColumnBlock + 64;
  thread_local Arena arena;
  thread_local const GemmScratch scratch{
      .left_bytes = arena.allocate(static_cast<std::size_t>(GemmScratch::kRowBlock * (kDepth + 64)) * sizeof(double)),
      .right_bytes = arena.allocate(static_cast<std::size_t>(kColumns * kDepth) * sizeof(double))};
  return scratch;
}

}  // namespace ropewalk
