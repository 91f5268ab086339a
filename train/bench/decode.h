#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/bench/model.h"

namespace ropewalk {

struct DecodeBenchRequest {
  std::vector<int64_t> positions = {32, 64, 128, 256, 512};  ///< ascending
  int64_t least_rounds = 3;
  double seconds = 3;  ///< at least so long is measured
};

/// What a token costs that is decoded with a cache, on one thread, one sequence from its first token to the last
/// position, again and again. Times are medians.
struct DecodeBench {
  struct Row {
    int64_t position = 0;  ///< keys that the token sees, itself among them, where there is no window
    double us = 0;         ///< of the tokens at this position and the seven before it
    double ratio = 0;      ///< over the first row
  };

  std::string name;
  std::string dtype;
  std::string encoding;
  int64_t parameters = 0;
  int64_t rounds = 0;
  double tokens_per_s = 0;  ///< over all tokens up to the last position
  double cache_bytes = 0;   ///< of the whole sequence, with what the position scheme keeps of offsets
  std::vector<Row> rows;
};

/// A learned table is made long enough for the positions.
DecodeBench bench_decode(const BenchSubject& subject, const DecodeBenchRequest& request);

std::string to_text(const DecodeBench& result);
std::string to_json(const DecodeBench& result);

}  // namespace ropewalk
