#include "framework/ops/attention.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "tests/framework/instruction_sets.h"

namespace ropewalk::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// One call of attention: sizes, mask and what acts on the scores.
struct Case {
  std::string name;
  int64_t queries = 5, keys = 5;
  AttentionMask mask = {};
  int64_t heads = 2, kv_heads = 2, dk = 6, dv = 6;
  bool bias = false;
  int64_t clip = -1;        ///< of the relative keys; -1: none
  int64_t rotary_dims = 0;  ///< 0: no rotation
  RopePairing pairing = RopePairing::interleaved;
  double scale = 0.4;
  int64_t batch = 2;
  bool relative_values = false;  ///< as many as the relative keys
  bool positions = false;        ///< keys do not stand at 0, 1, ...
  bool query_bias = false;
  bool keys_of_heads = false;  ///< each head has relative keys of its own
  int64_t lines = 0;           ///< of the distance bias; 0: none

  std::vector<int32_t> places() const {
    std::vector<int32_t> out;
    for (int64_t j = 0; j < keys; ++j) out.push_back(j == 0 ? 2 : out.back() + 1 + static_cast<int32_t>(5 * j % 4));
    return out;
  }
  int64_t place(int64_t j) const { return positions ? places()[static_cast<std::size_t>(j)] : j; }
  int64_t bias_origin() const { return positions ? place(keys - 1) : keys - 1; }
  int64_t bias_columns() const { return positions ? 2 * bias_origin() + 1 : queries + keys - 1; }
  int64_t bias_column(int64_t i, int64_t j) const { return place(j) - place(i) + bias_origin(); }
  int64_t relative_row(int64_t i, int64_t j) const { return std::clamp(place(j) - place(i), -clip, clip) + clip; }
  /// Where the query bias and, behind it, the operands of the distance bias stand among those of the case.
  std::size_t query_bias_at() const { return 3U + (bias ? 1 : 0) + (clip >= 0 ? 1 : 0) + (relative_values ? 1 : 0); }
  std::size_t distance_at() const { return query_bias_at() + (query_bias ? 1 : 0); }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

std::vector<double> frequencies(const Case& c) {
  std::vector<double> out;
  for (int64_t i = 0; i < c.rotary_dims; i += 2) out.push_back(std::pow(50.0, -static_cast<double>(i) / 8));
  return out;
}

constexpr double kAttentionFactor = 1.1;

/// Distance, normalizer and lines: distances that grow faster ahead than behind, and lines that do not meet.
void append_distance_bias(const Case& c, std::vector<Tensor>& in) {
  const int64_t last = c.place(c.keys - 1);
  in.push_back(Tensor::zeros({c.bias_columns()}, DType::f64));
  for (int64_t n = 0; n < c.bias_columns(); ++n) {
    const int64_t offset = n - c.bias_origin();
    const double step = (offset < 0 ? 2.5 : 4.0) / static_cast<double>(last + 1);
    in.back().set(n, static_cast<double>(std::abs(offset)) * step);
  }
  in.push_back(random_tensor({last + 3}, DType::f64, 8));
  for (int64_t i = 0; i < in.back().elements(); ++i) in.back().set(i, 0.2 + 0.2 * std::abs(in.back().at(i)));
  in.push_back(random_tensor({2 * c.heads + 1, c.lines}, DType::f64, 9, 0.5));
  for (int64_t n = 0; n + 1 < c.lines; ++n) {
    in.back().set(n, 0.9 * static_cast<double>(n + 1) / static_cast<double>(c.lines));
  }
  in.back().set(c.lines - 1, kNan);  // not a knot
}

/// Operands q, k, v and, where the case has them, offset bias, relative keys, relative values, query bias and those of
/// the distance bias.
std::vector<Tensor> operands(const Case& c) {
  std::vector<Tensor> in = {random_tensor({c.batch, c.heads, c.queries, c.dk}, DType::f64, 1),
                            random_tensor({c.batch, c.kv_heads, c.keys, c.dk}, DType::f64, 2),
                            random_tensor({c.batch, c.kv_heads, c.keys, c.dv}, DType::f64, 3)};
  if (c.bias) in.push_back(random_tensor({c.heads, c.bias_columns()}, DType::f64, 4));
  if (c.clip >= 0) in.push_back(random_tensor({2 * c.clip + 1, (c.keys_of_heads ? c.heads : 1) * c.dk}, DType::f64, 5));
  if (c.relative_values) in.push_back(random_tensor({2 * c.clip + 1, c.dv}, DType::f64, 6));
  if (c.query_bias) in.push_back(random_tensor({c.heads, c.dk}, DType::f64, 7));
  if (c.lines > 0) append_distance_bias(c, in);
  return in;
}

/// The options of a case but for its Vars, with the tables that they point to.
struct Setting {
  Case c;
  std::vector<int32_t> places;
  RotaryTable f32, f64;

  explicit Setting(const Case& of) : c(of), places(of.places()) {
    if (c.rotary_dims == 0) return;
    const auto table = [&](DType dtype) {
      return c.positions ? make_rotary_table(frequencies(c), kAttentionFactor, places, c.pairing, dtype)
                         : make_rotary_table(frequencies(c), kAttentionFactor, 0, c.keys, c.pairing, dtype);
    };
    f32 = table(DType::f32);
    f64 = table(DType::f64);
  }
  AttentionOptions options(DType dtype, const std::vector<Var>& in) const {
    AttentionOptions o{.scale = c.scale, .mask = c.mask};
    if (c.rotary_dims > 0) o.rotary = dtype == DType::f32 ? &f32 : &f64;
    std::size_t next = 3;
    if (c.bias) o.offset_bias = in[next++];
    if (c.clip >= 0) o.relative_keys = in[next++];
    if (c.relative_values) o.relative_values = in[next++];
    if (c.query_bias) o.query_bias = in[next++];
    if (c.lines > 0) o.distance_bias = {.distance = in[next], .normalizer = in[next + 1], .lines = in[next + 2]};
    if (c.positions) o.positions = places;
    if (c.positions) o.offset_origin = c.bias_origin();
    return o;
  }
};

Function attention_of(const Case& c, AttentionStatistics* statistics = nullptr) {
  return [setting = std::make_shared<Setting>(c), statistics](Tape&, const std::vector<Var>& in) {
    AttentionOptions options = setting->options(in[0].dtype(), in);
    options.statistics = statistics;
    return attention(in[0], in[1], in[2], options);
  };
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

std::vector<double> row_of(const Tensor& x, int64_t row) {
  std::vector<double> out;
  for (int64_t i = 0; i < x.shape[-1]; ++i) out.push_back(x.at(row * x.shape[-1] + i));
  return out;
}

void add_row(const Tensor& x, int64_t row, const std::vector<double>& values, double factor) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int64_t at = row * x.shape[-1] + static_cast<int64_t>(i);
    x.set(at, x.at(at) + factor * values[i]);
  }
}

/// Relative key `row` as head h has it.
std::vector<double> relative_key(const Case& c, const Tensor& table, int64_t row, int64_t h) {
  const std::vector<double> all = row_of(table, row);
  if (!c.keys_of_heads) return all;
  return {all.begin() + h * c.dk, all.begin() + (h + 1) * c.dk};
}

void add_relative_key(const Case& c, const Tensor& table, int64_t row, int64_t h, const std::vector<double>& values) {
  std::vector<double> all(static_cast<std::size_t>(table.shape[1]), 0.0);
  std::copy(values.begin(), values.end(), all.begin() + (c.keys_of_heads ? h * c.dk : 0));
  add_row(table, row, all, 1.0);
}

void add_to(const Tensor& x, int64_t at, double value) {
  x.set(at, x.at(at) + value);
}

/// The line of the distance bias that a pair falls on.
int64_t line_of(const Case& c, const std::vector<Tensor>& in, int64_t i, int64_t j) {
  const std::size_t first = c.distance_at();
  const double x = in[first].at(c.bias_column(i, j)) * in[first + 1].at(c.place(i));
  int64_t line = 0;
  while (line + 1 < c.lines && in[first + 2].at(line) <= x) ++line;
  return line;
}

double distance_bias(const Case& c, const std::vector<Tensor>& in, int64_t h, int64_t i, int64_t j) {
  const std::size_t first = c.distance_at();
  const int64_t line = line_of(c, in, i, j);
  const double x = in[first].at(c.bias_column(i, j)) * in[first + 1].at(c.place(i));
  return in[first + 2].at((1 + h) * c.lines + line) * x + in[first + 2].at((1 + c.heads + h) * c.lines + line);
}

void distance_bias_backward(const Case& c, const std::vector<Tensor>& in, int64_t h, int64_t i, int64_t j, double ds,
                            const std::vector<Tensor>& gradients) {
  const std::size_t first = c.distance_at();
  const int64_t line = line_of(c, in, i, j);
  const double distance = in[first].at(c.bias_column(i, j));
  const double normalizer = in[first + 1].at(c.place(i));
  const double slope = in[first + 2].at((1 + h) * c.lines + line);
  add_to(gradients[first], c.bias_column(i, j), ds * slope * normalizer);
  add_to(gradients[first + 1], c.place(i), ds * slope * distance);
  add_to(gradients[first + 2], (1 + h) * c.lines + line, ds * distance * normalizer);
  add_to(gradients[first + 2], (1 + c.heads + h) * c.lines + line, ds);
}

struct Reference {
  Gradients run;
  std::vector<double> entropy, max_logit;
};

