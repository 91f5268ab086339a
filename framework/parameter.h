#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "framework/tensor.h"

namespace ropewalk {

/// What a parameter is, for the optimizer: weight decay acts on `weight` only; `positive` values are projected to at
/// least their floor after each step (KERPLE).
enum class Role : uint8_t { weight, other, positive };

/// A named array of the model. Values and gradients lie in flat buffers at `offset` (in elements).
struct Parameter {
  std::string name;
  Shape shape;
  Role role = Role::other;
  double floor = 0.0;  ///< Role::positive: the least value allowed
  int64_t offset = 0;
  int64_t elements() const { return shape.elements(); }
};

/// Several parameters that lie side by side, so that one matrix product serves all (query, key and value).
struct ParameterSpan {
  int32_t first = -1;  ///< index of the first parameter
  int32_t count = 0;
};

/// All parameters of a model: declared first, then allocated once as one flat buffer.
class ParameterSet {
 public:
  /// Declares a parameter and returns its index. Names are unique; throws after allocate().
  int32_t add(std::string name, const Shape& shape, Role role, double floor = 0.0);
  /// Declares parameters that follow each other in memory without a gap.
  ParameterSpan add_adjacent(std::vector<Parameter> parameters);
  /// Reserves zero-filled memory for the values.
  void allocate(DType dtype);

  std::size_t size() const { return parameters_.size(); }
  const Parameter& operator[](int32_t index) const { return parameters_[static_cast<std::size_t>(index)]; }
  std::span<const Parameter> all() const { return parameters_; }
  /// Index of a name, or -1.
  int32_t find(const std::string& name) const;
  DType dtype() const { return values_.dtype; }
  bool allocated() const { return values_.bytes != nullptr; }
  /// Elements of the flat buffers, gaps between parameters (always zero) included.
  int64_t flat_elements() const { return flat_elements_; }
  /// Elements that are learned: the number of parameters one quotes.
  int64_t elements() const;
  const Tensor& flat_values() const { return values_; }
  /// View of one parameter's values.
  Tensor value(int32_t index) const;
  /// View of one parameter in any flat buffer of this layout (gradients, moments).
  Tensor view(const Tensor& flat, int32_t index) const;

 private:
  std::vector<Parameter> parameters_;
  std::unordered_map<std::string, int32_t> index_;
  Tensor values_;
  int64_t flat_elements_ = 0;
};

/// Gradients of all parameters in one flat buffer, with a note of which have been written since clear().
class GradientBuffer {
 public:
  GradientBuffer() = default;
  explicit GradientBuffer(const ParameterSet& parameters);
  /// Forgets what was accumulated; a first write overwrites, so nothing is zeroed.
  void clear();
  /// Zero-fills the parameters that no backward pass has reached since clear().
  void complete(const ParameterSet& parameters);
  const Tensor& flat() const { return flat_; }
  bool written(int32_t index) const { return written_[static_cast<std::size_t>(index)] != 0; }
  void mark_written(int32_t index) { written_[static_cast<std::size_t>(index)] = 1; }

 private:
  Tensor flat_;
  std::vector<uint8_t> written_;
};

}  // namespace ropewalk
