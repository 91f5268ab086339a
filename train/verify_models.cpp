#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "framework/ops/cross_entropy.h"
#include "layers/transformer.h"
#include "optim/adamw.h"
#include "optim/norms.h"
#include "optim/schedule.h"
#include "train/config_resolve.h"
#include "train/memory.h"
#include "train/verify_case.h"

namespace ropewalk {
namespace {

/// The architecture of a case. Its sizes are checked against the parameters in the file before anything of them is
/// made.
ArchitectureConfig architecture(const ConformanceCase& c) {
  const std::string text = c.text("config");
  const Config config = parse_config_text(text, c.name());
  const auto names = c.names("parameters");
  int64_t elements = 0;
  for (const std::string& name : names) elements += c.shape("parameters/" + name).elements();
  const ArchitectureConfig architecture = architecture_of(config);
  const bool fewer = count_parameters(architecture) > static_cast<double>(elements);
  if (fewer || config.model.n_layers > static_cast<int64_t>(names.size())) {
    c.fail("parameters", "holds fewer numbers than the attribute 'config' asks for");
  }
  return architecture;
}

/// A model with its gradients, filled from the parameters of a case.
class CaseModel {
 public:
  explicit CaseModel(const ConformanceCase& c) : case_(c), model_(architecture(c), c.dtype()) {
    for (const std::string& name : c.names("parameters")) {
      if (model_.parameters().find(name) < 0) c.fail("parameters/" + name, "is no parameter of the model");
    }
    for (const Parameter& parameter : model_.parameters().all()) {
      const std::string dataset = "parameters/" + parameter.name;
      if (const Shape shape = c.shape(dataset); !(shape == parameter.shape)) {
        c.fail(dataset, fmt::format("has the shape {} instead of {}", shape.to_string(), parameter.shape.to_string()));
      }
    }
    model_.allocate();
    gradients_ = GradientBuffer(parameters());
    for (int32_t i = 0; i < count(); ++i) {
      const Tensor from = c.tensor("parameters/" + parameters()[i].name);
      const Tensor to = parameters().value(i);
      for (int64_t e = 0; e < from.elements(); ++e) to.set(e, from.at(e));
    }
  }

  const ParameterSet& parameters() const { return model_.parameters(); }
  const Tensor& gradients() const { return gradients_.flat(); }
  int64_t vocab_size() const { return model_.config().model.vocab_size; }

  /// Makes the tables for `sequences` x `length` tokens, which `dataset` holds.
  void prepare(const std::string& dataset, int64_t sequences, int64_t length) {
    if (const int64_t most = model_.greatest_length(); most > 0 && length > most) {
      case_.fail(dataset, fmt::format("has sequences of {} tokens, the model takes at most {}", length, most));
    }
    const ModelConfig& m = model_.config().model;
    case_.limit_work({sequences, length, std::max({m.d_model, m.d_ff, m.vocab_size, m.n_heads * m.d_head})});
    case_.limit_work({sequences, length, length, m.n_heads});
    model_.prepare(length);
    sequences_ = sequences;
    length_ = length;
  }

  /// One pass forward and backward; `after(tape, loss, logits, residuals)` reads what it wants before the tape ends.
  template <class After>
  void step(const std::vector<int32_t>& tokens, const std::vector<int32_t>& targets, After after) {
    const auto counted = std::count_if(targets.begin(), targets.end(), [](int32_t t) { return t != kIgnoredTarget; });
    gradients_.clear();
    Tape tape(workspace_, Mode::train, &model_.parameters(), &gradients_);
    std::vector<Var> residuals;
    ForwardPass pass{.tape = tape, .sequences = sequences_, .length = length_, .trace = {.residuals = &residuals}};
    const Var logits = model_.logits(pass, tokens.data());
    const Var loss = cross_entropy(logits, targets.data(), static_cast<double>(counted));
    tape.backward(loss);
    gradients_.complete(model_.parameters());
    after(tape, loss, logits, residuals);
  }

  void give_all(ConformanceCase& c, std::string_view group, const Tensor& flat) const {
    for (int32_t i = 0; i < count(); ++i) c.give(group, parameters()[i].name, parameters().view(flat, i));
  }

 private:
  int32_t count() const { return static_cast<int32_t>(parameters().size()); }

