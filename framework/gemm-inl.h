// Matrix products in the register tiles of each instruction set, with what follows a product (a bias, an activation, a
// residual) done while its result is still in registers. Included by ops for every instruction set.

#if defined(ROPEWALK_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPEWALK_GEMM_INL_H_
#undef ROPEWALK_GEMM_INL_H_
#else
#define ROPEWALK_GEMM_INL_H_
#endif

#include <algorithm>

#include "framework/gemm.h"
#include "framework/gemm_scratch.h"
#include "framework/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {

/// A matrix as it lies: element (i, j) is data[i * row_stride + j * column_stride].
template <class T>
struct Matrix {
  const T* data;
  int64_t row_stride;
  int64_t column_stride;

  Matrix block(int64_t i, int64_t j) const {
    return {data + i * row_stride + j * column_stride, row_stride, column_stride};
  }
};

// Rows and vectors of a result held in registers: 12 sums, 2 columns and a factor of 16 registers; with AVX-512 24
// of 32.
inline constexpr int kTileRows = HWY_TARGET == HWY_AVX3 ? 12 : 6;
inline constexpr int kTileVectors = 2;
static_assert(GemmScratch::kRowBlock % kTileRows == 0);
// A panel of the right operand takes 24 KiB, which leaves L1 room for the left one.
inline constexpr int64_t kDepth = HWY_TARGET == HWY_AVX3 ? 192 : 384;
static_assert(kDepth <= GemmScratch::kMostDepth);

template <class T>
HWY_INLINE int64_t tile_columns() {
  return kTileVectors * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
}

/// One tile: calls store(d, row, column, sums) with sum over k < depth of a(row, k) b[k * ldb + column ...], a vector
/// at a time.
template <class T, int kRows, int kVectors, class Store>
HWY_INLINE void tile(int64_t depth, Matrix<T> a, const T* HWY_RESTRICT b, int64_t ldb, Store&& store) {
  const hn::ScalableTag<T> d;
  using V = hn::VFromD<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  }
  const T* left = a.data;
  for (int64_t k = 0; k < depth; ++k) {
    V right[kVectors];
    for (int v = 0; v < kVectors; ++v) right[v] = hn::LoadU(d, b + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const V x = hn::Set(d, left[r * a.row_stride]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(x, right[v], sums[r][v]);
    }
    left += a.column_stride;
    b += ldb;
  }
  // Unrolled, or the sums would leave their registers to be indexed.
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) store(d, int64_t{r}, v * lanes, sums[r][v]);
  }
}

/// to[panel][k][width] = b [depth, columns], `width` columns a panel; what a last panel lacks is zero.
template <class T>
HWY_INLINE void pack_right(Matrix<T> b, int64_t depth, int64_t columns, T* to) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t width = tile_columns<T>();
  int64_t j = 0;
  if (b.column_stride == 1) {
    // A few panels at once, so that whole cache lines of a row are read in order.
    constexpr int64_t kPanels = 4;
    while (columns - j >= width) {
      const int64_t panels = std::min(kPanels, (columns - j) / width);
      for (int64_t k = 0; k < depth; ++k) {
        const T* from = b.data + k * b.row_stride + j;
        T* out = to + j * depth + k * width;
        for (int64_t panel = 0; panel < panels; ++panel, from += width, out += depth * width) {
          for (int v = 0; v < kTileVectors; ++v) hn::StoreU(hn::LoadU(d, from + v * lanes), d, out + v * lanes);
        }
      }
      j += panels * width;
    }
  }
  for (; j < columns; j += width) {
    T* out = to + j * depth;
    const int64_t here = std::min(width, columns - j);
    const T* from = b.data + j * b.column_stride;
    int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
    if (here == width && b.row_stride == 1) {
      constexpr int64_t kSide = 16 / sizeof(T);
      for (; k + kSide <= depth; k += kSide) {
        for (int64_t c = 0; c < width; c += kSide) {
          transpose_square(from + c * b.column_stride + k, b.column_stride, out + k * width + c, width);
        }
      }
    }
#endif
    for (; k < depth; ++k) {
      for (int64_t c = 0; c < here; ++c) out[k * width + c] = from[k * b.row_stride + c * b.column_stride];
      for (int64_t c = here; c < width; ++c) out[k * width + c] = 0;
    }
  }
}

