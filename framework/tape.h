#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "framework/arena.h"
#include "framework/error.h"
#include "framework/op_clock.h"
#include "framework/parameter.h"
#include "framework/tensor.h"

namespace ropewalk {

class Tape;

/// A value on a tape: a handle that is copied freely and is valid while its tape lives.
struct Var {
  Tape* tape = nullptr;
  int32_t id = -1;

  explicit operator bool() const { return tape != nullptr; }
  const Tensor& value() const;
  const Shape& shape() const { return value().shape; }
  DType dtype() const { return value().dtype; }
};

/// Where a backward kernel puts a gradient. The rule is to add; where this is the first write, `accumulate` is false
/// and the kernel stores instead, which spares zeroing the memory.
template <class T>
struct GradientSink {
  T* data = nullptr;
  bool accumulate = false;
  explicit operator bool() const { return data != nullptr; }
};

/// Memory and lists that tapes use one after another, so that a steady step allocates nothing.
class Workspace {
 public:
  Arena arena;

 private:
  friend class Tape;
  struct Node {
    Tensor value;
    void* gradient = nullptr;
    int32_t parameter = -1;  ///< index of the first parameter, for leaves that are parameters
    int32_t parameter_count = 0;
    bool needs_gradient = false;
    bool gradient_written = false;
    bool retain_gradient = false;
    bool gradient_gone = false;  ///< handed over, or its memory used again
    const char* op = "";         ///< name of what produced it
    const char* module = "";     ///< module that was running, for diagnostics
  };
  struct FreeGradient {
    void* memory;
    std::size_t bytes;
  };
  struct Step {
    void (*backward)(Tape&, Var, const void*) = nullptr;
    const void* closure = nullptr;
    int32_t output = -1;
  };
  std::vector<Node> nodes_;
  std::vector<Step> steps_;
  std::vector<int32_t> parameter_nodes_;
  std::vector<FreeGradient> free_gradients_;
};

enum class Mode : uint8_t { train, inference };

/// Records ops in the order of execution and runs their backward functions in reverse.
///
/// Values and gradients come from the workspace's arena and are gone when the tape ends. In inference mode nothing is
/// recorded.
class Tape {
 public:
  /// `gradients` receives the gradients of the parameters; without it parameters are constants.
  Tape(Workspace& workspace, Mode mode, const ParameterSet* parameters = nullptr, GradientBuffer* gradients = nullptr);
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Mode mode() const { return mode_; }
  Arena& arena() { return workspace_.arena; }
  /// Laps `clock`, which outlives the tape, after every op from now on, forward and backward. Null: none.
  void time_ops(OpClock* clock) { clock_ = clock; }

  /// A value without gradient. The tensor's memory must outlive the tape.
  Var constant(Tensor value);
  /// A leaf whose gradient can be read after backward().
  Var leaf(Tensor value);
  /// The leaf of a parameter; the same Var however often it is asked for, so tied weights get both gradients.
  Var parameter(int32_t index);
  /// The leaf of adjacent parameters seen as one tensor of the given shape.
  Var parameter(ParameterSpan span, const Shape& shape);

  /// Uninitialized memory for a result, from the arena.
  Tensor allocate(const Shape& shape, DType dtype);

  /// Enters `value` as the result of an op. `backward(tape, result)` is called when the result has a gradient; it is
  /// stored in the arena and so must be trivially destructible: capture handles and plain numbers.
  template <class Backward>
  Var record(const char* op, Tensor value, std::initializer_list<Var> inputs, Backward backward) {
    return record(op, std::move(value), std::span(inputs.begin(), inputs.size()), std::move(backward));
  }
  template <class Backward>
  Var record(const char* op, Tensor value, std::span<const Var> inputs, Backward backward) {
    static_assert(std::is_trivially_destructible_v<Backward>, "the arena destroys nothing");
    static_assert(std::is_invocable_v<const Backward&, Tape&, Var>);
    const Var out = add_node(op, std::move(value), inputs);
    if (needs_gradient(out)) {
      void* memory = arena().allocate(sizeof(Backward));
      const auto* closure = new (memory) Backward(std::move(backward));
      workspace_.steps_.push_back(
          {[](Tape& tape, Var result, const void* c) { (*static_cast<const Backward*>(c))(tape, result); }, closure,
           out.id});
    }
    return out;
  }
  /// Enters the result of an op that has no backward; refused where an input wants a gradient.
  Var record_without_backward(const char* op, Tensor value, std::initializer_list<Var> inputs);