/// Attention and its gradients with every score in memory, as the formulas stand.
Reference reference(const Case& c, const std::vector<Tensor>& in, const Tensor& dy) {
  Reference out;
  out.run.value = Tensor::zeros({c.batch, c.heads, c.queries, c.dv}, DType::f64);
  for (const Tensor& x : in) out.run.inputs.push_back(Tensor::zeros(x.shape, DType::f64));
  out.entropy.assign(static_cast<std::size_t>(c.heads), 0.0);
  out.max_logit.assign(static_cast<std::size_t>(c.heads), -kInfinity);
  const std::size_t relative = c.bias ? 4 : 3;
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t h = 0; h < c.heads; ++h) {
      const int64_t g = h / (c.heads / c.kv_heads);
      for (int64_t t = 0; t < c.queries; ++t) {
        const int64_t i = c.keys - c.queries + t;
        const int64_t query_row = (b * c.heads + h) * c.queries + t;
        std::vector<double> q = row_of(in[0], query_row);
        for (std::size_t d = 0; d < q.size() && c.query_bias; ++d) q[d] += row_of(in[c.query_bias_at()], h)[d];
        if (c.rotary_dims > 0) turn(c, q, c.place(i), false);
        std::vector<double> dq(q.size(), 0.0);
        std::vector<int64_t> seen;
        std::vector<std::vector<double>> keys;
        std::vector<double> s;
        for (int64_t j = 0; j < c.keys; ++j) {
          const bool near = c.mask.window_radius < 0 || std::abs(i - j) <= c.mask.window_radius;
          const bool global = i < c.mask.global_tokens || j < c.mask.global_tokens;
          if ((c.mask.causal && j > i) || (!near && !global)) continue;
          std::vector<double> k = row_of(in[1], (b * c.kv_heads + g) * c.keys + j);
          if (c.rotary_dims > 0) turn(c, k, c.place(j), false);
          if (c.clip >= 0) {
            const std::vector<double> a = relative_key(c, in[relative], c.relative_row(i, j), h);
            for (std::size_t d = 0; d < k.size(); ++d) k[d] += a[d];
          }
          double score = c.scale * dot(q, k);
          const int64_t bias_at = h * c.bias_columns() + c.bias_column(i, j);
          if (c.bias) score += in[3].at(bias_at);
          if (c.lines > 0) score += distance_bias(c, in, h, i, j);
          if (score == -kInfinity) continue;
          seen.push_back(j);
          keys.push_back(k);
          s.push_back(score);
        }
        if (seen.empty()) continue;
        const double largest = *std::max_element(s.begin(), s.end());
        double sum = 0;
        for (const double x : s) sum += std::exp(x - largest);
        std::vector<double> p;
        std::vector<double> dp;
        double mean = 0;
        auto& entropy = out.entropy[static_cast<std::size_t>(h)];
        auto& max_logit = out.max_logit[static_cast<std::size_t>(h)];
        max_logit = std::max(max_logit, largest);
        const std::vector<double> dy_row = row_of(dy, query_row);
        for (std::size_t n = 0; n < seen.size(); ++n) {
          p.push_back(std::exp(s[n] - largest) / sum);
          if (p[n] > 0) entropy -= p[n] * std::log(p[n]);
          const int64_t key_row = (b * c.kv_heads + g) * c.keys + seen[n];
          std::vector<double> value = row_of(in[2], key_row);
          if (c.relative_values) {
            const int64_t row = c.relative_row(i, seen[n]);
            const std::vector<double> added = row_of(in[relative + 1], row);
            for (std::size_t d = 0; d < value.size(); ++d) value[d] += added[d];
            add_row(out.run.inputs[relative + 1], row, dy_row, p[n]);
          }
          add_row(out.run.value, query_row, value, p[n]);
          add_row(out.run.inputs[2], key_row, dy_row, p[n]);
          dp.push_back(dot(dy_row, value));
          mean += p[n] * dp[n];
        }
        for (std::size_t n = 0; n < seen.size(); ++n) {
          const int64_t j = seen[n];
          const double ds = p[n] * (dp[n] - mean);
          std::vector<double> dk(q.size());
          for (std::size_t d = 0; d < q.size(); ++d) {
            dq[d] += c.scale * ds * keys[n][d];
            dk[d] = c.scale * ds * q[d];
          }
          if (c.clip >= 0) {
            add_relative_key(c, out.run.inputs[relative], c.relative_row(i, j), h, dk);
          }
          if (c.bias) {
            add_to(out.run.inputs[3], h * c.bias_columns() + c.bias_column(i, j), ds);
          }
          if (c.lines > 0) distance_bias_backward(c, in, h, i, j, ds, out.run.inputs);
          if (c.rotary_dims > 0) turn(c, dk, c.place(j), true);
          add_row(out.run.inputs[1], (b * c.kv_heads + g) * c.keys + j, dk, 1.0);
        }
        if (c.rotary_dims > 0) turn(c, dq, c.place(i), true);
        if (c.query_bias) add_row(out.run.inputs[c.query_bias_at()], h, dq, 1.0);
        add_row(out.run.inputs[0], query_row, dq, 1.0);
      }
    }
  }
  return out;
}

Tensor cotangent_of(const Case& c) {
  return random_tensor({c.batch, c.heads, c.queries, c.dv}, DType::f64, 99);
}

/// Value and gradients of f under a cotangent given.
Gradients run_under(const Function& f, const std::vector<Tensor>& inputs, const Tensor& cotangent) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  std::vector<Var> leaves;
  for (const Tensor& input : inputs) leaves.push_back(tape.leaf(input));
  const Var y = f(tape, leaves);
  Gradients out{.value = copy(y.value())};
  tape.seed(y, cotangent);
  tape.backward();
  for (const Var leaf : leaves) out.inputs.push_back(copy(tape.gradient_of(leaf)));
  return out;
}

std::vector<Tensor> in_f32(const std::vector<Tensor>& in) {
  std::vector<Tensor> out;
  for (const Tensor& x : in) out.push_back(cast(x, DType::f32));
  return out;
}

std::vector<Tensor> in_f64(const std::vector<Tensor>& in) {
  std::vector<Tensor> out;
  for (const Tensor& x : in) out.push_back(cast(x, DType::f64));
  return out;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape == b.shape && a.dtype == b.dtype && std::memcmp(a.bytes, b.bytes, a.size_bytes()) == 0;
}

