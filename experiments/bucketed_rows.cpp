#include "experiments/bucketed_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace ropewalk {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

BucketedRows::BucketedRows(std::size_t row_size, int64_t width, std::size_t most)
    : row_size_(row_size), width_(std::max<int64_t>(width, 1)), most_(std::max<std::size_t>(most, 2)) {}

void BucketedRows::add(int64_t step, std::span<const float> row) {
  if (row.size() != row_size_) throw std::invalid_argument("a row of another size than the others");
  step = std::max<int64_t>(step, 0);
  while (static_cast<uint64_t>(step / width_) >= most_) halve();
  const auto bucket = static_cast<std::size_t>(step / width_);
  if (bucket >= size()) grow(bucket + 1);
  ++rows_[bucket];
  last_step_[bucket] = step;
  float* least = &least_[at(bucket, 0)];
  float* greatest = &greatest_[at(bucket, 0)];
  double* sum = &sum_[at(bucket, 0)];
  uint32_t* finite = &finite_[at(bucket, 0)];
  for (std::size_t i = 0; i < row_size_; ++i) {
    const float value = row[i];
    const bool is_finite = std::abs(value) <= std::numeric_limits<float>::max();
    least[i] = std::min(least[i], is_finite ? value : kInfinity);
    greatest[i] = std::max(greatest[i], is_finite ? value : -kInfinity);
    sum[i] += is_finite ? value : 0;
    finite[i] += is_finite ? 1 : 0;
  }
  std::copy(row.begin(), row.end(), last_.begin() + static_cast<std::ptrdiff_t>(at(bucket, 0)));
}

void BucketedRows::widen(int64_t width) {
  while (width_ < width && width_ <= std::numeric_limits<int64_t>::max() / 2) halve();
}

bool BucketedRows::merged() const {
  return std::any_of(rows_.begin(), rows_.end(), [](uint32_t rows) { return rows > 1; });
}

void BucketedRows::grow(std::size_t buckets) {
  const std::size_t values = buckets * row_size_;
  rows_.resize(buckets, 0);
  last_step_.resize(buckets, -1);
  least_.resize(values, kInfinity);
  greatest_.resize(values, -kInfinity);
  last_.resize(values, std::numeric_limits<float>::quiet_NaN());
  sum_.resize(values, 0);
  finite_.resize(values, 0);
}

void BucketedRows::halve() {
  width_ *= 2;
  if (size() % 2 == 1) grow(size() + 1);
  const std::size_t half = size() / 2;
  for (std::size_t to = 0; to < half; ++to) {
    const std::size_t first = 2 * to;
    const std::size_t second = first + 1;
    const bool second_has_rows = rows_[second] > 0;
    for (std::size_t i = 0; i < row_size_; ++i) {
      least_[at(to, i)] = std::min(least_[at(first, i)], least_[at(second, i)]);
      greatest_[at(to, i)] = std::max(greatest_[at(first, i)], greatest_[at(second, i)]);
      sum_[at(to, i)] = sum_[at(first, i)] + sum_[at(second, i)];
      finite_[at(to, i)] = finite_[at(first, i)] + finite_[at(second, i)];
      last_[at(to, i)] = last_[at(second_has_rows ? second : first, i)];
    }
    rows_[to] = rows_[first] + rows_[second];
    last_step_[to] = second_has_rows ? last_step_[second] : last_step_[first];
  }
  rows_.resize(half);
  last_step_.resize(half);
  for (auto* values : {&least_, &greatest_, &last_}) values->resize(half * row_size_);
  sum_.resize(half * row_size_);
  finite_.resize(half * row_size_);
}

}  // namespace ropewalk
