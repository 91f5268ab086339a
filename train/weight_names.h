#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/parameter.h"
#include "layers/config.h"
#include "train/config.h"

namespace ropewalk {

/// Whose names and layout the tensors of a weights file have. gpt2 and llama are those of GPT2LMHeadModel and
/// LlamaForCausalLM of Hugging Face transformers.
enum class WeightNames : uint8_t { ropewalk, gpt2, llama };
inline constexpr NameTable<WeightNames, 3> kWeightNames{
    {{WeightNames::ropewalk, "ropewalk"}, {WeightNames::gpt2, "gpt2"}, {WeightNames::llama, "llama"}}};

/// "GPT-2", "Llama", "Ropewalk"
const char* display_name(WeightNames names);

/// A tensor of a weights file and the parameters that it holds.
struct WeightTensor {
  std::string name;                     ///< without the prefix that all but the head may have (see name_prefix())
  std::vector<std::string> parameters;  ///< stacked along their rows, the outputs
  bool transposed = false;              ///< [in, out] in place of [out, in]: GPT-2's Conv1D
  /// The rows of a head, of so many columns to be turned, stand as pairs (i, i + width/2), where the parameters have
  /// (2i, 2i + 1); 0: they stand alike.
  int64_t halved_width = 0;
};

/// Every tensor of a file with these names, in the order of the model. Throws Error if a parameter has no place among
/// them or two. `config` has no naming_conflicts().
std::vector<WeightTensor> weight_tensors(WeightNames names, const Config& config, const ParameterSet& parameters);

/// Shape of a tensor, of matrices [rows, columns] and else [rows].
std::vector<int64_t> weight_shape(const WeightTensor& tensor, const ParameterSet& parameters);

/// Calls f(index, parameter, parameter_index) for each element of a tensor: its index in the tensor, the index of its
/// parameter, and its own index there, row-major.
template <typename F>
void for_each_weight(const WeightTensor& tensor, const ParameterSet& parameters, F&& f);

/// "transformer." or "model.", which checkpoints of a whole language model have before all names but that of the head.
const char* name_prefix(WeightNames names);

/// Each key of [model], [position] and [attention] whose value the architecture of these names does not have, as
/// "model.norm = rmsnorm (GPT-2: layernorm)"; empty: the model is theirs.
std::vector<std::string> naming_conflicts(WeightNames names, const Config& config);

/// The config.json that transformers reads beside the weights. `config` has no naming_conflicts() and its vocab_size.
std::string transformers_config(WeightNames names, const Config& config);

// ------------------------------------------------------------------------------------------------------------------

template <typename F>
void for_each_weight(const WeightTensor& tensor, const ParameterSet& parameters, F&& f) {
  const std::vector<int64_t> shape = weight_shape(tensor, parameters);
  const bool matrix = shape.size() == 2;
  const int64_t rows = shape[tensor.transposed ? 1 : 0];
  const int64_t columns = matrix ? shape[tensor.transposed ? 0 : 1] : 1;
  const int64_t width = tensor.halved_width;
  int64_t first = 0;
  for (const std::string& name : tensor.parameters) {
    const int32_t parameter = parameters.find(name);
    const int64_t own_rows = parameters[parameter].shape[0];
    for (int64_t row = 0; row < own_rows; ++row) {
      const int64_t place = width == 0 ? 0 : row % width;
      // Pair i of a head is (i, i + width/2) there and (2i, 2i + 1) here.
      const int64_t own = width == 0 ? row : row - place + 2 * (place % (width / 2)) + place / (width / 2);
      for (int64_t column = 0; column < columns; ++column) {
        const int64_t stacked = first + row;
        f(tensor.transposed ? column * rows + stacked : stacked * columns + column, parameter, own * columns + column);
      }
    }
    first += own_rows;
  }
}

}  // namespace ropewalk
