#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/gemm.cpp"
#include <hwy/foreach_target.h>

#include "framework/gemm-inl.h"

#include "framework/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

template <class T>
void product_of(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda,
                const T* b, int64_t ldb, bool add, T* c, int64_t ldc) {
  const Matrix<T> right = transpose_b == Transpose::yes ? Matrix<T>{b, 1, ldb} : Matrix<T>{b, ldb, 1};
  const auto store = [=](auto d, int64_t i, int64_t j, auto v) HWY_ATTR { hn::StoreU(v, d, c + i * ldc + j); };
  if (transpose_a == Transpose::yes) {
    product<T, true>(m, n, k, {a, 1, lda}, right, add, c, ldc, store, kNothing);
  } else {
    product<T, false>(m, n, k, {a, lda, 1}, right, add, c, ldc, store, kNothing);
  }
}

void OwnGemmF32(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
                int64_t lda, const float* b, int64_t ldb, bool add, float* c, int64_t ldc) {
  product_of(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, add, c, ldc);
}
void OwnGemmF64(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, const double* a,
                int64_t lda, const double* b, int64_t ldb, bool add, double* c, int64_t ldc) {
  product_of(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, add, c, ldc);
}

}  // namespace
}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk {
namespace {

HWY_EXPORT(OwnGemmF32);
HWY_EXPORT(OwnGemmF64);

template <class T>
void gemm_by_size(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, const T* a,
                  int64_t lda, const T* b, int64_t ldb, bool add, T* c, int64_t ldc) {
  if (gemm_is_own(m, n, k)) {
    own_gemm(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, add, c, ldc);
  } else {
    library_gemm(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, add, c, ldc);
  }
}

}  // namespace

void own_gemm(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
              int64_t lda, const float* b, int64_t ldb, bool add, float* c, int64_t ldc) {
  HWY_DYNAMIC_DISPATCH(OwnGemmF32)(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, add, c, ldc);
}
void own_gemm(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, const double* a,
              int64_t lda, const double* b, int64_t ldb, bool add, double* c, int64_t ldc) {
  HWY_DYNAMIC_DISPATCH(OwnGemmF64)(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, add, c, ldc);
}

void gemm(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda,
          const float* b, int64_t ldb, bool add, float* c, int64_t ldc) {
  gemm_by_size(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, add, c, ldc);
}
void gemm(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, const double* a, int64_t lda,
          const double* b, int64_t ldb, bool add, double* c, int64_t ldc) {
  gemm_by_size(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, add, c, ldc);
}

}  // namespace ropewalk
#endif  // HWY_ONCE
