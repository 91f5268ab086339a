#include "train/bench/recall.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/error.h"
#include "framework/ops/hadamard.h"
#include "framework/ops/select_top_k.h"
#include "framework/random.h"

namespace ropewalk {
namespace {

constexpr double kOutliers[] = {1, 10, 30, 100, 300};

/// N(0, 1), with one element of every run of `width` times `outlier`.
Tensor draw(const Shape& shape, int64_t width, double outlier, uint32_t salt) {
  const Tensor out = Tensor::zeros(shape, DType::f32);
  const RandomKey key{.seed = 1, .stream = Stream::probe_inputs, .a = salt};
  for (int64_t i = 0; i < out.elements(); ++i) out.set(i, random_normal(key, static_cast<uint64_t>(i)));
  if (outlier == 1) return out;
  const RandomKey place{.seed = 1, .stream = Stream::probe_inputs, .a = salt, .b = 1};
  for (int64_t run = 0; run < out.elements() / width; ++run) {
    const double u = random_uniform(place, static_cast<uint64_t>(run));
    const int64_t i = run * width + static_cast<int64_t>(u * static_cast<double>(width));
    out.set(i, outlier * out.at(i));
  }
  return out;
}

double recall(const SelectedKeys& found, const SelectedKeys& wanted) {
  int64_t hits = 0;
  int64_t all = 0;
  for (int64_t t = wanted.width; t < wanted.queries; ++t) {
    const int32_t* row = found.row(0, t);
    for (int64_t n = 0; n < wanted.width; ++n) {
      hits += std::binary_search(row, row + found.width, wanted.row(0, t)[n]) ? 1 : 0;
      ++all;
    }
  }
  return static_cast<double>(hits) / static_cast<double>(all);
}

}  // namespace

RecallBench bench_recall(const BenchSubject& subject) {
  const AttentionConfig& a = subject.config.attention;
  RecallBench out{.positions = subject.config.train.context_length,
                  .top_k = a.top_k > 0 ? a.top_k : std::max<int64_t>(1, subject.config.train.context_length / 8),
                  .index_heads = a.index_heads,
                  .index_dim = a.index_dim};
  require(out.top_k < out.positions, "bench recall: attention.top_k = {} of train.context_length = {} chooses all keys",
          out.top_k, out.positions);
  for (const double outlier : kOutliers) {
    Workspace workspace;
    Tape tape(workspace, Mode::inference);
    const Var q = tape.constant(draw({1, out.positions, out.index_heads * out.index_dim}, out.index_dim, outlier, 1));
    const Var k = tape.constant(draw({1, out.positions, out.index_dim}, out.index_dim, outlier, 2));
    const Var w = tape.constant(draw({1, out.positions, out.index_heads}, 1, 1, 3));
    const auto select = [&](Var queries, Var keys, IndexPrecision precision) {
      return select_top_k(queries, keys, w, out.top_k, {.causal = true}, precision);
    };
    const SelectedKeys exact = select(q, k, IndexPrecision::f32);
    out.rows.push_back(
        {.outlier = outlier,
         .plain = recall(select(q, k, IndexPrecision::int8), exact),
         .hadamard =
             recall(select(hadamard(q, out.index_dim), hadamard(k, out.index_dim), IndexPrecision::int8), exact)});
  }
  return out;
}

std::string to_text(const RecallBench& r) {
  std::string out = fmt::format(
      "share of the {} of {} keys of greatest index score in f32 that int8 finds; {} heads of {} columns\n"
      "{:>10} {:>10} {:>14}\n",
      r.top_k, r.positions, r.index_heads, r.index_dim, "outlier", "int8", "with Hadamard");
  for (const RecallBench::Row& row : r.rows) {
    out += fmt::format("{:>10} {:>10.4f} {:>14.4f}\n", row.outlier, row.plain, row.hadamard);
  }
  return out;
}

std::string to_json(const RecallBench& r) {
  nlohmann::json rows = nlohmann::json::array();
  for (const RecallBench::Row& row : r.rows) {
    rows.push_back({{"outlier", row.outlier}, {"int8", row.plain}, {"int8_hadamard", row.hadamard}});
  }
  return nlohmann::json{{"positions", r.positions},
                        {"top_k", r.top_k},
                        {"index_heads", r.index_heads},
                        {"index_dim", r.index_dim},
                        {"rows", rows}}
      .dump(2);
}

}  // namespace ropewalk