std::vector<Case> cases() {
  const AttentionMask all{.causal = false};
  std::vector<Case> out = {
      {.name = "one_token", .queries = 1, .keys = 1},
      {.name = "causal_5", .queries = 5, .keys = 5},
      {.name = "all_5", .queries = 5, .keys = 5, .mask = all},
      {.name = "all_13", .queries = 13, .keys = 13, .mask = all},
      {.name = "all_16", .queries = 16, .keys = 16, .mask = all},
      {.name = "causal_13_gqa_2", .queries = 13, .keys = 13, .heads = 4, .kv_heads = 2},
      {.name = "causal_13_mqa", .queries = 13, .keys = 13, .heads = 4, .kv_heads = 1, .dk = 3, .dv = 17},
      {.name = "causal_7_one_column", .queries = 7, .keys = 7, .dk = 1, .dv = 1},
      {.name = "causal_64", .queries = 64, .keys = 64, .dk = 16, .dv = 16},
      {.name = "causal_70", .queries = 70, .keys = 70, .heads = 4, .kv_heads = 2, .dk = 5, .dv = 9},
      {.name = "all_70", .queries = 70, .keys = 70, .mask = all},
      {.name = "causal_130", .queries = 130, .keys = 130, .heads = 2, .kv_heads = 1, .dk = 9, .dv = 5},
      {.name = "all_130", .queries = 130, .keys = 130, .mask = all, .heads = 2, .kv_heads = 1},
      {.name = "decode_1_of_70", .queries = 1, .keys = 70, .bias = true, .rotary_dims = 6},
      {.name = "decode_1_of_130", .queries = 1, .keys = 130},
      {.name = "cached_2_of_5", .queries = 2, .keys = 5},
      {.name = "cached_5_of_13_all", .queries = 5, .keys = 13, .mask = all, .bias = true, .clip = 3},
      {.name = "cached_13_of_70", .queries = 13, .keys = 70, .bias = true, .clip = 2, .rotary_dims = 4},
      {.name = "cached_70_of_130", .queries = 70, .keys = 130, .heads = 4, .kv_heads = 2},
      {.name = "cached_70_of_200_window", .queries = 70, .keys = 200, .mask = {true, 5, 3}},
      {.name = "few_1_of_200_everything",
       .queries = 1,
       .keys = 200,
       .mask = {true, 9, 3},
       .heads = 4,
       .kv_heads = 2,
       .dk = 21,
       .dv = 37,
       .bias = true,
       .clip = 3,
       .rotary_dims = 8},
      {.name = "few_4_of_150_all",
       .queries = 4,
       .keys = 150,
       .mask = all,
       .dk = 33,
       .dv = 70,
       .bias = true,
       .clip = 90},
      {.name = "few_3_of_130_split",
       .queries = 3,
       .keys = 130,
       .kv_heads = 1,
       .dk = 19,
       .rotary_dims = 16,
       .pairing = RopePairing::split_half},
      {.name = "few_4_window_all_globals", .queries = 4, .keys = 90, .mask = {false, 2, 70}, .clip = 1},
      {.name = "few_4_of_4_globals", .queries = 4, .keys = 4, .mask = {true, 1, 2}, .bias = true},
      {.name = "few_2_of_70_mqa_of_70",
       .queries = 2,
       .keys = 70,
       .heads = 70,
       .kv_heads = 1,
       .rotary_dims = 6,
       .batch = 1},
      {.name = "many_5_of_70", .queries = 5, .keys = 70, .rotary_dims = 6},
      {.name = "bias_13", .queries = 13, .keys = 13, .bias = true},
      {.name = "bias_130", .queries = 130, .keys = 130, .bias = true},
      {.name = "bias_70_all", .queries = 70, .keys = 70, .mask = all, .heads = 4, .kv_heads = 2, .bias = true},
      {.name = "relative_13", .queries = 13, .keys = 13, .clip = 4},
      {.name = "relative_clip_0", .queries = 5, .keys = 5, .clip = 0},
      {.name = "relative_130", .queries = 130, .keys = 130, .heads = 4, .kv_heads = 1, .clip = 16},
      {.name = "relative_70_all", .queries = 70, .keys = 70, .mask = all, .clip = 40},
      {.name = "values_13", .queries = 13, .keys = 13, .clip = 4, .relative_values = true},
      {.name = "values_clip_0", .queries = 5, .keys = 5, .clip = 0, .relative_values = true},
      {.name = "values_130",
       .queries = 130,
       .keys = 130,
       .heads = 4,
       .kv_heads = 1,
       .dv = 17,
       .clip = 16,
       .relative_values = true},
      {.name = "values_70_all", .queries = 70, .keys = 70, .mask = all, .clip = 40, .relative_values = true},
      {.name = "values_130_window",
       .queries = 130,
       .keys = 130,
       .mask = {false, 9, 3},
       .dv = 3,
       .clip = 12,
       .relative_values = true},
      {.name = "values_of_13_among_70", .queries = 13, .keys = 70, .bias = true, .clip = 2, .relative_values = true},
      {.name = "values_of_few",
       .queries = 3,
       .keys = 150,
       .mask = {true, 80, 3},
       .heads = 4,
       .kv_heads = 2,
       .dv = 37,
       .clip = 90,
       .rotary_dims = 6,
       .relative_values = true},
      {.name = "values_of_few_all", .queries = 4, .keys = 90, .mask = all, .clip = 3, .relative_values = true},
      {.name = "positions_13", .queries = 13, .keys = 13, .bias = true, .positions = true},
      {.name = "positions_70_all",
       .queries = 70,
       .keys = 70,
       .mask = all,
       .heads = 4,
       .kv_heads = 2,
       .bias = true,
       .clip = 40,
       .rotary_dims = 6,
       .relative_values = true,
       .positions = true},
      {.name = "positions_130_window",
       .queries = 130,
       .keys = 130,
       .mask = {true, 9, 3},
       .bias = true,
       .clip = 20,
       .relative_values = true,
       .positions = true},
      {.name = "positions_13_of_70", .queries = 13, .keys = 70, .bias = true, .clip = 500, .positions = true},
      {.name = "positions_of_few",
       .queries = 3,
       .keys = 150,
       .mask = {true, 80, 3},
       .bias = true,
       .clip = 90,
       .rotary_dims = 6,
       .relative_values = true,
       .positions = true},
      {.name = "query_bias_13", .queries = 13, .keys = 13, .dk = 9, .query_bias = true},
      {.name = "heads_keys_13",
       .queries = 13,
       .keys = 13,
       .heads = 4,
       .kv_heads = 2,
       .clip = 12,
       .query_bias = true,
       .keys_of_heads = true},
      {.name = "heads_keys_130",
       .queries = 130,
       .keys = 130,
       .dk = 9,
       .bias = true,
       .clip = 129,
       .relative_values = true,
       .query_bias = true,
       .keys_of_heads = true},
      {.name = "heads_keys_130_all",
       .queries = 130,
       .keys = 130,
       .mask = {false, 20, 0},
       .clip = 129,
       .rotary_dims = 4,
       .query_bias = true,
       .keys_of_heads = true},
      {.name = "heads_keys_positions_70",
       .queries = 70,
       .keys = 90,
       .clip = 400,
       .positions = true,
       .query_bias = true,
       .keys_of_heads = true},
      {.name = "heads_keys_of_few",
       .queries = 3,
       .keys = 150,
       .heads = 4,
       .kv_heads = 2,
       .dk = 19,
       .bias = true,
       .clip = 149,
       .query_bias = true,
       .keys_of_heads = true},
      {.name = "lines_one_token", .queries = 1, .keys = 1, .lines = 3},
      {.name = "lines_13", .queries = 13, .keys = 13, .lines = 6},
      {.name = "lines_13_all", .queries = 13, .keys = 13, .mask = all, .heads = 4, .kv_heads = 2, .lines = 4},
      {.name = "lines_one_alone_130", .queries = 130, .keys = 130, .lines = 1},
      {.name = "lines_130", .queries = 130, .keys = 130, .heads = 4, .kv_heads = 1, .lines = 40},
      {.name = "lines_130_all", .queries = 130, .keys = 130, .mask = all, .bias = true, .clip = 9, .lines = 33},
      {.name = "lines_130_window", .queries = 130, .keys = 130, .mask = {false, 20, 3}, .lines = 33},
      {.name = "lines_13_of_70", .queries = 13, .keys = 70, .rotary_dims = 6, .lines = 9},
      {.name = "lines_of_few",
       .queries = 3,
       .keys = 150,
       .mask = {true, 80, 3},
       .heads = 4,
       .kv_heads = 2,
       .lines = 33},
      {.name = "lines_of_few_all", .queries = 4, .keys = 90, .mask = all, .lines = 9},
      {.name = "lines_positions_13", .queries = 13, .keys = 13, .positions = true, .lines = 6},
      {.name = "lines_positions_70_all",
       .queries = 70,
       .keys = 70,
       .mask = all,
       .heads = 4,
       .kv_heads = 2,
       .bias = true,
       .positions = true,
       .query_bias = true,
       .lines = 33},
      {.name = "lines_positions_13_of_70", .queries = 13, .keys = 70, .positions = true, .lines = 33},
      {.name = "lines_positions_of_few", .queries = 3, .keys = 150, .positions = true, .lines = 33},
      {.name = "rotary_13", .queries = 13, .keys = 13, .rotary_dims = 6},
      {.name = "rotary_70_split",
       .queries = 70,
       .keys = 70,
       .kv_heads = 1,
       .dk = 9,
       .rotary_dims = 8,
       .pairing = RopePairing::split_half},
      {.name = "rotary_partial",
       .queries = 5,
       .keys = 13,
       .dk = 7,
       .rotary_dims = 2,
       .pairing = RopePairing::split_half},
      {.name = "everything",
       .queries = 13,
       .keys = 20,
       .mask = {true, 4, 2},
       .heads = 4,
       .kv_heads = 2,
       .dk = 7,
       .dv = 5,
       .bias = true,
       .clip = 3,
       .rotary_dims = 4},
      {.name = "scale_1", .queries = 13, .keys = 13, .dk = 16, .scale = 1.0},
      {.name = "wide_heads", .queries = 5, .keys = 19, .heads = 1, .kv_heads = 1, .dk = 530, .dv = 3, .scale = 0.05},
  };
  for (const int64_t radius : {0, 1, 2, 3, 4, 5}) {
    for (const int64_t globals : {0, 1, 3}) {
      for (const bool is_causal : {true, false}) {
        const std::string name = "window_" + std::to_string(radius) + "_globals_" + std::to_string(globals) +
                                 (is_causal ? "_causal" : "_all");
        out.push_back({.name = name, .queries = 13, .keys = 13, .mask = {is_causal, radius, globals}});
        out.push_back({.name = name + "_130",
                       .queries = 130,
                       .keys = 130,
                       .mask = {is_causal, radius, globals},
                       .heads = 1,
                       .kv_heads = 1,
                       .bias = radius == 2,
                       .clip = radius == 3 ? 2 : -1,
                       .batch = 1});
      }
    }
  }
  out.push_back({.name = "window_70_all", .queries = 200, .keys = 200, .mask = {false, 70, 0}, .batch = 1});
  out.push_back({.name = "window_70_globals_80", .queries = 200, .keys = 200, .mask = {true, 70, 80}, .batch = 1});
  out.push_back({.name = "window_2_globals_90", .queries = 200, .keys = 200, .mask = {false, 2, 90}, .batch = 1});
  out.push_back({.name = "window_9_globals_99_of_13", .queries = 13, .keys = 13, .mask = {false, 9, 99}});
  return out;
}

class AttentionCaseTest : public ::testing::TestWithParam<Case> {};

TEST_P(AttentionCaseTest, MatchesMaterialisedScoresAndTheirGradients) {
  const Case& c = GetParam();
  const std::vector<Tensor> in = operands(c);
  const Tensor dy = cotangent_of(c);
  EXPECT_LT(run_error(run_under(attention_of(c), in, dy), reference(c, in, dy).run), 1e-12);
  const std::vector<Tensor> narrow = in_f32(in);
  const Tensor narrow_dy = cast(dy, DType::f32);
  EXPECT_LT(run_error(run_under(attention_of(c), narrow, narrow_dy),
                      reference(c, in_f64(narrow), cast(narrow_dy, DType::f64)).run),
            2e-6);
}

