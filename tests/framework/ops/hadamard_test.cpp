#include "framework/ops/hadamard.h"

#include <bit>

#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "tests/framework/instruction_sets.h"

namespace ropewalk::testing {
namespace {

Var transformed(Tape&, const std::vector<Var>& in) {
  return hadamard(in[0]);
}

/// By the matrix: element (i, j) is -1 to the number of bits that i and j have in common.
Tensor reference(const Tensor& x) {
  const int64_t n = x.shape[-1];
  Tensor y = Tensor::zeros(x.shape, DType::f64);
  for (int64_t r = 0; r < x.shape.rows(); ++r) {
    for (int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < n; ++j) {
        const int common = std::popcount(static_cast<uint64_t>(i & j));
        sum += (common % 2 == 0 ? 1 : -1) * x.at(r * n + j);
      }
      y.set(r * n + i, sum / std::sqrt(static_cast<double>(n)));
    }
  }
  return y;
}

TEST(HadamardTest, OfHeadsSideBySideItIsThatOfEach) {
  const Tensor x = random_tensor({2, 3, 12}, DType::f64, 1);
  const auto by_head = [](Tape&, const std::vector<Var>& in) { return hadamard(in[0], 4); };
  Tensor heads = copy(x);
  heads.shape = {2, 3, 3, 4};
  const Tensor expected = reference(heads);
  const Tensor got = run(by_head, {x}).value;
  for (int64_t i = 0; i < x.elements(); ++i) EXPECT_NEAR(got.at(i), expected.at(i), 1e-14);
  check_op(by_head, {x});
  EXPECT_THROW(run([](Tape&, const std::vector<Var>& in) { return hadamard(in[0], 8); }, {x}), Error);
}

TEST(HadamardTest, MatchesTheMatrixAndItsGradients) {
  for (const int64_t n : {1, 2, 4, 8, 16, 32, 64}) {
    const Tensor x = random_tensor({3, 1, n}, DType::f64, 1);
    EXPECT_LT(relative_error(run(transformed, {x}).value, reference(x)), 1e-14) << n;
    check_op(transformed, {x});
    check_op([](Tape&, const std::vector<Var>& in) { return add(in[0], hadamard(in[0])); }, {x});
  }
  const Tensor wide = random_tensor({2, 1024}, DType::f64, 2);
  EXPECT_LT(relative_error(run(transformed, {wide}).value, reference(wide)), 1e-14);
}

TEST(HadamardTest, IsItsOwnInverseAndKeepsProducts) {
  const Tensor x = random_tensor({5, 64}, DType::f64, 1);
  const auto twice = [](Tape&, const std::vector<Var>& in) { return hadamard(hadamard(in[0])); };
  EXPECT_LT(relative_error(run(twice, {x}).value, x), 1e-14);
  const Tensor y = run(transformed, {x}).value;
  for (int64_t r = 1; r < 5; ++r) {
    double before = 0;
    double after = 0;
    for (int64_t i = 0; i < 64; ++i) {
      before += x.at(i) * x.at(r * 64 + i);
      after += y.at(i) * y.at(r * 64 + i);
    }
    EXPECT_NEAR(before, after, 1e-13);
  }
}

TEST(HadamardTest, RefusesOtherWidths) {
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  for (const int64_t n : {0, 3, 6, 48, 127}) {
    EXPECT_THROW(hadamard(tape.constant(Tensor::zeros({2, n}, DType::f32))), Error) << n;
  }
  EXPECT_THROW(hadamard(tape.constant(Tensor::zeros({}, DType::f32))), Error);
}

}  // namespace
}  // namespace ropewalk::testing
