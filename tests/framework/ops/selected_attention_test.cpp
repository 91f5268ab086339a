#include "framework/ops/selected_attention.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "framework/ops/select_top_k.h"
#include "tests/framework/instruction_sets.h"

namespace ropewalk::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kAttentionFactor = 1.1;

struct Case {
  std::string name;
  int64_t queries = 5, keys = 5;
  int64_t width = 3;  ///< most keys a query selects
  AttentionMask mask = {};
  int64_t heads = 2, kv_heads = 2, dk = 6, dv = 6;
  bool bias = false;
  int64_t clip = -1;        ///< of the relative keys; -1: none
  int64_t rotary_dims = 0;  ///< 0: no rotation
  RopePairing pairing = RopePairing::interleaved;
  bool packed = false;
  double scale = 0.4;
  int64_t batch = 2;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

std::vector<double> frequencies(const Case& c) {
  std::vector<double> out;
  for (int64_t i = 0; i < c.rotary_dims; i += 2) out.push_back(std::pow(50.0, -static_cast<double>(i) / 8));
  return out;
}

/// Positions chosen at random among the visible ones; some queries take none.
std::vector<int32_t> choose(const Case& c) {
  std::vector<int32_t> out(static_cast<std::size_t>(c.batch * c.queries * c.width), -1);
  for (int64_t row = 0; row < c.batch * c.queries; ++row) {
    const int64_t i = c.keys - c.queries + row % c.queries;
    std::vector<std::pair<double, int32_t>> order;
    for (int64_t j = 0; j < c.keys; ++j) {
      const double draw = random_uniform({.seed = 3}, static_cast<uint64_t>(row * c.keys + j));
      if (c.mask.visible(i, j)) order.emplace_back(draw, static_cast<int32_t>(j));
    }
    std::sort(order.begin(), order.end());
    int64_t count = std::min<int64_t>(c.width, static_cast<int64_t>(order.size()));
    if (row % 7 == 3) count /= 2;
    if (row % 11 == 4) count = 0;
    const auto to = out.begin() + row * c.width;
    for (int64_t n = 0; n < count; ++n) *(to + n) = order[static_cast<std::size_t>(n)].second;
    std::sort(to, to + count);
  }
  return out;
}

/// A case with the tables and the selection that its op points to.
struct Setting {
  Case c;
  RotaryTable f32, f64;
  std::vector<int32_t> positions;

  explicit Setting(const Case& of) : c(of), positions(choose(of)) {
    if (c.rotary_dims == 0) return;
    f32 = make_rotary_table(frequencies(c), kAttentionFactor, 0, c.keys, c.pairing, DType::f32);
    f64 = make_rotary_table(frequencies(c), kAttentionFactor, 0, c.keys, c.pairing, DType::f64);
  }
  SelectedKeys selected() const { return {c.batch, c.queries, c.width, positions.data()}; }
  bool selects(int64_t b, int64_t t, int64_t j) const {
    const int32_t* row = selected().row(b, t);
    return std::find(row, row + c.width, static_cast<int32_t>(j)) != row + c.width;
  }
  /// Operands of the op: q, k, v or the packed projection, then bias and relative keys.
  Var operator()(const std::vector<Var>& in, AttentionStatistics* statistics = nullptr) const {
    AttentionOptions o{.scale = c.scale, .mask = c.mask, .statistics = statistics};
    if (c.rotary_dims > 0) o.rotary = in[0].dtype() == DType::f32 ? &f32 : &f64;
    std::size_t next = c.packed ? 1 : 3;
    if (c.bias) o.offset_bias = in[next++];
    if (c.clip >= 0) o.relative_keys = in[next];
    const Var k = in[c.packed ? 0 : 1];
    const Var v = in[c.packed ? 0 : 2];
    const int64_t first_k = c.packed ? c.heads * c.dk : 0;
    const int64_t first_v = c.packed ? (c.heads + c.kv_heads) * c.dk : 0;
    return selected_attention(Heads{in[0], 0, c.heads, c.dk}, Heads{k, first_k, c.kv_heads, c.dk},
                              Heads{v, first_v, c.kv_heads, c.dv}, selected(), o);
  }
};

Function op_of(const Case& c, AttentionStatistics* statistics = nullptr) {
  return [setting = std::make_shared<Setting>(c), statistics](Tape&, const std::vector<Var>& in) {
    return (*setting)(in, statistics);
  };
}

std::vector<Tensor> operands(const Case& c) {
  std::vector<Tensor> in;
  if (c.packed) {
    in = {random_tensor({c.batch, c.keys, (c.heads + 2 * c.kv_heads) * c.dk}, DType::f64, 1)};
  } else {
    in = {random_tensor({c.batch, c.queries, c.heads * c.dk}, DType::f64, 1),
          random_tensor({c.batch, c.keys, c.kv_heads * c.dk}, DType::f64, 2),
          random_tensor({c.batch, c.keys, c.kv_heads * c.dv}, DType::f64, 3)};
  }
  if (c.bias) in.push_back(random_tensor({c.heads, c.queries + c.keys - 1}, DType::f64, 4));
  if (c.clip >= 0) in.push_back(random_tensor({2 * c.clip + 1, c.dk}, DType::f64, 5));
  return in;
}

/// Where element (b, t, h, column) of q, k or v stands: in which operand, and at what index.
struct Place {
  std::size_t operand;
  int64_t at;
};

Place place(const Case& c, int part, int64_t b, int64_t t, int64_t h, int64_t column) {
  if (c.packed) {
    const int64_t first = part == 0 ? 0 : part == 1 ? c.heads : c.heads + c.kv_heads;
    const int64_t width = (c.heads + 2 * c.kv_heads) * c.dk;
    return {0, (b * c.keys + t) * width + (first + h) * c.dk + column};
  }
  const int64_t d = part == 2 ? c.dv : c.dk;
  const int64_t rows = part == 0 ? c.queries : c.keys;
  const int64_t heads = part == 0 ? c.heads : c.kv_heads;
  return {static_cast<std::size_t>(part), ((b * rows + t) * heads + h) * d + column};
}

std::vector<double> row_of(const Case& c, const std::vector<Tensor>& in, int part, int64_t b, int64_t t, int64_t h) {
  std::vector<double> out;
  for (int64_t column = 0; column < (part == 2 ? c.dv : c.dk); ++column) {
    const Place p = place(c, part, b, t, h, column);
    out.push_back(in[p.operand].at(p.at));
  }
  return out;
}

void add_row(const Case& c, const std::vector<Tensor>& to, int part, int64_t b, int64_t t, int64_t h,
             const std::vector<double>& values, double factor = 1.0) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Place p = place(c, part, b, t, h, static_cast<int64_t>(i));
    to[p.operand].set(p.at, to[p.operand].at(p.at) + factor * values[i]);
  }
}

