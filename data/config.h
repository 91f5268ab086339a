#pragma once

#include <cstdint>
#include <string>

namespace ropewalk {

/// [data]: where the tokens come from.
struct DataConfig {
  std::string source = "text";       ///< text | tokens | task
  std::string path;                  ///< a file or a glob; several files are read in the order of their names
  std::string tokenizer = "bytes";   ///< bytes | chars | sentencepiece
  std::string token_dtype = "auto";  ///< tokens: auto (llm.c header, else uint16) | uint16 | uint32 (both: no header)
  std::string task = "copy";         ///< a name of task_kinds()
  int64_t min_length = 1;            ///< tasks: shortest training problem
  int64_t max_length = 20;           ///< tasks: longest training problem
  int64_t alphabet = 0;              ///< tasks: payload symbols (associative_recall: keys, and as many values); 0: 32,
                                     ///< and 256 for associative_recall
  std::string digit_order = "most_significant_first";  ///< addition: or least_significant_first
  int64_t gap = 0;             ///< associative_recall: positions with nothing to read between pairs and queries
  int64_t train_problems = 0;  ///< tasks: size of a fixed training set that steps draw from; 0: all problems fresh
  double validation_fraction = 0.1;  ///< held out from the end of the text
  double mask_probability = 0.15;    ///< encoder: share of positions that it has to predict
};

}  // namespace ropewalk
