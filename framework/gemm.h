#pragma once

#include <cstdint>

namespace ropewalk {

enum class Transpose : bool { no, yes };

/// C [m, n] = alpha op(A) op(B) + beta C, row-major, where op(A) is [m, k] and op(B) is [k, n]; lda, ldb and ldc are
/// the row strides of the matrices as they are stored. With beta = 0, C is not read. Runs on the calling thread only.
void gemm(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
          int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);
void gemm(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, double alpha, const double* a,
          int64_t lda, const double* b, int64_t ldb, double beta, double* c, int64_t ldc);

}  // namespace ropewalk
