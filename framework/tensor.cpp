#include "framework/tensor.h"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "framework/error.h"

namespace ropewalk {

Shape::Shape(std::initializer_list<int64_t> dims) {
  for (int64_t dim : dims) append(dim);
}

void Shape::append(int64_t dim) {
  require(rank_ < kMaxRank, "a tensor has at most {} axes", kMaxRank);
  require(dim >= 0, "an extent of {} in a shape", dim);
  constexpr int64_t kLimit = std::numeric_limits<int64_t>::max() / 16;
  require(dim == 0 || elements_ <= kLimit / dim, "a tensor of {} x {} elements is larger than any memory", elements_,
          dim);
  dims_[static_cast<std::size_t>(rank_++)] = dim;
  elements_ *= dim;
}

Shape Shape::with_last(int64_t dim) const {
  Shape out;
  for (int i = 0; i + 1 < rank_; ++i) out.append((*this)[i]);
  out.append(dim);
  return out;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) text += (i == 0 ? "" : ", ") + std::to_string((*this)[i]);
  return text + "]";
}

bool operator==(const Shape& a, const Shape& b) {
  if (a.rank_ != b.rank_) return false;
  for (int i = 0; i < a.rank_; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

Tensor Tensor::zeros(const Shape& shape, DType dtype) {
  Tensor tensor{.shape = shape, .dtype = dtype};
  const std::size_t bytes = (tensor.size_bytes() + 63) / 64 * 64 + 64;
  void* memory = std::aligned_alloc(64, bytes);
  if (memory == nullptr) fail("no memory for a tensor of shape {}: {} bytes", shape.to_string(), bytes);
  std::memset(memory, 0, bytes);
  tensor.bytes = memory;
  tensor.storage = std::shared_ptr<void>(memory, std::free);
  return tensor;
}

void Tensor::set(int64_t i, double value) const {
  if (dtype == DType::f32) {
    data<float>()[i] = static_cast<float>(value);
  } else {
    data<double>()[i] = value;
  }
}

Tensor Tensor::reshaped(const Shape& other) const {
  require(other.elements() == elements(), "a tensor of shape {} does not reshape to {}", shape.to_string(),
          other.to_string());
  Tensor out = *this;
  out.shape = other;
  return out;
}

void check_shape(std::string_view what, const Shape& shape, std::initializer_list<int64_t> wanted) {
  bool same = shape.rank() == static_cast<int>(wanted.size());
  int axis = 0;
  std::string expected;
  for (int64_t extent : wanted) {
    same = same && (extent < 0 || shape[axis] == extent);
    expected += (axis++ == 0 ? "" : ", ") + (extent < 0 ? std::string("any") : std::to_string(extent));
  }
  require(same, "{} has shape {}, expected [{}]", what, shape.to_string(), expected);
}

}  // namespace ropewalk