/// A row turned by its position, or by the transpose of that.
void turn(const Case& c, std::vector<double>& row, int64_t position, bool transposed) {
  const std::vector<double> inverse = frequencies(c);
  for (std::size_t m = 0; m < inverse.size(); ++m) {
    const bool adjacent = c.pairing == RopePairing::interleaved;
    const std::size_t first = adjacent ? 2 * m : m;
    const std::size_t second = adjacent ? first + 1 : m + inverse.size();
    const double angle = (transposed ? -1.0 : 1.0) * static_cast<double>(position) * inverse[m];
    const double a = row[first];
    const double b = row[second];
    row[first] = kAttentionFactor * (a * std::cos(angle) - b * std::sin(angle));
    row[second] = kAttentionFactor * (a * std::sin(angle) + b * std::cos(angle));
  }
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

struct Reference {
  Gradients run;
  std::vector<double> entropy, max_logit;
};

/// Dense attention in which every key that is not selected is left out, as the formulas stand.
Reference reference(const Case& c, const std::vector<Tensor>& in, const Tensor& dy) {
  const Setting setting(c);
  Reference out;
  out.run.value = Tensor::zeros({c.batch, c.queries, c.heads * c.dv}, DType::f64);
  for (const Tensor& x : in) out.run.inputs.push_back(Tensor::zeros(x.shape, DType::f64));
  out.entropy.assign(static_cast<std::size_t>(c.heads), 0.0);
  out.max_logit.assign(static_cast<std::size_t>(c.heads), -kInfinity);
  const std::size_t bias = c.packed ? 1 : 3;
  const std::size_t relative = bias + (c.bias ? 1 : 0);
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t h = 0; h < c.heads; ++h) {
      const int64_t g = h / (c.heads / c.kv_heads);
      for (int64_t t = 0; t < c.queries; ++t) {
        const int64_t i = c.keys - c.queries + t;
        const int64_t y_at = ((b * c.queries + t) * c.heads + h) * c.dv;
        std::vector<double> q = row_of(c, in, 0, b, t, h);
        if (c.rotary_dims > 0) turn(c, q, i, false);
        std::vector<int64_t> seen;
        std::vector<std::vector<double>> keys;
        std::vector<double> s;
        for (int64_t j = 0; j < c.keys; ++j) {
          if (!setting.selects(b, t, j)) continue;
          std::vector<double> k = row_of(c, in, 1, b, j, g);
          if (c.rotary_dims > 0) turn(c, k, j, false);
          for (int64_t d = 0; c.clip >= 0 && d < c.dk; ++d) {
            k[static_cast<std::size_t>(d)] += in[relative].at((std::clamp(j - i, -c.clip, c.clip) + c.clip) * c.dk + d);
          }
          double score = c.scale * dot(q, k);
          if (c.bias) score += in[bias].at(h * (c.queries + c.keys - 1) + j - i + c.keys - 1);
          if (score == -kInfinity) continue;
          seen.push_back(j);
          keys.push_back(k);
          s.push_back(score);
        }
        if (seen.empty()) continue;
        const double largest = *std::max_element(s.begin(), s.end());
        double sum = 0;
        for (const double x : s) sum += std::exp(x - largest);
        auto& max_logit = out.max_logit[static_cast<std::size_t>(h)];
        max_logit = std::max(max_logit, largest);
        std::vector<double> dy_row;
        for (int64_t d = 0; d < c.dv; ++d) dy_row.push_back(dy.at(y_at + d));
        std::vector<double> p;
        std::vector<double> dp;
        double mean = 0;
        for (std::size_t n = 0; n < seen.size(); ++n) {
          p.push_back(std::exp(s[n] - largest) / sum);
          if (p[n] > 0) out.entropy[static_cast<std::size_t>(h)] -= p[n] * std::log(p[n]);
          const std::vector<double> v = row_of(c, in, 2, b, seen[n], g);
          for (int64_t d = 0; d < c.dv; ++d) {
            out.run.value.set(y_at + d, out.run.value.at(y_at + d) + p[n] * v[static_cast<std::size_t>(d)]);
          }
          add_row(c, out.run.inputs, 2, b, seen[n], g, dy_row, p[n]);
          dp.push_back(dot(dy_row, v));
          mean += p[n] * dp[n];
        }
        std::vector<double> dq(q.size(), 0.0);
        for (std::size_t n = 0; n < seen.size(); ++n) {
          const int64_t j = seen[n];
          const double ds = p[n] * (dp[n] - mean);
          std::vector<double> dk(q.size());
          for (std::size_t d = 0; d < q.size(); ++d) {
            dq[d] += c.scale * ds * keys[n][d];
            dk[d] = c.scale * ds * q[d];
          }
          for (int64_t d = 0; c.clip >= 0 && d < c.dk; ++d) {
            const int64_t at = (std::clamp(j - i, -c.clip, c.clip) + c.clip) * c.dk + d;
            const Tensor& to = out.run.inputs[relative];
            to.set(at, to.at(at) + dk[static_cast<std::size_t>(d)]);
          }
          if (c.bias) {
            const int64_t at = h * (c.queries + c.keys - 1) + j - i + c.keys - 1;
            out.run.inputs[bias].set(at, out.run.inputs[bias].at(at) + ds);
          }
          if (c.rotary_dims > 0) turn(c, dk, j, true);
          add_row(c, out.run.inputs, 1, b, j, g, dk);
        }
        if (c.rotary_dims > 0) turn(c, dq, i, true);
        add_row(c, out.run.inputs, 0, b, t, h, dq);
      }
    }
  }
  return out;
}

