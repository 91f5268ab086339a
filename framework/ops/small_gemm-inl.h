// Products of small matrices whose rows are padded to whole vectors: heads of 16 to 64 columns, where the overhead of a
// general library shows. Included by attention.cpp for every instruction set.

#if defined(ROPEWALK_SMALL_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPEWALK_SMALL_GEMM_INL_H_
#undef ROPEWALK_SMALL_GEMM_INL_H_
#else
#define ROPEWALK_SMALL_GEMM_INL_H_
#endif

#include "framework/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {

// Rows of C held in registers at once: with three vectors a row this fills 32 (AVX-512) or 16 registers.
inline constexpr int kPanelRows = HWY_TARGET == HWY_AVX3 ? 8 : 4;

/// Rows that are taken together of `left` remaining ones.
HWY_INLINE int64_t panel_rows(int64_t left) {
  return left >= kPanelRows ? kPanelRows : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

/// A(m, k) = data[m * row_stride + k * column_stride]
template <class T>
struct Left {
  const T* data;
  int64_t row_stride;
  int64_t column_stride;
};

template <class T, int kRows, int kVectors>
HWY_INLINE void panel(int64_t depth, Left<T> a, const T* HWY_RESTRICT b, int64_t ldb, bool add, T* HWY_RESTRICT c,
                      int64_t ldc) {
  const hn::ScalableTag<T> d;
  using V = hn::VFromD<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V acc[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) acc[r][v] = add ? hn::LoadU(d, c + r * ldc + v * lanes) : hn::Zero(d);
  }
  for (int64_t k = 0; k < depth; ++k) {
    V right[kVectors];
    for (int v = 0; v < kVectors; ++v) right[v] = hn::LoadU(d, b + k * ldb + v * lanes);
    const T* left = a.data + k * a.column_stride;
    for (int r = 0; r < kRows; ++r) {
      const V x = hn::Set(d, left[r * a.row_stride]);
      for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(x, right[v], acc[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(acc[r][v], d, c + r * ldc + v * lanes);
  }
}

template <class T, int kRows>
HWY_INLINE void panel_columns(int64_t columns, int64_t depth, Left<T> a, const T* b, int64_t ldb, bool add, T* c,
                              int64_t ldc) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  int64_t left = columns / lanes;
  while (left > 0) {
    const int64_t take = left == 4 ? 2 : left >= 3 ? 3 : left;
    if (take == 3) {
      panel<T, kRows, 3>(depth, a, b, ldb, add, c, ldc);
    } else if (take == 2) {
      panel<T, kRows, 2>(depth, a, b, ldb, add, c, ldc);
    } else {
      panel<T, kRows, 1>(depth, a, b, ldb, add, c, ldc);
    }
    b += take * lanes;
    c += take * lanes;
    left -= take;
  }
}

/// C [rows, columns] = or += A B, where B(k, n) = b[k * ldb + n] and columns is a multiple of the vector length.
/// `limits(first_row, rows, depth_begin, depth_end, columns)` may narrow the work of a panel of rows; where it is
/// narrowed by columns, the rest of C is not written.
template <class T, class Limits>
HWY_INLINE void small_gemm(int64_t rows, int64_t columns, int64_t depth, Left<T> a, const T* b, int64_t ldb, bool add,
                           T* c, int64_t ldc, Limits&& limits) {
  for (int64_t r = 0; r < rows;) {
    const int64_t take = panel_rows(rows - r);
    int64_t begin = 0;
    int64_t end = depth;
    int64_t width = columns;
    limits(r, take, begin, end, width);
    const Left<T> block{a.data + r * a.row_stride + begin * a.column_stride, a.row_stride, a.column_stride};
    const T* right = b + begin * ldb;
    T* out = c + r * ldc;
    const int64_t n = end > begin ? end - begin : 0;
    if (take == kPanelRows) {
      panel_columns<T, kPanelRows>(width, n, block, right, ldb, add, out, ldc);
    } else if (take == 4) {
      panel_columns<T, 4>(width, n, block, right, ldb, add, out, ldc);
    } else if (take == 2) {
      panel_columns<T, 2>(width, n, block, right, ldb, add, out, ldc);
    } else {
      panel_columns<T, 1>(width, n, block, right, ldb, add, out, ldc);
    }
    r += take;
  }
}

template <class T>
HWY_INLINE void small_gemm(int64_t rows, int64_t columns, int64_t depth, Left<T> a, const T* b, int64_t ldb, bool add,
                           T* c, int64_t ldc) {
  small_gemm<T>(rows, columns, depth, a, b, ldb, add, c, ldc, [](int64_t, int64_t, int64_t&, int64_t&, int64_t&) {});
}

}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROPEWALK_SMALL_GEMM_INL_H_
