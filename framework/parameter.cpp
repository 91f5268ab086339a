#include "framework/parameter.h"

#include <algorithm>
#include <cstring>

#include "framework/error.h"

namespace ropewalk {
namespace {

constexpr int64_t kAlignElements = 16;  // 64 bytes of f32

int64_t aligned(int64_t n) {
  return (n + kAlignElements - 1) / kAlignElements * kAlignElements;
}

}  // namespace

int32_t ParameterSet::add(std::string name, const Shape& shape, Role role, double floor) {
  return add_adjacent({Parameter{.name = std::move(name), .shape = shape, .role = role, .floor = floor}}).first;
}

ParameterSpan ParameterSet::add_adjacent(std::vector<Parameter> parameters) {
  require(!allocated(), "parameters are declared before the first use of the model");
  const ParameterSpan span{static_cast<int32_t>(parameters_.size()), static_cast<int32_t>(parameters.size())};
  flat_elements_ = aligned(flat_elements_);
  for (Parameter& parameter : parameters) {
    require(find(parameter.name) < 0, "two parameters are named {}", parameter.name);
    parameter.offset = flat_elements_;
    flat_elements_ += parameter.elements();
    index_.emplace(parameter.name, static_cast<int32_t>(parameters_.size()));
    parameters_.push_back(std::move(parameter));
  }
  return span;
}

void ParameterSet::allocate(DType dtype) {
  require(!allocated(), "the parameters have their memory already");
  flat_elements_ = aligned(flat_elements_);
  values_ = Tensor::zeros({flat_elements_}, dtype);
}

int32_t ParameterSet::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? -1 : found->second;
}

int64_t ParameterSet::elements() const {
  int64_t total = 0;
  for (const Parameter& parameter : parameters_) total += parameter.elements();
  return total;
}

Tensor ParameterSet::value(int32_t index) const {
  return view(values_, index);
}

Tensor ParameterSet::view(const Tensor& flat, int32_t index) const {
  const Parameter& parameter = (*this)[index];
  Tensor out{.shape = parameter.shape, .dtype = flat.dtype, .device = flat.device, .storage = flat.storage};
  out.bytes = static_cast<std::byte*>(flat.bytes) + static_cast<std::size_t>(parameter.offset) * size_of(flat.dtype);
  return out;
}

GradientBuffer::GradientBuffer(const ParameterSet& parameters)
    : flat_(Tensor::zeros({parameters.flat_elements()}, parameters.dtype())), written_(parameters.size(), 0) {}

void GradientBuffer::clear() {
  std::fill(written_.begin(), written_.end(), uint8_t{0});
}

void GradientBuffer::complete(const ParameterSet& parameters) {
  for (int32_t i = 0; i < static_cast<int32_t>(written_.size()); ++i) {
    if (written(i)) continue;
    const Tensor gradient = parameters.view(flat_, i);
    std::memset(gradient.bytes, 0, gradient.size_bytes());
  }
}

}  // namespace ropewalk
