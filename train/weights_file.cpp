#include "train/weights_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "layers/indexer.h"
#include "train/config_error.h"
#include "train/config_resolve.h"
#include "train/durable_file.h"
#include "train/run_directory.h"
#include "train/run_setup.h"
#include "train/safetensors.h"
#include "train/text.h"
#include "train/trained_run.h"

namespace ropewalk {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".safetensors";
// Metadata beside the tensors; `format` is what transformers asks for.
constexpr const char* kConfig = "ropewalk_config";
constexpr const char* kStep = "ropewalk_step";
constexpr const char* kVocabulary = "ropewalk_vocabulary";

// ----------------------------------------------------------------------------------------------------------- writing

const TrainedRunUse kToExport = {.unmoved = "is not a part of what is exported", .keys = {"position.", "attention."}};

void refuse_conflicts(WeightNames names, const Config& config, const std::string& place, const std::string& way_out) {
  const std::vector<std::string> conflicts = naming_conflicts(names, config);
  if (conflicts.empty()) return;
  throw ConfigError({fmt::format("{}: error: the model is not of {}'s architecture: {}{}", place, display_name(names),
                                 joined(conflicts), way_out)});
}

/// The tensor's elements, put together from those of the checkpoint.
std::vector<std::byte> gathered(const WeightTensor& tensor, const ParameterSet& parameters,
                                const std::map<std::string, const StoredTensor*>& stored, std::size_t element) {
  std::size_t elements = 1;
  for (const int64_t extent : weight_shape(tensor, parameters)) elements *= static_cast<std::size_t>(extent);
  std::vector<std::byte> out(elements * element);
  std::vector<const std::byte*> data(parameters.size(), nullptr);
  for (const std::string& name : tensor.parameters) {
    data[static_cast<std::size_t>(parameters.find(name))] = stored.at(name)->data.data();
  }
  for_each_weight(tensor, parameters, [&](int64_t index, int32_t parameter, int64_t own) {
    std::memcpy(out.data() + static_cast<std::size_t>(index) * element,
                data[static_cast<std::size_t>(parameter)] + static_cast<std::size_t>(own) * element, element);
  });
  return out;
}

/// The tensors of the checkpoint that are parameters, by name. Throws CheckpointError where they are not those of the
/// model.
std::map<std::string, const StoredTensor*> stored_parameters(const SafetensorsFile& file,
                                                             const ParameterSet& parameters, DType dtype) {
  std::map<std::string, const StoredTensor*> out;
  for (const Parameter& parameter : parameters.all()) {
    const StoredTensor& stored = file.tensor(parameter.name);
    Shape shape;
    for (const int64_t extent : stored.shape) shape.append(extent);
    if (!(shape == parameter.shape) || stored.dtype != (dtype == DType::f32 ? "F32" : "F64")) {
      throw CheckpointError(fmt::format("{}: {} is {} {}, the model of the run has {} {}", file.path(), stored.name,
                                        stored.dtype, shape.to_string(), name_of(dtype), parameter.shape.to_string()));
    }
    out[parameter.name] = &stored;
  }
  return out;
}

std::string token_note(const TrainedRun& run) {
  const DataConfig& data = run.now.data;
  if (data.source == "task") return "token ids are the symbols of a task, in the order of 'ropewalk sample'";
  if (data.source == "tokens") return "token ids are those of the token files; their tokenizer is not known here";
  if (data.tokenizer == "bytes") return "token ids are the bytes of the text: list(text.encode())";
  return fmt::format("token ids are the lines of the metadata {}, from 0 on", kVocabulary);
}

// ----------------------------------------------------------------------------------------------------------- reading

double half_to_double(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  double magnitude = 0;
  if (exponent == 31) {
    magnitude = fraction == 0 ? HUGE_VAL : std::nan("");
  } else {
    magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

template <typename T>
T read_as(const StoredTensor& tensor, int64_t index) {
  T value;
  std::memcpy(&value, tensor.data.data() + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

bool holds_weights(const StoredTensor& tensor) {
  return tensor.dtype == "F32" || tensor.dtype == "F64" || tensor.dtype == "F16" || tensor.dtype == "BF16";
}

double number_of(const StoredTensor& tensor, int64_t index) {
  if (tensor.dtype == "F32") return read_as<float>(tensor, index);
  if (tensor.dtype == "F64") return read_as<double>(tensor, index);
  if (tensor.dtype == "F16") return half_to_double(read_as<uint16_t>(tensor, index));
  const uint32_t bits = uint32_t{read_as<uint16_t>(tensor, index)} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

bool has(const std::map<std::string, std::string>& metadata, const char* key, std::string_view value) {
  const auto at = metadata.find(key);
  return at != metadata.end() && at->second == value;
}

/// Buffers that some versions of transformers store beside the parameters: causal masks, frequencies of the rotation.
bool is_buffer(WeightNames names, std::string_view name) {
  if (names == WeightNames::gpt2) {
    return name.starts_with("h.") && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
  }
  return names == WeightNames::llama && name.ends_with("rotary_emb.inv_freq");
}

/// The tensors of a file by their names without prefix.
struct NamedTensors {
  WeightNames names = WeightNames::ropewalk;
  std::map<std::string, const StoredTensor*> tensors;
  std::vector<std::string> twice;
};

std::string without_prefix(WeightNames names, const std::string& name) {
  const std::string_view prefix = name_prefix(names);
  return !prefix.empty() && name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

WeightNames names_in(const SafetensorsFile& file) {
  std::vector<std::string> found;
  for (const StoredTensor& tensor : file.tensors()) {
    if (tensor.name == "token_embedding.weight") return WeightNames::ropewalk;
    if (without_prefix(WeightNames::gpt2, tensor.name) == "wte.weight") return WeightNames::gpt2;
    if (without_prefix(WeightNames::llama, tensor.name) == "embed_tokens.weight") return WeightNames::llama;
    if (found.size() < 3) found.push_back(printable(tensor.name));
  }
  throw CheckpointError(fmt::format(
      "{}: has no token embedding by the names of Ropewalk (token_embedding.weight), GPT-2 (wte.weight) or Llama "
      "(embed_tokens.weight); its tensors are {}",
      file.path(), found.empty() ? "none" : fmt::format("called {}, ...", joined(found))));
}

NamedTensors named_tensors(const SafetensorsFile& file) {
  NamedTensors out{.names = names_in(file)};
  const bool checkpoint = has(file.metadata(), "format", "ropewalk-checkpoint");
  for (const StoredTensor& tensor : file.tensors()) {
    const std::string name = without_prefix(out.names, tensor.name);
    if (is_buffer(out.names, name) || (checkpoint && name.starts_with("optimizer."))) continue;
    if (!out.tensors.emplace(name, &tensor).second) out.twice.push_back(tensor.name);
  }
  return out;
}

/// What a file without indexers can hold of the model: all but these. Sparse training begins with a dense model.
Config held_by(const NamedTensors& named, Config config) {
  const bool has_indexers = std::any_of(named.tensors.begin(), named.tensors.end(),
                                        [](const auto& entry) { return is_index_parameter(entry.first); });
  if (config.attention.pattern != AttentionPattern::top_k || has_indexers) return config;
  const AttentionConfig without;
  AttentionConfig& attention = config.attention;
  attention.pattern = without.pattern;
  attention.top_k = without.top_k;
  attention.index_heads = without.index_heads;
  attention.index_dim = without.index_dim;
  attention.index_precision = without.index_precision;
  attention.index_hadamard = without.index_hadamard;
  attention.index_warmup_steps = without.index_warmup_steps;
  return config;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::vector<std::string> extents;
  for (const int64_t extent : shape) extents.push_back(std::to_string(extent));
  return "[" + joined(extents) + "]";
}

bool same_values(const StoredTensor& a, const StoredTensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         std::equal(a.data.begin(), a.data.end(), b.data.begin(), b.data.end());
}

/// A head that is stored although the model ties it to its embedding, as many files do, is no other tensor.
void drop_tied_head(const Config& config, NamedTensors& named, std::vector<std::string>& problems) {
  const auto head = named.tensors.find("lm_head.weight");
  if (!config.model.tie_embeddings || head == named.tensors.end()) return;
  const char* embedding = named.names == WeightNames::gpt2    ? "wte.weight"
                          : named.names == WeightNames::llama ? "embed_tokens.weight"
                                                              : "token_embedding.weight";
  if (!same_values(*head->second, *named.tensors.at(embedding))) {
    problems.push_back(fmt::format("lm_head.weight differs from {}; give model.tie_embeddings = false", embedding));
  }
  named.tensors.erase(head);
}

/// What keeps the tensors of a file from being those of the model, a line each.
std::vector<std::string> tensor_problems(const std::vector<WeightTensor>& wanted, const ParameterSet& parameters,
                                         const NamedTensors& named) {
  std::vector<std::string> missing, surplus = named.twice, shapes, types;
  std::set<std::string> known;
  for (const WeightTensor& tensor : wanted) {
    known.insert(tensor.name);
    const auto found = named.tensors.find(tensor.name);
    if (found == named.tensors.end()) {
      missing.push_back(tensor.name);
      continue;
    }
    const StoredTensor& stored = *found->second;
    const std::vector<int64_t> shape = weight_shape(tensor, parameters);
    if (stored.shape != shape) {
      shapes.push_back(
          fmt::format("{} {}, the model has {}", tensor.name, shape_text(stored.shape), shape_text(shape)));
    } else if (!holds_weights(stored)) {
      types.push_back(fmt::format("{} {}", tensor.name, stored.dtype));
    }
  }
  for (const auto& [name, tensor] : named.tensors) {
    if (known.count(name) == 0) surplus.push_back(tensor->name);
  }
  std::vector<std::string> out;
  const auto add = [&](const char* what, std::vector<std::string>& parts) {
    for (std::string& part : parts) part = printable(part);
    if (!parts.empty()) out.push_back(fmt::format("{}: {}", what, joined(parts, "; ")));
  };
  add("missing", missing);
  add("not of the model", surplus);
  add("of another shape", shapes);
  add("of a type other than F16, BF16, F32 and F64", types);
  return out;
}

void put(const WeightTensor& tensor, const StoredTensor& stored, const ParameterSet& parameters) {
  std::vector<Tensor> values(parameters.size());
  for (const std::string& name : tensor.parameters) {
    const int32_t index = parameters.find(name);
    values[static_cast<std::size_t>(index)] = parameters.value(index);
  }
  for_each_weight(tensor, parameters, [&](int64_t index, int32_t parameter, int64_t own) {
    values[static_cast<std::size_t>(parameter)].set(own, number_of(stored, index));
  });
}

}  // namespace

ExportedWeights export_weights(const std::string& run_directory, const std::vector<std::string>& overrides,
                               WeightNames names, const std::string& target) {
  const TrainedRun run = open_trained_run(run_directory, overrides, kToExport);
  Config config = run.now;
  const SafetensorsFile& file = run.checkpoint.file;
  const StoredTensor& embedding = file.tensor("token_embedding.weight");
  if (embedding.shape.size() != 2 || embedding.shape[0] < 1) {
    throw CheckpointError(fmt::format("{}: {} is no table of tokens", file.path(), embedding.name));
  }
  config.model.vocab_size = embedding.shape[0];
  refuse_conflicts(names, config, run_directory, "; --names ropewalk exports it as it is");

  const DType dtype = dtype_of(config.train);
  const Transformer model(architecture_of(config), dtype);
  const ParameterSet& parameters = model.parameters();
  const auto stored = stored_parameters(file, parameters, dtype);
  std::vector<std::vector<std::byte>> bytes;
  std::vector<TensorToSave> tensors;
  for (const WeightTensor& tensor : weight_tensors(names, config, parameters)) {
    bytes.push_back(gathered(tensor, parameters, stored, size_of(dtype)));
    const std::string prefix = tensor.name.starts_with("lm_head.") ? "" : name_prefix(names);
    tensors.push_back({prefix + tensor.name, dtype == DType::f32 ? "F32" : "F64", weight_shape(tensor, parameters),
                       bytes.back().data()});
  }
  std::map<std::string, std::string> metadata = {{"format", "pt"},
                                                 {kConfig, print_config({.config = run.now}, false)},
                                                 {kStep, std::to_string(run.checkpoint.step)}};
  if (run.vocabulary) metadata[kVocabulary] = tokenizer_text(*run.vocabulary);

  const bool is_file = target.ends_with(kSuffix);
  const std::string path = is_file ? target : (fs::path(target) / "model.safetensors").string();
  fs::create_directories(directory_of(path));
  write_safetensors(path, tensors, metadata);
  ExportedWeights out{.files = {path}, .notes = {token_note(run)}};
  if (names != WeightNames::ropewalk) {
    const std::string beside = (fs::path(directory_of(path)) / "config.json").string();
    write_file_durably(beside, transformers_config(names, config));
    out.files.push_back(beside);
  }
  return out;
}

bool is_weights_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

WeightsHeader read_weights_header(const std::string& path) {
  const std::map<std::string, std::string> metadata = read_safetensors_metadata(path);
  const bool checkpoint = has(metadata, "format", "ropewalk-checkpoint");
  const auto value = [&](const char* key) -> const std::string* {
    const auto at = metadata.find(key);
    return at == metadata.end() ? nullptr : &at->second;
  };
  WeightsHeader out;
  if (const std::string* text = value(checkpoint ? "config" : kConfig)) out.config = parse_config_text(*text, path);
  if (const std::string* text = value(checkpoint ? "step" : kStep)) {
    int64_t step = 0;
    const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), step);
    if (problem == std::errc() && end == text->data() + text->size() && step >= 0) out.step = step;
  }
  if (const std::string* text = value(kVocabulary)) {
    out.vocabulary = parse_tokenizer(*text, path);
    if (out.vocabulary->kind != Tokenizer::Kind::chars) {
      throw CheckpointError(fmt::format("{}: its {} is no list of characters", path, kVocabulary));
    }
  }
  return out;
}

void load_weights(const std::string& path, const Config& config, const Transformer& model) {
  const SafetensorsFile file = read_safetensors(path);
  NamedTensors named = named_tensors(file);
  const Config held = held_by(named, config);
  refuse_conflicts(named.names, held, path, "");
  const Transformer declared(architecture_of(held), model.dtype());
  const std::vector<WeightTensor> wanted = weight_tensors(named.names, held, declared.parameters());
  std::vector<std::string> head;
  drop_tied_head(held, named, head);
  std::vector<std::string> problems = tensor_problems(wanted, declared.parameters(), named);
  problems.insert(problems.end(), head.begin(), head.end());
  if (!problems.empty()) {
    throw CheckpointError(fmt::format("{}: its tensors, by the names of {}, are not those of the model\n  {}", path,
                                      display_name(named.names), joined(problems, "\n  ")));
  }
  for (const WeightTensor& tensor : wanted) put(tensor, *named.tensors.at(tensor.name), model.parameters());
}

}  // namespace ropewalk