TEST_P(AttentionCaseTest, AgreesOnEveryInstructionSet) {
  const Case& c = GetParam();
  const std::vector<Tensor> in = operands(c);
  EXPECT_LT(spread_over_instruction_sets(attention_of(c), in), 1e-13);
  EXPECT_LT(spread_over_instruction_sets(attention_of(c), in_f32(in)), 2e-6);
}

TEST_P(AttentionCaseTest, TellsEntropyAndGreatestScore) {
  const Case& c = GetParam();
  const std::vector<Tensor> in = operands(c);
  const Reference expected = reference(c, in, cotangent_of(c));
  std::vector<double> entropy(static_cast<std::size_t>(c.heads), 3.0);
  std::vector<double> max_logit(static_cast<std::size_t>(c.heads), -kInfinity);
  AttentionStatistics statistics{entropy.data(), max_logit.data()};
  const Gradients told = run_under(attention_of(c, &statistics), in, cotangent_of(c));
  for (std::size_t h = 0; h < entropy.size(); ++h) {
    EXPECT_NEAR(entropy[h] - 3.0, expected.entropy[h], 1e-11 * (1 + expected.entropy[h]));
    EXPECT_NEAR(max_logit[h], expected.max_logit[h], 1e-12 * (1 + std::abs(expected.max_logit[h])));
  }
  EXPECT_TRUE(same_bits(told.value, run_under(attention_of(c), in, cotangent_of(c)).value));
}

INSTANTIATE_TEST_SUITE_P(Grid, AttentionCaseTest, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(AttentionTest, GradientsMatchDifferences) {
  for (const Case& c :
       {Case{.name = "", .queries = 5, .keys = 5, .heads = 4, .kv_heads = 2, .dk = 3, .dv = 4, .bias = true},
        Case{.name = "", .queries = 3, .keys = 6, .mask = {false, 2, 1}, .dk = 4, .dv = 3, .clip = 2, .batch = 1},
        Case{.name = "", .queries = 6, .keys = 6, .mask = {true, 2, 1}, .dk = 5, .dv = 5, .rotary_dims = 4},
        Case{.name = "", .queries = 3, .keys = 6, .dk = 4, .dv = 3, .clip = 2, .relative_values = true},
        Case{.name = "", .queries = 4, .keys = 6, .bias = true, .clip = 6, .rotary_dims = 2, .positions = true},
        Case{.name = "", .queries = 4, .keys = 6, .clip = 5, .query_bias = true, .keys_of_heads = true},
        Case{.name = "", .queries = 4, .keys = 6, .positions = true, .lines = 1},
        Case{.name = "", .queries = 1, .keys = 1, .dk = 1, .dv = 1}}) {
    EXPECT_LT(gradient_error(attention_of(c), operands(c)), 2e-9);
  }
}

TEST(AttentionTest, PackedEqualsSeparateBitForBit) {
  for (const int64_t T : {1, 5, 70}) {
    for (const int64_t kv_heads : {1, 2, 4}) {
      Case c{.name = "", .queries = T, .keys = T, .mask = {true, 20, 2}, .heads = 4, .kv_heads = kv_heads};
      c.bias = true;
      c.clip = 2;
      c.rotary_dims = 4;
      const int64_t d = c.dk;
      const int64_t width = (c.heads + 2 * kv_heads) * d;
      std::vector<Tensor> in = operands(c);
      const Tensor dy = cotangent_of(c);
      Tensor qkv = Tensor::zeros({c.batch, T, width}, DType::f64);
      Tensor packed_dy = Tensor::zeros({c.batch, T, c.heads * d}, DType::f64);
      // Calls f(packed element, operand, its element) for everything that qkv holds.
      const auto for_each_element = [&](auto&& f) {
        const int64_t firsts[] = {0, c.heads, c.heads + kv_heads};
        for (std::size_t part = 0; part < 3; ++part) {
          const int64_t heads = part == 0 ? c.heads : kv_heads;
          for (int64_t row = 0; row < c.batch * heads * T; ++row) {
            const int64_t b = row / (heads * T), h = row / T % heads, t = row % T;
            for (int64_t i = 0; i < d; ++i) f((b * T + t) * width + (firsts[part] + h) * d + i, part, row * d + i);
          }
        }
      };
      for_each_element([&](int64_t to, std::size_t part, int64_t from) { qkv.set(to, in[part].at(from)); });
      const auto packed_element = [&](int64_t e) {
        const int64_t b = e / (c.heads * T * d), h = e / (T * d) % c.heads, t = e / d % T;
        return (b * T + t) * c.heads * d + h * d + e % d;
      };
      for (int64_t e = 0; e < dy.elements(); ++e) packed_dy.set(packed_element(e), dy.at(e));

      const Gradients separate = run_under(attention_of(c), in, dy);
      const Function f = [&, setting = Setting(c)](Tape&, const std::vector<Var>& leaves) {
        // The options count q, k and v as three.
        std::vector<Var> all(2, leaves[0]);
        all.insert(all.end(), leaves.begin(), leaves.end());
        return attention_packed(leaves[0], c.heads, kv_heads, setting.options(DType::f64, all));
      };
      const Gradients packed = run_under(f, {qkv, in[3], in[4]}, packed_dy);
      for (int64_t e = 0; e < dy.elements(); ++e) {
        ASSERT_EQ(packed.value.at(packed_element(e)), separate.value.at(e));
      }
      for_each_element([&](int64_t to, std::size_t part, int64_t from) {
        ASSERT_EQ(packed.inputs[0].at(to), separate.inputs[part].at(from));
      });
      EXPECT_TRUE(same_bits(packed.inputs[1], separate.inputs[3]));
      EXPECT_TRUE(same_bits(packed.inputs[2], separate.inputs[4]));
    }
  }
}

TEST(AttentionTest, AddsToGradientsThatAreThere) {
  const AttentionOptions options{.scale = 0.4, .mask = {true, 3, 1}};
  const Tensor x = random_tensor({2, 2, 5, 4}, DType::f64, 1);
  const Function alone = [&](Tape&, const std::vector<Var>& in) { return attention(in[0], in[0], in[0], options); };
  const Function keys_and_values = [&](Tape&, const std::vector<Var>& in) {
    return attention(in[1], in[0], in[0], options);
  };
  const Function queries_and_values = [&](Tape&, const std::vector<Var>& in) {
    return attention(in[0], in[1], in[0], options);
  };
  const Function stacked = [&](Tape&, const std::vector<Var>& in) {
    const Var y = attention(in[0], in[1], in[1], options);
    return add(in[1], add(attention(y, in[0], y, options), in[0]));
  };
  const Tensor other = random_tensor({2, 2, 5, 4}, DType::f64, 2);
  EXPECT_LT(gradient_error(alone, {x}), 2e-9);
  EXPECT_LT(gradient_error(keys_and_values, {x, other}), 2e-9);
  EXPECT_LT(gradient_error(queries_and_values, {x, other}), 2e-9);
  EXPECT_LT(gradient_error(stacked, {x, other}), 2e-9);
  const Function packed_twice = [&](Tape&, const std::vector<Var>& in) {
    return add(attention_packed(in[0], 4, 2, options), attention_packed(in[0], 4, 2, {.scale = 0.7}));
  };
  EXPECT_LT(gradient_error(packed_twice, {random_tensor({2, 5, 16}, DType::f64, 3)}), 2e-9);
  // A bias that serves two layers, as T5's does.
  const Function shared_bias = [&](Tape&, const std::vector<Var>& in) {
    const AttentionOptions o{.scale = 0.4, .offset_bias = in[1], .relative_keys = in[2]};
    const Var y = attention(in[0], in[0], in[0], o);
    return attention(y, y, in[0], o);
  };
  EXPECT_LT(
      gradient_error(shared_bias, {x, random_tensor({2, 9}, DType::f64, 4), random_tensor({5, 4}, DType::f64, 5)}),
      2e-9);
}

TEST(AttentionTest, GivesGradientsOnlyToThoseThatWantThem) {
  const Case c{.name = "",
               .queries = 13,
               .keys = 13,
               .bias = true,
               .clip = 2,
               .relative_values = true,
               .query_bias = true,
               .keys_of_heads = true,
               .lines = 5};
  const std::vector<Tensor> in = operands(c);
  const Tensor dy = cotangent_of(c);
  const Gradients all = run_under(attention_of(c), in, dy);
  for (std::size_t wanted = 0; wanted < in.size(); ++wanted) {
    Workspace workspace;
    Tape tape(workspace, Mode::train);
    std::vector<Var> leaves;
    for (std::size_t k = 0; k < in.size(); ++k) leaves.push_back(k == wanted ? tape.leaf(in[k]) : tape.constant(in[k]));
    tape.seed(attention_of(c)(tape, leaves), dy);
    tape.backward();
    EXPECT_TRUE(same_bits(copy(tape.gradient_of(leaves[wanted])), all.inputs[wanted])) << "operand " << wanted;
  }
}

TEST(AttentionTest, HeadsShareKeysInNeighbouringGroups) {
  // Values say which key/value head they belong to, so the output does, too.
  Case c{.name = "", .queries = 3, .keys = 3, .heads = 6, .kv_heads = 2, .dk = 2, .dv = 1, .batch = 1};
  std::vector<Tensor> in = operands(c);
  for (int64_t i = 0; i < in[2].elements(); ++i) in[2].set(i, static_cast<double>(i / 3));
  const Tensor y = run_under(attention_of(c), in, cotangent_of(c)).value;
  for (int64_t h = 0; h < 6; ++h) {
    for (int64_t t = 0; t < 3; ++t) EXPECT_NEAR(y.at(h * 3 + t), h < 3 ? 0.0 : 1.0, 1e-15);
  }
}

TEST(AttentionTest, AQueryThatSeesNothingGivesZerosAndPassesNoGradient) {
  // A -infinity bias for the offsets 0 and -1, so that the causal queries 0 and 1 see nothing.
  for (const int64_t T : {2, 5, 70}) {
    const Case c{.name = "", .queries = T, .keys = T, .bias = true, .clip = 1};
    std::vector<Tensor> in = operands(c);
    for (int64_t h = 0; h < c.heads; ++h) {
      for (const int64_t offset : {-1, 0}) in[3].set(h * (2 * T - 1) + offset + T - 1, -kInfinity);
    }
    const Tensor dy = cotangent_of(c);
    const Gradients got = run_under(attention_of(c), in, dy);
    EXPECT_LT(run_error(got, reference(c, in, dy).run), 1e-12);
    for (int64_t row = 0; row < 2; ++row) {
      for (int64_t i = 0; i < c.dv; ++i) EXPECT_EQ(got.value.at(row * c.dv + i), 0.0);
      for (int64_t i = 0; i < c.dk; ++i) EXPECT_EQ(got.inputs[0].at(row * c.dk + i), 0.0);
    }
  }
}

TEST(AttentionTest, AHeadThatSeesNothingIsSilentBesideANan) {
  // Within the window the bias of head 0 hides everything; a key that no query sees is NaN.
  const Case c{.name = "", .queries = 5, .keys = 11, .mask = {true, 1, 0}, .bias = true};
  std::vector<Tensor> in = operands(c);
  for (const int64_t offset : {-1, 0}) in[3].set(offset + c.keys - 1, -kInfinity);
  const Tensor dy = cotangent_of(c);
  const Gradients expected = reference(c, in, dy).run;
  for (int64_t i = 0; i < c.batch * c.kv_heads; ++i) in[1].set(i * c.keys * c.dk, kNan);
  const Gradients got = run_under(attention_of(c), in, dy);
  EXPECT_LT(run_error(got, expected), 1e-12);
  for (int64_t i = 0; i < c.queries * c.dv; ++i) EXPECT_EQ(got.value.at(i), 0.0);
}

/// The key or value rows [first, end) of every key/value head set to x.
void poison(const Case& c, const Tensor& rows, int64_t first, int64_t end, double x) {
  for (int64_t head = 0; head < c.batch * c.kv_heads; ++head) {
    for (int64_t i = first * rows.shape[-1]; i < end * rows.shape[-1]; ++i) {
      rows.set(head * c.keys * rows.shape[-1] + i, x);
    }
  }
}

TEST(AttentionTest, NothingOfKeysThatNoQuerySeesLeaks) {
  for (const auto& [T, S, radius] : {std::array<int64_t, 3>{3, 9, 2}, {70, 200, 5}, {1, 130, 0}}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      Case c{.name = "", .queries = T, .keys = S, .mask = {true, radius, 0}, .heads = 4, .rotary_dims = 4};
      c.bias = true;
      c.clip = 2;
      std::vector<Tensor> clean;
      for (const Tensor& x : operands(c)) clean.push_back(cast(x, dtype));
      const Tensor dy = cast(cotangent_of(c), dtype);
      const Gradients expected = run_under(attention_of(c), clean, dy);
      const int64_t unseen = S - T - radius;
      ASSERT_GT(unseen, 0);
      const double greatest = dtype == DType::f32 ? 3e38 : 1.7e308;
      for (const double x : {kNan, kInfinity, -kInfinity, greatest, -greatest}) {
        for (const std::size_t operand : {1u, 2u}) {
          std::vector<Tensor> in = clean;
          in[operand] = copy(clean[operand]);
          poison(c, in[operand], 0, unseen, x);
          const Gradients got = run_under(attention_of(c), in, dy);
          EXPECT_LT(run_error(got, expected), dtype == DType::f32 ? 2e-6 : 1e-12)
              << x << " in operand " << operand << ", T = " << T << ", " << name_of(dtype);
        }
      }
    }
  }
}

