#include "framework/gemm.h"

#include <cblas.h>

#include <algorithm>
#include <limits>

#include "framework/error.h"

namespace ropewalk {
namespace {

// Threads split the batch, never a product: one owner of thread counts.
void use_one_thread() {
  static const bool done = [] {
    openblas_set_num_threads(1);
    return true;
  }();
  (void)done;
}

CBLAS_TRANSPOSE to_cblas(Transpose t) {
  return t == Transpose::yes ? CblasTrans : CblasNoTrans;
}

blasint to_int(int64_t n) {
  require(n <= std::numeric_limits<blasint>::max(), "a matrix extent of {} exceeds what BLAS can address", n);
  return static_cast<blasint>(n);
}

}  // namespace

void gemm(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
          int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  use_one_thread();
  cblas_sgemm(CblasRowMajor, to_cblas(transpose_a), to_cblas(transpose_b), to_int(m), to_int(n), to_int(k), alpha, a,
              to_int(lda), b, to_int(ldb), beta, c, to_int(ldc));
}

void gemm(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, double alpha, const double* a,
          int64_t lda, const double* b, int64_t ldb, double beta, double* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  use_one_thread();
  cblas_dgemm(CblasRowMajor, to_cblas(transpose_a), to_cblas(transpose_b), to_int(m), to_int(n), to_int(k), alpha, a,
              to_int(lda), b, to_int(ldb), beta, c, to_int(ldc));
}

}  // namespace ropewalk
