#include <algorithm>
#include <array>

#include "framework/ops/activation.h"
#include "framework/ops/cross_entropy.h"
#include "framework/ops/embedding.h"
#include "framework/ops/linear.h"
#include "framework/ops/norm.h"
#include "framework/ops/softmax.h"
#include "train/verify_case.h"

namespace ropewalk {
namespace {

/// The leaf inputs/x of at least one axis.
Var rows(ConformanceCase& c, OperationRun& run, const std::string& name) {
  if (c.shape("inputs/" + name).rank() == 0) c.fail("inputs/" + name, "has no axis");
  return run.input(name);
}

void run_layer_norm(ConformanceCase& c) {
  OperationRun run(c);
  const Var x = rows(c, run, "x");
  const Shape row{x.shape()[-1]};
  const Var weight = run.input("weight", row);
  run.finish("y", layer_norm(x, weight, run.input("bias", row), c.real("eps")));
}

void run_rms_norm(ConformanceCase& c) {
  OperationRun run(c);
  const Var x = rows(c, run, "x");
  run.finish("y", rms_norm(x, run.input("weight", {x.shape()[-1]}), c.real("eps")));
}

void run_activation(ConformanceCase& c) {
  const auto kind = c.choice<ActivationFunction>("kind", {{"relu", ActivationFunction::relu},
                                                          {"gelu", ActivationFunction::gelu},
                                                          {"gelu_tanh", ActivationFunction::gelu_tanh},
                                                          {"silu", ActivationFunction::silu}});
  OperationRun run(c);
  run.finish("y", activation(run.input("x"), kind));
}

void run_gated_activation(ConformanceCase& c) {
  const auto kind =
      c.choice<ActivationFunction>("kind", {{"swiglu", ActivationFunction::silu}, {"geglu", ActivationFunction::gelu}});
  OperationRun run(c);
  const Var gate = run.input("gate");
  run.finish("y", gated_activation(gate, run.input("up", gate.shape()), kind));
}

void run_softmax(ConformanceCase& c) {
  OperationRun run(c);
  run.finish("y", softmax(rows(c, run, "x")));
}

void run_linear(ConformanceCase& c) {
  OperationRun run(c);
  const Var x = rows(c, run, "x");
  const int64_t out = c.shape("inputs/weight", 2)[0];
  c.limit_work({x.shape().rows(), out});
  const Var weight = run.input("weight", {out, x.shape()[-1]});
  run.finish("y", linear(x, weight, run.input("bias", {out})));
}

void run_embedding(ConformanceCase& c) {
  OperationRun run(c);
  const Shape weight = c.shape("inputs/weight", 2);
  const Shape ids = c.shape("inputs/ids");
  if (ids.rank() >= Shape::kMaxRank) c.fail("inputs/ids", "has too many axes");
  c.limit_work({ids.elements(), weight[1]});
  const std::vector<int32_t> values = c.tokens("inputs/ids", 0, weight[0] - 1);
  run.finish("y", embedding(values.data(), ids, run.input("weight", weight)));
}

void run_cross_entropy(ConformanceCase& c) {
  OperationRun run(c);
  const Shape logits = c.shape("inputs/logits", 2);
  const Shape rows = c.shape("inputs/targets", 1);
  if (rows[0] != logits[0]) c.fail("inputs/targets", "has another number of rows than the logits");
  const std::vector<int32_t> targets = c.tokens("inputs/targets", kIgnoredTarget, logits[1] - 1);
  const auto counted = std::count_if(targets.begin(), targets.end(), [](int32_t t) { return t != kIgnoredTarget; });
  if (counted == 0) c.fail("inputs/targets", "has no target that counts");
  run.finish("loss", cross_entropy(run.input("logits"), targets.data(), static_cast<double>(counted)));
}

constexpr std::array kCases{
    CaseKind{"layer_norm", run_layer_norm}, CaseKind{"rms_norm", run_rms_norm},
    CaseKind{"activation", run_activation}, CaseKind{"gated_activation", run_gated_activation},
    CaseKind{"softmax", run_softmax},       CaseKind{"linear", run_linear},
    CaseKind{"embedding", run_embedding},   CaseKind{"cross_entropy", run_cross_entropy},
};

}  // namespace

std::span<const CaseKind> operation_cases() {
  return kCases;
}

}  // namespace ropewalk