  const Tensor& value(Var v) const { return node(v).value; }
  bool needs_gradient(Var v) const { return v && node(v).needs_gradient; }

  /// For a backward function: the gradient of an op's result.
  template <class T>
  const T* gradient(Var v) const {
    return static_cast<const T*>(node(v).gradient);
  }
  /// For a backward function that writes every element: store or add as the sink says. Null where not wanted.
  template <class T>
  GradientSink<T> gradient_sink(Var v) {
    bool accumulate = false;
    T* data = static_cast<T*>(open_gradient(v, false, accumulate));
    return {data, accumulate};
  }
  /// For a backward function that adds here and there: zero-filled before the first use. Null where not wanted.
  template <class T>
  T* gradient_accumulator(Var v) {
    bool accumulate = false;
    return static_cast<T*>(open_gradient(v, true, accumulate));
  }

  /// For a backward function that is done with the gradient of its result `from` and would add it to that of `to`
  /// unchanged: moves it where that is a first write and the two are of one size, which copies nothing. Where it
  /// returns false the caller must add. Call it last: the gradient of `from` is gone.
  bool hand_over_gradient(Var from, Var to);
  /// For a backward function that reads the gradient of its result once: memory of that size which holds it and may be
  /// overwritten, the gradient itself unless that is retained.
  template <class T>
  T* take_gradient(Var v) {
    return static_cast<T*>(own_gradient(v));
  }

  /// Keeps the gradient of v, which is no leaf, to be asked for after backward(); the memory of others serves again as
  /// soon as their op has passed them on. Call it before backward().
  void retain_gradient(Var v) { node(v).retain_gradient = true; }
  /// The same for every value.
  void retain_gradients() { retain_all_ = true; }

  /// Sets the gradient of v (a cotangent of the same shape), to be carried back by backward().
  void seed(Var v, const Tensor& cotangent);
  /// Sets the gradient of the scalar `loss` to 1 and runs backward().
  void backward(Var loss);
  /// Runs all backward functions in reverse, once in the life of a tape.
  void backward();
  /// After backward(): the gradient of a leaf, or of a value whose gradient is retained; zeros where nothing reached
  /// it.
  Tensor gradient_of(Var v);
  bool has_gradient(Var v) const { return node(v).gradient_written; }

  /// Names the module whose ops follow, for diagnostics; the text must outlive the tape.
  void enter_module(const char* name) { module_ = name; }
  /// Module of the first value, in order of execution, that holds a NaN or an infinity; else of the first gradient, in
  /// order of computation; null where all are finite. `in_gradient` tells which it was.
  const char* first_nonfinite(bool& in_gradient) const;

  /// Inference only: moves the values of `keep` to where the arena stood at `mark` and takes back all the rest, so that
  /// a deep model runs in the memory of one block. Other Vars made since are invalid.
  Var keep_only(Arena::Mark mark, Var keep);

  std::size_t nodes() const { return workspace_.nodes_.size() - first_node_; }

 private:
  Workspace::Node& node(Var v) { return workspace_.nodes_[static_cast<std::size_t>(v.id)]; }
  const Workspace::Node& node(Var v) const { return workspace_.nodes_[static_cast<std::size_t>(v.id)]; }
  Var add_node(const char* op, Tensor value, std::span<const Var> inputs);
  Var add_leaf(Tensor value, bool needs_gradient);
  void* open_gradient(Var v, bool zero, bool& accumulate);
  void* own_gradient(Var v);
  void* gradient_memory(std::size_t bytes);
  /// Whether the gradient of an op's result may go elsewhere once its backward has run.
  bool passes_on(const Workspace::Node& entry) const { return !retain_all_ && !entry.retain_gradient; }

  Workspace& workspace_;
  Mode mode_;
  const ParameterSet* parameters_;
  GradientBuffer* gradients_;
  const char* module_ = "";
  bool retain_all_ = false;
  OpClock* clock_ = nullptr;
  Arena::Mark mark_;
  std::size_t first_node_;
  std::size_t first_step_;
};

inline const Tensor& Var::value() const {
  return tape->value(*this);
}

}  // namespace ropewalk
