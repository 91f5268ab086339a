#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/gemm.cpp"
#include <hwy/foreach_target.h>

#include "framework/gemm-inl.h"

#include "framework/for_type.h"
#include "framework/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

template <class T>
void own_gemm(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda,
              const T* b, int64_t ldb, bool add, T* c, int64_t ldc) {
  const Matrix<T> right = transpose_b == Transpose::yes ? Matrix<T>{b, 1, ldb} : Matrix<T>{b, ldb, 1};
  const auto store = [=](auto d, int64_t i, int64_t j, auto v) HWY_ATTR { hn::StoreU(v, d, c + i * ldc + j); };
  if (transpose_a == Transpose::yes) {
    product<T, true>(m, n, k, {a, 1, lda}, right, add, c, ldc, store, kNothing);
  } else {
    product<T, false>(m, n, k, {a, lda, 1}, right, add, c, ldc, store, kNothing);
  }
}

constexpr auto& OwnGemmF32 = own_gemm<float>;
constexpr auto& OwnGemmF64 = own_gemm<double>;

}  // namespace
}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk {
namespace {

HWY_EXPORT(OwnGemmF32);
HWY_EXPORT(OwnGemmF64);

}  // namespace

template <class T>
void own_gemm(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda,
              const T* b, int64_t ldb, bool add, T* c, int64_t ldc) {
  for_type<T>(HWY_DYNAMIC_DISPATCH(OwnGemmF32), HWY_DYNAMIC_DISPATCH(OwnGemmF64))(transpose_a, transpose_b, m, n, k, a,
                                                                                  lda, b, ldb, add, c, ldc);
}
template decltype(own_gemm<float>) own_gemm<float>;
template decltype(own_gemm<double>) own_gemm<double>;

template <class T>
void gemm(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda,
          const T* b, int64_t ldb, bool add, T* c, int64_t ldc) {
  if (gemm_is_own(m, n, k)) {
    own_gemm(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, add, c, ldc);
  } else {
    library_gemm(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, add, c, ldc);
  }
}
template decltype(gemm<float>) gemm<float>;
template decltype(gemm<double>) gemm<double>;

}  // namespace ropewalk
#endif  // HWY_ONCE