TEST(AttentionTest, NothingOfFutureKeysLeaks) {
  for (const int64_t T : {9, 70}) {
    const int64_t radius = 3;
    const Case c{.name = "", .queries = T, .keys = T, .mask = {true, radius, 0}};
    const std::vector<Tensor> clean = operands(c);
    const Tensor dy = cotangent_of(c);
    const Gradients expected = run_under(attention_of(c), clean, dy);
    for (const double x : {kNan, kInfinity}) {
      for (const std::size_t operand : {1u, 2u}) {
        std::vector<Tensor> in = clean;
        in[operand] = copy(clean[operand]);
        poison(c, in[operand], T - 1, T, x);
        const Gradients got = run_under(attention_of(c), in, dy);
        for (int64_t row = 0; row < c.batch * c.heads * T; ++row) {
          const int64_t t = row % T;
          for (int64_t i = row * c.dk; i < (row + 1) * c.dk; ++i) {
            if (t < T - 1) {  // only the last query sees the last key
              EXPECT_NEAR(got.value.at(i), expected.value.at(i), 1e-12);
              EXPECT_NEAR(got.inputs[0].at(i), expected.inputs[0].at(i), 1e-12);
            } else {
              EXPECT_FALSE(std::isfinite(got.value.at(i)) && std::isfinite(got.inputs[0].at(i)));
            }
            if (t < T - 1 - radius) {  // keys that the last query does not see
              EXPECT_NEAR(got.inputs[1].at(i), expected.inputs[1].at(i), 1e-12);
              EXPECT_NEAR(got.inputs[2].at(i), expected.inputs[2].at(i), 1e-12);
            }
          }
        }
      }
    }
  }
}

TEST(AttentionTest, AVisibleNanShows) {
  for (const int64_t T : {9, 70}) {
    for (const std::size_t operand : {0u, 1u, 2u}) {
      const Case c{.name = "", .queries = T, .keys = T, .mask = {true, 2, 0}, .heads = 1, .kv_heads = 1, .batch = 1};
      std::vector<Tensor> in = operands(c);
      in[operand].set(4 * c.dk + 1, kNan);
      const Tensor y = run_under(attention_of(c), in, cotangent_of(c)).value;
      for (int64_t t = 0; t < T; ++t) {
        const bool sees = operand == 0 ? t == 4 : t >= 4 && t <= 6;
        EXPECT_EQ(std::isnan(y.at(t * c.dv + 1)), sees) << "query " << t << ", operand " << operand;
      }
    }
  }
}

TEST(AttentionTest, FewQueriesShowAVisibleNanAndNoOther) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    for (const double x : {kNan, kInfinity, dtype == DType::f32 ? 3e38 : 1.7e308}) {
      for (const std::size_t operand : {1u, 2u}) {
        const Case c{.name = "",
                     .queries = 3,
                     .keys = 80,
                     .mask = {true, 4, 0},
                     .heads = 2,
                     .kv_heads = 1,
                     .rotary_dims = 4,
                     .batch = 1};
        std::vector<Tensor> in;
        for (const Tensor& tensor : operands(c)) in.push_back(cast(tensor, dtype));
        const Tensor clean = run_under(attention_of(c), in, cast(cotangent_of(c), dtype)).value;
        for (int64_t i = 0; i < c.dk; ++i)
          in[operand].set(73 * c.dk + i, x);  // within the window of the first query alone
        const Tensor y = run_under(attention_of(c), in, cast(cotangent_of(c), dtype)).value;
        for (int64_t row = 0; row < 2 * c.queries; ++row) {
          const bool sees = row % c.queries == 0;
          for (int64_t i = 0; i < c.dv; ++i) {
            const double got = y.at(row * c.dv + i);
            if (sees && x == kNan) {
              EXPECT_TRUE(std::isnan(got)) << row;
            } else if (!sees) {
              EXPECT_NEAR(got, clean.at(row * c.dv + i), dtype == DType::f32 ? 2e-6 : 1e-13) << row;
            }
          }
        }
      }
    }
  }
}

TEST(AttentionTest, AVisibleNanInABiasOrARelativeKeyOrValueShows) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    for (const int64_t T : {4, 9, 70}) {
      const Case c{.name = "", .queries = T, .keys = T, .bias = true, .clip = 3, .relative_values = true};
      // Of offset -2: seen by every query from the third on.
      for (const std::size_t operand : {3u, 4u, 5u}) {
        for (const double x : {kNan, kInfinity}) {
          // Times a negative element of a query, an infinity hides the key instead; as a value it stays one.
          if (operand != 3 && x == kInfinity) continue;
          std::vector<Tensor> in;
          for (const Tensor& tensor : operands(c)) in.push_back(cast(tensor, dtype));
          if (operand == 3) {
            for (int64_t h = 0; h < c.heads; ++h) in[3].set(h * (2 * T - 1) + T - 1 - 2, x);
          } else {
            in[operand].set(1 * c.dk, x);
          }
          const Gradients got = run_under(attention_of(c), in, cast(cotangent_of(c), dtype));
          for (int64_t t = 0; t < T; ++t) {
            EXPECT_EQ(std::isnan(got.value.at(t * c.dv)), t >= 2) << "query " << t << ", operand " << operand;
          }
          bool shows = false;
          const Tensor& gradient = got.inputs[operand == 5 ? 0 : 2];
          for (int64_t i = 0; i < gradient.elements(); ++i) shows = shows || std::isnan(gradient.at(i));
          EXPECT_TRUE(shows) << "gradient of " << (operand == 5 ? "q" : "v") << ", operand " << operand;
        }
      }
    }
  }
}

