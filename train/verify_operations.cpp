#include <algorithm>
#include <array>

#include "framework/ops/activation.h"
#include "framework/ops/cross_entropy.h"
#include "framework/ops/embedding.h"
#include "framework/ops/hadamard.h"
#include "framework/ops/index_scores.h"
#include "framework/ops/linear.h"
#include "framework/ops/norm.h"
#include "framework/ops/select_top_k.h"
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

void run_hadamard(ConformanceCase& c) {
  OperationRun run(c);
  run.finish("y", hadamard(rows(c, run, "x")));
}

/// [B, H, T, d] -> [B, T, H * d], as a projection leaves heads.
Var heads_side_by_side(Var x) {
  const Shape shape = x.shape();
  const int64_t heads = shape[1];
  const int64_t length = shape[2];
  const int64_t d = shape[3];
  const Tensor y = x.tape->allocate({shape[0], length, heads * d}, x.dtype());
  // Where element i of x goes.
  const auto place = [=](int64_t i) {
    const int64_t b = i / (heads * length * d), h = i / (length * d) % heads, t = i / d % length;
    return ((b * length + t) * heads + h) * d + i % d;
  };
  return dispatch(x.dtype(), [&]<class T>() {
    for (int64_t i = 0; i < y.elements(); ++i) y.data<T>()[place(i)] = x.value().data<T>()[i];
    return x.tape->record("heads_side_by_side", y, {x}, [=](Tape& t, Var result) {
      T* dx = t.gradient_accumulator<T>(x);
      const T* dy = t.gradient<T>(result);
      for (int64_t i = 0; dx != nullptr && i < x.value().elements(); ++i) dx[i] += dy[place(i)];
    });
  });
}

void run_index_scores(ConformanceCase& c) {
  const Shape q = c.shape("inputs/q", 4);
  const Shape k = c.shape("inputs/k", 3);
  if (k[1] < q[2]) c.fail("inputs/k", "has fewer keys than there are queries");
  c.limit_work({q[0], q[1], q[2], k[1]});
  OperationRun run(c);
  const Var query = heads_side_by_side(run.input("q"));
  const Var key = run.input("k", {q[0], k[1], q[3]});
  run.finish("scores", index_scores(query, key, run.input("w", {q[0], q[2], q[1]})));
}

void run_top_k_mask(ConformanceCase& c) {
  const Shape scores = c.shape("inputs/scores", 3);
  if (scores[2] < scores[1]) c.fail("inputs/scores", "has fewer keys than there are queries");
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  const SelectedKeys selected = select_top_k(tape.constant(c.tensor("inputs/scores")), c.integer("k", 1, scores[2]),
                                             {.causal = c.flag("causal")});
  CaseResult mask{.values = std::vector<double>(static_cast<std::size_t>(scores.elements())), .integer = true};
  for (int i = 0; i < 3; ++i) mask.shape.push_back(static_cast<uint64_t>(scores[i]));
  for (int64_t row = 0; row < scores[0] * scores[1]; ++row) {
    const int64_t b = row / scores[1];
    const int64_t t = row % scores[1];
    for (int64_t n = 0; n < selected.count(b, t); ++n) {
      mask.values[static_cast<std::size_t>(row * scores[2] + selected.row(b, t)[n])] = 1;
    }
  }
  c.give(kOutputs, "mask", std::move(mask));
}

constexpr std::array kCases{
    CaseKind{"layer_norm", run_layer_norm}, CaseKind{"rms_norm", run_rms_norm},
    CaseKind{"activation", run_activation}, CaseKind{"gated_activation", run_gated_activation},
    CaseKind{"softmax", run_softmax},       CaseKind{"linear", run_linear},
    CaseKind{"embedding", run_embedding},   CaseKind{"cross_entropy", run_cross_entropy},
    CaseKind{"hadamard", run_hadamard},     CaseKind{"index_scores", run_index_scores},
    CaseKind{"top_k_mask", run_top_k_mask},
};

}  // namespace

std::span<const CaseKind> operation_cases() {
  return kCases;
}

}  // namespace ropewalk