Tensor cotangent_of(const Case& c, DType dtype = DType::f64) {
  return random_tensor({c.batch, c.queries, c.heads * c.dv}, dtype, 99);
}

std::vector<Tensor> cast_all(const std::vector<Tensor>& in, DType dtype) {
  std::vector<Tensor> out;
  for (const Tensor& x : in) out.push_back(cast(x, dtype));
  return out;
}

std::vector<Case> cases() {
  const AttentionMask all{.causal = false};
  return {
      {.name = "one_token", .queries = 1, .keys = 1, .width = 1},
      {.name = "causal", .queries = 13, .keys = 13},
      {.name = "every_visible_key", .queries = 13, .keys = 13, .width = 13},
      {.name = "wider_than_the_keys", .queries = 5, .keys = 5, .width = 9},
      {.name = "all", .queries = 13, .keys = 13, .width = 5, .mask = all},
      {.name = "one_key", .queries = 9, .keys = 9, .width = 1},
      {.name = "gqa", .queries = 13, .keys = 13, .width = 6, .heads = 6, .kv_heads = 2, .dk = 5, .dv = 9},
      {.name = "mqa", .queries = 13, .keys = 13, .width = 6, .heads = 4, .kv_heads = 1, .dk = 3, .dv = 17},
      {.name = "one_column", .queries = 7, .keys = 7, .dk = 1, .dv = 1},
      {.name = "wide_heads", .queries = 9, .keys = 20, .width = 7, .dk = 70, .dv = 33, .scale = 0.1},
      {.name = "decode", .queries = 1, .keys = 70, .width = 8, .bias = true, .rotary_dims = 6},
      {.name = "cached", .queries = 5, .keys = 30, .width = 8, .heads = 4, .bias = true, .clip = 3, .rotary_dims = 4},
      {.name = "long", .queries = 90, .keys = 90, .width = 20, .heads = 4, .dk = 16, .dv = 16},
      {.name = "window", .queries = 40, .keys = 60, .width = 5, .mask = {true, 8, 2}},
      {.name = "bias", .queries = 13, .keys = 13, .width = 6, .bias = true},
      {.name = "relative", .queries = 13, .keys = 13, .width = 6, .mask = all, .clip = 2},
      {.name = "rotary_split",
       .queries = 13,
       .keys = 20,
       .width = 6,
       .kv_heads = 1,
       .dk = 9,
       .rotary_dims = 8,
       .pairing = RopePairing::split_half},
      {.name = "packed", .queries = 13, .keys = 13, .width = 6, .packed = true},
      {.name = "packed_gqa_everything",
       .queries = 13,
       .keys = 13,
       .width = 6,
       .mask = {false, 7, 1},
       .heads = 4,
       .bias = true,
       .clip = 3,
       .rotary_dims = 4,
       .packed = true},
  };
}