TEST(AttentionTest, RefusesOperandsOfSeveralDtypes) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const auto leaf = [&](const Shape& shape, DType dtype) { return tape.leaf(random_tensor(shape, dtype, 1)); };
  const Var q = leaf({1, 2, 3, 4}, DType::f32);
  const Var wide = leaf({1, 2, 3, 4}, DType::f64);
  EXPECT_THROW(attention(q, wide, q, {}), Error);
  EXPECT_THROW(attention(q, q, wide, {}), Error);
  EXPECT_THROW(attention(q, q, q, {.offset_bias = leaf({2, 5}, DType::f64)}), Error);
  EXPECT_THROW(attention(q, q, q, {.relative_keys = leaf({3, 4}, DType::f64)}), Error);
  const DistanceBias narrow{tape.leaf(Tensor::zeros({5}, DType::f32)), leaf({3}, DType::f32), leaf({5, 2}, DType::f32)};
  EXPECT_NO_THROW(attention(q, q, q, {.distance_bias = narrow}));
  for (Var DistanceBias::*operand : {&DistanceBias::distance, &DistanceBias::normalizer, &DistanceBias::lines}) {
    DistanceBias mixed = narrow;
    mixed.*operand = tape.leaf(Tensor::zeros((narrow.*operand).shape(), DType::f64));
    EXPECT_THROW(attention(q, q, q, {.distance_bias = mixed}), Error);
  }
  const RotaryTable table =
      make_rotary_table(std::vector<double>{1.0, 0.1}, 1.0, 0, 3, RopePairing::split_half, DType::f64);
  EXPECT_THROW(attention(q, q, q, {.rotary = &table}), Error);
}

TEST(AttentionTest, ServesEveryAdditionRowByRowAsInTiles) {
  // A key that no query sees is NaN, so that no tile can be used.
  for (const bool positions : {false, true}) {
    for (const bool keys_of_heads : {false, true}) {
      for (const int64_t T : {3, 9, 70}) {
        const Case c{.name = "",
                     .queries = T,
                     .keys = T + 9,
                     .mask = {true, 5, 0},
                     .heads = 4,
                     .kv_heads = 2,
                     .bias = true,
                     .clip = 4,
                     .rotary_dims = 4,
                     .relative_values = true,
                     .positions = positions,
                     .query_bias = true,
                     .keys_of_heads = keys_of_heads,
                     .lines = 9};
        std::vector<Tensor> in = operands(c);
        const Tensor dy = cotangent_of(c);
        const Gradients expected = run_under(attention_of(c), in, dy);
        EXPECT_LT(run_error(expected, reference(c, in, dy).run), 1e-12) << T;
        poison(c, in[1], 0, 2, kNan);
        EXPECT_LT(run_error(run_under(attention_of(c), in, dy), expected), 1e-12) << T;
      }
    }
  }
}

TEST(AttentionTest, BiasesAndRelativeKeysAndValuesOfFutureOffsetsDoNotLeak) {
  const Case c{.name = "", .queries = 13, .keys = 13, .bias = true, .clip = 3, .relative_values = true};
  const std::vector<Tensor> clean = operands(c);
  const Tensor dy = cotangent_of(c);
  const Gradients expected = run_under(attention_of(c), clean, dy);
  for (const double x : {kNan, kInfinity, 1.7e308}) {
    std::vector<Tensor> in = clean;
    in[3] = copy(clean[3]);
    in[4] = copy(clean[4]);
    in[5] = copy(clean[5]);
    for (int64_t h = 0; h < c.heads; ++h) {
      for (int64_t offset = 1; offset < 13; ++offset) in[3].set(h * 25 + 12 + offset, x);
    }
    EXPECT_LT(run_error(run_under(attention_of(c), in, dy), expected), 1e-12) << "bias " << x;
    for (int64_t i = 4 * c.dk; i < 7 * c.dk; ++i) in[4].set(i, x);
    EXPECT_LT(run_error(run_under(attention_of(c), in, dy), expected), 1e-12) << "bias and keys " << x;
    for (int64_t i = 4 * c.dv; i < 7 * c.dv; ++i) in[5].set(i, x);
    EXPECT_LT(run_error(run_under(attention_of(c), in, dy), expected), 1e-12) << "bias, keys and values " << x;
  }
}

TEST(AttentionTest, DistancesOfFutureOffsetsAndPositionsDoNotLeakAndAVisibleNanShows) {
  for (const int64_t T : {4, 13, 70}) {
    const Case c{.name = "", .queries = T, .keys = T, .lines = 5};
    const std::vector<Tensor> clean = operands(c);
    const Tensor dy = cotangent_of(c);
    const Gradients expected = run_under(attention_of(c), clean, dy);
    std::vector<Tensor> in = clean;
    in[3] = copy(clean[3]);
    in[4] = copy(clean[4]);
    for (int64_t offset = 1; offset < T; ++offset) in[3].set(T - 1 + offset, kNan);
    for (int64_t i = T; i < in[4].elements(); ++i) in[4].set(i, kNan);  // where no query stands
    EXPECT_LT(run_error(run_under(attention_of(c), in, dy), expected), 1e-12) << T;
    in[4].set(2, kNan);
    const Gradients got = run_under(attention_of(c), in, dy);
    for (int64_t t = 0; t < T; ++t) EXPECT_EQ(std::isnan(got.value.at(t * c.dv)), t == 2) << t;
  }
}

TEST(AttentionTest, AGreatBiasDoesNotOvercomeTheMask) {
  for (const int64_t T : {5, 70}) {
    const Case c{.name = "", .queries = T, .keys = T, .bias = true};
    std::vector<Tensor> in = operands(c);
    const Tensor dy = cotangent_of(c);
    const Gradients expected = run_under(attention_of(c), in, dy);
    in[3] = copy(in[3]);
    for (int64_t h = 0; h < c.heads; ++h) {
      for (int64_t offset = 1; offset < T; ++offset) in[3].set(h * (2 * T - 1) + offset + T - 1, 1e4);
    }
    const Gradients got = run_under(attention_of(c), in, dy);
    EXPECT_TRUE(same_bits(got.value, expected.value));
    for (std::size_t k = 0; k < in.size(); ++k) EXPECT_TRUE(same_bits(got.inputs[k], expected.inputs[k]));
  }
}

TEST(AttentionTest, GreatScoresDoNotOverflow) {
  for (const int64_t T : {13, 130}) {
    const Case c{.name = "", .queries = T, .keys = T, .mask = {.causal = false}, .scale = 1e4};
    const std::vector<Tensor> narrow = in_f32(operands(c));
    const Tensor dy = cotangent_of(c);
    EXPECT_LT(run_error(run_under(attention_of(c), in_f64(narrow), dy), reference(c, in_f64(narrow), dy).run), 1e-9);
    const Gradients got = run_under(attention_of(c), narrow, cast(dy, DType::f32));
    for (int64_t i = 0; i < got.value.elements(); ++i) ASSERT_TRUE(std::isfinite(got.value.at(i)));
    for (const Tensor& gradient : got.inputs) {
      for (int64_t i = 0; i < gradient.elements(); ++i) ASSERT_TRUE(std::isfinite(gradient.at(i)));
    }
  }
}

TEST(AttentionTest, CachedQueriesEqualThoseOfAFullPass) {
  for (const int64_t S : {5, 70, 130}) {
    Case full{.name = "", .queries = S, .keys = S, .clip = 3, .rotary_dims = 4, .relative_values = true, .lines = 9};
    const std::vector<Tensor> in = operands(full);
    const Tensor y = run_under(attention_of(full), in, cotangent_of(full)).value;
    for (const int64_t T : {int64_t{1}, int64_t{2}, S / 2}) {
      Case cached = full;
      cached.queries = T;
      std::vector<Tensor> last = in;
      // As many offsets ahead as there are queries after the first.
      Tensor& distance = last[full.distance_at()];
      distance.shape = {S + T - 1};
      last[0] = Tensor::zeros({full.batch, full.heads, T, full.dk}, DType::f64);
      const auto element_of_full = [&](int64_t i) { return (i / (T * 6) * S + S - T + i / 6 % T) * 6 + i % 6; };
      for (int64_t i = 0; i < last[0].elements(); ++i) last[0].set(i, in[0].at(element_of_full(i)));
      const Tensor part = run_under(attention_of(cached), last, cotangent_of(cached)).value;
      for (int64_t i = 0; i < part.elements(); ++i) EXPECT_NEAR(part.at(i), y.at(element_of_full(i)), 1e-13);
    }
  }
}

TEST(AttentionTest, MemoryGrowsLinearlyWithTheLength) {
  const auto peak = [](int64_t T) {
    Workspace workspace;
    Tape tape(workspace, Mode::train);
    const Case c{.name = "",
                 .queries = T,
                 .keys = T,
                 .mask = {true, 16, 0},
                 .heads = 1,
                 .kv_heads = 1,
                 .bias = true,
                 .clip = 3,
                 .batch = 1,
                 .relative_values = true,
                 .lines = 9};
    std::vector<Var> leaves;
    std::vector<Tensor> in;
    for (const Tensor& x : operands(c)) in.push_back(cast(x, DType::f32));
    for (const Tensor& x : in) leaves.push_back(tape.leaf(x));
    tape.seed(attention_of(c)(tape, leaves), random_tensor({1, 1, T, c.dv}, DType::f32, 9));
    tape.backward();
    return static_cast<double>(workspace.arena.peak_bytes());
  };
  const double at_512 = peak(512);
  const double at_1024 = peak(1024);
  const double at_2048 = peak(2048);
  EXPECT_LT(at_2048 - at_1024, 2.05 * (at_1024 - at_512));
  EXPECT_LT(at_2048, 2048.0 * 2048.0);  // a quarter of one matrix of scores
}

