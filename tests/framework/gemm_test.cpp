#include "framework/gemm.h"

#include <gtest/gtest.h>

#include "framework/gemm_scratch.h"
#include "tests/framework/instruction_sets.h"

namespace ropewalk::testing {
namespace {

struct Product {
  int64_t m, n, k;
  Transpose a, b;
  bool add;
};

template <class T>
struct Operands {
  Tensor a, b, c;
  int64_t lda, ldb, ldc;

  // Rows are further apart than they are long.
  Operands(const Product& p, DType dtype)
      : lda((p.a == Transpose::yes ? p.m : p.k) + 3), ldb((p.b == Transpose::yes ? p.k : p.n) + 1), ldc(p.n + 5) {
    a = random_tensor({p.a == Transpose::yes ? p.k : p.m, lda}, dtype, 1);
    b = random_tensor({p.b == Transpose::yes ? p.n : p.k, ldb}, dtype, 2);
    c = random_tensor({p.m, ldc}, dtype, 3);
  }
  double left(const Product& p, int64_t i, int64_t k) const {
    return p.a == Transpose::yes ? a.at(k * lda + i) : a.at(i * lda + k);
  }
  double right(const Product& p, int64_t k, int64_t j) const {
    return p.b == Transpose::yes ? b.at(j * ldb + k) : b.at(k * ldb + j);
  }
};

template <class T, class Gemm>
void check(const Product& p, Gemm&& gemm_of) {
  SCOPED_TRACE(::testing::Message() << p.m << " x " << p.n << " x " << p.k << ", transposed " << (p.a == Transpose::yes)
                                    << (p.b == Transpose::yes) << ", add " << p.add << ", bytes " << sizeof(T));
  const Operands<T> in(p, dtype_of<T>());
  Tensor c = cast(in.c, dtype_of<T>());
  gemm_of(p.a, p.b, p.m, p.n, p.k, in.a.template data<T>(), in.lda, in.b.template data<T>(), in.ldb, p.add, c.data<T>(),
          in.ldc);
  double worst = 0;
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < in.ldc; ++j) {
      const int64_t at = i * in.ldc + j;
      if (j >= p.n) {
        ASSERT_EQ(c.at(at), in.c.at(at)) << "beyond the row, at " << i << ", " << j;
        continue;
      }
      // In long double: a plain sum in double is off by more than one in blocks.
      long double sum = p.add ? in.c.at(at) : 0;
      for (int64_t k = 0; k < p.k; ++k) sum += static_cast<long double>(in.left(p, i, k)) * in.right(p, k, j);
      worst = std::max(worst, std::abs(static_cast<double>(sum - c.at(at))));
    }
  }
  const double size = std::sqrt(static_cast<double>(p.k + 1));
  EXPECT_LT(worst, size * (sizeof(T) == 8 ? 1e-14 : 4e-6));
}

std::vector<Product> products() {
  std::vector<Product> out;
  const int64_t block = GemmScratch::kMostDepth;
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                   {1, 33, 7},
                                                                   {6, 16, 4},
                                                                   {7, 17, 5},
                                                                   {13, 31, 2 * block + 1},
                                                                   {97, 48, 33},
                                                                   {200, 5, 65},
                                                                   {5, GemmScratch::kColumnBlock + 9, 3},
                                                                   {12, 32, block},
                                                                   {101, 70, block + 3},
                                                                   {3, 4, 0}}) {
    for (const Transpose a : {Transpose::no, Transpose::yes}) {
      for (const Transpose b : {Transpose::no, Transpose::yes}) {
        for (const bool add : {false, true}) out.push_back({m, n, k, a, b, add});
      }
    }
  }
  return out;
}

const auto own = [](auto... x) { own_gemm(x...); };
const auto library = [](auto... x) { library_gemm(x...); };
const auto chosen = [](auto... x) { gemm(x...); };

TEST(GemmTest, OurKernelsMatchAPlainSumOnEveryInstructionSet) {
  for_each_instruction_set([](int64_t target) {
    SCOPED_TRACE(hwy::TargetName(target));
    for (const Product& p : products()) {
      check<float>(p, own);
      check<double>(p, own);
    }
  });
}

TEST(GemmTest, TheLibraryMatchesAPlainSum) {
  for (const Product& p : products()) {
    check<float>(p, library);
    check<double>(p, library);
  }
}

TEST(GemmTest, TheChoiceMatchesAPlainSum) {
  for (const Product& p : products()) {
    check<float>(p, chosen);
    check<double>(p, chosen);
  }
}

TEST(GemmTest, ARowComesOutTheSameInAnyBatch) {
  const Tensor a = random_tensor({50, 300}, DType::f32, 1);
  const Tensor b = random_tensor({300, 40}, DType::f32, 2);
  const Tensor all = Tensor::zeros({50, 40}, DType::f32);
  own_gemm(Transpose::no, Transpose::no, 50, 40, 300, a.data<float>(), 300, b.data<float>(), 40, false,
           all.data<float>(), 40);
  const Tensor one = Tensor::zeros({1, 40}, DType::f32);
  for (int64_t row : {0, 7, 49}) {
    own_gemm(Transpose::no, Transpose::no, 1, 40, 300, a.data<float>() + row * 300, 300, b.data<float>(), 40, false,
             one.data<float>(), 40);
    for (int64_t j = 0; j < 40; ++j) EXPECT_EQ(one.at(j), all.at(row * 40 + j));
  }
}

}  // namespace
}  // namespace ropewalk::testing