class SelectedAttentionCaseTest : public ::testing::TestWithParam<Case> {};

TEST_P(SelectedAttentionCaseTest, MatchesMaterialisedScoresAndTheirGradients) {
  const Case& c = GetParam();
  const std::vector<Tensor> in = operands(c);
  EXPECT_LT(run_error(run(op_of(c), in), reference(c, in, cotangent_of(c)).run), 1e-12);
  const std::vector<Tensor> narrow = cast_all(in, DType::f32);
  const Tensor narrow_dy = cast(cotangent_of(c, DType::f32), DType::f64);
  EXPECT_LT(run_error(run(op_of(c), narrow), reference(c, cast_all(narrow, DType::f64), narrow_dy).run), 2e-6);
}

TEST_P(SelectedAttentionCaseTest, AgreesOnEveryInstructionSet) {
  const Case& c = GetParam();
  const std::vector<Tensor> in = operands(c);
  EXPECT_LT(spread_over_instruction_sets(op_of(c), in), 1e-13);
  EXPECT_LT(spread_over_instruction_sets(op_of(c), cast_all(in, DType::f32)), 2e-6);
}

TEST_P(SelectedAttentionCaseTest, TellsEntropyAndGreatestScore) {
  const Case& c = GetParam();
  const std::vector<Tensor> in = operands(c);
  const Reference expected = reference(c, in, cotangent_of(c));
  std::vector<double> entropy(static_cast<std::size_t>(c.heads), 0.0);
  std::vector<double> max_logit(static_cast<std::size_t>(c.heads), -kInfinity);
  AttentionStatistics statistics{entropy.data(), max_logit.data()};
  run(op_of(c, &statistics), in);
  for (std::size_t h = 0; h < entropy.size(); ++h) {
    EXPECT_NEAR(entropy[h], expected.entropy[h], 1e-11);
    if (std::isfinite(expected.max_logit[h])) {
      EXPECT_NEAR(max_logit[h], expected.max_logit[h], 1e-12);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, SelectedAttentionCaseTest, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(SelectedAttentionTest, GradientsAreThoseOfDifferences) {
  for (const bool packed : {false, true}) {
    const Case c{.name = "",
                 .queries = 5,
                 .keys = 5,
                 .heads = 4,
                 .kv_heads = 2,
                 .dk = 4,
                 .dv = 4,
                 .bias = true,
                 .clip = 1,
                 .rotary_dims = 2,
                 .packed = packed};
    EXPECT_LT(gradient_error(op_of(c), operands(c)), 2e-9);
  }
  const Case wide_values{.name = "", .queries = 3, .keys = 6, .dk = 2, .dv = 5};
  EXPECT_LT(gradient_error(op_of(wide_values), operands(wide_values)), 2e-9);
}

TEST(SelectedAttentionTest, WithEveryKeySelectedItIsAttention) {
  for (const int64_t T : {5, 70}) {
    const Case c{.name = "", .queries = T, .keys = T, .heads = 4, .kv_heads = 2, .bias = true, .rotary_dims = 4};
    const std::vector<Tensor> in = {random_tensor({2, T, 8 * c.dk}, DType::f64, 1),
                                    random_tensor({4, 2 * T - 1}, DType::f64, 2)};
    const RotaryTable table = make_rotary_table(frequencies(c), 1.1, 0, T, c.pairing, DType::f64);
    const auto with = [&](bool selecting) {
      return run(
          [&](Tape& tape, const std::vector<Var>& x) {
            const AttentionOptions o{.scale = 0.3, .rotary = &table, .offset_bias = x[1]};
            if (!selecting) return attention_packed(x[0], 4, 2, o);
            const Var scores = tape.constant(random_tensor({2, T, T}, DType::f64, 3));
            return selected_attention(Heads{x[0], 0, 4, c.dk}, Heads{x[0], 4 * c.dk, 2, c.dk},
                                      Heads{x[0], 6 * c.dk, 2, c.dk}, select_top_k(scores, T, o.mask), o);
          },
          in);
    };
    EXPECT_LT(run_error(with(true), with(false)), 1e-13);
  }
}

TEST(SelectedAttentionTest, AddsToGradientsThatAreThere) {
  const Case c{.name = "", .queries = 5, .keys = 5, .dk = 4, .dv = 4};
  const Setting s(c);
  const Tensor x = random_tensor({2, 5, 8}, DType::f64, 1);
  const Tensor other = random_tensor({2, 5, 8}, DType::f64, 2);
  const auto with = [&](std::size_t q, std::size_t k, std::size_t v) {
    return [&s, q, k, v](Tape&, const std::vector<Var>& in) { return s({in[q], in[k], in[v]}); };
  };
  EXPECT_LT(gradient_error(with(0, 0, 0), {x}), 2e-9);
  EXPECT_LT(gradient_error(with(0, 1, 1), {x, other}), 2e-9);
  EXPECT_LT(gradient_error(with(0, 1, 0), {x, other}), 2e-9);
  EXPECT_LT(gradient_error(with(0, 0, 1), {x, other}), 2e-9);
  const auto stacked = [&](Tape&, const std::vector<Var>& in) {
    const Var y = s({in[0], in[1], in[1]});
    return add(in[1], add(s({y, in[0], y}), in[0]));
  };
  EXPECT_LT(gradient_error(stacked, {x, other}), 2e-9);
  Case packed = c;
  packed.packed = true;
  const Setting p(packed);
  const auto twice = [&](Tape&, const std::vector<Var>& in) { return add(p({in[0]}), p({in[0]})); };
  EXPECT_LT(gradient_error(twice, operands(packed)), 2e-9);
}

TEST(SelectedAttentionTest, GivesGradientsOnlyToThoseThatWantThem) {
  const Case c{.name = "", .queries = 13, .keys = 13, .width = 6, .bias = true, .clip = 2};
  const std::vector<Tensor> in = operands(c);
  const Gradients all = run(op_of(c), in);
  const Setting setting(c);
  for (std::size_t wanted = 0; wanted < in.size(); ++wanted) {
    Workspace workspace;
    Tape tape(workspace, Mode::train);
    std::vector<Var> leaves;
    for (std::size_t k = 0; k < in.size(); ++k) leaves.push_back(k == wanted ? tape.leaf(in[k]) : tape.constant(in[k]));
    tape.seed(setting(leaves), cotangent_of(c));
    tape.backward();
    EXPECT_LT(relative_error(tape.gradient_of(leaves[wanted]), all.inputs[wanted]), 1e-15) << "operand " << wanted;
  }
}

TEST(SelectedAttentionTest, AQueryWithoutKeysGivesZerosAndPassesNoGradient) {
  Case c{.name = "", .queries = 5, .keys = 5};
  Setting setting(c);
  std::fill(setting.positions.begin(), setting.positions.end(), -1);
  const auto f = [&](Tape&, const std::vector<Var>& in) { return setting(in); };
  const Gradients got = run(f, operands(c));
  for (int64_t i = 0; i < got.value.elements(); ++i) EXPECT_EQ(got.value.at(i), 0.0);
  for (const Tensor& gradient : got.inputs) {
    for (int64_t i = 0; i < gradient.elements(); ++i) EXPECT_EQ(gradient.at(i), 0.0);
  }
  // And one whose keys are all hidden by a bias of -infinity.
  c.bias = true;
  std::vector<Tensor> in = operands(c);
  for (int64_t h = 0; h < c.heads; ++h) {
    for (const int64_t offset : {-1, 0}) in[3].set(h * 9 + offset + 4, -kInfinity);
  }
  const Gradients hidden = run(op_of(c), in);
  EXPECT_LT(run_error(hidden, reference(c, in, cotangent_of(c)).run), 1e-12);
  for (int64_t i = 0; i < 2 * c.heads * c.dv; ++i) EXPECT_EQ(hidden.value.at(i), 0.0);
}

TEST(SelectedAttentionTest, WhatIsNotSelectedDoesNotLeak) {
  const Case c{.name = "", .queries = 30, .keys = 30, .width = 3, .mask = {true, 20, 0}, .heads = 4, .rotary_dims = 4};
  const Setting setting(c);
  const std::vector<Tensor> clean = operands(c);
  const Gradients expected = run(op_of(c), clean);
  int poisoned = 0;
  for (const double x : {kNan, kInfinity, 1.7e308}) {
    for (const int part : {1, 2}) {
      std::vector<Tensor> in = clean;
      in[static_cast<std::size_t>(part)] = copy(clean[static_cast<std::size_t>(part)]);
      for (int64_t b = 0; b < c.batch; ++b) {
        for (int64_t j = 0; j < c.keys; ++j) {
          bool selected = false;
          for (int64_t t = 0; t < c.queries; ++t) selected = selected || setting.selects(b, t, j);
          if (selected) continue;
          ++poisoned;
          for (int64_t g = 0; g < c.kv_heads; ++g) {
            add_row(c, in, part, b, j, g, std::vector<double>(6, x));
          }
        }
      }
      EXPECT_LT(run_error(run(op_of(c), in), expected), 1e-14) << x << " in operand " << part;
    }
  }
  ASSERT_GT(poisoned, 0);
}

TEST(SelectedAttentionTest, ANanReachesTheQueriesThatSelectIt) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const int part : {0, 1, 2}) {
      const Case c{.name = "", .queries = 20, .keys = 20, .width = 4, .heads = 1, .kv_heads = 1, .batch = 1};
      const Setting setting(c);
      const std::vector<Tensor> in = cast_all(operands(c), dtype);
      const int64_t row = 6;
      add_row(c, in, part, 0, row, 0, {kNan});
      const Gradients got = run(op_of(c), in);
      for (int64_t t = 0; t < c.queries; ++t) {
        const bool reads = part == 0 ? t == row && setting.selected().count(0, t) > 0 : setting.selects(0, t, row);
        EXPECT_EQ(std::isnan(got.value.at(t * c.dv)), reads) << part << ": query " << t;
      }
    }
  }
}

