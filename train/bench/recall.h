#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/bench/model.h"

namespace ropewalk {

/// How many of the keys that an indexer chooses in f32 it also chooses in int8, with and without a Hadamard rotation
/// before the rounding, of vectors with outliers. Nothing is trained and nothing is timed: queries, keys and weights
/// are N(0, 1), and one element of each query head and of each key is multiplied by `outlier`.
struct RecallBench {
  struct Row {
    double outlier = 1;
    double plain = 0;  ///< share of the keys chosen in f32, mean over the queries that see more keys than they choose
    double hadamard = 0;  ///< the same after the rotation
  };

  int64_t positions = 0;
  int64_t top_k = 0;
  int64_t index_heads = 0;
  int64_t index_dim = 0;
  std::vector<Row> rows;
};

/// At train.context_length positions, causal, and with the indexer of the configuration; attention.top_k 0: an eighth
/// of the positions. attention.index_dim must be a power of two.
RecallBench bench_recall(const BenchSubject& subject);

std::string to_text(const RecallBench& result);
std::string to_json(const RecallBench& result);

}  // namespace ropewalk
