#include "framework/tape.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace ropewalk {

Tape::Tape(Workspace& workspace, Mode mode, const ParameterSet* parameters, GradientBuffer* gradients)
    : workspace_(workspace),
      mode_(mode),
      parameters_(parameters),
      gradients_(gradients),
      mark_(workspace.arena.mark()),
      first_node_(workspace.nodes_.size()),
      first_step_(workspace.steps_.size()) {
  require(first_node_ == 0, "a workspace serves one tape at a time");
  if (parameters != nullptr) workspace_.parameter_nodes_.assign(parameters->size(), -1);
}

Tape::~Tape() {
  workspace_.nodes_.resize(first_node_);
  workspace_.steps_.resize(first_step_);
  workspace_.free_gradients_.clear();
  workspace_.arena.rewind(mark_);
}

Var Tape::add_leaf(Tensor value, bool needs_gradient) {
  workspace_.nodes_.push_back({.value = std::move(value), .needs_gradient = needs_gradient, .module = module_});
  return {this, static_cast<int32_t>(workspace_.nodes_.size() - 1)};
}

Var Tape::constant(Tensor value) {
  return add_leaf(std::move(value), false);
}

Var Tape::leaf(Tensor value) {
  return add_leaf(std::move(value), mode_ == Mode::train);
}

Var Tape::parameter(int32_t index) {
  return parameter(ParameterSpan{index, 1}, (*parameters_)[index].shape);
}

Var Tape::parameter(ParameterSpan span, const Shape& shape) {
  const std::span<int32_t> known(workspace_.parameter_nodes_.data() + span.first, static_cast<std::size_t>(span.count));
  for (const int32_t id : known) {
    const bool same = id == known.front() &&
                      (id < 0 || workspace_.nodes_[static_cast<std::size_t>(id)].parameter_count == span.count);
    require(same, "parameter {} is used both alone and as part of a group", (*parameters_)[span.first].name);
  }
  if (known.front() >= 0) return {this, known.front()};
  Tensor value = parameters_->value(span.first);
  value.shape = shape;
  const Var leaf = add_leaf(std::move(value), mode_ == Mode::train && gradients_ != nullptr);
  Workspace::Node& entry = node(leaf);
  entry.parameter = span.first;
  entry.parameter_count = span.count;
  if (entry.needs_gradient) {
    entry.gradient = parameters_->view(gradients_->flat(), span.first).bytes;
    entry.gradient_written = gradients_->written(span.first);
  }
  std::fill(known.begin(), known.end(), leaf.id);
  return leaf;
}

Tensor Tape::allocate(const Shape& shape, DType dtype) {
  Tensor tensor{.shape = shape, .dtype = dtype};
  tensor.bytes = arena().allocate(tensor.size_bytes());
  return tensor;
}

Var Tape::add_node(const char* op, Tensor value, std::span<const Var> inputs) {
  bool needs = false;
  if (mode_ == Mode::train) {
    for (const Var& input : inputs) needs = needs || needs_gradient(input);
  }
  workspace_.nodes_.push_back({.value = std::move(value), .needs_gradient = needs, .op = op, .module = module_});
  if (clock_ != nullptr) clock_->lap(op, OpClock::Pass::forward);
  return {this, static_cast<int32_t>(workspace_.nodes_.size() - 1)};
}

Var Tape::record_without_backward(const char* op, Tensor value, std::initializer_list<Var> inputs) {
  const Var out = add_node(op, std::move(value), std::span(inputs.begin(), inputs.size()));
  if (needs_gradient(out)) {
    workspace_.nodes_.pop_back();
    fail("{} has no backward, but one of its inputs wants a gradient", op);
  }
  return out;
}

void* Tape::open_gradient(Var v, bool zero, bool& accumulate) {
  if (!v) return nullptr;
  Workspace::Node& entry = node(v);
  if (!entry.needs_gradient) return nullptr;
  require(!entry.gradient_gone, "the gradient of a result of {} has been passed on; a tape runs backward once",
          entry.op);
  if (entry.gradient == nullptr) entry.gradient = gradient_memory(entry.value.size_bytes());
  accumulate = entry.gradient_written;
  if (!entry.gradient_written) {
    if (zero) std::memset(entry.gradient, 0, entry.value.size_bytes());
    entry.gradient_written = true;
    for (int32_t i = 0; i < entry.parameter_count; ++i) gradients_->mark_written(entry.parameter + i);
  }
  return entry.gradient;
}

