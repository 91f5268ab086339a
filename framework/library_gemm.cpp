#include <cblas.h>
#ifdef ROPEWALK_GEMM_ONEDNN
#include <dnnl.h>
#include <omp.h>
#endif

#include <limits>

#include "framework/error.h"
#include "framework/gemm.h"

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

const char* gemm_library() {
#ifdef ROPEWALK_GEMM_ONEDNN
  return "oneDNN";
#else
  return "OpenBLAS";
#endif
}

void library_gemm(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
                  int64_t lda, const float* b, int64_t ldb, bool add, float* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
#ifdef ROPEWALK_GEMM_ONEDNN
  // OpenMP keeps the number of threads for each thread that calls.
  thread_local const bool one_thread = [] {
    omp_set_num_threads(1);
    return true;
  }();
  (void)one_thread;
  const auto letter = [](Transpose t) { return t == Transpose::yes ? 'T' : 'N'; };
  const dnnl_status_t status =
      dnnl_sgemm(letter(transpose_a), letter(transpose_b), m, n, k, 1.0F, a, lda, b, ldb, add ? 1.0F : 0.0F, c, ldc);
  require(status == dnnl_success, "oneDNN refused a product of {} x {} x {} (status {})", m, n, k,
          static_cast<int>(status));
#else
  use_one_thread();
  cblas_sgemm(CblasRowMajor, to_cblas(transpose_a), to_cblas(transpose_b), to_int(m), to_int(n), to_int(k), 1.0F, a,
              to_int(lda), b, to_int(ldb), add ? 1.0F : 0.0F, c, to_int(ldc));
#endif
}

void library_gemm(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, const double* a,
                  int64_t lda, const double* b, int64_t ldb, bool add, double* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  use_one_thread();
  cblas_dgemm(CblasRowMajor, to_cblas(transpose_a), to_cblas(transpose_b), to_int(m), to_int(n), to_int(k), 1.0, a,
              to_int(lda), b, to_int(ldb), add ? 1.0 : 0.0, c, to_int(ldc));
}

}  // namespace ropewalk
