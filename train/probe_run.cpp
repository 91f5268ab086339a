#include "train/probe_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "framework/error.h"
#include "framework/ops/cross_entropy.h"
#include "framework/ops/elementwise.h"
#include "framework/random.h"
#include "optim/norms.h"
#include "train/config_error.h"
#include "train/durable_file.h"
#include "train/log_layout.h"
#include "train/memory.h"
#include "train/model_batch.h"
#include "train/run_directory.h"
#include "train/run_log.h"
#include "train/run_setup.h"
#include "train/text.h"
#include "train/warnings.h"

namespace ropewalk {
namespace {

/// What goes in with probe.inputs = normal: vectors in place of embeddings, and what is to be predicted.
struct NormalInputs {
  Tensor vectors;  ///< [sequences, length, d_model]
  std::vector<int32_t> labels;

  explicit NormalInputs(const Config& config)
      : vectors(Tensor::zeros({config.train.batch_size, config.train.context_length, config.model.d_model},
                              dtype_of(config.train))),
        labels(static_cast<std::size_t>(config.train.batch_size * config.train.context_length)) {}
};

void draw_normal(const Config& config, uint64_t seed, NormalInputs& inputs) {
  for (int64_t i = 0; i < inputs.vectors.elements(); ++i) {
    inputs.vectors.set(i, random_normal({.seed = seed, .stream = Stream::probe_inputs}, static_cast<uint64_t>(i)));
  }
  const auto classes = static_cast<double>(config.model.vocab_size);
  for (std::size_t i = 0; i < inputs.labels.size(); ++i) {
    inputs.labels[i] =
        static_cast<int32_t>(classes * random_uniform({.seed = seed, .stream = Stream::probe_labels}, i));
  }
}

double median(std::vector<double> values) {
  if (std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); })) return std::nan("");
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double norm_of(const ParameterSet& parameters, const std::vector<double>& squared, const std::string& name) {
  const int32_t index = parameters.find(name);
  require(index >= 0, "the model has no parameter {}", name);
  return std::sqrt(squared[static_cast<std::size_t>(index)]);
}

std::vector<float> roots(const std::vector<double>& squares, double scale) {
  std::vector<float> out;
  for (const double x : squares) out.push_back(static_cast<float>(std::sqrt(x * scale)));
  return out;
}

}  // namespace

