#include "framework/ops/linear_cross_entropy.h"

#include <algorithm>

#include "framework/gemm.h"
#include "framework/ops/checks.h"
#include "framework/ops/cross_entropy.h"
#include "framework/ops/cross_entropy_rows.h"
#include "framework/ops/elementwise.h"

namespace ropewalk {
namespace {

/// Rows whose logits fit in half of a small L2 cache, but not so few that packing the weight shows.
int64_t slice_rows(int64_t rows, int64_t vocab, std::size_t element) {
  constexpr int64_t kBytes = 256 << 10;
  constexpr int64_t kLeast = 96;
  return std::min(rows, std::max(kLeast, kBytes / (vocab * static_cast<int64_t>(element))));
}

/// Logits of rows [first, first + rows).
template <class T>
void slice_logits(const T* hidden, const T* weight, int64_t rows, int64_t d_model, int64_t vocab, T* logits) {
  gemm(Transpose::no, Transpose::yes, rows, vocab, d_model, hidden, d_model, weight, d_model, false, logits, vocab);
}

/// Adds scale * from to a gradient.
template <class T>
void add_scaled(const T* from, int64_t n, T scale, GradientSink<T> to) {
  if (to.accumulate) {
    for (int64_t i = 0; i < n; ++i) to.data[i] += scale * from[i];
  } else {
    for (int64_t i = 0; i < n; ++i) to.data[i] = scale * from[i];
  }
}

}  // namespace

Var linear_cross_entropy(Var hidden, Var weight, const int32_t* targets, double normalizer, double label_smoothing) {
  Tape& tape = *hidden.tape;
  check_has_last_axis("linear_cross_entropy", hidden);
  const int64_t d_model = hidden.shape()[-1];
  check_shape("linear_cross_entropy: weight", weight.shape(), {-1, d_model});
  check_same_dtype("linear_cross_entropy", hidden, weight);
  const int64_t vocab = weight.shape()[0];
  const int64_t rows = hidden.shape().rows();
  check_cross_entropy("linear_cross_entropy", rows, vocab, targets, normalizer, label_smoothing);
  const Tensor loss = tape.allocate({}, hidden.dtype());
  const bool wants_hidden = tape.mode() == Mode::train && tape.needs_gradient(hidden);
  const bool wants_weight = tape.mode() == Mode::train && tape.needs_gradient(weight);
  const int64_t slice = slice_rows(rows, vocab, size_of(hidden.dtype()));
  return dispatch(hidden.dtype(), [&]<class T>() {
    T* dhidden = wants_hidden ? tape.allocate(hidden.shape(), hidden.dtype()).data<T>() : nullptr;
    T* dweight = wants_weight ? tape.allocate(weight.shape(), hidden.dtype()).data<T>() : nullptr;
    const Arena::Mark mark = tape.arena().mark();
    T* logits = tape.arena().allocate<T>(static_cast<std::size_t>(slice * vocab));
    const T* x = hidden.value().data<T>();
    const T* w = weight.value().data<T>();
    double sum = 0;
    if (rows == 0 && wants_weight) std::fill(dweight, dweight + vocab * d_model, T(0));
    for (int64_t first = 0; first < rows; first += slice) {
      const int64_t here = std::min(slice, rows - first);
      slice_logits(x + first * d_model, w, here, d_model, vocab, logits);
      for (int64_t r = 0; r < here; ++r) {
        T* row = logits + r * vocab;
        const int32_t target = targets[first + r];
        if (target == kIgnoredTarget) {
          std::fill(row, row + vocab, T(0));
          continue;
        }
        const double log_sum = log_sum_exp(row, vocab);
        sum += row_cross_entropy(row, vocab, log_sum, target, label_smoothing);
        if (wants_hidden || wants_weight) {
          softmax_minus_target(row, vocab, log_sum, target, label_smoothing, 1.0 / normalizer, false, row);
        }
      }
      if (wants_hidden) {
        gemm(Transpose::no, Transpose::no, here, d_model, vocab, logits, vocab, w, d_model, false,
             dhidden + first * d_model, d_model);
      }
      if (wants_weight) {
        gemm(Transpose::yes, Transpose::no, vocab, d_model, here, logits, vocab, x + first * d_model, d_model,
             first > 0, dweight, d_model);
      }
    }
    tape.arena().rewind(mark);
    loss.set(0, sum / normalizer);
    return tape.record("linear_cross_entropy", loss, {hidden, weight}, [=](Tape& t, Var result) {
      const T dloss = *t.gradient<T>(result);
      if (const GradientSink<T> sink = t.gradient_sink<T>(hidden)) add_scaled(dhidden, rows * d_model, dloss, sink);
      if (const GradientSink<T> sink = t.gradient_sink<T>(weight)) add_scaled(dweight, vocab * d_model, dloss, sink);
    });
  });
}

void linear_token_losses(const Tensor& hidden, const Tensor& weight, const int32_t* targets, Arena& arena,
                         float* losses, int32_t* predicted) {
  require(hidden.shape.rank() >= 1, "linear_token_losses: hidden states of shape {} have no columns",
          hidden.shape.to_string());
  const int64_t d_model = hidden.shape[-1];
  check_shape("linear_token_losses: weight", weight.shape, {-1, d_model});
  const int64_t vocab = weight.shape[0];
  const int64_t rows = hidden.shape.rows();
  require(hidden.dtype == weight.dtype, "linear_token_losses: hidden states in {}, the weight in {}",
          name_of(hidden.dtype), name_of(weight.dtype));
  check_cross_entropy("linear_token_losses", rows, vocab, targets, 1.0);
  const int64_t slice = slice_rows(rows, vocab, size_of(hidden.dtype));
  const Arena::Mark mark = arena.mark();
  dispatch(hidden.dtype, [&]<class T>() {
    Tensor logits{.shape = {slice, vocab}, .dtype = hidden.dtype};
    logits.bytes = arena.allocate(logits.size_bytes());
    for (int64_t first = 0; first < rows; first += slice) {
      const int64_t here = std::min(slice, rows - first);
      slice_logits(hidden.data<T>() + first * d_model, weight.data<T>(), here, d_model, vocab, logits.data<T>());
      logits.shape = {here, vocab};
      token_losses(logits, targets + first, losses + first);
      if (predicted != nullptr) argmax_rows(logits, predicted + first);
    }
  });
  arena.rewind(mark);
}

}  // namespace ropewalk