TEST(SelectedAttentionTest, GreatScoresDoNotOverflow) {
  const Case c{.name = "", .queries = 30, .keys = 30, .width = 8, .scale = 1e4};
  const std::vector<Tensor> narrow = cast_all(operands(c), DType::f32);
  const std::vector<Tensor> wide = cast_all(narrow, DType::f64);
  EXPECT_LT(run_error(run(op_of(c), wide), reference(c, wide, cotangent_of(c)).run), 1e-9);
  const Gradients got = run(op_of(c), narrow);
  for (int64_t i = 0; i < got.value.elements(); ++i) ASSERT_TRUE(std::isfinite(got.value.at(i)));
  for (const Tensor& gradient : got.inputs) {
    for (int64_t i = 0; i < gradient.elements(); ++i) ASSERT_TRUE(std::isfinite(gradient.at(i)));
  }
}

TEST(SelectedAttentionTest, MemoryDoesNotGrowWithTheSquareOfTheLength) {
  const auto peak = [](int64_t T) {
    const Case c{.name = "", .queries = T, .keys = T, .width = 4, .heads = 1, .kv_heads = 1, .bias = true, .batch = 1};
    const std::vector<Tensor> in = cast_all(operands(c), DType::f32);
    Workspace workspace;
    Tape tape(workspace, Mode::train);
    std::vector<Var> leaves;
    for (const Tensor& x : in) leaves.push_back(tape.leaf(x));
    const Setting setting(c);
    tape.seed(setting(leaves), cotangent_of(c, DType::f32));
    tape.backward();
    return static_cast<double>(workspace.arena.peak_bytes());
  };
  EXPECT_LT(peak(1024), 2.2 * peak(512));
  EXPECT_LT(peak(1024), 1024.0 * 1024.0);  // a quarter of one matrix of scores
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SelectedAttentionTest, RefusesSelectionsThatAreNotOne) {
  const Case c{.name = "", .queries = 3, .keys = 4, .width = 2, .mask = {true, 1, 0}, .batch = 1};
  const std::vector<Tensor> in = operands(c);
  std::vector<int64_t> first_key;
  std::vector<int64_t> key_end;
  const auto message = [&](const std::vector<int32_t>& positions, int64_t width = 2) {
    return message_of([&] {
      Workspace workspace;
      Tape tape(workspace, Mode::inference);
      const auto queries = static_cast<int64_t>(positions.size()) / width;
      const auto heads = [&](std::size_t i) { return Heads{tape.constant(in[i]), 0, 2, 6}; };
      selected_attention(heads(0), heads(1), heads(2), {1, queries, width, positions.data()},
                         {.mask = c.mask, .first_key = first_key, .key_end = key_end});
    });
  };
  EXPECT_EQ(message({0, 1, 1, 2, 3, -1}), "");
  EXPECT_NE(message({0, 1, 1, 1, 3, -1}).find("selects key 1 after key 1"), std::string::npos) << "a duplicate";
  EXPECT_NE(message({1, 0, 1, 2, 3, -1}).find("selects key 0 after key 1"), std::string::npos);
  EXPECT_NE(message({0, 1, 1, 2, 3, 4}).find("selects key 4"), std::string::npos) << "beyond the keys";
  EXPECT_NE(message({0, 1, 1, 3, 3, -1}).find("does not see"), std::string::npos) << "the future";
  EXPECT_NE(message({0, 1, 0, 2, 3, -1}).find("does not see"), std::string::npos) << "outside the window";
  EXPECT_NE(message({-1, 0, 1, 2, 3, -1}).find("only -1 may follow"), std::string::npos);
  EXPECT_NE(message({0, -2, 1, 2, 3, -1}).find("only -1 may follow"), std::string::npos);
  EXPECT_NE(message({0, 1, 1, 2}).find("1 sequences of 2 queries"), std::string::npos);
  // The first of the four keys and of the three queries is padding: queries stand at -1, 0 and 1 of two keys.
  first_key = {2};
  EXPECT_EQ(message({-1, -1, 0, -1, 0, 1}), "");
  EXPECT_NE(message({0, -1, 0, -1, 0, 1}).find("does not see"), std::string::npos) << "padding attends to nothing";
  EXPECT_NE(message({-1, -1, 0, 1, 0, 1}).find("does not see"), std::string::npos) << "the future";
  EXPECT_NE(message({-1, -1, 0, -1, 1, 2}).find("are below 2"), std::string::npos);
  first_key = {};
  key_end = {3};
  EXPECT_EQ(message({0, 1, 1, 2, 2, -1}), "");
  EXPECT_NE(message({0, 1, 1, 2, 2, 3}).find("are below 3"), std::string::npos);
  key_end = {5};
  EXPECT_NE(message({0, 1, 1, 2, 2, -1}).find("must lie in [0, 4]"), std::string::npos);
}

