#include "framework/ops/index_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "framework/ops/index_scores.h"
#include "framework/ops/select_top_k.h"
#include "tests/framework/instruction_sets.h"

namespace ropewalk::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kNormalizer = 3.5;

struct Case {
  std::string name;
  int64_t queries = 5, keys = 5;
  AttentionMask mask = {};
  int64_t width = 0;               ///< most selected keys of a query; 0: all visible ones
  int64_t index_heads = 3, d = 4;  ///< of the indexer
  int64_t heads = 2, kv_heads = 2, dk = 6;
  bool bias = false;
  int64_t clip = -1;
  bool rotate = false;
  bool packed = false;
  int64_t batch = 2;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

std::vector<Tensor> operands(const Case& c, DType dtype = DType::f64) {
  return {random_tensor({c.batch, c.queries, c.index_heads * c.d}, dtype, 1),
          random_tensor({c.batch, c.keys, c.d}, dtype, 2),
          random_tensor({c.batch, c.queries, c.index_heads}, dtype, 3)};
}

/// A case with all that the teacher's options point to.
struct Setting {
  Case c;
  Tensor q, k, offset_bias, relative_keys;
  RotaryTable rotary;
  std::vector<int32_t> positions;

  Setting(const Case& of, DType dtype) : c(of) {
    if (c.packed) {
      q = random_tensor({c.batch, c.keys, (c.heads + 2 * c.kv_heads) * c.dk}, dtype, 11);
    } else {
      q = random_tensor({c.batch, c.queries, c.heads * c.dk}, dtype, 11);
      k = random_tensor({c.batch, c.keys, c.kv_heads * c.dk}, dtype, 12);
    }
    offset_bias = random_tensor({c.heads, c.queries + c.keys - 1}, dtype, 13);
    relative_keys = random_tensor({2 * std::max<int64_t>(c.clip, 0) + 1, c.dk}, dtype, 14);
    rotary = make_rotary_table(std::vector<double>{1.0, 0.3}, 1.1, 0, c.keys, RopePairing::split_half, dtype);
    if (c.width == 0) return;
    Workspace workspace;
    Tape tape(workspace, Mode::inference);
    const Var scores = tape.constant(random_tensor({c.batch, c.queries, c.keys}, DType::f64, 15));
    const SelectedKeys keys = select_top_k(scores, c.width, c.mask);
    positions.assign(keys.positions, keys.positions + c.batch * c.queries * keys.width);
  }
  SelectedKeys selected() const { return {c.batch, c.queries, std::min(c.width, c.keys), positions.data()}; }
  bool in_play(int64_t b, int64_t t, int64_t j) const {
    if (c.width == 0) return c.mask.visible(c.keys - c.queries + t, j);
    const int32_t* row = selected().row(b, t);
    return std::find(row, row + selected().width, static_cast<int32_t>(j)) != row + selected().width;
  }
  Var operator()(Tape& tape, const std::vector<Var>& in) const {
    IndexTeacher teacher{.q = {tape.constant(q), 0, c.heads, c.dk}};
    teacher.k =
        c.packed ? Heads{teacher.q.x, c.heads * c.dk, c.kv_heads, c.dk} : Heads{tape.constant(k), 0, c.kv_heads, c.dk};
    teacher.options = {.scale = 0.4, .mask = c.mask};
    if (c.rotate) teacher.options.rotary = &rotary;
    if (c.bias) teacher.options.offset_bias = tape.constant(offset_bias);
    if (c.clip >= 0) teacher.options.relative_keys = tape.constant(relative_keys);
    return c.width > 0 ? index_loss(in[0], in[1], in[2], teacher, selected(), kNormalizer)
                       : index_loss(in[0], in[1], in[2], teacher, kNormalizer);
  }
};

Function op_of(const Case& c) {
  const auto make = [&](DType dtype) { return std::make_shared<const Setting>(c, dtype); };
  return [f32 = make(DType::f32), f64 = make(DType::f64)](Tape& tape, const std::vector<Var>& in) {
    return in[0].dtype() == DType::f32 ? (*f32)(tape, in) : (*f64)(tape, in);
  };
}

/// The teacher's row of one head and position, rotated.
std::vector<double> teacher_row(const Setting& s, bool query, int64_t b, int64_t t, int64_t h) {
  const Case& c = s.c;
  const Tensor& x = query || c.packed ? s.q : s.k;
  const int64_t rows = query ? c.queries : c.keys;
  const int64_t width = x.shape[2];
  const int64_t first = (b * rows + t) * width + (c.packed && !query ? c.heads + h : h) * c.dk;
  std::vector<double> out;
  for (int64_t i = 0; i < c.dk; ++i) out.push_back(x.at(first + i));
  if (!c.rotate) return out;
  const int64_t position = query ? c.keys - c.queries + t : t;
  for (std::size_t m = 0; m < 2; ++m) {
    const double angle = static_cast<double>(position) * (m == 0 ? 1.0 : 0.3);
    const double a = out[m];
    const double b2 = out[m + 2];
    out[m] = 1.1 * (a * std::cos(angle) - b2 * std::sin(angle));
    out[m + 2] = 1.1 * (a * std::sin(angle) + b2 * std::cos(angle));
  }
  return out;
}

std::vector<double> softmax_of(const std::vector<double>& x) {
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0;
  std::vector<double> out;
  for (const double v : x) sum += std::exp(v - largest);
  for (const double v : x) out.push_back(std::exp(v - largest) / sum);
  return out;
}

/// The loss and its gradients under a cotangent, as the formulas stand; `margin` is the least |q . k| of the indexer.
Gradients reference(const Case& c, const std::vector<Tensor>& in, double dloss, double& margin) {
  const Setting s(c, DType::f64);
  Gradients out{.value = Tensor::zeros({}, DType::f64)};
  for (const Tensor& x : in) out.inputs.push_back(Tensor::zeros(x.shape, DType::f64));
  const auto add_to = [](const Tensor& x, int64_t i, double value) { x.set(i, x.at(i) + value); };
  margin = INFINITY;
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t t = 0; t < c.queries; ++t) {
      const int64_t i = c.keys - c.queries + t;
      std::vector<int64_t> keys;
      for (int64_t j = 0; j < c.keys; ++j) {
        if (s.in_play(b, t, j)) keys.push_back(j);
      }
      if (keys.empty()) continue;
      std::vector<double> p(keys.size(), 0.0);
      for (int64_t h = 0; h < c.heads; ++h) {
        const std::vector<double> q = teacher_row(s, true, b, t, h);
        std::vector<double> scores;
        for (const int64_t j : keys) {
          const std::vector<double> k = teacher_row(s, false, b, j, h / (c.heads / c.kv_heads));
          double dot = 0;
          for (std::size_t d = 0; d < q.size(); ++d) {
            const int64_t row = c.clip < 0 ? 0 : std::clamp(j - i, -c.clip, c.clip) + c.clip;
            const double a = c.clip >= 0 ? s.relative_keys.at(row * c.dk + static_cast<int64_t>(d)) : 0.0;
            dot += q[d] * (k[d] + a);
          }
          const int64_t offset = h * (c.queries + c.keys - 1) + j - i + c.keys - 1;
          scores.push_back(0.4 * dot + (c.bias ? s.offset_bias.at(offset) : 0.0));
        }
        const std::vector<double> probabilities = softmax_of(scores);
        for (std::size_t n = 0; n < p.size(); ++n) p[n] += probabilities[n] / static_cast<double>(c.heads);
      }
      const auto product = [&](int64_t h, int64_t j) {
        double sum = 0;
        for (int64_t d = 0; d < c.d; ++d) {
          sum += in[0].at(((b * c.queries + t) * c.index_heads + h) * c.d + d) * in[1].at((b * c.keys + j) * c.d + d);
        }
        margin = std::min(margin, std::abs(sum));
        return sum;
      };
      std::vector<double> scores;
      for (const int64_t j : keys) {
        double sum = 0;
        for (int64_t h = 0; h < c.index_heads; ++h) {
          sum += in[2].at((b * c.queries + t) * c.index_heads + h) * std::max(product(h, j), 0.0);
        }
        scores.push_back(sum);
      }
      const std::vector<double> guess = softmax_of(scores);
      for (std::size_t n = 0; n < keys.size(); ++n) {
        add_to(out.value, 0, p[n] * std::log(p[n] / guess[n]) / kNormalizer);
        const double di = dloss * (guess[n] - p[n]) / kNormalizer;
        for (int64_t h = 0; h < c.index_heads; ++h) {
          const int64_t w = (b * c.queries + t) * c.index_heads + h;
          const double a = product(h, keys[n]);
          if (a <= 0) continue;
          add_to(out.inputs[2], w, di * a);
          for (int64_t d = 0; d < c.d; ++d) {
            const int64_t key = (b * c.keys + keys[n]) * c.d + d;
            add_to(out.inputs[0], w * c.d + d, di * in[2].at(w) * in[1].at(key));
            add_to(out.inputs[1], key, di * in[2].at(w) * in[0].at(w * c.d + d));
          }
        }
      }
    }
  }
  return out;
}