void* Tape::gradient_memory(std::size_t bytes) {
  // The last one freed first: it is still in the cache.
  std::vector<Workspace::FreeGradient>& free = workspace_.free_gradients_;
  for (std::size_t i = free.size(); i-- > 0;) {
    if (free[i].bytes != bytes) continue;
    void* memory = free[i].memory;
    free.erase(free.begin() + static_cast<std::ptrdiff_t>(i));
    return memory;
  }
  return arena().allocate(bytes);
}

bool Tape::hand_over_gradient(Var from, Var to) {
  Workspace::Node& source = node(from);
  Workspace::Node& target = node(to);
  if (!target.needs_gradient || target.gradient_written || target.gradient != nullptr || !passes_on(source) ||
      source.value.size_bytes() != target.value.size_bytes()) {
    return false;
  }
  target.gradient = source.gradient;
  target.gradient_written = true;
  source.gradient = nullptr;
  source.gradient_gone = true;
  return true;
}

void* Tape::own_gradient(Var v) {
  Workspace::Node& entry = node(v);
  if (passes_on(entry)) return entry.gradient;
  void* copy = arena().allocate(entry.value.size_bytes());
  std::memcpy(copy, entry.gradient, entry.value.size_bytes());
  return copy;
}

void Tape::seed(Var v, const Tensor& cotangent) {
  require(cotangent.shape == v.shape() && cotangent.dtype == v.dtype(),
          "a cotangent of shape {} for a value of shape {}", cotangent.shape.to_string(), v.shape().to_string());
  dispatch(v.dtype(), [&]<class T>() {
    T* gradient = gradient_accumulator<T>(v);
    if (gradient == nullptr) return;
    const T* c = cotangent.data<T>();
    for (int64_t i = 0; i < cotangent.elements(); ++i) gradient[i] += c[i];
  });
}

void Tape::backward(Var loss) {
  require(loss.value().elements() == 1, "backward starts from a scalar; the loss has shape {}",
          loss.shape().to_string());
  require(needs_gradient(loss), "the loss depends on nothing that wants a gradient");
  dispatch(loss.dtype(), [&]<class T>() { *gradient_accumulator<T>(loss) += T(1); });
  backward();
}

void Tape::backward() {
  for (std::size_t i = workspace_.steps_.size(); i-- > first_step_;) {
    const Workspace::Step step = workspace_.steps_[i];
    const Var result{this, step.output};
    if (!node(result).gradient_written) continue;
    step.backward(*this, result, step.closure);
    Workspace::Node& entry = node(result);
    if (clock_ != nullptr) clock_->lap(entry.op, OpClock::Pass::backward);
    if (passes_on(entry) && entry.gradient != nullptr) {
      workspace_.free_gradients_.push_back({entry.gradient, entry.value.size_bytes()});
      entry.gradient = nullptr;
      entry.gradient_gone = true;
    }
  }
}

Tensor Tape::gradient_of(Var v) {
  require(needs_gradient(v), "a gradient was asked for of a value that has none");
  require(!node(v).gradient_gone, "the gradient of a result of {} was not kept; call retain_gradient before backward",
          node(v).op);
  dispatch(v.dtype(), [&]<class T>() { gradient_accumulator<T>(v); });
  Tensor out = node(v).value;
  out.storage.reset();
  out.bytes = node(v).gradient;
  return out;
}

namespace {

template <class T>
bool all_finite(const void* data, int64_t n) {
  const T* x = static_cast<const T*>(data);
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(x[i])) return false;
  }
  return true;
}

}  // namespace

const char* Tape::first_nonfinite(bool& in_gradient) const {
  const auto finite = [](const Tensor& shape_of, const void* data) {
    return dispatch(shape_of.dtype, [&]<class T>() { return all_finite<T>(data, shape_of.elements()); });
  };
  in_gradient = false;
  for (const Workspace::Node& entry : workspace_.nodes_) {
    if (!finite(entry.value, entry.value.bytes)) return entry.module;
  }
  in_gradient = true;
  for (std::size_t i = workspace_.nodes_.size(); i-- > first_node_;) {
    const Workspace::Node& entry = workspace_.nodes_[i];
    if (entry.gradient_written && !entry.gradient_gone && !finite(entry.value, entry.gradient)) return entry.module;
  }
  return nullptr;
}

Var Tape::keep_only(Arena::Mark mark, Var keep) {
  require(mode_ == Mode::inference, "a training tape keeps every value for its backward pass");
  const Tensor& value = keep.value();
  node(keep).value.bytes = arena().rewind_keeping(mark, value.bytes, value.size_bytes());
  return keep;
}

}  // namespace ropewalk
