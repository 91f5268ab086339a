#include "train/verify_case.h"

#include <cmath>

#include <fmt/format.h>

namespace ropewalk {
namespace {

constexpr int64_t kMostWork = int64_t{1} << 28;

std::vector<uint64_t> extents(const Shape& shape) {
  std::vector<uint64_t> out;
  for (int i = 0; i < shape.rank(); ++i) out.push_back(static_cast<uint64_t>(shape[i]));
  return out;
}

}  // namespace

ConformanceCase::ConformanceCase(const Hdf5File& file, std::string name, DType dtype)
    : file_(file), name_(std::move(name)), dtype_(dtype) {}

int64_t ConformanceCase::integer(const std::string& attribute, int64_t least, int64_t greatest) const {
  const auto value = file_.attribute<int64_t>("/" + name_, attribute);
  if (value < least || value > greatest) {
    file_.fail("/" + name_, fmt::format("has an attribute '{}' = {}, which must be between {} and {}", attribute, value,
                                        least, greatest));
  }
  return value;
}

double ConformanceCase::real(const std::string& attribute) const {
  const auto value = file_.attribute<double>("/" + name_, attribute);
  if (!std::isfinite(value)) file_.fail("/" + name_, fmt::format("has an attribute '{}' = {}", attribute, value));
  return value;
}

std::string ConformanceCase::text(const std::string& attribute) const {
  return file_.attribute<std::string>("/" + name_, attribute);
}

std::vector<std::string> ConformanceCase::names(std::string_view group) const {
  return file_.children("/" + name_ + "/" + std::string(group));
}

Shape ConformanceCase::shape(const std::string& dataset, int rank) const {
  const std::vector<uint64_t>& extents = file_.dataset(object(dataset)).shape;
  if (extents.size() > static_cast<std::size_t>(Shape::kMaxRank)) {
    fail(dataset, fmt::format("has {} axes, of at most {}", extents.size(), Shape::kMaxRank));
  }
  if (rank >= 0 && extents.size() != static_cast<std::size_t>(rank)) {
    fail(dataset, fmt::format("has {} axes instead of {}", extents.size(), rank));
  }
  Shape out;
  for (const uint64_t extent : extents) {
    if (extent == 0 || extent > static_cast<uint64_t>(kMostWork))
      fail(dataset, fmt::format("has an extent of {}", extent));
    out.append(static_cast<int64_t>(extent));
  }
  return out;
}

Tensor ConformanceCase::tensor(const std::string& dataset) const {
  const Shape shape = this->shape(dataset);
  const std::vector<double>& values = file_.values<double>(object(dataset));
  const Tensor out = Tensor::zeros(shape, dtype_);
  for (std::size_t i = 0; i < values.size(); ++i) out.set(static_cast<int64_t>(i), values[i]);
  return out;
}

Tensor ConformanceCase::tensor(const std::string& dataset, const Shape& wanted) const {
  const Shape shape = this->shape(dataset);
  if (!(shape == wanted)) {
    fail(dataset, fmt::format("has the shape {} instead of {}", shape.to_string(), wanted.to_string()));
  }
  return tensor(dataset);
}

std::vector<int64_t> ConformanceCase::integers(const std::string& dataset, int64_t least, int64_t greatest) const {
  const std::vector<int64_t>& values = file_.values<int64_t>(object(dataset));
  for (const int64_t value : values) {
    if (value < least || value > greatest) {
      fail(dataset, fmt::format("holds {}, which must be between {} and {}", value, least, greatest));
    }
  }
  return values;
}

std::vector<int32_t> ConformanceCase::tokens(const std::string& dataset, int64_t least, int64_t greatest) const {
  const std::vector<int64_t> wide = integers(dataset, least, greatest);
  return {wide.begin(), wide.end()};
}

void ConformanceCase::limit_work(std::initializer_list<int64_t> factors) const {
  int64_t left = kMostWork;
  for (const int64_t factor : factors) {
    left /= std::max<int64_t>(factor, 1);
    if (left == 0) file_.fail("/" + name_, "asks for more work than a conformance case does");
  }
}

void ConformanceCase::fail(const std::string& dataset, const std::string& reason) const {
  file_.fail(object(dataset), reason);
}

void ConformanceCase::give(std::string_view group, const std::string& name, const Tensor& value) {
  CaseResult result{.shape = extents(value.shape), .values = {}};
  result.values.reserve(static_cast<std::size_t>(value.elements()));
  for (int64_t i = 0; i < value.elements(); ++i) result.values.push_back(value.at(i));
  give(group, name, std::move(result));
}

void ConformanceCase::give(std::string_view group, const std::string& name, CaseResult result) {
  results_[name.empty() ? std::string(group) : fmt::format("{}/{}", group, name)] = std::move(result);
}

Var OperationRun::input(const std::string& name, const Shape& wanted) {
  const Var leaf = tape_.leaf(case_.tensor("inputs/" + name, wanted));
  inputs_.emplace_back(name, leaf);
  return leaf;
}

void OperationRun::finish(const std::string& name, Var y) {
  case_.give(kOutputs, name, y.value());
  tape_.seed(y, case_.tensor("output_grads/" + name, y.shape()));
  tape_.backward();
  for (const auto& [input, leaf] : inputs_) case_.give(kInputGrads, input, tape_.gradient_of(leaf));
}

}  // namespace ropewalk
