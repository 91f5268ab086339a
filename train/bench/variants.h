#pragma once

#include <string>
#include <vector>

#include "train/bench/model.h"
#include "train/bench/rounds.h"

namespace ropewalk {

/// What variants of a model cost beside each other.
struct VariantTable {
  struct Row {
    std::string name;
    Spread ms;     ///< of a training step
    Spread ratio;  ///< its time over that of the first row, within a round
  };
  std::string subject;
  Config config;
  std::vector<std::string> overridden;  ///< see BenchSubject
  std::string group;                    ///< "position.encoding", "model.norm", "logged at each step"
  int64_t rounds = 0;
  std::vector<Row> rows;
};

/// The encodings that the subject's other keys allow.
std::vector<std::string> legal_encodings(const SubjectWith& subject);

/// Training steps of each variant of a group, turn by turn, `seconds` a group:
///   position.encoding    none, then every other scheme
///   model.norm           layernorm, rmsnorm
///   logged at each step  nothing; layers: norms of parameters and updates, residual stream; attention: entropies and
///                        greatest logits; both. What is measured for the log; its writing, every two seconds, is not
///                        in it
/// All else is as in the subject.
std::vector<VariantTable> bench_variants(const SubjectWith& subject, double seconds, const BenchSay& say = {});

std::string to_text(const std::vector<VariantTable>& tables);
std::string to_json(const std::vector<VariantTable>& tables);

}  // namespace ropewalk
