#pragma once

#include "train/bench/model.h"

namespace ropewalk::testing_support {

/// Overrides that make a size quick to run.
inline std::vector<std::string> small(const std::vector<std::string>& more = {}) {
  std::vector<std::string> all = {"model.n_layers=2",    "model.d_model=16",       "model.n_heads=2",
                                  "model.vocab_size=20", "train.context_length=8", "train.batch_size=8"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// XS made smaller still.
inline BenchSubject small_subject(const std::vector<std::string>& more = {}) {
  return bench_size("XS", small(more));
}

inline SubjectWith small_subject_with(const std::vector<std::string>& always = {}) {
  return [always](const std::vector<std::string>& overrides) {
    std::vector<std::string> all = always;
    all.insert(all.end(), overrides.begin(), overrides.end());
    return small_subject(all);
  };
}

}  // namespace ropewalk::testing_support