/// Elements from one packed row tile to the next: one vector to spare.
template <class T>
HWY_INLINE int64_t left_tile_size(int64_t depth) {
  return depth * kTileRows + tile_columns<T>() / kTileVectors;
}

/// to[tile][k][kTileRows] = a [rows, depth], whose rows are adjacent and columns far apart; tiles lie left_tile_size
/// apart. A row that a last tile lacks is left as it is.
template <class T>
HWY_INLINE void pack_left(Matrix<T> a, int64_t rows, int64_t depth, T* to) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t size = left_tile_size<T>(depth);
  // Whole vectors are moved: they reach into the rows of the next tile, and what they write too much the next k covers.
  const int64_t moved = (kTileRows + lanes - 1) / lanes * lanes;
  constexpr int64_t kTiles = 8;
  int64_t i = 0;
  while (rows - i >= moved) {
    const int64_t tiles = std::min(kTiles, (rows - i - moved) / kTileRows + 1);
    for (int64_t k = 0; k < depth; ++k) {
      const T* from = a.data + k * a.column_stride + i;
      for (int64_t tile = 0; tile < tiles; ++tile) {
        T* out = to + (i / kTileRows + tile) * size + k * kTileRows;
        for (int64_t r = 0; r < kTileRows; r += lanes) {
          hn::StoreU(hn::LoadU(d, from + tile * kTileRows + r), d, out + r);
        }
      }
    }
    i += tiles * kTileRows;
  }
  for (; i < rows; i += kTileRows) {
    T* out = to + i / kTileRows * size;
    const int64_t here = std::min<int64_t>(kTileRows, rows - i);
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t r = 0; r < here; ++r) out[k * kTileRows + r] = a.data[k * a.column_stride + i + r];
    }
  }
}

/// A tile of fewer rows or columns than a whole one, at the edge of a result: its sums in edge [kTileRows][width].
template <class T, int kRows = kTileRows - 1>
HWY_NOINLINE void edge_tile(int64_t rows, int64_t depth, Matrix<T> a, const T* panel, T* edge) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return edge_tile<T, kRows / 2>(rows, depth, a, panel, edge);
  }
  const int64_t width = tile_columns<T>();
  const auto keep = [=](auto d, int64_t r, int64_t c, auto v) HWY_ATTR { hn::StoreU(v, d, edge + r * width + c); };
  tile<T, kRows, kTileVectors>(depth, a, panel, width, keep);
  if (rows > kRows) {
    edge_tile<T>(rows - kRows, depth, a.block(kRows, 0), panel, edge + kRows * width);
  }
}

/// The tiles of one packed panel of the right operand: put(d, i, j, v) for its first `columns` columns. d is a tag of a
/// full vector, or of one lane at the end of a row. `result`, rows ld apart, is where it goes.
template <class T, bool kPackedLeft, class Put>
HWY_INLINE void panel_of_tiles(int64_t rows, int64_t columns, int64_t depth, Matrix<T> a, const T* panel,
                               const T* result, int64_t ld, Put&& put) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const int64_t width = tile_columns<T>();
  const int64_t lanes = width / kTileVectors;
  HWY_ALIGN T edge[kTileRows * kTileVectors * HWY_MAX_BYTES / sizeof(T)];
  for (int64_t i = 0; i < rows; i += kTileRows) {
    const int64_t here = std::min<int64_t>(kTileRows, rows - i);
    const Matrix<T> left = kPackedLeft ? Matrix<T>{a.data + i / kTileRows * left_tile_size<T>(depth), 1, kTileRows}
                                       : Matrix<T>{a.data + i * a.row_stride, a.row_stride, 1};
    // The lines of the result are on their way while its sums are made.
    for (int64_t r = 0; r < here; ++r) __builtin_prefetch(result + (i + r) * ld, 1);
    if (columns == width && here == kTileRows) {
      tile<T, kTileRows, kTileVectors>(depth, left, panel, width,
                                       [&](auto dv, int64_t r, int64_t c, auto v) HWY_ATTR { put(dv, i + r, c, v); });
      continue;
    }
    edge_tile<T>(here, depth, left, panel, edge);
    for (int64_t r = 0; r < here; ++r) {
      const T* from = edge + r * width;
      int64_t c = 0;
      for (; c + lanes <= columns; c += lanes) put(d, i + r, c, hn::LoadU(d, from + c));
      for (; c < columns; ++c) put(one, i + r, c, hn::LoadU(one, from + c));
    }
  }
}