double cotangent() {
  return random_tensor({}, DType::f64, 99).at(0);
}

std::vector<Case> cases() {
  const AttentionMask all{.causal = false};
  std::vector<Case> dense = {
      {.name = "one_token", .queries = 1, .keys = 1},
      {.name = "causal", .queries = 9, .keys = 9},
      {.name = "all", .queries = 9, .keys = 9, .mask = all},
      {.name = "one_head", .queries = 9, .keys = 9, .index_heads = 1, .d = 1, .heads = 1, .kv_heads = 1},
      {.name = "gqa", .queries = 13, .keys = 13, .heads = 6, .kv_heads = 2, .dk = 5},
      {.name = "cached", .queries = 3, .keys = 20, .bias = true, .clip = 2, .rotate = true},
      {.name = "window", .queries = 40, .keys = 60, .mask = {true, 6, 3}, .bias = true, .batch = 1},
      {.name = "window_all", .queries = 30, .keys = 30, .mask = {false, 4, 1}, .clip = 3, .batch = 1},
      {.name = "several_tiles", .queries = 40, .keys = 300, .index_heads = 5, .rotate = true, .batch = 1},
      {.name = "far_window", .queries = 3, .keys = 300, .mask = {true, 5, 2}, .batch = 1},
      {.name = "packed", .queries = 13, .keys = 13, .heads = 4, .rotate = true, .packed = true},
      {.name = "many_index_heads", .queries = 5, .keys = 7, .index_heads = 70, .d = 2, .batch = 1},
  };
  std::vector<Case> out = dense;
  for (Case c : dense) {
    for (const int64_t width : {3, 50}) {
      c.width = width;
      out.push_back(c);
      out.back().name += "_selected_" + std::to_string(width);
    }
  }
  return out;
}