TEST(AttentionTest, TheMaskItselfIsTheOneDescribed) {
  const AttentionMask mask{.causal = false, .window_radius = 2, .global_tokens = 1};
  EXPECT_TRUE(mask.visible(5, 3) && mask.visible(5, 7) && mask.visible(5, 0) && mask.visible(0, 9));
  EXPECT_FALSE(mask.visible(5, 2) || mask.visible(5, 8));
  const AttentionMask causal{.causal = true, .window_radius = 2, .global_tokens = 1};
  EXPECT_FALSE(causal.visible(0, 9) || causal.visible(5, 6));
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

double greatest_difference(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.elements(), b.elements());
  double worst = 0;
  for (int64_t i = 0; i < a.elements(); ++i) worst = std::max(worst, std::abs(a.at(i) - b.at(i)));
  return worst;
}

/// Rows [begin, end) of the positions of sequence b of x [B, H, T, d].
Tensor rows_of_sequence(const Tensor& x, int64_t b, int64_t begin, int64_t end) {
  const int64_t heads = x.shape[1];
  const int64_t d = x.shape[3];
  Tensor out = Tensor::zeros({1, heads, end - begin, d}, x.dtype);
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < (end - begin) * d; ++i) {
      out.set(h * (end - begin) * d + i, x.at(((b * heads + h) * x.shape[2] + begin) * d + i));
    }
  }
  return out;
}

TEST(AttentionTest, ASequenceAmongLongerOnesIsServedAsIfAlone) {
  constexpr int64_t kKeys = 150;
  const std::vector<int64_t> first_key = {0, 70, 149, 40, 9};
  const std::vector<int64_t> key_end = {150, 150, 150, 131, 9};  // the last has no key at all
  for (const AttentionMask& mask :
       {AttentionMask{}, AttentionMask{.window_radius = 5, .global_tokens = 2}, AttentionMask{.causal = false}}) {
    for (const auto& [queries, sampled] : {std::pair{kKeys, false}, {int64_t{3}, false}, {kKeys, true}, {3, true}}) {
      if (queries < kKeys && !mask.causal) continue;
      SCOPED_TRACE(::testing::Message() << queries << " queries, causal " << mask.causal << ", window "
                                        << mask.window_radius << ", positions " << sampled);
      const std::vector<int32_t> places = Case{.name = "", .keys = kKeys}.places();
      const int64_t span = sampled ? places.back() - places.front() : kKeys - 1;
      const RotaryTable rotary =
          make_rotary_table(std::vector<double>{1.0, 0.3}, 1.1, 0, kKeys, RopePairing::split_half, DType::f64);
      const auto options = [&](Var bias, int64_t origin, Var relative_keys, Var relative_values,
                               const DistanceBias& distance_bias) {
        return AttentionOptions{.scale = 0.4,
                                .mask = mask,
                                .rotary = &rotary,
                                .offset_bias = bias,
                                .offset_origin = origin,
                                .distance_bias = distance_bias,
                                .relative_keys = relative_keys,
                                .relative_values = relative_values,
                                .positions = sampled ? places : std::span<const int32_t>()};
      };
      Tensor distance = Tensor::zeros({2 * span + 9}, DType::f64);
      for (int64_t n = 0; n < distance.elements(); ++n)
        distance.set(n, 0.2 * static_cast<double>(std::abs(n - span - 3)));
      Tensor lines = random_tensor({9, 4}, DType::f64, 9);
      for (int64_t n = 0; n < 3; ++n) lines.set(n, static_cast<double>(n) + 0.3);
      const std::vector<Tensor> in = {random_tensor({5, 4, queries, 6}, DType::f64, 1),
                                      random_tensor({5, 2, kKeys, 6}, DType::f64, 2),
                                      random_tensor({5, 2, kKeys, 5}, DType::f64, 3),
                                      random_tensor({4, 2 * span + 9}, DType::f64, 4),
                                      random_tensor({5, 6}, DType::f64, 5),
                                      random_tensor({5, 5}, DType::f64, 7),
                                      distance,
                                      random_tensor({places.back() + 1}, DType::f64, 8, 0.02, 0.1),
                                      lines};
      const int64_t origin = span + 3;
      const Tensor dy = random_tensor({5, 4, queries, 5}, DType::f64, 6);
      const Gradients together = run_under(
          [&](Tape&, const std::vector<Var>& x) {
            AttentionOptions o = options(x[3], origin, x[4], x[5], {x[6], x[7], x[8]});
            o.first_key = first_key;
            o.key_end = key_end;
            return attention(x[0], x[1], x[2], o);
          },
          in, dy);
      Tensor d_bias = Tensor::zeros(in[3].shape, DType::f64);
      Tensor d_relative = Tensor::zeros(in[4].shape, DType::f64);
      for (int64_t b = 0; b < 5; ++b) {
        SCOPED_TRACE(b);
        const int64_t begin = first_key[static_cast<std::size_t>(b)];
        const int64_t end = key_end[static_cast<std::size_t>(b)];
        const int64_t skipped = std::max<int64_t>(0, begin - (kKeys - queries));
        const int64_t last = mask.causal ? std::min(queries, end - (kKeys - queries)) : queries;
        // Queries beyond the end are compared where they have keys of their own: not at all under a causal mask.
        const int64_t shown = std::max(skipped, std::min(last, end - (kKeys - queries)));
        if (end > begin) {
          const Gradients alone = run_under(
              [&](Tape&, const std::vector<Var>& x) {
                return attention(x[0], x[1], x[2], options(x[3], origin, x[4], x[5], {x[6], x[7], x[8]}));
              },
              {rows_of_sequence(in[0], b, skipped, shown), rows_of_sequence(in[1], b, begin, end),
               rows_of_sequence(in[2], b, begin, end), in[3], in[4], in[5], in[6], in[7], in[8]},
              rows_of_sequence(dy, b, skipped, shown));
          EXPECT_LT(greatest_difference(alone.value, rows_of_sequence(together.value, b, skipped, shown)), 1e-13);
          if (end == kKeys) {
            EXPECT_LT(greatest_difference(alone.inputs[0], rows_of_sequence(together.inputs[0], b, skipped, shown)),
                      1e-13);
            EXPECT_LT(greatest_difference(alone.inputs[1], rows_of_sequence(together.inputs[1], b, begin, end)), 1e-13);
            EXPECT_LT(greatest_difference(alone.inputs[2], rows_of_sequence(together.inputs[2], b, begin, end)), 1e-13);
          }
        }
        const auto all_zero = [&](const Tensor& x, int64_t from, int64_t to) {
          const Tensor rows = rows_of_sequence(x, b, from, to);
          for (int64_t i = 0; i < rows.elements(); ++i) {
            if (rows.at(i) != 0) return false;
          }
          return true;
        };
        const int64_t silent = end > begin ? skipped : queries;
        EXPECT_TRUE(all_zero(together.value, 0, silent));
        EXPECT_TRUE(all_zero(together.inputs[0], 0, silent));
        for (const std::size_t operand : {1U, 2U}) {
          EXPECT_TRUE(all_zero(together.inputs[operand], 0, begin));
          EXPECT_TRUE(all_zero(together.inputs[operand], end, kKeys));
        }
      }
    }
  }
}

TEST(AttentionTest, ASequenceWhoseFirstTokenIsToComeGivesZeros) {
  const std::vector<int64_t> first_key = {9, 2};
  for (const int64_t queries : {1, 4, 7}) {  // few queries and many take different ways
    const Tensor packed = random_tensor({2, 7, 12}, DType::f64, 1);
    const Tensor keys = random_tensor({2, queries, 12}, DType::f64, 2);
    const auto apply = [&](std::span<const int64_t> begins) {
      const Function f = [&](Tape&, const std::vector<Var>& in) {
        return attention(Heads{in[1], 0, 2, 3}, Heads{in[0], 0, 2, 3}, Heads{in[0], 6, 2, 3},
                         {.scale = 0.6, .first_key = begins});
      };
      return run_under(f, {packed, keys}, random_tensor({2, queries, 6}, DType::f64, 3));
    };
    const auto to_come = apply(first_key);
    const auto beyond_by_none = apply(std::vector<int64_t>{7, 2});
    EXPECT_EQ(greatest_difference(to_come.value, beyond_by_none.value), 0.0);
    for (int64_t i = 0; i < queries * 6; ++i) EXPECT_EQ(to_come.value.at(i), 0.0);
    for (int64_t i = 0; i < 7 * 12; ++i) EXPECT_EQ(to_come.inputs[0].at(i), 0.0);
    for (int64_t i = 0; i < queries * 12; ++i) EXPECT_EQ(to_come.inputs[1].at(i), 0.0);
    EXPECT_NE(to_come.value.at(queries * 6 * 2 - 1), 0.0) << "the second sequence has begun";
  }
}

