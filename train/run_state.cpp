#include "train/run_state.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/error.h"
#include "train/warnings.h"

namespace ropewalk {
namespace {

using nlohmann::json;

constexpr const char* kFirstMoment = "optimizer.first_moment/";
constexpr const char* kSecondMoment = "optimizer.second_moment/";

std::string stored_dtype(DType dtype) {
  return dtype == DType::f32 ? "F32" : "F64";
}

void add_tensors(std::vector<TensorToSave>& out, const std::string& prefix, const ParameterSet& parameters,
                 const Tensor& flat) {
  for (int32_t i = 0; i < static_cast<int32_t>(parameters.size()); ++i) {
    const Tensor view = parameters.view(flat, i);
    std::vector<int64_t> shape;
    for (int axis = 0; axis < view.shape.rank(); ++axis) shape.push_back(view.shape[axis]);
    out.push_back({prefix + parameters[i].name, stored_dtype(view.dtype), shape, view.bytes});
  }
}

void read_tensors(const Checkpoint& checkpoint, const std::string& prefix, const ParameterSet& parameters,
                  const Tensor& flat, bool (*left_out)(const std::string& name) = nullptr) {
  for (int32_t i = 0; i < static_cast<int32_t>(parameters.size()); ++i) {
    if (left_out != nullptr && left_out(parameters[i].name)) continue;
    const Tensor view = parameters.view(flat, i);
    const StoredTensor& stored = checkpoint.file.tensor(prefix + parameters[i].name);
    Shape shape;
    for (const int64_t extent : stored.shape) shape.append(extent);
    if (!(shape == view.shape) || stored.dtype != stored_dtype(view.dtype)) {
      throw CheckpointError(fmt::format("{}: {} is {} {}, the model has {} {}", checkpoint.file.path(), stored.name,
                                        stored.dtype, shape.to_string(), stored_dtype(view.dtype),
                                        view.shape.to_string()));
    }
    std::memcpy(view.bytes, stored.data.data(), stored.data.size());
  }
}

/// Doubles as hexadecimal text, so that a resumed run carries the same bits.
json numbers(const std::vector<double>& values) {
  json out = json::array();
  for (const double value : values) out.push_back(fmt::format("{:a}", value));
  return out;
}

std::vector<double> read_numbers(const json& array) {
  std::vector<double> out;
  for (const json& text : array) out.push_back(std::strtod(text.get<std::string>().c_str(), nullptr));
  return out;
}

json divergence_json(const RunState& state) {
  if (!state.divergence) return nullptr;
  const Divergence& first = *state.divergence;
  return {{"step", first.step}, {"module", first.module}, {"in_gradient", first.in_gradient}};
}

}  // namespace

std::string checkpoints_in(const std::string& directory) {
  return directory + "/checkpoints";
}

void save_state(const std::string& directory, const Transformer& model, const AdamW& optimizer, const RunState& state,
                const std::string& config_text, int64_t keep) {
  std::vector<TensorToSave> tensors;
  add_tensors(tensors, "", model.parameters(), model.parameters().flat_values());
  add_tensors(tensors, kFirstMoment, model.parameters(), optimizer.first_moment());
  add_tensors(tensors, kSecondMoment, model.parameters(), optimizer.second_moment());
  const json counters = {{"tokens", state.tokens},
                         {"evaluated_step", state.evaluated_step},
                         {"data_fingerprint", state.data_fingerprint},
                         {"numbers", numbers(std::vector<double>{state.wall_time, state.train_loss})},
                         {"last_loss", numbers(state.last_loss)},
                         {"last_accuracy", numbers(state.last_accuracy)},
                         {"last_exact_match", numbers(state.last_exact_match)},
                         {"best_loss", numbers(state.best_loss)},
                         {"divergence", divergence_json(state)},
                         {"ends_diverged", state.ends_diverged},
                         {"from_step", state.from_step}};
  write_checkpoint(checkpoints_in(directory), state.step, tensors,
                   {{"config", config_text}, {"state", counters.dump()}}, keep);
}

void load_parameters(const Checkpoint& checkpoint, const Transformer& model,
                     bool (*left_out)(const std::string& name)) {
  read_tensors(checkpoint, "", model.parameters(), model.parameters().flat_values(), left_out);
}

RunState load_state(const Checkpoint& checkpoint, const Transformer& model, const AdamW& optimizer) {
  load_parameters(checkpoint, model);
  read_tensors(checkpoint, kFirstMoment, model.parameters(), optimizer.first_moment());
  read_tensors(checkpoint, kSecondMoment, model.parameters(), optimizer.second_moment());
  RunState state{.step = checkpoint.step};
  try {
    const json counters = json::parse(checkpoint.file.metadata().at("state"));
    state.tokens = counters.at("tokens").get<int64_t>();
    state.evaluated_step = counters.at("evaluated_step").get<int64_t>();
    state.data_fingerprint = counters.at("data_fingerprint").get<uint64_t>();
    const std::vector<double> two = read_numbers(counters.at("numbers"));
    state.wall_time = two.at(0);
    state.train_loss = two.at(1);
    state.last_loss = read_numbers(counters.at("last_loss"));
    state.last_accuracy = read_numbers(counters.at("last_accuracy"));
    state.last_exact_match = read_numbers(counters.at("last_exact_match"));
    state.best_loss = read_numbers(counters.at("best_loss"));
    if (const json first = counters.value("divergence", json()); !first.is_null()) {
      state.divergence = {.step = first.at("step").get<int64_t>(),
                          .module = first.at("module").get<std::string>(),
                          .in_gradient = first.at("in_gradient").get<bool>()};
    }
    state.ends_diverged = counters.value("ends_diverged", false);
    state.from_step = counters.value("from_step", int64_t{-1});
  } catch (const std::exception& e) {
    throw CheckpointError(fmt::format("{}: its counters cannot be read: {}", checkpoint.file.path(), e.what()));
  }
  return state;
}

Checkpoint require_checkpoint(const std::string& run_directory) {
  LatestCheckpoint latest = latest_checkpoint(checkpoints_in(run_directory));
  show_warnings(latest.warnings);
  if (!latest.checkpoint && !latest.warnings.empty()) {
    throw CheckpointError(fmt::format("{}: no checkpoint is whole", checkpoints_in(run_directory)));
  }
  if (!latest.checkpoint) {
    throw CheckpointError(fmt::format("{}: no checkpoint; the run stopped before its first (train.checkpoint_every)",
                                      checkpoints_in(run_directory)));
  }
  return std::move(*latest.checkpoint);
}

}  // namespace ropewalk
