#pragma once

#include <cstdint>

namespace ropewalk {

enum class Transpose : bool { no, yes };

/// C [m, n] = op(A) op(B), or C += it where `add`, row-major, where op(A) is [m, k] and op(B) is [k, n]; lda, ldb and
/// ldc are the row strides of the matrices as they are stored. Without `add`, C is not read. Runs on the calling thread
/// only.
///
/// By kernels of our own where one extent is small enough that the library's overhead shows (gemm_is_own), else by the
/// library.
template <class T>
void gemm(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda,
          const T* b, int64_t ldb, bool add, T* c, int64_t ldc);

/// Whether gemm() takes a product of these extents to our own kernels; docs/performance.md has the measurements.
constexpr bool gemm_is_own(int64_t m, int64_t n, int64_t k) {
#ifdef ROPEWALK_LIBRARY_GEMM
  constexpr int64_t kSmall = 0;
#else
  constexpr int64_t kSmall = 768;
#endif
  return m <= kSmall || n <= kSmall || k <= kSmall;
}

/// The same by the library that the build chose: OpenBLAS, or oneDNN for f32 (-DROPEWALK_GEMM=onednn).
void library_gemm(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
                  int64_t lda, const float* b, int64_t ldb, bool add, float* c, int64_t ldc);
void library_gemm(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, const double* a,
                  int64_t lda, const double* b, int64_t ldb, bool add, double* c, int64_t ldc);
/// Name of that library.
const char* gemm_library();

/// The same by our own kernels, whatever the size.
template <class T>
void own_gemm(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda,
              const T* b, int64_t ldb, bool add, T* c, int64_t ldc);

}  // namespace ropewalk
