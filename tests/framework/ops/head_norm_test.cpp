#include "framework/ops/head_norm.h"

#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "tests/framework/gradient_check.h"
#include "tests/framework/instruction_sets.h"

namespace ropewalk::testing {
namespace {

constexpr double kEps = 1e-3;

Function head_norm_of(int64_t heads, int64_t kv_heads) {
  return [=](Tape&, const std::vector<Var>& in) { return head_norm(in[0], in[1], in[2], heads, kv_heads, kEps); };
}

std::vector<Tensor> inputs(int64_t tokens, int64_t heads, int64_t kv_heads, int64_t d) {
  return {random_tensor({2, tokens, (heads + 2 * kv_heads) * d}, DType::f64, 1),
          random_tensor({d}, DType::f64, 2, 1.0, 1.0), random_tensor({d}, DType::f64, 3, 1.0, 1.0)};
}

struct Sizes {
  int64_t tokens, heads, kv_heads, d;
};

TEST(HeadNormTest, NormalizesEachQueryAndKeyHeadAndLeavesTheValues) {
  for (const auto& [tokens, heads, kv_heads, d] :
       {Sizes{1, 1, 1, 1}, Sizes{3, 2, 2, 5}, Sizes{2, 4, 2, 8}, Sizes{2, 4, 1, 17}}) {
    const std::vector<Tensor> in = inputs(tokens, heads, kv_heads, d);
    const Tensor y = run(head_norm_of(heads, kv_heads), in).value;
    Tensor expected = copy(in[0]);
    for (int64_t row = 0; row < 2 * tokens; ++row) {
      for (int64_t h = 0; h < heads + kv_heads; ++h) {
        const int64_t at = (row * (heads + 2 * kv_heads) + h) * d;
        double mean = 0;
        for (int64_t i = 0; i < d; ++i) mean += in[0].at(at + i) * in[0].at(at + i) / static_cast<double>(d);
        for (int64_t i = 0; i < d; ++i) {
          expected.set(at + i, in[0].at(at + i) / std::sqrt(mean + kEps) * in[h < heads ? 1 : 2].at(i));
        }
      }
    }
    EXPECT_LT(relative_error(y, expected), 1e-14);
    check_op(head_norm_of(heads, kv_heads), in, 5e-9);
  }
}

TEST(HeadNormTest, AddsToGradientsThatAreThere) {
  const Function twice = [](Tape&, const std::vector<Var>& in) {
    const Var y = head_norm(in[0], in[1], in[2], 2, 1, kEps);
    return add(in[0], head_norm(y, in[2], in[1], 2, 1, kEps));
  };
  EXPECT_LT(gradient_error(twice, inputs(3, 2, 1, 4)), 5e-9);
  const Function one_weight = [](Tape&, const std::vector<Var>& in) {
    return head_norm(in[0], in[1], in[1], 2, 1, kEps);
  };
  std::vector<Tensor> in = inputs(3, 2, 1, 4);
  in.pop_back();
  EXPECT_LT(gradient_error(one_weight, in), 5e-9);
}

TEST(HeadNormTest, KeepsZerosAndTheirGradientFinite) {
  std::vector<Tensor> in = inputs(1, 1, 1, 4);
  for (int64_t i = 0; i < in[0].elements(); ++i) in[0].set(i, 0.0);
  const Gradients got = run(head_norm_of(1, 1), in);
  for (int64_t i = 0; i < got.value.elements(); ++i) {
    EXPECT_EQ(got.value.at(i), 0.0);
    EXPECT_TRUE(std::isfinite(got.inputs[0].at(i)));
  }
}

TEST(HeadNormTest, RefusesWeightsThatDoNotFit) {
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  const Var qkv = tape.constant(Tensor::zeros({1, 2, 12}, DType::f64));
  const Var four = tape.constant(Tensor::zeros({4}, DType::f64));
  const Var three = tape.constant(Tensor::zeros({3}, DType::f64));
  EXPECT_THROW(head_norm(qkv, four, three, 1, 1, kEps), Error);
  EXPECT_THROW(head_norm(qkv, three, three, 1, 1, kEps), Error);
}

}  // namespace
}  // namespace ropewalk::testing