TEST(SelectedAttentionTest, RefusesOperandsThatDoNotFit) {
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  const std::vector<int32_t> positions{0, 0, 0};
  const SelectedKeys selected{1, 3, 1, positions.data()};
  const auto make = [&](const Shape& shape, DType dtype = DType::f64) {
    return tape.constant(Tensor::zeros(shape, dtype));
  };
  const Heads q{make({1, 3, 8}), 0, 4, 2};
  const Heads k{make({1, 3, 4}), 0, 2, 2};
  const auto attend = [&](const Heads& queries, const Heads& keys, const Heads& values,
                          const AttentionOptions& options = {}) {
    return selected_attention(queries, keys, values, selected, options);
  };
  EXPECT_NO_THROW(attend(q, k, Heads{make({1, 3, 10}), 0, 2, 5}));
  EXPECT_NO_THROW(attend(q, Heads{make({1, 5, 4}), 0, 2, 2, 3}, Heads{make({1, 4, 4}), 0, 2, 2, 3}));
  EXPECT_THROW(attend(q, k, Heads{k.x, 0, 4, 1}), Error) << "values of other heads";
  EXPECT_THROW(attend(Heads{q.x, 0, 3, 2}, k, k), Error) << "three heads cannot share two";
  EXPECT_THROW(attend(q, k, Heads{make({1, 4, 4}), 0, 2, 2}), Error) << "more values than keys";
  EXPECT_THROW(attend(q, Heads{make({1, 2, 4}), 0, 2, 2}, Heads{make({1, 2, 4}), 0, 2, 2}), Error);
  EXPECT_THROW(attend(q, Heads{make({1, 3, 4}, DType::f32), 0, 2, 2}, k), Error);
  EXPECT_THROW(attend(q, k, k, {.offset_bias = make({4, 6})}), Error);
  EXPECT_THROW(attend(q, k, k, {.offset_bias = make({4, 5}, DType::f32)}), Error);
  EXPECT_THROW(attend(q, k, k, {.offset_bias = make({4, 5}), .offset_origin = 1}), Error);
  EXPECT_THROW(attend(q, k, k, {.relative_keys = make({4, 2})}), Error);
  const RotaryTable table =
      make_rotary_table(std::vector<double>{1.0}, 1.0, 0, 2, RopePairing::interleaved, DType::f64);
  EXPECT_THROW(attend(q, k, k, {.rotary = &table}), Error);
}