/// finish(d, i, j, v) for every element, or vector of elements, v = sum over k of a(i, k) b(k, j), plus sums[i, j]
/// where `add`. A sum over a depth beyond one block is kept in sums [m, n] (rows lds apart) on the way; finish may
/// store there or elsewhere. d is a tag of a full vector, or of one lane at the end of a row: give finish a generic
/// first parameter. Of each operand, one stride is 1.
///
/// The order in which an element is summed depends on k alone, so a row comes out the same in any batch.
/// Where all of a panel of a block of rows is finished, after(i, rows, j, columns) may go on with it in L1.
template <class T, bool kPackLeft, class Finish, class After>
HWY_INLINE void product(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, bool add, T* sums, int64_t lds,
                        Finish&& finish, After&& after) {
  const GemmScratch& scratch = gemm_scratch();
  T* const packed_right = scratch.right<T>();
  T* const packed_left = scratch.left<T>();
  const int64_t width = tile_columns<T>();
  const int64_t blocks = std::max<int64_t>(1, (k + kDepth - 1) / kDepth);
  const int64_t depth = std::max<int64_t>(1, (k + blocks - 1) / blocks);
  for (int64_t j0 = 0; j0 < n; j0 += GemmScratch::kColumnBlock) {
    const int64_t columns = std::min(GemmScratch::kColumnBlock, n - j0);
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t k0 = block * depth;
      const int64_t kb = std::min(depth, k - k0);
      const bool load = add || block > 0;
      const bool last = block + 1 == blocks;
      pack_right(b.block(k0, j0), kb, columns, packed_right);
      for (int64_t i0 = 0; i0 < m; i0 += GemmScratch::kRowBlock) {
        const int64_t rows = std::min(GemmScratch::kRowBlock, m - i0);
        if constexpr (kPackLeft) pack_left(a.block(i0, k0), rows, kb, packed_left);
        for (int64_t j = 0; j < columns; j += width) {
          const auto put = [&](auto d, int64_t r, int64_t c, auto v) HWY_ATTR {
            const int64_t row = i0 + r;
            const int64_t column = j0 + j + c;
            T* sum = sums + row * lds + column;
            if (load) v = hn::Add(v, hn::LoadU(d, sum));
            if (last) {
              finish(d, row, column, v);
            } else {
              hn::StoreU(v, d, sum);
            }
          };
          const int64_t here = std::min(width, columns - j);
          if constexpr (kPackLeft) {
            panel_of_tiles<T, true>(rows, here, kb, {packed_left, 1, kTileRows}, packed_right + j * kb,
                                    sums + i0 * lds + j0 + j, lds, put);
          } else {
            panel_of_tiles<T, false>(rows, here, kb, a.block(i0, k0), packed_right + j * kb, sums + i0 * lds + j0 + j,
                                     lds, put);
          }
          if (last) after(i0, rows, j0 + j, here);
        }
      }
    }
  }
}

/// For product(): nothing to do after a panel.
inline constexpr auto kNothing = [](int64_t, int64_t, int64_t, int64_t) {};

/// finish(d, i, j, v) for every element of x W^T, with x [rows, in] and W [out, in], and after(i, rows, j, columns) for
/// every part that is finished; `sums` [rows, out] may be used on the way, and finish may store there. By our kernels
/// or by the library, as gemm_is_own says.
template <class T, class Finish, class After>
HWY_INLINE void linear_product(int64_t rows, int64_t in, int64_t out, const T* x, const T* weight, T* sums,
                               Finish&& finish, After&& after) {
  if (gemm_is_own(rows, out, in)) {
    product<T, false>(rows, out, in, {x, in, 1}, {weight, 1, in}, false, sums, out, finish, after);
    return;
  }
  // A block of rows at a time, so that what follows finds it in the cache.
  for (int64_t i0 = 0; i0 < rows; i0 += GemmScratch::kRowBlock) {
    const int64_t here = std::min(GemmScratch::kRowBlock, rows - i0);
    library_gemm(Transpose::no, Transpose::yes, here, out, in, x + i0 * in, in, weight, in, false, sums + i0 * out,
                 out);
    for (int64_t i = i0; i < i0 + here; ++i) {
      vectorise<T>(out, [&](auto d, int64_t j) HWY_ATTR { finish(d, i, j, hn::LoadU(d, sums + i * out + j)); });
    }
    after(i0, here, int64_t{0}, out);
  }
}

}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROPEWALK_GEMM_INL_H_
