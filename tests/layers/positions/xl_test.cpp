#include <cmath>

#include <gtest/gtest.h>

#include "framework/random.h"
#include "layers/positions/scheme.h"
#include "layers/positions/sinusoidal.h"
#include "tests/layers/small_model.h"

namespace ropewalk::testing {
namespace {

constexpr int64_t kHeads = 2, kHead = 3, kModel = 8, kLength = 6;
constexpr double kScale = 0.6;

Tensor some_values(const Shape& shape, uint32_t salt) {
  const Tensor out = Tensor::zeros(shape, DType::f64);
  for (int64_t i = 0; i < out.elements(); ++i) {
    out.set(i, random_normal({.seed = 2, .a = salt}, static_cast<uint64_t>(i)));
  }
  return out;
}

struct Xl {
  ParameterSet parameters;
  std::vector<InitRule> rules;
  std::unique_ptr<PositionScheme> scheme;

  Xl() {
    PositionConfig config = default_position_config();
    config.encoding = "xl";
    scheme = make_position_scheme(config, {.n_heads = kHeads, .d_model = kModel, .d_head = kHead, .dtype = DType::f64});
    scheme->declare_in_block({parameters, rules}, "a");
    parameters.allocate(DType::f64);
    randomize(parameters);
  }
  Tensor value(const std::string& name) const { return parameters.value(parameters.find("a.xl." + name)); }
};

/// (q_i + u_h) . k_j + (q_i + v_h) . W_h r_(i - j), scaled, as the paper has it.
double score(const Xl& xl, const Tensor& q, const Tensor& k, int64_t h, int64_t i, int64_t j) {
  const Tensor u = xl.value("content_bias"), v = xl.value("offset_bias"), w = xl.value("projection.weight");
  double sum = 0;
  for (int64_t d = 0; d < kHead; ++d) {
    double projected = 0;
    for (int64_t m = 0; m < kModel; ++m) {
      const double angle = static_cast<double>(i - j) / std::pow(10000.0, static_cast<double>(m / 2 * 2) / kModel);
      projected += w.at((h * kHead + d) * kModel + m) * (m % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
    const double query = q.at((h * kLength + i) * kHead + d);
    sum += (query + u.at(h * kHead + d)) * k.at((h * kLength + j) * kHead + d);
    sum += (query + v.at(h * kHead + d)) * projected;
  }
  return kScale * sum;
}

TEST(TransformerXlTest, ScoresAsThePaperHasIt) {
  Xl xl;
  const Tensor q = some_values({1, kHeads, kLength, kHead}, 1);
  const Tensor k = some_values({1, kHeads, kLength, kHead}, 2);
  const Tensor v = some_values({1, kHeads, kLength, kHead}, 3);
  for (const bool causal : {true, false}) {
    // A longer pass before leaves a longer table.
    for (const int64_t before : {kLength, int64_t{20}}) {
      xl.scheme->prepare(before);
      xl.scheme->prepare(kLength);
      Workspace workspace;
      Tape tape(workspace, Mode::inference, &xl.parameters);
      AttentionOptions options{.scale = kScale, .mask = {.causal = causal}};
      xl.scheme->bias({tape}, options);
      const Tensor y = attention(tape.constant(q), tape.constant(k), tape.constant(v), options).value();
      for (int64_t h = 0; h < kHeads; ++h) {
        for (int64_t i = 0; i < kLength; ++i) {
          double total = 0;
          std::vector<double> expected(kHead, 0.0);
          for (int64_t j = 0; j < (causal ? i + 1 : kLength); ++j) {
            const double e = std::exp(score(xl, q, k, h, i, j));
            total += e;
            for (int64_t d = 0; d < kHead; ++d) {
              expected[static_cast<std::size_t>(d)] += e * v.at((h * kLength + j) * kHead + d);
            }
          }
          for (int64_t d = 0; d < kHead; ++d) {
            EXPECT_NEAR(y.at((h * kLength + i) * kHead + d), expected[static_cast<std::size_t>(d)] / total, 1e-12)
                << "head " << h << ", query " << i << ", causal " << causal;
          }
        }
      }
    }
  }
}

TEST(TransformerXlTest, WantsAWidthOfWholePairs) {
  ArchitectureConfig config = small_architecture("xl");
  config.model.d_model = 7;
  config.model.d_head = 4;
  EXPECT_THROW(make_model(config, 4), Error);
}

}  // namespace
}  // namespace ropewalk::testing