/// Caches with room for more, padding at the left, keys that end early, an offset bias that is longer than needed and
/// keys that are scaled otherwise than queries (xPos).
TEST(SelectedAttentionTest, WithEveryKeySelectedItIsAttentionOfUnequalSequencesInACache) {
  constexpr int64_t kCapacity = 20;
  constexpr int64_t kKeys = 14;
  const std::vector<double> rates{0.3, -0.2};
  for (const int64_t queries : {1, 6, 14}) {
    for (const bool ends : {false, true}) {
      // Of the third no token is there; without ends of their own, its first may still be to come.
      const std::vector<int64_t> first_key = {0, 9, ends ? 14 : 17, 13};
      const std::vector<int64_t> key_end = {14, 12, 14, 14};
      const std::vector<Tensor> in = {random_tensor({4, queries, 3 * 4}, DType::f64, 1),
                                      random_tensor({4, kCapacity, 2 + 2 * 4}, DType::f64, 2),
                                      random_tensor({4, kCapacity, 2 * 5}, DType::f64, 3),
                                      random_tensor({4, 50}, DType::f64, 4), random_tensor({5, 3}, DType::f64, 5)};
      const std::vector<Tensor> indexer = {random_tensor({4, queries, 2 * 3}, DType::f64, 6),
                                           random_tensor({4, kKeys, 3}, DType::f64, 7),
                                           random_tensor({4, queries, 2}, DType::f64, 8)};
      const RotaryTable table = make_rotary_table(std::vector<double>{1.0}, 1.1, 0, kKeys, RopePairing::interleaved,
                                                  DType::f64, {.rates = std::span(rates).first(1), .centre = 4.0});
      const auto with = [&](bool selecting) {
        return [&, selecting](Tape& tape, const std::vector<Var>& x) {
          AttentionOptions o{.scale = 0.7,
                             .mask = {true, 4, 1},
                             .rotary = &table,
                             .offset_bias = x[3],
                             .offset_origin = 23,
                             .relative_keys = x[4],
                             .first_key = first_key};
          if (ends) o.key_end = key_end;
          const Heads q{x[0], 0, 4, 3};
          const Heads k{x[1], 2, 2, 3, kKeys};
          const Heads v{x[2], 0, 2, 5, kKeys};
          if (!selecting) return attention(q, k, v, o);
          const SelectedKeys keys =
              select_top_k(tape.constant(indexer[0]), tape.constant(indexer[1]), tape.constant(indexer[2]), kKeys,
                           o.mask, IndexPrecision::f32, {o.first_key, o.key_end});
          return selected_attention(q, k, v, keys, o);
        };
      };
      const Gradients expected = run(with(false), in);
      EXPECT_LT(run_error(run(with(true), in), expected), 1e-13) << queries << ends;
      // What lies beyond the rows in use, or is padding, is not read.
      std::vector<Tensor> poisoned = in;
      for (const std::size_t operand : {1u, 2u}) {
        poisoned[operand] = copy(in[operand]);
        const int64_t columns = in[operand].shape[2];
        for (int64_t b = 0; b < 4; ++b) {
          for (int64_t j = 0; j < kCapacity; ++j) {
            const auto at = static_cast<std::size_t>(b);
            if (j >= first_key[at] && j < (ends ? key_end[at] : kKeys)) continue;
            for (int64_t c = 0; c < columns; ++c) poisoned[operand].set((b * kCapacity + j) * columns + c, kNan);
          }
        }
      }
      EXPECT_LT(run_error(run(with(true), poisoned), expected), 1e-13) << queries << ends;
    }
  }
}