TEST(AttentionTest, GradientsOfSequencesOfUnequalLengthMatchDifferences) {
  const std::vector<int64_t> first_key = {2, 0, 3};
  const std::vector<int64_t> key_end = {7, 4, 3};
  for (const bool causal : {true, false}) {
    const Function f = [&](Tape&, const std::vector<Var>& in) {
      return attention_packed(in[0], 2, 1,
                              {.scale = 0.6,
                               .mask = {.causal = causal},
                               .offset_bias = in[1],
                               .distance_bias = {in[4], in[5], in[6]},
                               .relative_keys = in[2],
                               .relative_values = in[3],
                               .first_key = first_key,
                               .key_end = key_end});
    };
    std::vector<Tensor> in = {random_tensor({3, 7, 12}, DType::f64, 1), random_tensor({2, 13}, DType::f64, 2),
                              random_tensor({3, 3}, DType::f64, 3), random_tensor({3, 3}, DType::f64, 4)};
    append_distance_bias({.name = "", .queries = 7, .keys = 7, .lines = 2}, in);
    EXPECT_LT(gradient_error(f, in), 2e-9);
  }
}

TEST(AttentionTest, ManyQueriesMayReadFewKeysWhereNoPositionMatters) {
  const std::vector<int64_t> key_end = {3, 1};
  const Function f = [&](Tape&, const std::vector<Var>& in) {
    return attention(Heads{in[0], 0, 2, 3}, Heads{in[1], 0, 2, 3}, Heads{in[1], 6, 2, 2},
                     {.scale = 0.6, .mask = {.causal = false}, .key_end = key_end});
  };
  const std::vector<Tensor> in = {random_tensor({2, 9, 6}, DType::f64, 1), random_tensor({2, 4, 10}, DType::f64, 2)};
  EXPECT_LT(gradient_error(f, in), 2e-9);
  // A single key is all that a query of the second sequence gets.
  const Tensor y = run_under(f, in, random_tensor({2, 9, 4}, DType::f64, 3)).value;
  for (int64_t t = 0; t < 9; ++t) {
    for (int64_t c = 0; c < 4; ++c) EXPECT_DOUBLE_EQ(y.at((9 + t) * 4 + c), in[1].at(4 * 10 + 6 + c));
  }
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  const Heads q{tape.constant(in[0]), 0, 2, 3};
  const Heads k{tape.constant(in[1]), 0, 2, 3};
  EXPECT_THROW(attention(q, k, k, {}), Error);
  EXPECT_THROW(attention(q, k, k, {.mask = {.causal = false, .window_radius = 2}}), Error);
}

TEST(AttentionTest, HeadsThatArePartOfAVarLeaveTheRestOfItsGradientAlone) {
  // Each operand has columns, keys and values also rows, that no head reads; one Var serves before and after.
  const Function f = [](Tape&, const std::vector<Var>& in) {
    const Var y = attention(Heads{in[0], 1, 2, 3}, Heads{in[1], 0, 1, 3, 5}, Heads{in[1], 4, 1, 3, 5}, {.scale = 0.6});
    return add(y, attention(Heads{in[2], 6, 2, 3}, Heads{in[2], 3, 1, 3}, Heads{y, 3, 1, 3}, {.scale = 0.7}));
  };
  EXPECT_LT(gradient_error(f, {random_tensor({2, 5, 8}, DType::f64, 1), random_tensor({2, 7, 8}, DType::f64, 2),
                               random_tensor({2, 5, 12}, DType::f64, 3)}),
            2e-9);
}

TEST(AttentionTest, RefusesHeadsAndSequencesThatDoNotFit) {
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  const Var x = tape.constant(random_tensor({2, 4, 12}, DType::f64, 1));
  const Heads whole{x, 0, 2, 3};
  EXPECT_NO_THROW(attention(whole, whole, Heads{x, 6, 2, 3}, {}));
  EXPECT_THROW(attention(whole, whole, Heads{x, 7, 2, 3}, {}), Error);
  EXPECT_THROW(attention(whole, whole, Heads{x, 6, 1, 3}, {}), Error);
  EXPECT_THROW(attention(whole, Heads{x, 0, 2, 4}, whole, {}), Error);
  EXPECT_THROW(attention(whole, Heads{x, 0, 2, 3, 5}, whole, {}), Error);
  EXPECT_THROW(attention(whole, Heads{x, 0, 2, 3, 4}, Heads{x, 0, 2, 3, 3}, {}), Error);
  const auto refuses = [&](std::vector<int64_t> first_key, std::vector<int64_t> key_end) {
    EXPECT_THROW(attention(whole, whole, whole, {.first_key = first_key, .key_end = key_end}), Error);
  };
  refuses({1}, {});
  refuses({}, {4, 4, 4});
  refuses({0, -1}, {});
  refuses({0, 3}, {4, 2});
  refuses({}, {5, 4});
}

TEST(AttentionTest, RefusesPositionsThatDoNotFit) {
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  const auto make = [&](const Shape& shape) { return tape.constant(Tensor::zeros(shape, DType::f64)); };
  const Var q = make({1, 2, 3, 6});
  const auto refusal = [&](const std::vector<int32_t>& positions, int64_t columns, int64_t origin) {
    return message_of([&] {
      attention(q, q, q, {.offset_bias = make({2, columns}), .offset_origin = origin, .positions = positions});
    });
  };
  EXPECT_EQ(refusal({1, 4, 6}, 11, 5), "");
  EXPECT_EQ(refusal({1, 4, 6, 9}, 11, 5), "") << "the positions of a longer pass";
  EXPECT_NE(refusal({1, 4}, 11, 5).find("2 positions for 3 keys"), std::string::npos);
  EXPECT_NE(refusal({1, 4, 4}, 11, 5).find("position 4 of key 2"), std::string::npos);
  EXPECT_NE(refusal({1, 4, 6}, 11, 4).find("need 11 from -5 on"), std::string::npos);
  EXPECT_NE(refusal({1, 4, 6}, 10, 5).find("10 columns"), std::string::npos);
  EXPECT_NE(refusal({1, 4, 6}, 5, -1).find("offset_origin"), std::string::npos);
}

TEST(AttentionTest, RefusesOperandsThatDoNotFit) {
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  const auto make = [&](const Shape& shape) { return tape.constant(Tensor::zeros(shape, DType::f64)); };
  const Var q = make({1, 4, 3, 6});
  const Var k = make({1, 2, 3, 6});
  EXPECT_NE(message_of([&] {
              attention(q, make({1, 3, 3, 6}), make({1, 3, 3, 6}), {});
            }).find("4 query heads"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              attention(q, make({1, 2, 2, 6}), make({1, 2, 2, 6}), {});
            }).find("3 queries for 2 keys"),
            std::string::npos);
  EXPECT_NE(message_of([&] { attention(q, make({1, 2, 3, 5}), k, {}); }).find("attention: k"), std::string::npos);
  EXPECT_NE(message_of([&] { attention(q, k, make({1, 2, 4, 6}), {}); }).find("attention: v"), std::string::npos);
  EXPECT_NE(message_of([&] {
              attention(q, k, k, {.offset_bias = make({4, 6})});
            }).find("offset_bias"),
            std::string::npos);
  EXPECT_NE(message_of([&] { attention(q, k, k, {.relative_keys = make({4, 6})}); }).find("4 rows"), std::string::npos);
  EXPECT_NE(message_of([&] {
              attention(q, k, k, {.relative_keys = make({5, 6}), .relative_values = make({3, 6})});
            }).find("relative_keys has 5 rows, relative_values 3"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              attention(q, k, k, {.query_bias = make({2, 6})});
            }).find("query_bias"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              attention(q, k, k, {.relative_keys = make({5, 12})});
            }).find("relative_keys"),
            std::string::npos);
  const auto refusal = [&](const DistanceBias& bias, int64_t origin = -1) {
    return message_of([&] { attention(q, k, k, {.offset_origin = origin, .distance_bias = bias}); });
  };
  EXPECT_EQ(refusal({make({5}), make({3}), make({9, 2})}), "");
  EXPECT_EQ(refusal({make({9}), make({4}), make({9, 1})}, 3), "");
  EXPECT_NE(refusal({make({6}), make({3}), make({9, 2})}).find("distance has 6 columns, expected 5"),
            std::string::npos);
  EXPECT_NE(refusal({make({5}), make({3}), make({9, 2})}, 3).find("from offset -3 on"), std::string::npos);
  EXPECT_NE(refusal({make({5}), make({2}), make({9, 2})}).find("2 positions; a query stands at 2"), std::string::npos);
  EXPECT_NE(refusal({make({5}), make({3}), make({8, 2})}).find("distance_bias.lines"), std::string::npos);
  EXPECT_NE(refusal({make({5}), {}, make({9, 2})}).find("no normalizer"), std::string::npos);
  Tensor shrinking = Tensor::zeros({5}, DType::f64);
  shrinking.set(4, -1.0);
  EXPECT_NE(refusal({tape.constant(shrinking), make({3}), make({9, 2})}).find("is 0 at offset 1 and -1 at 2"),
            std::string::npos);
  const RotaryTable table =
      make_rotary_table(std::vector<double>{1.0, 0.1}, 1.0, 0, 2, RopePairing::interleaved, DType::f64);
  EXPECT_NE(message_of([&] { attention(q, k, k, {.rotary = &table}); }).find("2 positions"), std::string::npos);
  EXPECT_NE(message_of([&] { attention_packed(make({1, 3, 7}), 2, 2, {}); }).find("packed"), std::string::npos);
}

}  // namespace
}  // namespace ropewalk::testing