class IndexLossCaseTest : public ::testing::TestWithParam<Case> {};

TEST_P(IndexLossCaseTest, MatchesTheFormulaAndItsGradients) {
  const Case& c = GetParam();
  const std::vector<Tensor> in = operands(c);
  double margin = 0;
  const Gradients expected = reference(c, in, cotangent(), margin);
  ASSERT_GT(margin, 1e-6) << "a rounding error would cross the kink of relu";
  EXPECT_LT(run_error(run(op_of(c), in), expected), 1e-12);
  // Operands and teacher are rounded to f32 here.
  EXPECT_LT(run_error(run(op_of(c), operands(c, DType::f32)), expected), 2e-5);
  EXPECT_LT(spread_over_instruction_sets(op_of(c), in), 1e-12);
  EXPECT_LT(spread_over_instruction_sets(op_of(c), operands(c, DType::f32)), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Cases, IndexLossCaseTest, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(IndexLossTest, GradientsAreThoseOfDifferences) {
  for (const int64_t width : {0, 3}) {
    const Case c{.name = "", .queries = 5, .keys = 6, .width = width, .bias = true};
    const std::vector<Tensor> in = operands(c);
    double margin = 0;
    reference(c, in, 1.0, margin);
    ASSERT_GT(margin, 3e-3) << "a difference would cross the kink of relu";
    EXPECT_LT(gradient_error(op_of(c), in, 1e-4), 2e-9);
    const Function twice = [f = op_of(c)](Tape& tape, const std::vector<Var>& x) {
      return add(f(tape, x), f(tape, x));
    };
    EXPECT_LT(gradient_error(twice, in, 1e-4), 2e-9);
  }
}

TEST(IndexLossTest, IsZeroForAnIndexerThatSaysWhatTheTeacherDoes) {
  // One head of each: with scores of p = softmax(0.4 q . k) where q . k is positive, and relu does nothing.
  Case c{.name = "", .queries = 9, .keys = 9, .index_heads = 1, .d = 6, .heads = 1, .kv_heads = 1, .dk = 6};
  for (const int64_t width : {0, 4}) {
    c.width = width;
    Setting s(c, DType::f64);
    for (int64_t i = 0; i < s.q.elements(); ++i) s.q.set(i, std::abs(s.q.at(i)));
    for (int64_t i = 0; i < s.k.elements(); ++i) s.k.set(i, std::abs(s.k.at(i)));
    const Tensor w = Tensor::zeros({c.batch, c.queries, 1}, DType::f64);
    for (int64_t i = 0; i < w.elements(); ++i) w.set(i, 0.4);
    const Gradients got = run([&](Tape& tape, const std::vector<Var>& in) { return s(tape, in); }, {s.q, s.k, w});
    EXPECT_NEAR(got.value.at(0), 0.0, 1e-14);
    for (const Tensor& gradient : got.inputs) {
      for (int64_t i = 0; i < gradient.elements(); ++i) EXPECT_NEAR(gradient.at(i), 0.0, 1e-14);
    }
    w.set(3, 0.5);
    EXPECT_GT(run([&](Tape& tape, const std::vector<Var>& in) { return s(tape, in); }, {s.q, s.k, w}).value.at(0),
              1e-4);
  }
}

TEST(IndexLossTest, TheTeacherGetsNoGradient) {
  const Case c{.name = "", .queries = 5, .keys = 5};
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  std::vector<Var> in;
  const std::vector<Tensor> tensors = operands(c);
  for (const Tensor& x : tensors) in.push_back(tape.leaf(x));
  const Var q = tape.leaf(random_tensor({2, 5, 12}, DType::f64, 11));
  const Var k = tape.leaf(random_tensor({2, 5, 12}, DType::f64, 12));
  const IndexTeacher teacher{.q = {q, 0, 2, 6}, .k = {k, 0, 2, 6}};
  tape.backward(index_loss(in[0], in[1], in[2], teacher, 1.0));
  for (const Var& x : in) EXPECT_TRUE(tape.has_gradient(x));
  EXPECT_FALSE(tape.has_gradient(q) || tape.has_gradient(k));
  std::vector<Var> fixed;
  for (const Tensor& x : tensors) fixed.push_back(tape.constant(x));
  EXPECT_FALSE(tape.needs_gradient(index_loss(fixed[0], fixed[1], fixed[2], teacher, 1.0)));
}

TEST(IndexLossTest, GivesGradientsOnlyToThoseThatWantThem) {
  for (const int64_t width : {0, 3}) {
    const Case c{.name = "", .queries = 9, .keys = 9, .width = width};
    const std::vector<Tensor> in = operands(c);
    const Setting s(c, DType::f64);
    const Gradients all = run(op_of(c), in);
    for (std::size_t wanted = 0; wanted < 3; ++wanted) {
      Workspace workspace;
      Tape tape(workspace, Mode::train);
      std::vector<Var> leaves;
      for (std::size_t k = 0; k < 3; ++k) leaves.push_back(k == wanted ? tape.leaf(in[k]) : tape.constant(in[k]));
      const Var loss = s(tape, leaves);
      EXPECT_EQ(loss.value().at(0), all.value.at(0));
      tape.seed(loss, random_tensor({}, DType::f64, 99));
      tape.backward();
      EXPECT_LT(relative_error(tape.gradient_of(leaves[wanted]), all.inputs[wanted]), 1e-15) << wanted;
    }
  }
}

TEST(IndexLossTest, WhatIsHiddenDoesNotLeak) {
  // Keys before the window of the first query.
  for (const int64_t width : {0, 3}) {
    const Case c{.name = "", .queries = 5, .keys = 20, .mask = {true, 4, 0}, .width = width, .batch = 1};
    const std::vector<Tensor> in = operands(c);
    Setting s(c, DType::f64);
    const auto f = [&](Tape& tape, const std::vector<Var>& x) { return s(tape, x); };
    const Gradients expected = run(f, in);
    for (const double x : {kNan, double{INFINITY}, 1.7e308}) {
      std::vector<Tensor> poisoned = in;
      poisoned[1] = copy(in[1]);
      for (int64_t i = 0; i < 11 * c.d; ++i) poisoned[1].set(i, x);
      EXPECT_LT(run_error(run(f, poisoned), expected), 1e-13) << "of the indexer, " << x;
      const Tensor k = copy(s.k);
      for (int64_t i = 0; i < 11 * c.kv_heads * c.dk; ++i) s.k.set(i, x);
      EXPECT_LT(run_error(run(f, in), expected), 1e-13) << "of the teacher, " << x;
      s.k = k;
    }
  }
}

TEST(IndexLossTest, AVisibleNanShows) {
  for (const int64_t width : {0, 3}) {
    const Case c{.name = "", .queries = 9, .keys = 9, .width = width};
    for (std::size_t operand = 0; operand < 3; ++operand) {
      const std::vector<Tensor> in = operands(c);
      // Of the first token, which the first query sees.
      in[operand].set(0, kNan);
      EXPECT_TRUE(std::isnan(run(op_of(c), in).value.at(0))) << operand;
    }
    Setting s(c, DType::f64);
    s.k.set(0, kNan);
    const auto f = [&](Tape& tape, const std::vector<Var>& x) { return s(tape, x); };
    EXPECT_TRUE(std::isnan(run(f, operands(c)).value.at(0)));
  }
}

TEST(IndexLossTest, MemoryGrowsLinearlyWithTheLength) {
  for (const int64_t width : {0, 8}) {
    const auto peak = [&](int64_t T) {
      const Case c{.name = "", .queries = T, .keys = T, .width = width, .batch = 1};
      const Setting s(c, DType::f32);
      const std::vector<Tensor> in = operands(c, DType::f32);
      Workspace workspace;
      Tape tape(workspace, Mode::train);
      std::vector<Var> leaves;
      for (const Tensor& x : in) leaves.push_back(tape.leaf(x));
      tape.backward(s(tape, leaves));
      return static_cast<double>(workspace.arena.peak_bytes());
    };
    EXPECT_LT(peak(1024), 2.2 * peak(512)) << width;
    EXPECT_LT(peak(1024), 1024.0 * 1024.0) << "a quarter of one matrix of scores, " << width;
  }
}

/// Rows [begin, end) of sequence b of x [B, rows, columns].
Tensor part_of(const Tensor& x, int64_t b, int64_t begin, int64_t end) {
  const int64_t columns = x.shape[2];
  const Tensor out = Tensor::zeros({1, end - begin, columns}, x.dtype);
  for (int64_t i = 0; i < out.elements(); ++i) out.set(i, x.at((b * x.shape[1] + begin) * columns + i));
  return out;
}

TEST(IndexLossTest, OfUnequalSequencesInACacheItIsTheSumOfTheirs) {
  constexpr int64_t kKeys = 9;
  const std::vector<int64_t> first_key = {0, 4, 9, 2};
  const std::vector<int64_t> key_end = {9, 9, 9, 7};
  const std::vector<double> rates{0.2, -0.1};
  const std::vector<double> frequencies{1.0, 0.3};
  const RotaryTable table = make_rotary_table(frequencies, 1.1, 0, kKeys, RopePairing::split_half, DType::f64,
                                              {.rates = rates, .centre = 3.0});
  const std::vector<Tensor> in = {random_tensor({4, kKeys, 3 * 4}, DType::f64, 1),
                                  random_tensor({4, kKeys, 4}, DType::f64, 2),
                                  random_tensor({4, kKeys, 3}, DType::f64, 3)};
  const Tensor bias = random_tensor({2, 40}, DType::f64, 4);
  // The teacher's keys stand in a cache that holds more rows.
  const Tensor teacher_q = random_tensor({4, kKeys, 2 * 5}, DType::f64, 5);
  const Tensor teacher_k = random_tensor({4, 15, 5}, DType::f64, 6);
  for (const int64_t width : {0, 3}) {
    const auto loss = [&](Tape& tape, const std::vector<Var>& x, const IndexTeacher& teacher) {
      if (width == 0) return index_loss(x[0], x[1], x[2], teacher, kNormalizer);
      const AttentionOptions& o = teacher.options;
      return index_loss(x[0], x[1], x[2], teacher,
                        select_top_k(tape.constant(x[0].value()), x[1], x[2], width, o.mask, IndexPrecision::f32,
                                     {o.first_key, o.key_end}),
                        kNormalizer);
    };
    const auto options = [&](Tape& tape) {
      return AttentionOptions{.scale = 0.4,
                              .mask = {true, 5, 1},
                              .rotary = &table,
                              .offset_bias = tape.constant(bias),
                              .offset_origin = 20};
    };
    const Gradients together = run(
        [&](Tape& tape, const std::vector<Var>& x) {
          IndexTeacher teacher{.q = {tape.constant(teacher_q), 0, 2, 5},
                               .k = {tape.constant(teacher_k), 0, 1, 5, kKeys},
                               .options = options(tape)};
          teacher.options.first_key = first_key;
          teacher.options.key_end = key_end;
          return loss(tape, x, teacher);
        },
        in);
    Gradients apart{.value = Tensor::zeros({}, DType::f64)};
    for (const Tensor& x : in) apart.inputs.push_back(Tensor::zeros(x.shape, x.dtype));
    for (int64_t b = 0; b < 4; ++b) {
      const int64_t begin = first_key[static_cast<std::size_t>(b)];
      const int64_t end = key_end[static_cast<std::size_t>(b)];
      if (begin == end) continue;
      // Queries behind the last key of a sequence see all of them: they stand where they stood.
      const std::vector<int64_t> keys = {end - begin};
      std::vector<Tensor> own;
      for (const Tensor& x : in) own.push_back(part_of(x, b, begin, kKeys));
      const Gradients one = run(
          [&](Tape& tape, const std::vector<Var>& x) {
            IndexTeacher teacher{.q = {tape.constant(part_of(teacher_q, b, begin, kKeys)), 0, 2, 5},
                                 .k = {tape.constant(part_of(teacher_k, b, begin, kKeys)), 0, 1, 5},
                                 .options = options(tape)};
            teacher.options.key_end = keys;
            return loss(tape, x, teacher);
          },
          own);
      apart.value.set(0, apart.value.at(0) + one.value.at(0));
      for (std::size_t k = 0; k < in.size(); ++k) {
        const int64_t first = (b * kKeys + begin) * in[k].shape[2];
        for (int64_t i = 0; i < own[k].elements(); ++i) apart.inputs[k].set(first + i, one.inputs[k].at(i));
      }
    }
    EXPECT_LT(run_error(together, apart), 1e-13) << width;
    EXPECT_GT(together.value.at(0), 1e-3);
  }
}

TEST(IndexLossTest, RefusesWhatDoesNotFit) {
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  const auto make = [&](const Shape& shape, DType dtype = DType::f64) {
    return tape.constant(Tensor::zeros(shape, dtype));
  };
  const Var q = make({1, 3, 8});
  const Var k = make({1, 3, 4});
  const Var w = make({1, 3, 2});
  const IndexTeacher teacher{.q = {make({1, 3, 6}), 0, 2, 3}, .k = {make({1, 3, 3}), 0, 1, 3}};
  EXPECT_NO_THROW(index_loss(q, k, w, teacher, 1.0));
  EXPECT_THROW(index_loss(q, k, w, teacher, 0.0), Error);
  EXPECT_THROW(index_loss(q, k, make({1, 3, 3}), teacher, 1.0), Error);
  IndexTeacher other = teacher;
  other.q.x = make({1, 2, 6});
  EXPECT_THROW(index_loss(q, k, w, other, 1.0), Error) << "fewer queries";
  other = teacher;
  other.q.x = make({1, 3, 6}, DType::f32);
  EXPECT_THROW(index_loss(q, k, w, other, 1.0), Error);
  other = teacher;
  other.options.offset_bias = make({2, 6});
  EXPECT_THROW(index_loss(q, k, w, other, 1.0), Error);
  const std::vector<int32_t> future{1, 0, 0};
  EXPECT_THROW(index_loss(q, k, w, teacher, SelectedKeys{1, 3, 1, future.data()}, 1.0), Error);
}

/// Its two ways, by tiles over what is visible and row by row over what is selected, agree on
/// every addition with the attention that it is told of.
TEST(IndexLossTest, KnowsWhatTheTeacherAddsToScores) {
  constexpr int64_t kKeys = 7;
  const std::vector<int32_t> places = {0, 2, 3, 7, 8, 12, 13};
  for (const bool sampled : {false, true}) {
    for (const int64_t key_heads : {1, 2}) {
      Workspace workspace;
      Tape tape(workspace, Mode::inference);
      const auto make = [&](const Shape& shape, uint64_t seed) {
        return tape.constant(random_tensor(shape, DType::f64, seed));
      };
      constexpr int64_t kOrigin = 16;
      Tensor distance = Tensor::zeros({33}, DType::f64);
      for (int64_t n = 0; n < 33; ++n) distance.set(n, 0.2 * static_cast<double>(std::abs(n - kOrigin)));
      Tensor lines = random_tensor({5, 3}, DType::f64, 9);
      lines.set(0, 0.3);
      lines.set(1, 0.9);
      const AttentionOptions options{.scale = 0.7,
                                     .mask = {true, -1, 0},
                                     .offset_bias = make({2, 33}, 4),
                                     .offset_origin = kOrigin,
                                     .distance_bias = {tape.constant(distance), make({14}, 8), tape.constant(lines)},
                                     .query_bias = make({2, 3}, 5),
                                     .relative_keys = make({5, key_heads * 3}, 6),
                                     .relative_values = make({5, 3}, 7),
                                     .positions = sampled ? places : std::span<const int32_t>()};
      const IndexTeacher teacher{
          .q = {make({1, kKeys, 2 * 3}, 1), 0, 2, 3}, .k = {make({1, kKeys, 2 * 3}, 2), 0, 2, 3}, .options = options};
      // The probabilities of each head: attention over values that are the rows of an identity.
      Tensor identity = Tensor::zeros({1, kKeys, kKeys}, DType::f64);
      for (int64_t j = 0; j < kKeys; ++j) identity.set(j * kKeys + j, 1.0);
      double entropy = 0;
      double cross = 0;
      const Var q = make({1, kKeys, 2}, 10);
      const Var k = make({1, kKeys, 2}, 11);
      const Var w = make({1, kKeys, 1}, 12);
      std::vector<double> p(kKeys * kKeys, 0.0);
      for (int64_t h = 0; h < 2; ++h) {
        AttentionOptions one = options;
        one.relative_values = {};
        const auto part = [&](Var x, int64_t rows, int64_t columns, int64_t heads) {
          // What belongs to head h alone.
          const Tensor all = x.value();
          if (heads == 1) return x;
          Tensor own = Tensor::zeros({rows, columns}, DType::f64);
          const int64_t stride = all.elements() / rows;
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t c = 0; c < columns; ++c) own.set(r * columns + c, all.at(r * stride + h * columns + c));
          }
          return tape.constant(own);
        };
        const auto row = [&](Var x) {
          const int64_t columns = x.shape()[1];
          Tensor own = Tensor::zeros({1, columns}, DType::f64);
          for (int64_t c = 0; c < columns; ++c) own.set(c, x.value().at(h * columns + c));
          return tape.constant(own);
        };
        Tensor own_lines = Tensor::zeros({3, 3}, DType::f64);
        for (int64_t c = 0; c < 3; ++c) {
          own_lines.set(c, lines.at(c));
          own_lines.set(3 + c, lines.at((1 + h) * 3 + c));
          own_lines.set(6 + c, lines.at((3 + h) * 3 + c));
        }
        one.offset_bias = row(options.offset_bias);
        one.query_bias = row(options.query_bias);
        one.relative_keys = part(options.relative_keys, 5, 3, key_heads);
        one.distance_bias.lines = tape.constant(own_lines);
        const Var probabilities = attention(Heads{teacher.q.x, h * 3, 1, 3}, Heads{teacher.k.x, h * 3, 1, 3},
                                            Heads{tape.constant(identity), 0, 1, kKeys}, one);
        for (int64_t n = 0; n < kKeys * kKeys; ++n) p[static_cast<std::size_t>(n)] += probabilities.value().at(n) / 2;
      }
      const Tensor scores = index_scores(q, k, w).value();
      for (int64_t t = 0; t < kKeys; ++t) {
        double sum = 0;
        for (int64_t j = 0; j <= t; ++j) sum += std::exp(scores.at(t * kKeys + j));
        for (int64_t j = 0; j <= t; ++j) {
          const double share = p[static_cast<std::size_t>(t * kKeys + j)];
          entropy -= share * std::log(share);
          cross -= share * (scores.at(t * kKeys + j) - std::log(sum));
        }
      }
      const SelectedKeys all = select_top_k(q, k, w, kKeys, options.mask, IndexPrecision::f32, {});
      EXPECT_NEAR(index_loss(q, k, w, teacher, 7.0).value().at(0), (cross - entropy) / 7, 1e-13);
      EXPECT_NEAR(index_loss(q, k, w, teacher, all, 7.0).value().at(0), (cross - entropy) / 7, 1e-13);
    }
  }
}

}  // namespace
}  // namespace ropewalk::testing