/// All that can be added to scores and values, at consecutive positions and at others.
TEST(SelectedAttentionTest, EveryAdditionIsThatOfAttention) {
  constexpr int64_t kKeys = 9;
  const std::vector<int32_t> places = {0, 2, 3, 7, 8, 12, 13, 17, 20};
  const std::vector<int64_t> first_key = {0, 3};
  const RotaryTable rotary =
      make_rotary_table(std::vector<double>{1.0}, 1.1, 0, kKeys, RopePairing::split_half, DType::f64);
  for (const bool sampled : {false, true}) {
    for (const int64_t key_heads : {1, 4}) {
      for (const int64_t queries : {1, 9}) {
        SCOPED_TRACE(::testing::Message() << sampled << ' ' << key_heads << ' ' << queries);
        const int64_t origin = 24;
        Tensor distance = Tensor::zeros({50}, DType::f64);
        for (int64_t n = 0; n < 50; ++n) distance.set(n, 0.2 * static_cast<double>(std::abs(n - origin)));
        Tensor lines = random_tensor({9, 4}, DType::f64, 9);
        for (int64_t n = 0; n < 3; ++n) lines.set(n, static_cast<double>(n) + 0.3);
        const std::vector<Tensor> in = {random_tensor({2, queries, 4 * 3}, DType::f64, 1),
                                        random_tensor({2, kKeys, 2 * 3}, DType::f64, 2),
                                        random_tensor({2, kKeys, 2 * 5}, DType::f64, 3),
                                        random_tensor({4, 50}, DType::f64, 4),
                                        random_tensor({4, 3}, DType::f64, 5),
                                        random_tensor({7, key_heads * 3}, DType::f64, 6),
                                        random_tensor({7, 5}, DType::f64, 7),
                                        distance,
                                        random_tensor({21}, DType::f64, 8),
                                        lines};
        const std::vector<Tensor> indexer = {random_tensor({2, queries, 2}, DType::f64, 10),
                                             random_tensor({2, kKeys, 2}, DType::f64, 11),
                                             random_tensor({2, queries, 1}, DType::f64, 12)};
        const auto with = [&](int64_t selecting) {
          return [&, selecting](Tape& tape, const std::vector<Var>& x) {
            const AttentionOptions o{.scale = 0.7,
                                     .mask = {true, -1, 0},
                                     .rotary = &rotary,
                                     .offset_bias = x[3],
                                     .offset_origin = origin,
                                     .distance_bias = {x[7], x[8], x[9]},
                                     .query_bias = x[4],
                                     .relative_keys = x[5],
                                     .relative_values = x[6],
                                     .positions = sampled ? places : std::span<const int32_t>(),
                                     .first_key = first_key};
            const Heads q{x[0], 0, 4, 3};
            const Heads k{x[1], 0, 2, 3};
            const Heads v{x[2], 0, 2, 5};
            if (selecting == 0) return attention(q, k, v, o);
            const SelectedKeys keys =
                select_top_k(tape.constant(indexer[0]), tape.constant(indexer[1]), tape.constant(indexer[2]), selecting,
                             o.mask, IndexPrecision::f32, {o.first_key, o.key_end});
            return selected_attention(q, k, v, keys, o);
          };
        };
        EXPECT_LT(run_error(run(with(kKeys), in), run(with(0), in)), 1e-13);
        // Distances and knots are no parameters of a smooth function.
        std::vector<Tensor> smooth(in.begin(), in.begin() + 7);
        const Function some = [&](Tape& tape, const std::vector<Var>& x) {
          std::vector<Var> all = x;
          for (std::size_t n = 7; n < in.size(); ++n) all.push_back(tape.constant(in[n]));
          return with(3)(tape, all);
        };
        EXPECT_LT(gradient_error(some, smooth), 2e-9);
      }
    }
  }
}

}  // namespace
}  // namespace ropewalk::testing
