#pragma once

#include <cstddef>
#include <cstdint>

namespace ropewalk {

/// Memory of one thread into which a matrix product packs blocks of its operands, so that its inner loop reads them in
/// order: a panel of the right operand in L1, a block of the left in L2, a block of the right in L3.
struct GemmScratch {
  static constexpr int64_t kRowBlock = 96;
  static constexpr int64_t kMostDepth = 384;
  static constexpr int64_t kColumnBlock = 1024;

  void* left_bytes = nullptr;
  void* right_bytes = nullptr;

  template <class T>
  T* left() const {
    return static_cast<T*>(left_bytes);
  }
  template <class T>
  T* right() const {
    return static_cast<T*>(right_bytes);
  }
};

/// That of the calling thread, made at its first use and kept until the thread ends.
const GemmScratch& gemm_scratch();

}  // namespace ropewalk