ProbeResult probe_run(const ResolvedConfig& resolved_config, const std::string& name, const std::string& directory,
                      const std::string& command_line) {
  Config config = resolved_config.config;
  const bool normal = config.probe.inputs == "normal";
  if (normal && config.model.arch == Arch::encoder_decoder) {
    throw ConfigError(
        {"error: probe.inputs = normal has no source for the encoder of model.arch = encoder_decoder; use "
         "probe.inputs = data"});
  }
  std::unique_ptr<Dataset> dataset;
  if (!normal) dataset = open_data(config);
  require(config.model.vocab_size > 0,
          "model.vocab_size must be given with probe.inputs = normal: the number of classes");
  const ArchitectureConfig architecture = architecture_of(config);
  require_memory(estimate_probe_memory(config, count_parameters(architecture), config.model.vocab_size));
  Transformer model(architecture, dtype_of(config.train));
  model.allocate();
  const SequenceShape shape = training_shape(config);
  prepare(model, shape);
  const ParameterSet& parameters = model.parameters();
  const LogLayout layout = make_log_layout(parameters, config.model.n_layers);

  use_run_directory(directory);
  const RunLock lock(directory);
  write_file_durably(config_in(directory), print_config(resolved_config, true));
  RunLog log = RunLog::create(lock,
                              {.entries = config.probe.seeds,
                               .n_layers = config.model.n_layers,
                               .n_heads = config.model.n_heads,
                               .layer_kinds = layout.layer_kinds,
                               .stem_kinds = layout.stem_kinds},
                              make_log_header(directory, resolved_config, command_line));

  show_warnings(log.take_warnings());

  ProbeResult out{.name = name, .directory = directory, .seeds = config.probe.seeds};
  Workspace workspace;
  GradientBuffer gradients(parameters);
  std::optional<NormalInputs> inputs;
  ModelBatch batch;
  batch.resize(config.train.batch_size, shape);
  if (normal) inputs.emplace(config);
  std::vector<double> squared(parameters.size());
  std::vector<double> values(parameters.size());
  std::vector<float> grad_norm(layout.cells()), param_norm(layout.cells()),
      no_update(layout.cells(), std::numeric_limits<float>::quiet_NaN());
  std::vector<float> stem(layout.stem_kinds.size());
  const auto positions = static_cast<double>(config.train.batch_size * shape.length);
  for (std::size_t entry = 0; entry < config.probe.seeds.size(); ++entry) {
    const auto seed = static_cast<uint64_t>(config.probe.seeds[entry]);
    model.initialize(seed);
    if (normal) {
      draw_normal(config, seed, *inputs);
    } else {
      batch.fill_training(*dataset, seed, 1);
    }
    gradients.clear();
    Tape tape(workspace, Mode::train, &parameters, &gradients);
    std::vector<Var> residuals;
    const BatchPart part = batch.part(0, config.train.batch_size);
    ForwardPass pass{.tape = tape, .sequences = part.sequences, .length = part.length};
    pass.trace.residuals = &residuals;
    std::vector<Var> index_losses;
    if (config.attention.pattern == AttentionPattern::top_k) {
      pass.index_training = {.losses = &index_losses, .sequences = part.sequences};
    }
    part.encode(model, pass);
    const Var x = normal ? tape.leaf(inputs->vectors) : model.embed(pass, part.tokens);
    const Var logits = model.head(model.blocks(pass, x));
    const int64_t counted = normal ? static_cast<int64_t>(inputs->labels.size()) : batch.counted();
    const Var loss = cross_entropy(logits, normal ? inputs->labels.data() : part.targets, static_cast<double>(counted),
                                   config.optim.label_smoothing);
    Var start = loss;
    for (const Var index_loss : index_losses) start = add(start, index_loss);
    tape.backward(start);
    gradients.complete(parameters);
    squared_norms(parameters, gradients.flat(), squared);
    squared_norms(parameters, parameters.flat_values(), values);

    const auto block = [&](int64_t i) { return fmt::format("blocks.{}.ffn.up.weight", i); };
    out.first.push_back(norm_of(parameters, squared, block(0)));
    out.last.push_back(norm_of(parameters, squared, block(config.model.n_layers - 1)));
    out.ratio.push_back(out.last.back() / out.first.back());
    out.loss.push_back(loss.value().at(0));

    layer_norms(layout, squared, grad_norm);
    layer_norms(layout, values, param_norm);
    stem_norms(layout, squared, stem);
    std::vector<double> residual_gradients, residual_squares;
    for (const Var residual : residuals) {
      residual_gradients.push_back(squared_norm(tape.gradient_of(residual)));
      residual_squares.push_back(squared_norm(residual.value()));
    }
    const std::vector<float> residual_norm = roots(residual_gradients, 1.0);
    const std::vector<float> rms =
        roots(residual_squares, 1.0 / (positions * static_cast<double>(config.model.d_model)));
    const auto step = static_cast<int64_t>(seed);
    log.append(LayersRow{step, grad_norm, param_norm, no_update});
    log.append(StemRow{step, stem});
    log.append(ResidualRow{step, residual_norm, rms});
    log.append(TrainRow{.step = step,
                        .loss = static_cast<float>(out.loss.back()),
                        .grad_norm = static_cast<float>(global_norm(squared)),
                        .param_norm = static_cast<float>(global_norm(values)),
                        .tokens = config.train.batch_size * shape.positions()});
  }
  log.finish(LogStatus::finished);
  show_warnings(log.take_warnings());
  return out;
}

std::string probe_text(const std::vector<ProbeResult>& results) {
  std::string out =
      "gradient norm of ffn.up.weight at initialization, last block over first, over seeds\n"
      "variant                    seeds   median      least   greatest   first block    last block\n";
  for (const ProbeResult& r : results) {
    const auto [low, high] = std::minmax_element(r.ratio.begin(), r.ratio.end());
    out += fmt::format("{:<26} {:>5} {:>8.3f} {:>10.3f} {:>10.3f} {:>13.5g} {:>13.5g}\n", r.name, r.seeds.size(),
                       unsigned_nan(median(r.ratio)), unsigned_nan(*low), unsigned_nan(*high),
                       unsigned_nan(median(r.first)), unsigned_nan(median(r.last)));
  }
  return out;
}

}  // namespace ropewalk
