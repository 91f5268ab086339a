// The scores of the lightning indexer for a block of queries, and their gradients. Included by the .cpp of an op for
// every instruction set.

#if defined(ROPEWALK_INDEX_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPEWALK_INDEX_ROWS_INL_H_
#undef ROPEWALK_INDEX_ROWS_INL_H_
#else
#define ROPEWALK_INDEX_ROWS_INL_H_
#endif

#include "framework/ops/index_problem.h"
#include "framework/ops/packed_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {

/// max(x, 0); a NaN stays one.
template <class D, class V>
HWY_INLINE V relu_of(D d, V x) {
  return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
}

/// Products of the heads of `rows` queries with a tile of keys: w.products [rows * heads, kTileColumns] up to `width`.
template <class T>
HWY_INLINE void index_products(const IndexProblem<T>& p, const IndexScratch<T>& s, const T* q, int64_t rows,
                               const T* tile, int64_t width) {
  small_gemm<T>(rows * p.heads, width, p.d, {q, p.d, 1}, tile, kTileColumns, false, s.products, kTileColumns);
}

/// s.scores of queries [t0, t0 + rows) of one sequence and the keys of a tile. A score does not depend, to the bit, on
/// which others are computed with it: every sum is in the order of columns, then heads.
template <class T>
HWY_INLINE void index_tile(const IndexProblem<T>& p, const IndexScratch<T>& s, int64_t t0, int64_t rows, int64_t j0) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t width = padded_width<T>(std::min(kTileColumns, p.keys - j0));
  index_products(p, s, p.q_row(t0), rows, s.tiles + j0 * p.d, width);
  for (int64_t r = 0; r < rows; ++r) {
    const T* weights = p.w_row(t0 + r);
    const T* products = s.products + r * p.heads * kTileColumns;
    T* scores = s.scores + r * s.keys_pad + j0;
    for (int64_t c = 0; c < width; c += lanes) {
      auto sum = hn::Zero(d);
      for (int64_t h = 0; h < p.heads; ++h) {
        sum = hn::MulAdd(hn::Set(d, weights[h]), relu_of(d, hn::LoadU(d, products + h * kTileColumns + c)), sum);
      }
      hn::StoreU(sum, d, scores + c);
    }
    if (p.key_scale == nullptr) continue;
    const T* scale = p.key_scale + j0;
    vectorise<T>(std::min(kTileColumns, p.keys - j0), [&](auto dd, int64_t c) HWY_ATTR {
      hn::StoreU(hn::Mul(hn::LoadU(dd, scores + c), hn::LoadU(dd, scale + c)), dd, scores + c);
    });
  }
}

/// Turns the products of one query, [heads, n] with rows `stride` apart, into their gradients, given those of its
/// scores, di [n]:
///   dw_h += sum_j di_j relu(product_hj),   product_hj = di_j w_h where it is positive, else 0
template <class T>
HWY_INLINE void index_product_gradients(const T* di, const T* weights, int64_t heads, int64_t n, T* products,
                                        int64_t stride, T* dw) {
  for (int64_t h = 0; h < heads; ++h, products += stride) {
    if (dw != nullptr) {
      dw[h] += sum_of<T>(n, [&](auto d, int64_t c) HWY_ATTR {
        return hn::Mul(hn::LoadU(d, di + c), relu_of(d, hn::LoadU(d, products + c)));
      });
    }
    vectorise<T>(n, [&](auto d, int64_t c) HWY_ATTR {
      const auto positive = hn::Gt(hn::LoadU(d, products + c), hn::Zero(d));
      const auto gradient = hn::Mul(hn::LoadU(d, di + c), hn::Set(d, weights[h]));
      hn::StoreU(hn::IfThenElseZero(positive, gradient), d, products + c);
    });
  }
}

/// Readies the keys of one sequence for index_tile, and those of the gradients where `backward`.
template <class T>
HWY_INLINE void pack_index_keys(const IndexProblem<T>& p, const IndexScratch<T>& s, bool backward) {
  pack_tiles(p.k, p.keys, p.d, p.d, s.tiles);
  if (!backward) return;
  for (int64_t j = 0; j < p.keys; ++j) pack_row<T>(p.k + j * p.d, p.d, T(1), {}, s.k + j * s.d_pad);
  std::fill(s.dk, s.dk + p.keys * s.d_pad, T(0));
}

/// Adds the gradients of a block of queries, given those of its scores, di [rows, ld], which is 0 in the columns that
/// fill up the last tile: to g.dq and g.dw at once, to s.dk for add_index_key_gradients. Tiles for which
/// `wanted(j0)` is false are left out.
template <class T, class Wanted>
HWY_INLINE void index_block_backward(const IndexProblem<T>& p, const IndexScratch<T>& s, int64_t t0, int64_t rows,
                                     const T* di, int64_t ld, const IndexGradients<T>& g, Wanted&& wanted) {
  const int64_t head_rows = rows * p.heads;
  const T* q = p.q_row(t0);
  for (int64_t r = 0; r < head_rows; ++r) pack_row<T>(q + r * p.d, p.d, T(1), {}, s.q + r * s.d_pad);
  std::fill(s.dq, s.dq + head_rows * s.d_pad, T(0));
  for (int64_t j0 = 0; j0 < p.keys; j0 += kTileColumns) {
    if (!wanted(j0)) continue;
    const int64_t columns = std::min(kTileColumns, p.keys - j0);
    const int64_t width = padded_width<T>(columns);
    index_products(p, s, q, rows, s.tiles + j0 * p.d, width);
    for (int64_t r = 0; r < rows; ++r) {
      T* dw = g.dw != nullptr ? g.dw + (t0 + r) * p.heads : nullptr;
      index_product_gradients(di + r * ld + j0, p.w_row(t0 + r), p.heads, width,
                              s.products + r * p.heads * kTileColumns, kTileColumns, dw);
    }
    if (g.dq != nullptr) {
      small_gemm<T>(head_rows, s.d_pad, columns, {s.products, kTileColumns, 1}, s.k + j0 * s.d_pad, s.d_pad, true, s.dq,
                    s.d_pad);
    }
    if (g.dk != nullptr) {
      small_gemm<T>(columns, s.d_pad, head_rows, {s.products, 1, kTileColumns}, s.q, s.d_pad, true, s.dk + j0 * s.d_pad,
                    s.d_pad);
    }
  }
  if (g.dq == nullptr) return;
  T* dq = g.dq + t0 * p.heads * p.d;
  for (int64_t r = 0; r < head_rows; ++r) {
    unpack_row<T>(s.dq + r * s.d_pad, p.d, T(1), {}, true, dq + r * p.d);
  }
}

/// g.dk += what index_block_backward has gathered.
template <class T>
HWY_INLINE void add_index_key_gradients(const IndexProblem<T>& p, const IndexScratch<T>& s,
                                        const IndexGradients<T>& g) {
  if (g.dk == nullptr) return;
  for (int64_t j = 0; j < p.keys; ++j) {
    unpack_row<T>(s.dk + j * s.d_pad, p.d, T(1), {}, true, g.dk + j * p.d);
  }
}

}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROPEWALK_INDEX_ROWS_INL_H_
