#include "train/bench/decode.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/error.h"
#include "framework/random.h"
#include "train/bench/rounds.h"
#include "train/decoder.h"
#include "train/memory.h"

namespace ropewalk {
namespace {

constexpr int64_t kNeighbours = 8;

/// Seconds of each token of one sequence, from nothing cached on. `cache_bytes`, where wanted, receives what the cache
/// then takes.
std::vector<double> time_tokens(Transformer& model, std::span<const int32_t> tokens, double* cache_bytes = nullptr) {
  Decoder decoder(model, 1, static_cast<int64_t>(tokens.size()));
  std::vector<double> out;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    decoder.feed(tokens.subspan(i, 1), 1);
    out.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  if (cache_bytes != nullptr) *cache_bytes = static_cast<double>(decoder.cache().bytes());
  return out;
}

}  // namespace

DecodeBench bench_decode(const BenchSubject& given, const DecodeBenchRequest& request) {
  require(!request.positions.empty() && request.positions.front() >= 1 &&
              std::is_sorted(request.positions.begin(), request.positions.end()),
          "bench decode: positions must be at least 1 and ascend");
  const int64_t last = request.positions.back();
  BenchSubject subject = given;
  subject.config.position.max_length = std::max(subject.config.position.max_length, last);
  const RunSetup setup = set_up_subject(subject);
  Transformer& model = *setup.model;
  model.initialize(static_cast<uint64_t>(setup.config.train.seed));
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < last; ++i) {
    const double u = random_uniform({.stream = Stream::probe_inputs}, static_cast<uint64_t>(i));
    tokens.push_back(static_cast<int32_t>(u * static_cast<double>(setup.config.model.vocab_size)));
  }
  DecodeBench out{.name = subject.name,
                  .dtype = setup.config.train.dtype,
                  .encoding = setup.config.position.encoding,
                  .parameters = model.parameters().elements()};
  time_tokens(model, tokens, &out.cache_bytes);  // tables of positions and memory are there afterwards
  std::vector<std::vector<double>> times(request.positions.size());
  std::vector<double> rounds;
  for (double total = 0; static_cast<int64_t>(rounds.size()) < request.least_rounds || total < request.seconds;) {
    const std::vector<double> seconds = time_tokens(model, tokens);
    rounds.push_back(0);
    for (const double s : seconds) rounds.back() += s;
    total += rounds.back();
    for (std::size_t i = 0; i < times.size(); ++i) {
      const int64_t end = request.positions[i];
      times[i].insert(times[i].end(), seconds.begin() + std::max<int64_t>(0, end - kNeighbours), seconds.begin() + end);
    }
  }
  out.rounds = static_cast<int64_t>(rounds.size());
  out.tokens_per_s = static_cast<double>(last) / median(rounds);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double us = 1e6 * median(times[i]);
    out.rows.push_back({request.positions[i], us, out.rows.empty() ? 1.0 : us / out.rows.front().us});
  }
  return out;
}

std::string to_text(const DecodeBench& r) {
  const int64_t last = r.rows.back().position;
  std::string out =
      fmt::format("decoding {}, {}, {}, one sequence, one thread: {} parameters, {} rounds of {} tokens\n", r.name,
                  r.dtype, r.encoding, r.parameters, r.rounds, last);
  out += fmt::format("{:>8} {:>12} {:>8}\n", "position", "us a token", "ratio");
  for (const DecodeBench::Row& row : r.rows) {
    out += fmt::format("{:>8} {:>12.1f} {:>8.2f}\n", row.position, row.us, row.ratio);
  }
  out += fmt::format("{:.0f} tokens/s up to position {}; cache {:.0f} bytes ({}), {:.0f} a token\n", r.tokens_per_s,
                     last, r.cache_bytes, bytes_text(r.cache_bytes), r.cache_bytes / static_cast<double>(last));
  return out;
}

std::string to_json(const DecodeBench& r) {
  nlohmann::json rows = nlohmann::json::array();
  for (const DecodeBench::Row& row : r.rows) {
    rows.push_back({{"position", row.position}, {"us", row.us}, {"ratio", row.ratio}});
  }
  return nlohmann::json{{"name", r.name},
                        {"dtype", r.dtype},
                        {"encoding", r.encoding},
                        {"parameters", r.parameters},
                        {"rounds", r.rounds},
                        {"tokens_per_s", r.tokens_per_s},
                        {"cache_bytes", r.cache_bytes},
                        {"rows", rows}}
      .dump();
}

}  // namespace ropewalk
