#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ropewalk {

/// Rows of values over steps, gathered in one pass into few buckets.
///
/// Bucket k holds the rows of the steps k * width ... (k + 1) * width - 1. Where there would be more than `most`
/// buckets the width doubles and neighbours merge. Of each value a bucket keeps the least, the greatest, the mean and
/// the last: what stands out in a long run stands out in few buckets too. Values that are not finite are counted and
/// left out.
class BucketedRows {
 public:
  BucketedRows() = default;
  /// `width` >= 1: that of the narrowest buckets, in steps; `most` >= 2.
  BucketedRows(std::size_t row_size, int64_t width, std::size_t most);

  void add(int64_t step, std::span<const float> row);

  /// Doubles the width until it is at least `width`. Those of equal first width then have the same buckets.
  void widen(int64_t width);

  std::size_t size() const { return rows_.size(); }  ///< buckets
  std::size_t row_size() const { return row_size_; }
  int64_t width() const { return width_; }
  /// Does a bucket hold more than one row?
  bool merged() const;

  std::size_t rows(std::size_t bucket) const { return rows_[bucket]; }
  int64_t last_step(std::size_t bucket) const { return last_step_[bucket]; }  ///< -1 where it holds no row

  /// Rows whose value was finite. Without one, least() and greatest() are infinite and mean() is NaN.
  std::size_t finite(std::size_t bucket, std::size_t i) const { return finite_[at(bucket, i)]; }
  float least(std::size_t bucket, std::size_t i) const { return least_[at(bucket, i)]; }
  float greatest(std::size_t bucket, std::size_t i) const { return greatest_[at(bucket, i)]; }
  double mean(std::size_t bucket, std::size_t i) const { return sum_[at(bucket, i)] / finite_[at(bucket, i)]; }
  /// The value of the last row, finite or not.
  float last(std::size_t bucket, std::size_t i) const { return last_[at(bucket, i)]; }

 private:
  std::size_t at(std::size_t bucket, std::size_t i) const { return bucket * row_size_ + i; }
  void grow(std::size_t buckets);
  void halve();

  std::size_t row_size_ = 0;
  int64_t width_ = 1;
  std::size_t most_ = 2;
  std::vector<uint32_t> rows_;      // [bucket]
  std::vector<int64_t> last_step_;  // [bucket]
  std::vector<float> least_, greatest_, last_;
  std::vector<double> sum_;
  std::vector<uint32_t> finite_;  // as those above: [bucket, value]
};

}  // namespace ropewalk