  const ConformanceCase& case_;
  Transformer model_;
  GradientBuffer gradients_;
  Workspace workspace_;
  int64_t sequences_ = 0;
  int64_t length_ = 0;
};

CaseResult vector_result(std::vector<double> values) {
  return {.shape = {values.size()}, .values = std::move(values)};
}

void run_model(ConformanceCase& c) {
  CaseModel model(c);
  const Shape shape = c.shape("inputs/tokens", 2);
  if (!(c.shape("inputs/targets") == shape)) c.fail("inputs/targets", "has another shape than the tokens");
  const std::vector<int32_t> tokens = c.tokens("inputs/tokens", 0, model.vocab_size() - 1);
  const std::vector<int32_t> targets = c.tokens("inputs/targets", kIgnoredTarget, model.vocab_size() - 1);
  if (std::count(targets.begin(), targets.end(), kIgnoredTarget) == shape.elements()) {
    c.fail("inputs/targets", "has no target that counts");
  }
  model.prepare("inputs/tokens", shape[0], shape[1]);
  model.step(tokens, targets, [&](Tape& tape, Var loss, Var logits, const std::vector<Var>& residuals) {
    c.give(kOutputs, "loss", loss.value());
    c.give(kOutputs, "logits", logits.value());
    std::vector<double> norms;
    for (const Var residual : residuals) norms.push_back(std::sqrt(squared_norm(tape.gradient_of(residual))));
    c.give(kResidualGradNorm, "", vector_result(std::move(norms)));
  });
  model.give_all(c, kParameterGrads, model.gradients());
}

OptimConfig optimization(const ConformanceCase& c, int64_t total_steps) {
  OptimConfig config;
  config.lr = c.real("lr");
  config.beta1 = c.real("beta1");
  config.beta2 = c.real("beta2");
  config.eps = c.real("eps");
  config.weight_decay = c.real("weight_decay");
  config.grad_clip = c.real("grad_clip");
  config.warmup_steps = c.integer("warmup_steps", 0, total_steps);
  config.schedule = c.choice<Schedule>("schedule", {{"constant", Schedule::constant},
                                                    {"cosine", Schedule::cosine},
                                                    {"linear", Schedule::linear},
                                                    {"inverse_sqrt", Schedule::inverse_sqrt}});
  config.min_lr = c.real("min_lr");
  return config;
}

void run_train(ConformanceCase& c) {
  CaseModel model(c);
  const Shape shape = c.shape("inputs/batches", 3);
  const int64_t steps = shape[0];
  const int64_t sequences = shape[1];
  const int64_t length = shape[2] - 1;
  if (length < 1) c.fail("inputs/batches", "has no column for targets");
  const std::vector<int32_t> batches = c.tokens("inputs/batches", 0, model.vocab_size() - 1);
  model.prepare("inputs/batches", sequences, length);

  const int64_t total_steps = c.integer("total_steps", 1, int64_t{1} << 30);
  const OptimConfig config = optimization(c, total_steps);
  AdamW optimizer(model.parameters(), config);
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<double> squares(model.parameters().size());
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;
  for (int64_t step = 1; step <= steps; ++step) {
    tokens.clear();
    targets.clear();
    for (int64_t b = 0; b < sequences; ++b) {
      const auto row = batches.begin() + ((step - 1) * sequences + b) * shape[2];
      tokens.insert(tokens.end(), row, row + length);
      targets.insert(targets.end(), row + 1, row + shape[2]);
    }
    model.step(tokens, targets,
               [&](Tape&, Var loss, Var, const std::vector<Var>&) { losses.push_back(loss.value().at(0)); });
    squared_norms(model.parameters(), model.gradients(), squares);
    norms.push_back(global_norm(squares));
    optimizer.step(model.gradients(), clip_factor(norms.back(), config.grad_clip),
                   learning_rate(config, step, total_steps), step);
  }
  c.give(kOutputs, "loss", vector_result(std::move(losses)));
  c.give(kOutputs, "grad_norm", vector_result(std::move(norms)));
  model.give_all(c, kFinalParameters, model.parameters().flat_values());
}

constexpr std::array kCases{CaseKind{"model", run_model}, CaseKind{"train", run_train}};

}  // namespace

std::span<const CaseKind> model_cases() {
  return kCases;
}

}  // namespace ropewalk
